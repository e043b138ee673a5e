// What counts, what begins the counts anew, and what one record or process may not do to others.
import { describe, expect, test } from "vitest";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { randomOf } from "../system/random.ts";
import { audited, type Platform } from "./played.support.ts";
import {
  advance,
  alteredStore,
  callbackFailed,
  done,
  HOUR,
  idsOf,
  MINUTE,
  never,
  outOfReach,
  refused,
  SECOND,
  sleep,
  useFakeTime,
} from "./support.ts";

useFakeTime(new Date(Date.UTC(2026, 4, 1)));

describe("an answer with the record begins the counts anew", () => {
  /** B1 is refused four times, then found while `end` ends the attempt in its callback, then refused once. */
  const platform = (): Platform => {
    let reads = 0;
    return async (_, __, ___, context) => {
      reads += 1;
      if (reads !== 5) return reads < 7 ? refused : done;
      context.answered("record");
      return await never();
    };
  };

  test("also if its process closed during the callback", async () => {
    const store = memoryStore();
    const work = platform();
    const app = audited(work, { store });
    await app.send("B1");
    await app.until(760 * SECOND);
    expect(app.reads).toHaveLength(5);
    const closing = app.queue.close(SECOND);
    await advance(10 * SECOND);
    await closing;
    const next = audited(work, { store });
    await advance(HOUR);
    expect(next.reads.length).toBeGreaterThan(0);
    expect(await store.get("B1")).toMatchObject({ state: "done" });
  });
});

describe("a replay begins the counts anew", () => {
  test("so that the first failure after it does not count because of an answer before it", async () => {
    let isDown = true;
    const app = audited((_, __, code) => (code === "B1" && isDown ? outOfReach() : done), { maxAttempts: 2 });
    await app.send("B1");
    for (let n = 0; n < 30; n += 1) {
      await app.send(`O${n}`);
      await advance(SECOND);
    }
    expect(await app.store.get("B1")).toMatchObject({ state: "parked" });
    await app.send("LAST");
    await advance(MINUTE);
    await app.store.replay({ eventId: "B1" });
    await advance(0);
    isDown = false;
    expect(await app.store.get("B1")).toMatchObject({ state: "retrying", failures: 0 });
  });
});

describe("several processes", () => {
  test("do not each count the same outage: a failure counts if its lane was answered since the event's last one", async () => {
    // Six processes, whose claims come in another order each time. B1 fails in each of them, and others are read between.
    // Then all is out of reach.
    const store = memoryStore();
    const random = randomOf(1);
    const delayed = () =>
      alteredStore(store, {
        claim: (own) => async (options) => {
          await sleep(random.below(50));
          return await own(options);
        },
        subscribe: () => undefined,
      });
    let isOut = false;
    const apps = Array.from({ length: 6 }, () =>
      audited((_, __, code) => (isOut || code === "B1" ? outOfReach() : done), {
        store: delayed(),
        maxAttempts: 30,
        backoff: () => 10 * SECOND,
      }),
    );
    await apps[0]!.send("B1");
    const failures = async () => (await store.get("B1"))!.failures;
    for (let n = 0; n < 1000 && (apps.some((app) => app.of("B1").length < 2) || n < 10); n += 1) {
      await apps[n % 6]!.send(`O${n}`);
      await advance(SECOND);
    }
    const before = await failures();
    isOut = true;
    await advance(HOUR);
    // The first failure in the outage may count, because its lane was answered before. The others must not.
    expect((await failures()) - before).toBeLessThanOrEqual(1);
  });

  const busy = (isBusy: boolean) => async () => {
    // An outage of 20 s. Then process 1 gets a notification a second, and each callback takes 1.5 s.
    const store = memoryStore();
    const answer = async (at: number) => {
      if (at < 20 * SECOND) return outOfReach();
      await sleep(isBusy ? 1500 : 20);
      return done;
    };
    const [one, two] = [audited(answer, { store }), audited(answer, { store })] as const;
    for (let n = 0; n < 20; n += 1) {
      await (n % 2 ? one : two).send(`B${n}`);
      await advance(SECOND / 2);
    }
    await one.until(30 * SECOND);
    let pausedFor = 0;
    for (let n = 0; n < 600; n += 1) {
      await one.send(`C${n}`);
      await advance(SECOND);
      if (two.queue.state === "paused") pausedFor += 1;
    }
    expect(one.queue.state).toBe("running");
    expect(pausedFor).toBeLessThan(60);
  };
  test("the other one does not stay paused while one handles the events quickly", busy(false));
  test("the other one does not stay paused while one is always in a callback", busy(true));

  test("the other one does not stay paused because one runs a callback of four minutes", async () => {
    const store = memoryStore();
    const answer: Platform = async (at, id, _, context) => {
      if (at < 20 * SECOND) return outOfReach();
      context.answered("record");
      if (id === "LONG") await sleep(4 * MINUTE);
      return done;
    };
    const [one, two] = [audited(answer, { store }), audited(answer, { store })] as const;
    for (let n = 0; n < 20; n += 1) {
      await (n % 2 ? one : two).send(`B${n}`);
      await advance(SECOND / 2);
    }
    await two.until(20 * SECOND);
    expect([one.queue.state, two.queue.state]).toEqual(["paused", "paused"]);
    // One of them takes it, and handles all that waits.
    await one.send("LONG");
    await advance(90 * SECOND);
    expect(await store.counts()).toMatchObject({ pending: 0, retrying: 0, processing: 1 });
    expect([one.queue.state, two.queue.state]).toEqual(["running", "running"]);
  });

  test("one broken booking keeps no other process paused for long", async () => {
    const store = memoryStore();
    const answer: Platform = (at, _, code) => (at < MINUTE || code === "B1" ? outOfReach() : done);
    const apps = [audited(answer, { store }), audited(answer, { store })] as const;
    for (let n = 1; n <= 12; n += 1) {
      await apps[n % 2]!.send(`B${n}`);
      await advance(300);
    }
    await apps[0].until(90 * SECOND);
    let pausedFor = 0;
    for (let n = 0; n < 2 * 3600; n += 5) {
      if (n % 600 === 0) await apps[0].send(`C${n}`);
      await advance(5 * SECOND);
      if (apps.some(({ queue }) => queue.state === "paused")) pausedFor += 5;
    }
    expect(pausedFor).toBeLessThan(120);
  });
});

describe("one broken record", () => {
  test("pauses nothing by five events of its own", async () => {
    const app = audited(async () => {
      await sleep(20);
      return outOfReach();
    });
    for (const id of idsOf(5, "E")) {
      await app.send(id, "B1");
      await advance(SECOND);
    }
    expect(app.queue.state).toBe("running");
  });

  test("with failed callbacks of others pauses nothing", async () => {
    const app = audited((_, __, code) => (code === "B1" ? outOfReach() : callbackFailed));
    await app.send("B1");
    for (const id of idsOf(50)) {
      await app.send(id);
      await advance(SECOND);
    }
    expect(app.queue.state).toBe("running");
  });
});
