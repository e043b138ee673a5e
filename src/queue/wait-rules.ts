// Decides what a failed attempt counts as, whether its event waits or is parked, and for how long it waits.

import { errorText, errorTextWithFrames } from "../error-text.ts";
import type { FailureReason } from "../stores/event-states.ts";
import type { Entry, Outcome } from "../stores/event-store.ts";
import { clampWait, kindOfUncounted, uncountedOf } from "../stores/outcomes.ts";
import type { ClaimedEvent } from "../stores/stored-event.ts";
import { LONGEST_RETRY_AFTER, LONGEST_UNCOUNTED } from "./gate.ts";
import type { Backoff, Policy, WorkFailure } from "./work.ts";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const SCHEDULE = [
  5 * SECOND,
  30 * SECOND,
  2 * MINUTE,
  10 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  3 * HOUR,
  5 * HOUR,
  6 * HOUR,
] as const;

const LONGEST = 6 * HOUR;

/** Shortens each wait of {@link SCHEDULE} at random by up to a quarter, so that retries do not come all at once. */
export const defaultBackoff: Backoff = (attempt) =>
  (SCHEDULE[attempt - 1] ?? LONGEST) * (1 - Math.random() / 4);

/** Wraps the user's `backoff`. If `backoff` throws or returns no valid wait, the wait of `fallback` applies. */
export function safeBackoff(backoff: Backoff, fallback: Backoff): Backoff {
  return (attempt) => {
    try {
      const wait = backoff(attempt);
      if (typeof wait === "number" && wait >= 0 && Number.isFinite(wait)) return wait;
    } catch {
      // Use the wait of `fallback` below.
    }
    return fallback(attempt);
  };
}

/** The longest of the first waits after counted failures, ms. Such a failure is often gone at the next read. */
const SOON = [2 * SECOND, 4 * SECOND, 8 * SECOND] as const;
/** The first and the longest wait of a record that strangers may have invented, ms. */
const [FIRST_IN_FLOOD, LONGEST_IN_FLOOD] = [5 * SECOND, 5 * MINUTE];
/** So many refusals in a row park an event, or end its record. */
export const REFUSALS = 5;

/**
 * What a failed attempt counts as. Each count has a limit of its own, and the attempts of one kind never use up the limit of
 * another kind.
 *
 * - `call`: a call of the callback that failed, a record that does not fit the model, or a lost attempt. At most `maxAttempts`
 * - `failure`: a read of this record that got no answer although its lane got one. At most `maxAttempts` in a row
 * - `refusal`: the platform refused this record, or did not find it. At most {@link REFUSALS} in a row
 * - `nothing`: an outage, or a refusal in a flood. At most `giveUpAfter`
 */
export type Count = "call" | "failure" | "refusal" | "nothing";

/** What a failed attempt does to its event. */
export type FailedOutcome = Extract<Outcome, { state: "retrying" | "parked" }>;

type Counts = Pick<
  ClaimedEvent,
  "attempts" | "failures" | "refusals" | "outages" | "outageFor" | "lastFailure"
>;

/** What the queue knows when an attempt has failed. */
export interface Circumstances {
  /** How long the attempt took, ms. */
  readonly duration: number;
  /** What the attempt counts as. */
  readonly count: Count;
  /** Whether the attempt got an answer with its record, so that failures and refusals begin anew. */
  readonly found: boolean;
  /** ms until the event is due by the reasons that hold its lane up. `undefined` if there is none. */
  readonly shutFor: number | undefined;
  /** Whether this event fails alone: its lane was answered after the read began, or after the event's last failure. */
  readonly isAlone: boolean;
}

/** Decides what follows a failed attempt: a retry, or parking. */
export function outcomeOf(
  failure: WorkFailure,
  given: Counts,
  policy: Policy,
  { duration, count, found, shutFor, isAlone }: Circumstances,
): FailedOutcome {
  const { reason, type, outage } = failure;
  const what = { count, found, reason, type, entry: entryOf({ ...failure, duration }) };
  const claim = { ...given, ...uncountedOf(given, kindOfUncounted(reason)) };
  if (isOver(count, claim, policy)) return { state: "parked", ...what };
  const own = ownWait(count, claim, failure, policy);
  // While its gates are shut, an event whose failure others share is due at the next try, which may be this event itself. One
  // that failed alone waits its own time, too.
  const isOut = outage !== undefined && count === "nothing";
  const isShared = isOut && (!isAlone || outage.limited === true);
  const wait = shutFor === undefined ? own : isShared ? shutFor : Math.max(own, shutFor);
  const left = count === "nothing" ? policy.giveUpAfter - claim.outageFor : Number.POSITIVE_INFINITY;
  return { state: "retrying", in: clampWait(Math.min(wait, left)), holdsRecord: isOut, ...what };
}

/** How long an event waits by its own counts, ms. */
function ownWait(
  count: Count,
  { attempts, failures, refusals, outages }: Counts,
  { outage }: WorkFailure,
  { backoff }: Policy,
): number {
  if (count === "call") return backoff(attempts);
  if (count === "refusal") return backoff(refusals + 1);
  if (count === "failure") {
    const soon = SOON[failures];
    return soon === undefined ? backoff(failures + 1 - SOON.length) : Math.min(backoff(failures + 1), soon);
  }
  if (!outage) return Math.min(FIRST_IN_FLOOD * 2 ** outages, LONGEST_IN_FLOOD);
  const asked = Math.min(outage.retryAfter ?? 0, LONGEST_RETRY_AFTER);
  return Math.max(asked, Math.min(backoff(outages + 1), LONGEST_UNCOUNTED));
}

/** Whether an attempt that counts as this was the last one. */
function isOver(count: Count, { attempts, failures, refusals, outageFor }: Counts, policy: Limits): boolean {
  if (count === "call") return attempts >= policy.maxAttempts;
  if (count === "failure") return failures + 1 >= policy.maxAttempts;
  if (count === "refusal") return refusals + 1 >= REFUSALS;
  return outageFor >= policy.giveUpAfter;
}

type Limits = Pick<Policy, "maxAttempts" | "giveUpAfter">;

/** Whether an attempt with this failure is the last one, unless the failure does not count. An outage never is. */
export function isLastAttempt(
  { refused, outage }: Pick<WorkFailure, "refused" | "outage">,
  claim: Counts,
  limits: Limits,
): boolean {
  return outage === undefined && isOver(refused ? "refusal" : "call", claim, limits);
}

/** Makes the history entry of an attempt. */
export function entryOf({
  duration,
  reason,
  error,
}: {
  readonly duration: number;
  readonly reason?: FailureReason | undefined;
  readonly error?: unknown;
}): Entry {
  return {
    duration: Math.round(duration),
    ...(reason && { reason }),
    ...(error !== undefined && {
      error: reason === "callback" ? errorTextWithFrames(error) : errorText(error),
    }),
  };
}
