// What is told of a wait is what happens: the log, `retryIn` and `nextTryAt` against the reads.
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { audited, unauthorized } from "./played.support.ts";
import {
  advance,
  alteredStore,
  callbackFailed,
  done,
  idsOf,
  MINUTE,
  outOfReach,
  refused,
  SECOND,
  sleep,
  useFakeTime,
} from "./support.ts";

useFakeTime(new Date(Date.UTC(2026, 4, 1)));

// Waits vary at random by a tenth, and a new event that fails just before a try delays it by up to a second.
beforeEach(() => void vi.spyOn(Math, "random").mockReturnValue(0.5));
afterEach(() => void vi.restoreAllMocks());

const paused = (app: ReturnType<typeof audited>) =>
  app.observed.flatMap((each) => (each.kind === "paused" ? [each.wait] : []));

describe("a pause that the platform asked for", () => {
  test.each([0, 20])("goes on although the store takes %i ms to record the failure", async (ms) => {
    const slow = alteredStore(memoryStore(), {
      settle:
        (own) =>
        async (...args) => {
          if (ms > 0) await sleep(ms);
          return own(...args);
        },
    });
    const app = audited((at) => (at < 60 * SECOND ? outOfReach(600 * SECOND) : done), { store: slow });
    await app.send("B1");
    await advance(5 * MINUTE);
    expect(app.queue.state).toBe("paused");
    await app.send("B2");
    await advance(MINUTE);
    expect(app.reads).toHaveLength(1);
  });

  test("is told again if it is prolonged little by little", async () => {
    // Nine reads begin at once, and end one after the other, each with a wait of 2 s.
    const app = audited(async (at, id) => {
      if (at > SECOND) return done;
      await sleep(Number(id) * 900);
      return outOfReach(2 * SECOND);
    });
    for (let n = 1; n < 10; n += 1) await app.send(String(n), `B${n}`);
    await advance(MINUTE);
    const next = app.reads.find(({ at }) => at > SECOND)!.at;
    const told = app.observed.flatMap((each) => (each.kind === "paused" ? [each.nextTryAt.getTime()] : []));
    expect(told.length).toBeGreaterThan(1);
    expect(Math.abs(told.at(-1)! - Date.now() + MINUTE - next)).toBeLessThanOrEqual(SECOND);
  });
});

describe("a pause without Retry-After", () => {
  test("is told again if an event that has just arrived prolongs it", async () => {
    const app = audited(() => unauthorized);
    await app.send("B1");
    await app.until(10 * SECOND);
    // The pause is told: the next try is at `told`. Three new events fail before it.
    const told = app.now() + app.queue.pause!.nextTryAt.getTime() - Date.now();
    const before = paused(app).length;
    for (let n = 0; n < 3 && app.now() + 1100 < told; n += 1) {
      await app.send(`N${n}`);
      await advance(1100);
    }
    const next = app.queue.pause!.nextTryAt.getTime() - Date.now() + app.now();
    // Either the next try stays, or its new time is told.
    if (Math.abs(next - told) > SECOND) expect(paused(app).length).toBeGreaterThan(before);
  });

  test("the event that is told a wait is tried then, though an event that has just arrived failed meanwhile", async () => {
    const app = audited(() => unauthorized);
    await app.send("B1");
    await app.until(20 * SECOND);
    const [wait, at] = [app.failedOf("B1").at(-1)!, app.of("B1").at(-1)!];
    await app.send("N1");
    await advance(5 * MINUTE);
    const next = app.of("B1").find((read) => read > at)!;
    expect(Math.abs(next - (at + wait))).toBeLessThan(SECOND);
  });

  // The tries are 8 s apart when the new event arrives. An event is due half a second before its try, and the try of the new one
  // delays it by up to a second, because two tries never begin within a second.
  test.each([20, 900])(
    "a new event delays a try by a second at most, whenever it arrives; reads take %i ms",
    async (duration) => {
      for (let arrives = 0; arrives < 9 * SECOND; arrives += 250) {
        const app = audited(async () => {
          await sleep(duration);
          return unauthorized;
        });
        await app.send("B1");
        while (app.of("B1").length < 4) await advance(10);
        await advance(duration);
        const [tried, told] = [app.now(), app.failedOf("B1").at(-1)!];
        await advance(arrives);
        await app.send("N1");
        await advance(20 * SECOND);
        const next = app.of("B1").find((at) => at >= tried)!;
        expect(Math.abs(next - tried - told)).toBeLessThan(1.5 * SECOND);
        const toldNew = app.of("N1")[0]! + duration + app.failedOf("N1")[0]!;
        expect(app.reads.some(({ at }) => Math.abs(at - toldNew) < SECOND)).toBe(true);
        const begins = app.reads.map(({ at }) => at);
        expect(Math.min(...begins.slice(1).map((at, n) => at - begins[n]!))).toBeGreaterThan(0.9 * SECOND);
        void app.queue.close(0);
      }
    },
  );

  test("an event that fails by its callback is tried when told, although the queue found nothing to try before", async () => {
    // Five events fail at once and shut the lane; the waits of four are 25 s, the fifth is discarded. C's callback fails.
    const app = audited(
      async (at, id, _, context) => {
        if (id === "C" && at < SECOND) {
          context.answered("record");
          await sleep(8 * SECOND);
          return callbackFailed;
        }
        return at < SECOND ? outOfReach() : done;
      },
      // Backoff varies at random: that of the five is 25 s, that of C is 5 s.
      { backoff: () => (app.now() < SECOND ? 25 : 5) * SECOND },
    );
    await app.send("C");
    await advance(10);
    for (const id of idsOf(5, "E")) await app.send(id);
    await app.store.discard({ eventId: "E 4" });
    await app.until(9 * SECOND);
    expect(app.failedOf("C")).toHaveLength(1);
    await advance(5 * MINUTE);
    const [first, second] = app.of("C");
    expect(Math.abs(second! - first! - 8 * SECOND - app.failedOf("C")[0]!)).toBeLessThan(SECOND);
  });

  test("a replayed event is tried at the gate's next try", async () => {
    // The only waiting event is due in 25 s. An operator replays it: the gate has been due for long.
    const app = audited((at) => (at < SECOND ? outOfReach() : done), { backoff: () => 25 * SECOND });
    for (const id of idsOf(5, "E")) await app.send(id);
    await app.store.discard({ eventId: "E 4" });
    await app.until(5 * SECOND);
    expect(app.queue.state).toBe("paused");
    await app.store.replay({ eventId: "E 0" });
    await advance(2 * SECOND);
    expect(app.of("E 0")).toHaveLength(2);
  });

  test("nextTryAt of a pause of both kinds is the earlier one", async () => {
    const app = audited((_, id) => (id === "L" ? done : outOfReach()));
    for (const id of idsOf(5, "B")) await app.send(id);
    // The bookings are tried every 30 s by now. Just after a try, the listings fail, too.
    await app.until(100 * SECOND);
    while (app.queue.pause!.nextTryAt.getTime() - Date.now() < 20 * SECOND) await advance(SECOND);
    await app.send("L", "700", "listing");
    for (let n = 0; n < 5; n += 1) await app.send(`L${n}`, String(800 + n), "listing");
    const { scope, nextTryAt } = app.queue.pause!;
    const [told, at] = [nextTryAt.getTime() - Date.now(), app.now()];
    await advance(MINUTE);
    const next = app.reads.find((read) => read.at > at)!.at - at;
    expect(scope).toBe("everything");
    // The wait varies by a tenth.
    expect(Math.abs(told - next)).toBeLessThan(1.2 * SECOND);
  });
});

describe("a gate that shuts again", () => {
  test("is tried when told, while the try before still runs its callback", async () => {
    // The try is answered at 2 s, and its callback takes four minutes. From 5 s to 15 s, all is out of reach again.
    const app = audited(async (at, id, _, context) => {
      if (at < SECOND || (at > 5 * SECOND && at < 15 * SECOND)) return outOfReach();
      context.answered("record");
      if (id === "LONG") await sleep(4 * MINUTE);
      return done;
    });
    for (const id of idsOf(5, "E")) await app.send(id);
    await app.until(700);
    for (const eventId of idsOf(5, "E")) await app.store.discard({ eventId });
    await app.send("LONG");
    await app.until(5100);
    expect(app.queue.state).toBe("running");
    for (const id of idsOf(5, "F")) await app.send(id);
    expect(app.queue.state).toBe("paused");
    await app.until(75 * SECOND);
    expect(app.queue.state).toBe("running");
    expect(app.of("F 0").length).toBeGreaterThan(1);
  });

  // An event that is served from a recent answer reads nothing, and its callback may take minutes.
  test("is tried by another event, while the try reads nothing and runs its callback", async () => {
    const app = audited(async (at, id, _, context) => {
      if (id === "SERVED") {
        context.calling();
        await sleep(4 * MINUTE);
        return done;
      }
      return at < 10 * SECOND ? outOfReach() : done;
    });
    for (const id of idsOf(5, "E")) await app.send(id);
    await app.until(700);
    await app.send("SERVED");
    await app.until(75 * SECOND);
    expect(app.of("SERVED")).toHaveLength(1);
    expect(app.queue.state).toBe("running");
  });
});

describe("in a flood", () => {
  test("a quiet one, a refused event is read when told", async () => {
    const app = audited(async () => {
      await sleep(20);
      return refused;
    });
    for (const id of idsOf(12, "F")) await app.send(id);
    await advance(10 * MINUTE);
    for (const id of idsOf(12, "F")) {
      const reads = app.of(id);
      const waits = app.failedOf(id);
      for (let n = 1; n < reads.length; n += 1)
        expect(Math.abs(reads[n]! - reads[n - 1]! - 20 - waits[n - 1]!)).toBeLessThan(SECOND);
    }
  });
});
