import { stat } from "node:fs/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { EventStore } from "../../src/stores/event-store.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { alteredStore, done, gate, HOUR, queueOf, SECOND } from "./support.ts";

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

/** Makes a store whose calls take a few ms, like those of a server. */
function remote(store = memoryStore()): EventStore {
  const slow =
    <A extends unknown[], R>(own: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      await sleep(5);
      const answer = await own(...args);
      await sleep(5);
      return answer;
    };
  return alteredStore(store, { claim: slow, settle: slow, renew: slow, nextDue: slow });
}

// These tests block the real event loop, because fake timers do not ring late.
describe("a blocked event loop", () => {
  test("runs no event twice, and is logged once a minute", async () => {
    const { queue, add, ran, store, logged, kinds } = queueOf({
      store: remote(),
      leaseDuration: 1500,
      work: async ({ eventId }, { answered }) => {
        answered();
        await sleep(50);
        if (eventId.startsWith("blocks")) block(2000);
        else await sleep(200);
        return done;
      },
    });
    const ids = ["blocks 1", ...Array.from({ length: 9 }, (_, n) => `e${n}`)];
    await add(...ids);
    queue.start();
    await sleep(3000);
    expect(await store.counts()).toMatchObject({ done: 10 });
    await add("blocks 2");
    await sleep(3000);
    expect(ran).toEqual([...ids, "blocks 2"]);
    expect(kinds()).toEqual(Array(11).fill("done"));
    expect(logged).toEqual([expect.stringMatching(/the event loop was blocked for 2 s/)]);
    expect(await store.get("blocks 2")).toMatchObject({ state: "done", attempts: 1 });
    await queue.close(0);
  }, 15_000);

  test("is logged even if all attempts end before the next timer rings", async () => {
    const { queue, add, logged, kinds } = queueOf({
      leaseDuration: 600,
      work: () => {
        block(1000);
        return done;
      },
    });
    await add("a");
    queue.start();
    await sleep(300);
    expect(kinds()).toEqual(["done"]);
    expect(logged).toEqual([expect.stringMatching(/the event loop was blocked for 1 s/)]);
    await queue.close(0);
  });

  test("loses no answer of the store that arrives meanwhile", async () => {
    const asked = gate();
    const store = alteredStore(memoryStore(), {
      settle: (own) => async (claim, outcome) => {
        asked.open();
        // Like the answer of a server, the result of I/O arrives after the timers that are due.
        for (let n = 0; n < 10; n += 1) await stat(".");
        return own(claim, outcome);
      },
    });
    const { queue, add, ran, kinds, logged } = queueOf({
      store,
      leaseDuration: 600,
      work: async ({ eventId }) => {
        if (eventId === "blocks") {
          await asked.opened;
          await new Promise((resolve) => setImmediate(resolve));
          block(1000);
        }
        return done;
      },
    });
    await add("a", "blocks");
    queue.start();
    await sleep(1500);
    expect(kinds()).toEqual(["done", "done"]);
    expect(ran).toEqual(["a", "blocks"]);
    expect(logged.join()).not.toMatch(/did not record/);
    await queue.close(0);
  });
});

describe("a clock that jumps", () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });

  /** Makes a queue that logs its calls of the store. */
  function watched(renewals: readonly Promise<void>[] = []) {
    const calls: string[] = [];
    const told = [...renewals];
    const store = alteredStore(memoryStore(), {
      claim: (own) => (options) => {
        calls.push("claim");
        return own(options);
      },
      renew: (own) => async (claims, duration) => {
        calls.push("renew");
        const renewed = await own(claims, duration);
        await told.shift();
        return renewed;
      },
    });
    const held = gate();
    const it = queueOf({
      store,
      work: ({ eventId }) => (eventId === "a" ? held.opened.then(() => done) : done),
    });
    return { ...it, calls, held };
  }

  const jump = (ms: number) => {
    const clock = Date.now;
    vi.spyOn(Date, "now").mockImplementation(() => clock() + ms);
  };

  test("renews its leases before the next claim", async () => {
    vi.useFakeTimers();
    const { queue, add, calls, ran, held, stateOf } = watched();
    await add("a");
    queue.start();
    await vi.advanceTimersByTimeAsync(SECOND);
    calls.length = 0;
    jump(HOUR);
    await add("b");
    await vi.advanceTimersByTimeAsync(SECOND);
    expect(calls.slice(0, 2)).toEqual(["renew", "claim"]);
    expect(calls.filter((call) => call === "renew").length).toBe(1);
    expect(ran).toEqual(["a", "b"]);
    held.open();
    await vi.advanceTimersByTimeAsync(0);
    expect(await stateOf("a")).toBe("done");
  });

  test("does not trust a renewal that was sent before the jump", async () => {
    vi.useFakeTimers();
    const answer = gate();
    const { queue, add, calls, ran, held } = watched([answer.opened]);
    await add("a");
    queue.start();
    await vi.advanceTimersByTimeAsync(10 * SECOND);
    expect(calls.at(-1)).toBe("renew");
    calls.length = 0;
    // Both clocks jump, as in a process that SIGSTOP has stopped.
    jump(HOUR);
    const now = performance.now.bind(performance);
    vi.spyOn(performance, "now").mockImplementation(() => now() + HOUR);
    await add("b");
    await vi.advanceTimersByTimeAsync(0);
    expect(calls).toEqual([]);
    answer.open();
    await vi.advanceTimersByTimeAsync(0);
    expect(calls.slice(0, 2)).toEqual(["renew", "claim"]);
    expect(ran).toEqual(["a", "b"]);
    held.open();
  });

  test("claims in spite of a store that does not renew", async () => {
    vi.useFakeTimers();
    const { queue, add, ran, held } = watched([new Promise(() => {})]);
    await add("a");
    queue.start();
    await vi.advanceTimersByTimeAsync(SECOND);
    jump(HOUR);
    await add("b");
    await vi.advanceTimersByTimeAsync(6 * SECOND);
    expect(ran).toContain("b");
    held.open();
  });
});
