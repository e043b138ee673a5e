import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test, vi } from "vitest";
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
  expect(await store.pruneRecords({ age: 0.5, limit: 1 })).toBe(0);
  expect(await store.claim(CLAIM)).toEqual([]);
  await store.close();
});

test("pruneRecords uses the exact seenAt, although the indexed time may be up to an hour older", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const minutes = (count: number) => count * 60_000;
  const db = new DatabaseSync(":memory:");
  const store = sqliteStore(db);
  const seen = { status: "Confirmed", fields: {} };
  const found: number[] = [];
  for (const later of [0, 40, 40, 59, 300]) {
    vi.setSystemTime(Date.now() + minutes(later));
    await store.learn("booking:A", seen);
    const { seen_from } = db.prepare("SELECT seen_from FROM stayhook_records").get()!;
    found.push((Date.now() - Number(seen_from)) / minutes(1));
    expect(await store.recordOf("booking:A")).toMatchObject({ seenAt: new Date() });
  }
  // The store changes `seen_from` at most once an hour, because each change also changes the index.
  expect(found).toEqual([0, 40, 0, 59, 0]);
  vi.setSystemTime(Date.now() + minutes(30));
  await store.learn("booking:A", seen);
  vi.setSystemTime(Date.now() + minutes(9));
  expect(await store.pruneRecords({ age: minutes(10), limit: 1 })).toBe(0);
  vi.setSystemTime(Date.now() + minutes(1));
  expect(await store.pruneRecords({ age: minutes(10), limit: 1 })).toBe(1);
  await store.close();
  db.close();
});
