import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { memoryStore } from "../../src/stores/memory/index.ts";
import {
  alteredStore,
  brokenStore,
  callbackFailed,
  DAY,
  done,
  eventOf,
  HOUR,
  queueOf,
  type TestWork,
} from "./support.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const advance = (ms: number) => vi.advanceTimersByTimeAsync(ms);

const notFound: TestWork = () => ({
  state: "failed",
  reason: "not-found",
  error: new Error("404"),
  refused: true,
  maxAttempts: 1,
});

test("done ids are kept for retention", async () => {
  const { queue, add, stateOf } = queueOf();
  await add("a");
  queue.start();
  await advance(7 * DAY - HOUR);
  expect(await stateOf("a")).toBe("done");
  await advance(2 * HOUR);
  expect(await stateOf("a")).toBeUndefined();
});

test("parked events are kept for parkedRetention, those that were not found for retention", async () => {
  const { queue, add, stateOf } = queueOf({
    maxAttempts: 1,
    work: (claim, context) => (claim.eventId === "forged" ? notFound(claim, context) : callbackFailed),
  });
  await add("failed", "forged");
  queue.start();
  await advance(7 * DAY + HOUR);
  expect(await stateOf("forged")).toBeUndefined();
  expect(await stateOf("failed")).toBe("parked");
  await advance(23 * DAY);
  expect(await stateOf("failed")).toBeUndefined();
});

test("a record's snapshot is kept for snapshotRetention", async () => {
  const { queue, store } = queueOf({ snapshotRetention: 20 * DAY });
  await store.add(eventOf("a", "booking:x"));
  queue.start();
  await advance(20 * DAY - HOUR);
  expect(await store.snapshotOf("booking:x")).toMatchObject({ snapshot: { status: "Confirmed" } });
  await advance(2 * HOUR);
  expect(await store.snapshotOf("booking:x")).toBeUndefined();
});

test("thousands of events are deleted in small batches", async () => {
  const memory = memoryStore();
  const sizes: number[] = [];
  const watched = new Proxy(memory, {
    get: (target, property: keyof typeof memory) => {
      const value = target[property];
      if (typeof value !== "function") return value;
      if (property !== "prune") return (value as () => unknown).bind(target);
      return async (options: { limit: number; state: "done" | "parked"; age: number }) => {
        sizes.push(options.limit);
        return target.prune(options);
      };
    },
  });
  const { queue, add, store } = queueOf({ store: watched });
  await add(...Array.from({ length: 3000 }, (_, n) => `e${n}`));
  queue.start();
  await advance(7 * DAY + HOUR + 100);
  expect(await store.counts()).toMatchObject({ done: 0 });
  expect(Math.max(...sizes)).toBe(200);
});

test("the next pruning tries again if the store failed", async () => {
  let failing = true;
  const store = brokenStore(memoryStore(), {
    prune: () => (failing ? new Error("locked") : (undefined as never)),
  });
  const { queue, add, stateOf, logged } = queueOf({ store, retention: DAY, work: () => done });
  await add("a");
  queue.start();
  await advance(DAY + HOUR);
  expect(await stateOf("a")).toBe("done");
  expect(logged.join()).toMatch(/locked/);
  failing = false;
  await advance(HOUR);
  expect(await stateOf("a")).toBeUndefined();
});

test("Infinity keeps events forever, without asking the store", async () => {
  const calls: unknown[] = [];
  const forever = Number.POSITIVE_INFINITY;
  const store = brokenStore(memoryStore(), {
    prune: () => {
      calls.push("prune");
      return undefined as never;
    },
  });
  const { queue } = queueOf({
    store,
    retention: forever,
    parkedRetention: forever,
    snapshotRetention: forever,
  });
  queue.start();
  await advance(DAY);
  expect(calls).toEqual([]);
});

test("close waits for the current batch and begins no other", async () => {
  let batches = 0;
  const slow = alteredStore(memoryStore(), {
    prune: () => async () => {
      batches += 1;
      await new Promise((resolve) => setTimeout(resolve, 1000));
      return 200;
    },
  });
  const { queue, logged } = queueOf({ store: slow });
  queue.start();
  await advance(1500);
  expect(batches).toBe(2);
  let closed = false;
  queue.close(10_000).then(async () => {
    await slow.close();
    closed = true;
  });
  await advance(400);
  expect(closed).toBe(false);
  await advance(200);
  expect(closed).toBe(true);
  await advance(DAY);
  expect(batches).toBe(2);
  expect(logged).toEqual([]);
});
