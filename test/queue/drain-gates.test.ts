// Drains and inline handling at shut gates and limited lanes, with and without accounts.
import { beforeEach, describe, expect, test, vi } from "vitest";
import { type Answer, appOf } from "./lanes.support.ts";
import {
  advance,
  done,
  eventOf,
  gate,
  HOUR,
  idsOf,
  MINUTE,
  queueOf,
  refused,
  SECOND,
  useFakeTime,
  watch,
} from "./support.ts";

useFakeTime(new Date(Date.UTC(2026, 4, 1)));
// The waits of gates vary by a tenth.
beforeEach(() => {
  vi.spyOn(Math, "random").mockReturnValue(0.5);
});

/** Makes an app that works without a loop, whose platform gives `answers` for each account. */
function drained(answers: Record<string, Answer>, hasAccounts = true) {
  const app = appOf((account) => answers[hasAccounts ? account : ""] ?? 200, { hasAccounts });
  const add = async (account: string, ...ids: readonly string[]): Promise<void> => {
    const prefix = account === "" ? "" : `${account}/`;
    for (const id of ids) {
      app.sent.set(`${prefix}${id}`, app.now());
      await app.store.add(eventOf(`${prefix}${id}`, `${prefix}booking:${id}`));
    }
  };
  /** Drains. A drain must end within 1.1 s, a little more than the first wait of a gate. */
  const drain = async () => {
    const draining = watch(app.queue.drain({}));
    await advance(1100);
    expect(draining.settled).toBe(true);
    return draining.result;
  };
  return { ...app, answers, add, drain };
}

describe("a drain at a shut gate", () => {
  test.each([
    { what: "an account", account: "a" },
    { what: "an app without accounts", account: "" },
  ])("of $what makes the try if it is due, and ends although others wait", async ({ account }) => {
    const app = drained({ [account]: 401 }, account !== "");
    await app.add(account, ...idsOf(30));
    await app.drain();
    const { pending, retrying } = await app.store.counts();
    // The reads that had begun when the first one failed.
    expect(retrying).toBeLessThanOrEqual(10);
    expect(pending).toBe(30 - retrying);
    expect(await app.drain()).toEqual({ done: 0, failed: 1 });
    // The wait has doubled.
    expect(await app.drain()).toEqual({ done: 0, failed: 0 });
    expect(await app.drain()).toEqual({ done: 0, failed: 1 });
    await advance(5 * SECOND);
    app.answers[account] = 200;
    expect(await app.drain()).toEqual({ done: 30, failed: 0 });
  });

  test("of an account handles those of others", async () => {
    const app = drained({ a: 401 });
    await app.add("a", ...idsOf(3));
    await app.drain();
    await app.add("b", ...idsOf(40));
    expect(await app.drain()).toEqual({ done: 40, failed: 1 });
  });

  test("of everything makes one try in all", async () => {
    const app = drained({ a: 503, b: 503 });
    for (const account of ["a", "b"]) await app.add(account, ...idsOf(20));
    await app.drain();
    expect(app.queue.pause).toMatchObject({ scope: "everything" });
    expect(await app.drain()).toEqual({ done: 0, failed: 1 });
    app.answers.b = 200;
    await advance(3 * SECOND);
    // The newest event is one of account b. Its answer opens the gate of everything, but not that of account a.
    expect(await app.drain()).toEqual({ done: 20, failed: 1 });
  });

  test("does not cut short a wait that the platform asked for", async () => {
    const app = drained({ a: { retryAfter: 60 } });
    await app.add("a", ...idsOf(3));
    await app.drain();
    await advance(MINUTE - 3 * SECOND);
    const { length } = app.reads;
    expect(await app.drain()).toEqual({ done: 0, failed: 0 });
    expect(app.reads).toHaveLength(length);
    await advance(SECOND);
    expect(await app.drain()).toEqual({ done: 0, failed: 1 });
  });
});

describe("among refused records", () => {
  const forged = (count: number, name = "forged") => idsOf(count, name);
  const flooded = (prefix: string) =>
    appOf((_, id) => (id.includes("forged") ? 404 : 200), { hasAccounts: prefix !== "" });
  const add = async ({ store, sent }: ReturnType<typeof appOf>, prefix: string, ids: readonly string[]) => {
    for (const id of ids) {
      sent.set(`${prefix}${id}`, 0);
      await store.add(eventOf(`${prefix}${id}`, `${prefix}booking:${id}`));
    }
  };

  test.each(["a/", ""])("a drain makes one attempt at each event: %j", async (prefix) => {
    const app = flooded(prefix);
    await add(app, prefix, [...forged(150), "genuine", ...forged(150, "forged too")]);
    const draining = watch(app.queue.drain({}));
    // 301 reads, 80 a second at most.
    await advance(3 * SECOND);
    expect(draining.settled).toBe(false);
    await advance(2 * SECOND);
    expect(draining.result).toEqual({ done: 1, failed: 300 });
    expect(app.reads).toHaveLength(301);
  });

  test.each(["a/", ""])("an inline event waits for the limit: %j", async (prefix) => {
    const app = flooded(prefix);
    await add(app, prefix, [...forged(10), "genuine"]);
    for (const id of forged(10)) {
      void app.queue.runNow(eventOf(`${prefix}${id}`, `${prefix}booking:${id}`), 25 * SECOND);
      await advance(20);
    }
    const key = eventOf(`${prefix}genuine`, `${prefix}booking:genuine`);
    const running = watch(app.queue.runNow(key, performance.now() + 25 * SECOND));
    // The ten reads took 200 ms of the second. The limit began with the last one of them.
    await advance(130);
    expect([app.reads.length, running.settled]).toEqual([10, false]);
    await advance(50);
    expect([app.reads.length, running.settled]).toEqual([11, true]);
    expect((await app.store.get(`${prefix}genuine`))?.state).toBe("done");
  });
});

test("a drain does not keep the event loop busy while slow callbacks have all slots, and a limited read is due", async () => {
  const held = gate();
  const { queue, add, store, stateOf } = queueOf({
    concurrency: 2,
    backoff: () => HOUR,
    work: async ({ ref }, { answered }) => {
      if (ref !== null) return refused;
      answered("record");
      await held.opened;
      return done;
    },
  });
  await add(...idsOf(12));
  void queue.drain({});
  await advance(5 * SECOND);
  for (const id of ["slow 1", "slow 2"]) await store.add(eventOf(id, null));
  const now = performance.now.bind(performance);
  // A loop that never waits would hang this test.
  const clock = vi.spyOn(performance, "now").mockImplementation(() => {
    if (clock.mock.calls.length > 10_000) throw new Error("the event loop is busy");
    return now();
  });
  const draining = watch(queue.drain({}).catch((error: Error) => error.message));
  await advance(1);
  await add("waits");
  queue.wake(eventOf("waits"));
  await advance(10 * SECOND);
  expect(clock.mock.calls.length).toBeLessThan(1000);
  held.open();
  await advance(SECOND);
  // Three of the records were refused in the flood, so that they are due again after 5 s.
  expect([draining.result, await stateOf("waits")]).toEqual([{ done: 2, failed: 4 }, "retrying"]);
});
