import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { alteredStore, callbackFailed, done, eventOf, gate, outOfReach, queueOf, SECOND } from "./support.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const advance = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const soon = () => performance.now() + 25 * SECOND;

/** Returns an object that shows whether a promise has settled. */
function watch(promise: Promise<unknown>) {
  const seen = { settled: false };
  promise.finally(() => {
    seen.settled = true;
  });
  return seen;
}

describe("an event that is processed inline", () => {
  test("is awaited to its end, and no other event begins", async () => {
    const held = gate();
    const { queue, add, ran, stateOf } = queueOf({ work: () => held.opened.then(() => done) });
    await add("other", "own");
    const run = watch(queue.runNow("own", soon()));
    await advance(5 * SECOND);
    expect(run.settled).toBe(false);
    held.open();
    await advance(0);
    expect(run.settled).toBe(true);
    expect(ran).toEqual(["own"]);
    expect(await stateOf("own")).toBe("done");
  });

  test("goes on under its lease after the deadline", async () => {
    const held = gate();
    const { queue, add, stateOf } = queueOf({ work: () => held.opened.then(() => done) });
    await add("a");
    const run = watch(queue.runNow("a", soon()));
    await advance(25 * SECOND - 1);
    expect(run.settled).toBe(false);
    await advance(1);
    expect(run.settled).toBe(true);
    await advance(60 * SECOND);
    expect(await stateOf("a")).toBe("processing");
    held.open();
    await advance(0);
    expect(await stateOf("a")).toBe("done");
  });

  test("is not waited for beyond the deadline if the store hangs", async () => {
    const store = alteredStore(memoryStore(), { claim: () => () => new Promise(() => {}) });
    const { queue, add } = queueOf({ store });
    await add("a");
    const run = watch(queue.runNow("a", soon()));
    await advance(25 * SECOND);
    expect(run.settled).toBe(true);
  });

  test("waits its turn behind another event of its record", async () => {
    const held = gate();
    const { queue, store, ran } = queueOf({
      work: ({ eventId }) => (eventId === "first" ? held.opened.then(() => done) : done),
    });
    await store.add(eventOf("first", "booking:x"));
    await store.add(eventOf("second", "booking:x"));
    const first = watch(queue.runNow("first", soon()));
    const second = watch(queue.runNow("second", soon()));
    await advance(3 * SECOND);
    expect(second.settled).toBe(false);
    held.open();
    await advance(0);
    expect(first.settled && second.settled).toBe(true);
    expect(ran).toEqual(["first", "second"]);
  });

  test("asks the store at intervals while it waits", async () => {
    const held = gate();
    let claims = 0;
    const store = alteredStore(memoryStore(), {
      claim: (own) => (options) => {
        claims += 1;
        if (claims > 1000) throw new Error("those that wait wake each other");
        return own(options);
      },
    });
    const { queue, ran } = queueOf({ store, work: () => held.opened.then(() => done) });
    const ids = ["first", "second", "third", "fourth"];
    for (const id of ids) await store.add(eventOf(id, "booking:x"));
    const runs = Promise.all(ids.map((id) => queue.runNow(id, soon())));
    await advance(5 * SECOND);
    // Each of the three waiting runs polls four times a second.
    expect(claims).toBeLessThan(100);
    held.open();
    await advance(2 * SECOND);
    await runs;
    expect(ran).toEqual(ids);
  });

  test("waits for a slot, so that `concurrency` holds", async () => {
    let running = 0;
    let most = 0;
    const { queue, add, ran } = queueOf({
      concurrency: 3,
      work: async () => {
        running += 1;
        most = Math.max(most, running);
        await new Promise((resolve) => setTimeout(resolve, 10));
        running -= 1;
        return done;
      },
    });
    const ids = Array.from({ length: 20 }, (_, n) => `e${n}`);
    await add(...ids);
    const runs = Promise.all(ids.map((id) => queue.runNow(id, soon())));
    await advance(SECOND);
    await runs;
    expect(most).toBe(3);
    expect(ran.length).toBe(20);
  });

  test("is left alone if it failed, is done or is unknown", async () => {
    const { queue, add, ran } = queueOf({ work: () => callbackFailed });
    await add("a");
    await queue.runNow("a", soon());
    await queue.runNow("a", soon());
    await queue.runNow("nobody", soon());
    expect(ran).toEqual(["a"]);
  });

  test("is left for later while the platform is out of reach", async () => {
    const { queue, add, ran } = queueOf({ work: () => outOfReach(60 * SECOND) });
    await add("a", "b");
    await queue.runNow("a", soon());
    await queue.runNow("b", soon());
    expect(ran).toEqual(["a"]);
  });

  test("runs once if two calls process it, and both calls wait for its end", async () => {
    const held = gate();
    const { queue, add, ran } = queueOf({ work: () => held.opened.then(() => done) });
    await add("a");
    const runs = [watch(queue.runNow("a", soon())), watch(queue.runNow("a", soon()))];
    await advance(SECOND);
    expect(runs.map(({ settled }) => settled)).toEqual([false, false]);
    held.open();
    await advance(300);
    expect(runs.map(({ settled }) => settled)).toEqual([true, true]);
    expect(ran).toEqual(["a"]);
  });
});
