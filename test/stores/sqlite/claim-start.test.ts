// Claims with the same `except` begin where the last one found nothing to take. They must miss no record.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { eventOf } from "../event.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"] });
});
afterEach(() => {
  vi.useRealTimers();
});

const LEASE = 60_000;
const pass = (ms: number): void => void vi.setSystemTime(Date.now() + ms);

test("a record whose lease ends is found, although the search begins behind its due time", async () => {
  await using store = sqliteStore(":memory:");
  const claim = (): Promise<(string | null)[]> =>
    store
      .claim({ limit: 5, leaseDuration: LEASE, except: ["out/"] })
      .then((claims) => claims.map(({ ref }) => ref));
  await store.add(eventOf("out/booking:A"));
  await store.add(eventOf("in/booking:B"));
  expect(await claim()).toEqual(["in/booking:B"]);
  // The second event makes the leased record due before the end of the lease.
  await store.add(eventOf("in/booking:B"));
  pass(LEASE / 2);
  expect(await claim()).toEqual([]);
  let nextDue: number | undefined;
  await store.claim({
    ...{ limit: 5, leaseDuration: LEASE, except: ["out/"] },
    onNextDue: (ms) => {
      nextDue = ms;
    },
  });
  expect(nextDue).toBe(LEASE / 2);
  pass(LEASE / 2);
  expect(await claim()).toEqual(["in/booking:B"]);
});
