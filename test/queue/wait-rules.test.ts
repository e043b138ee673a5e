import { describe, expect, test } from "vitest";
import {
  type Count,
  defaultBackoff,
  isLastAttempt,
  outcomeOf,
  safeBackoff,
} from "../../src/queue/wait-rules.ts";
import type { Outage, WorkFailure } from "../../src/queue/work.ts";
import type { FailureReason } from "../../src/stores/event-states.ts";
import type { ClaimedEvent } from "../../src/stores/stored-event.ts";
import { DAY, HOUR, MINUTE, SECOND } from "./support.ts";

const down: Outage = { everything: false };
const policy = {
  concurrency: 10,
  maxAttempts: 12,
  attemptTimeout: MINUTE,
  leaseDuration: MINUTE,
  giveUpAfter: 3 * DAY,
  retention: DAY,
  parkedRetention: DAY,
  snapshotRetention: DAY,
};
type Counts = Pick<
  ClaimedEvent,
  "attempts" | "failures" | "refusals" | "outages" | "outageFor" | "lastFailure"
>;
const counts: Counts = {
  ...{ attempts: 1, failures: 0, refusals: 0, outages: 0, outageFor: 0 },
  lastFailure: undefined,
};
const failed = (reason: FailureReason) =>
  ({ at: new Date(), duration: 1, outcome: "retrying", reason }) as const;
interface Given extends Partial<Counts> {
  readonly outage?: Outage;
  readonly shutFor?: number;
  readonly isAlone?: boolean;
  readonly last?: FailureReason;
  readonly backoff?: (attempt: number) => number;
}

/** Plays one failed attempt. Its `backoff` waits 10 s for each attempt. Returns the wait in s, and whether the record waits, too. */
function outcome(
  count: Count,
  {
    outage,
    shutFor,
    isAlone = false,
    last = outage ? "unavailable" : "not-found",
    backoff = (attempt) => attempt * 10 * SECOND,
    ...given
  }: Given = {},
) {
  const failure: WorkFailure = {
    reason: outage ? "unavailable" : "callback",
    error: new Error("down"),
    outage,
  };
  const claim = { ...counts, lastFailure: failed(last), ...given };
  const end = outcomeOf(
    failure,
    claim,
    { ...policy, backoff },
    { duration: 1.6, count, found: false, shutFor, isAlone },
  );
  expect(end.count).toBe(count);
  if (end.state === "parked") return end.state;
  return [end.in / SECOND, ...(end.holdsRecord ? ["holds its record"] : [])];
}

const many = { attempts: 99, failures: 99, refusals: 99, outages: 99 };

describe("a failed call", () => {
  test.each<[string, Given, unknown]>([
    ["waits for backoff", { attempts: 3 }, [30]],
    ["waits while its lane is shut", { attempts: 3, shutFor: 60 * SECOND }, [60]],
    ["waits for its own time if the lane opens before", { attempts: 3, shutFor: 5 * SECOND }, [30]],
    ["is the last of 12", { attempts: 12 }, "parked"],
    ["is the last but one", { attempts: 11 }, [110]],
    ["is not parked for other failures", { ...many, attempts: 1 }, [10]],
    ["is not parked for an old outage", { outageFor: 9 * DAY }, [10]],
    ["waits for whole ms", { backoff: () => 1.4 }, [0.001]],
  ])("%s", (_, given, result) => expect(outcome("call", given)).toEqual(result));
});

describe("a refusal", () => {
  test.each<[string, Given, unknown]>([
    ["waits by the number of refusals", { refusals: 2 }, [30]],
    ["does not wait longer for other failures", { ...many, refusals: 0 }, [10]],
    ["waits while its lane is shut", { shutFor: 60 * SECOND }, [60]],
    ["is the fourth", { refusals: 3 }, [40]],
    ["is the fifth", { refusals: 4 }, "parked"],
    ["is not parked for an old outage", { outageFor: 9 * DAY }, [10]],
  ])("%s", (_, given, result) => expect(outcome("refusal", given)).toEqual(result));
});

describe("a refusal in a flood", () => {
  test.each<[string, Given, unknown]>([
    ["waits 5 s", {}, [5]],
    ["waits twice as long after each other one", { outages: 3 }, [40]],
    ["waits 5 s after outages", { outages: 3, last: "unavailable" }, [5]],
    ["waits 5 minutes at most", { outages: 9 }, [300]],
    ["waits no longer than giveUpAfter", { outages: 9, outageFor: 3 * DAY - 7 * SECOND }, [7]],
    ["is parked after giveUpAfter", { outageFor: 3 * DAY }, "parked"],
    ["is not parked for its counts", { ...many, outages: 0 }, [5]],
    ["waits while its lane is shut", { shutFor: 60 * SECOND }, [60]],
  ])("%s", (_, given, result) => expect(outcome("nothing", given)).toEqual(result));
});

describe("a failed read that does not count", () => {
  test.each<[string, Given, unknown]>([
    ["waits for backoff", {}, [10, "holds its record"]],
    ["waits longer after others", { outages: 2 }, [30, "holds its record"]],
    ["does not wait longer for counted ones", { ...many, outages: 2 }, [30, "holds its record"]],
    ["waits 40 s at most", { outages: 9 }, [40, "holds its record"]],
    [
      "waits for its first wait after refusals in a flood",
      { outages: 3, last: "denied" },
      [10, "holds its record"],
    ],
    ["is due at the next try", { outages: 9, shutFor: 4 * SECOND }, [4, "holds its record"]],
    [
      "is not due sooner for the next try while others are answered",
      { outages: 2, shutFor: 4 * SECOND, isAlone: true },
      [30, "holds its record"],
    ],
    ["is not due before the next try", { shutFor: 30 * SECOND }, [30, "holds its record"]],
    ["waits as asked", { outage: { ...down, retryAfter: 90 * SECOND } }, [90, "holds its record"]],
    ["waits for backoff if less is asked", { outage: { ...down, retryAfter: 1 } }, [10, "holds its record"]],
    ["waits 15 minutes at most", { outage: { ...down, retryAfter: HOUR } }, [900, "holds its record"]],
    ["waits no longer than giveUpAfter", { outageFor: 3 * DAY - 7 * SECOND }, [7, "holds its record"]],
    ["is parked after giveUpAfter", { outageFor: 3 * DAY }, "parked"],
    ["is not parked for its counts", { ...many, outages: 0 }, [10, "holds its record"]],
  ])("%s", (_, given, result) => expect(outcome("nothing", { outage: down, ...given })).toEqual(result));
});

describe("a failed read that counts", () => {
  const slow = (attempt: number) => attempt * HOUR;
  test.each<[string, Given, unknown]>([
    ["waits 2 s at most", { backoff: slow }, [2]],
    ["then 4 s", { backoff: slow, failures: 1 }, [4]],
    ["then 8 s", { backoff: slow, failures: 2 }, [8]],
    ["then for backoff from its first wait on", { backoff: slow, failures: 3 }, [3600]],
    ["then for the second wait of backoff", { backoff: slow, failures: 4 }, [7200]],
    ["waits less if backoff is shorter", { backoff: () => SECOND }, [1]],
    ["does not wait longer for other failures", { ...many, failures: 0, backoff: slow }, [2]],
    ["is not due sooner for the next try", { failures: 8, shutFor: 4 * SECOND }, [60]],
    ["waits while its lane is shut", { shutFor: 30 * SECOND }, [30]],
    ["is the last of 12", { failures: 11 }, "parked"],
    ["is the last but one", { failures: 10 }, [80]],
  ])("%s", (_, given, result) => expect(outcome("failure", { outage: down, ...given })).toEqual(result));
});

test.each<[string, Partial<WorkFailure>, Partial<Counts>, boolean]>([
  ["call 11 of 12", {}, { attempts: 11 }, false],
  ["call 12 of 12", {}, { attempts: 12 }, true],
  ["refusal 4 of 5", { refused: true }, { attempts: 99, refusals: 3 }, false],
  ["refusal 5 of 5", { refused: true }, { refusals: 4 }, true],
  ["an outage", { outage: down }, { attempts: 99, refusals: 99, failures: 99, outageFor: 9 * DAY }, false],
])("%s is the last one: %j %j %j", (_, failure, given, isLast) => {
  const claim = { ...counts, ...given };
  expect(isLastAttempt(failure, claim, policy)).toBe(isLast);
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
