import { describe, expect, test } from "vitest";
import { defaultBackoff, isLastAttempt, outcomeOf, safeBackoff } from "../../src/queue/retries.ts";
import type { Outage, WorkFailure } from "../../src/queue/work.ts";
import type { ClaimedEvent } from "../../src/stores/stored-event.ts";
import { DAY, HOUR, MINUTE, SECOND } from "./support.ts";

const down: Outage = { everything: false };

/** Plays one failed attempt. Its `backoff` waits 10 s for each attempt so far. */
function outcome({
  attempts = 1,
  outages = 0,
  outageFor = 0,
  outage = undefined as Outage | undefined,
  counts = true,
  nextTryIn = undefined as number | undefined,
  backoff = (attempt: number) => attempt * 10 * SECOND,
  failure = {} as Partial<WorkFailure>,
}) {
  const { state, ...rest } = outcomeOf(
    { reason: outage ? "unavailable" : "callback", error: new Error("down"), outage, ...failure },
    { attempts, outages, outageFor } as ClaimedEvent,
    {
      concurrency: 10,
      maxAttempts: 12,
      attemptTimeout: MINUTE,
      leaseDuration: MINUTE,
      giveUpAfter: 3 * DAY,
      retention: DAY,
      parkedRetention: DAY,
      snapshotRetention: DAY,
      backoff,
    },
    { duration: 1.6, counts, nextTryIn },
  );
  return state === "parked" ? state : "in" in rest && [rest.in / SECOND, rest.counted ? "counts" : "free"];
}

describe("a failed callback", () => {
  test.each([
    { what: "waits for backoff", given: { attempts: 3 }, result: [30, "counts"] },
    { what: "does not wait for its lane", given: { attempts: 3, nextTryIn: 5 }, result: [30, "counts"] },
    { what: "has its last attempt", given: { attempts: 12 }, result: "parked" },
    { what: "has one before it", given: { attempts: 11 }, result: [110, "counts"] },
    {
      what: "may have fewer attempts",
      given: { attempts: 5, failure: { maxAttempts: 5 } },
      result: "parked",
    },
    { what: "does not have more", given: { attempts: 12, failure: { maxAttempts: 50 } }, result: "parked" },
    { what: "is not parked for an old outage", given: { outageFor: 9 * DAY }, result: [10, "counts"] },
    { what: "waits for whole ms", given: { backoff: () => 1.4 }, result: [0.001, "counts"] },
  ])("$what", ({ given, result }) => expect(outcome(given)).toEqual(result));
});

describe("a refusal in a flood", () => {
  test.each([
    { what: "waits as if it counted", given: {}, result: [10, "free"] },
    { what: "waits longer after others", given: { attempts: 2, outages: 4 }, result: [60, "free"] },
    {
      what: "waits no longer than giveUpAfter",
      given: { outageFor: 3 * DAY - 7 * SECOND },
      result: [7, "free"],
    },
    { what: "is parked after giveUpAfter", given: { outageFor: 3 * DAY }, result: "parked" },
    { what: "is not parked for its attempts", given: { attempts: 99 }, result: [990, "free"] },
    { what: "does not wait for a try", given: { nextTryIn: SECOND }, result: [10, "free"] },
  ])("$what", ({ given, result }) =>
    expect(outcome({ counts: false, failure: { reason: "not-found" }, ...given })).toEqual(result),
  );
});

describe("a failed read that does not count", () => {
  test.each([
    { what: "waits for backoff", given: {}, result: [10, "free"] },
    { what: "waits longer after others", given: { outages: 2 }, result: [30, "free"] },
    {
      what: "does not wait longer for counted ones",
      given: { attempts: 9, outages: 2 },
      result: [30, "free"],
    },
    { what: "waits 40 s at most", given: { outages: 9 }, result: [40, "free"] },
    { what: "is due at the next try", given: { outages: 9, nextTryIn: 4 * SECOND }, result: [4, "free"] },
    { what: "does not wait for a later try", given: { nextTryIn: 30 * SECOND }, result: [10, "free"] },
    { what: "waits as asked", given: { outage: { ...down, retryAfter: 90 * SECOND } }, result: [90, "free"] },
    {
      what: "waits for backoff if less is asked",
      given: { outage: { ...down, retryAfter: 1 } },
      result: [10, "free"],
    },
    {
      what: "waits 15 minutes at most",
      given: { outage: { ...down, retryAfter: HOUR } },
      result: [900, "free"],
    },
    {
      what: "waits no longer than giveUpAfter",
      given: { outageFor: 3 * DAY - 7 * SECOND },
      result: [7, "free"],
    },
    { what: "is parked after giveUpAfter", given: { outageFor: 3 * DAY }, result: "parked" },
    { what: "is not parked for its attempts", given: { attempts: 99 }, result: [10, "free"] },
  ])("$what", ({ given, result }) =>
    expect(outcome({ outage: down, counts: false, ...given })).toEqual(result),
  );
});

describe("a failed read that counts", () => {
  const slow = () => HOUR;
  test.each([
    { what: "waits 2 s at most", given: { backoff: slow }, result: [2, "counts"] },
    { what: "then 4 s", given: { backoff: slow, attempts: 2 }, result: [4, "counts"] },
    { what: "then 8 s", given: { backoff: slow, attempts: 3 }, result: [8, "counts"] },
    { what: "then for backoff", given: { backoff: slow, attempts: 4 }, result: [3600, "counts"] },
    { what: "waits less if backoff is shorter", given: { backoff: () => SECOND }, result: [1, "counts"] },
    { what: "does not wait longer for outages", given: { outages: 9, backoff: slow }, result: [2, "counts"] },
    {
      what: "does not wait as asked",
      given: { outage: { ...down, retryAfter: HOUR } },
      result: [2, "counts"],
    },
    { what: "is due at the next try", given: { attempts: 9, nextTryIn: 4 * SECOND }, result: [4, "counts"] },
    { what: "has its last attempt", given: { attempts: 12 }, result: "parked" },
    { what: "is parked after giveUpAfter", given: { outageFor: 3 * DAY }, result: "parked" },
    {
      what: "waits no longer than giveUpAfter",
      given: { outageFor: 3 * DAY - SECOND },
      result: [1, "counts"],
    },
  ])("$what", ({ given, result }) => expect(outcome({ outage: down, ...given })).toEqual(result));
});

test.each([
  { attempt: 11, failure: {}, isLast: false },
  { attempt: 12, failure: {}, isLast: true },
  { attempt: 4, failure: { maxAttempts: 5 }, isLast: false },
  { attempt: 5, failure: { maxAttempts: 5 }, isLast: true },
])("attempt $attempt of 12 is the last one: $isLast $failure", ({ attempt, failure, isLast }) => {
  expect(isLastAttempt(attempt, failure, { maxAttempts: 12 })).toBe(isLast);
});

test.each([
  { what: "a number", backoff: () => 5, wait: 5 },
  { what: "0", backoff: () => 0, wait: 0 },
  { what: "a negative number", backoff: () => -1, wait: 70 },
  { what: "NaN", backoff: () => Number.NaN, wait: 70 },
  { what: "Infinity", backoff: () => Number.POSITIVE_INFINITY, wait: 70 },
  { what: "no number", backoff: () => "5" as never, wait: 70 },
  { what: "an error", backoff: () => expect.fail("thrown by the user"), wait: 70 },
])("a backoff that returns $what waits $wait ms", ({ backoff, wait }) => {
  expect(safeBackoff(backoff, (attempt) => attempt * 10)(7)).toBe(wait);
});

test.each([
  [1, 5 * SECOND],
  [2, 30 * SECOND],
  [3, 2 * MINUTE],
  [4, 10 * MINUTE],
  [10, 6 * HOUR],
  [11, 6 * HOUR],
])("the default wait after attempt %i is at most %i ms, and at least three quarters", (attempt, most) => {
  const waits = Array.from({ length: 50 }, () => defaultBackoff(attempt));
  expect(Math.max(...waits)).toBeLessThanOrEqual(most);
  expect(Math.min(...waits)).toBeGreaterThanOrEqual(most * 0.75);
});
