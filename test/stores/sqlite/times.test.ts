import { expect, test } from "vitest";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { CLAIM, eventOf } from "../event.ts";

const FAILED = { state: "retrying", reason: "callback", entry: { duration: 0.5 } } as const;

test("a claim with a lease of 0 ms returns only one event of a record", async () => {
  const store = sqliteStore(":memory:");
  await store.add(eventOf());
  await store.add(eventOf());
  expect(await store.claim({ limit: 5, leaseDuration: 0 })).toHaveLength(1);
  await store.close();
});

test("durations may have fractions of a millisecond, as with jitter", async () => {
  const store = sqliteStore(":memory:");
  for (const ref of ["booking:A", "booking:B"]) await store.add(eventOf(ref));
  const [first, second] = await store.claim({ limit: 5, leaseDuration: 60_000.5 });
  expect(await store.renew([first!, second!], 60_000.25)).toHaveLength(2);
  expect(await store.settle(first!, { ...FAILED, in: 60_000.7, counted: true })).toBe(true);
  expect(await store.settle(second!, { ...FAILED, in: 60_000.3, counted: false })).toBe(true);
  expect(await store.prune({ state: "done", age: 0.5, limit: 1 })).toBe(0);
  expect(await store.pruneSnapshots({ age: 0.5, limit: 1 })).toBe(0);
  expect(await store.claim(CLAIM)).toEqual([]);
  await store.close();
});
