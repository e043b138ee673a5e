import { expect, test, vi } from "vitest";
import {
  advance,
  callbackFailed,
  DAY,
  done,
  failing,
  first,
  HOUR,
  hanging,
  idsOf,
  MINUTE,
  queueOf,
  realTime,
  refused,
  SECOND,
  sleep,
  startedQueue,
  useFakeTime,
  watch,
} from "./support.ts";

useFakeTime();

test("parked events are kept for parkedRetention, those that were not found for retention", async () => {
  const { stateOf } = await startedQueue(["failed", "forged"], {
    maxAttempts: 1,
    work: ({ eventId }) => (eventId === "forged" ? refused : callbackFailed),
  });
  await advance(7 * DAY + HOUR);
  expect(await stateOf("forged")).toBeUndefined();
  expect(await stateOf("failed")).toBe("parked");
  await advance(23 * DAY);
  expect(await stateOf("failed")).toBeUndefined();
});

test("thousands of events are deleted in small batches", async () => {
  const sizes: number[] = [];
  const { store } = await startedQueue(idsOf(3000), {
    alter: {
      prune: first((options) => sizes.push(options.limit)),
    },
  });
  await advance(7 * DAY + HOUR + 100);
  for (let n = 0; n < 100 && (await store.counts()).done > 0; n += 1) {
    await realTime(5);
    await advance(1);
  }
  expect(await store.counts()).toMatchObject({ done: 0 });
  expect(Math.max(...sizes)).toBe(200);
});

test("the next pruning tries again if the store failed", async () => {
  let isLocked = true;
  const { stateOf, logged } = await startedQueue(["a"], {
    alter: { prune: failing(() => isLocked, "locked") },
    retention: DAY,
    work: () => done,
  });
  await advance(DAY + HOUR);
  expect(await stateOf("a")).toBe("done");
  expect(logged.join()).toMatch(/locked/);
  isLocked = false;
  await advance(HOUR);
  expect(await stateOf("a")).toBeUndefined();
});

test("Infinity keeps events forever, without asking the store", async () => {
  const forever = Number.POSITIVE_INFINITY;
  const policy = { retention: forever, parkedRetention: forever, snapshotRetention: forever };
  const { calls } = await startedQueue([], policy);
  await advance(DAY);
  expect(calls.prune).toBe(0);
});

test("close waits for the current batch and begins no other", async () => {
  const { queue, calls } = await startedQueue([], {
    alter: { prune: () => () => sleep(1000).then(() => 200) },
  });
  await advance(1000);
  await realTime(20);
  await advance(500);
  expect(calls.prune).toBe(2);
  const closing = watch(queue.close(10_000));
  await advance(400);
  expect(closing.settled).toBe(false);
  await advance(200);
  await realTime(20);
  await advance(0);
  expect(closing.settled).toBe(true);
  await advance(DAY);
  expect(calls.prune).toBe(2);
  expect(vi.getTimerCount()).toBe(0);
});

test("a drain ends if the store never prunes", async () => {
  const { queue, logged } = queueOf({ alter: { prune: hanging } });
  const draining = watch(queue.drain({}));
  await advance(31 * SECOND);
  expect(draining.settled).toBe(true);
  expect(logged).toEqual([expect.stringMatching(/could not delete old events/)]);
});

test("one pruning runs at a time, and close waits for it", async () => {
  const { queue, calls } = await startedQueue([], {
    retention: 4 * SECOND,
    alter: { prune: () => () => sleep(10 * SECOND).then(() => 0) },
  });
  await advance(5 * SECOND);
  const draining = queue.drain({});
  await advance(SECOND);
  expect(calls.prune).toBe(1);
  const closing = watch(queue.close(MINUTE));
  await advance(3 * SECOND);
  expect(closing.settled).toBe(false);
  await advance(2 * SECOND);
  expect(closing.settled).toBe(true);
  await draining;
});
