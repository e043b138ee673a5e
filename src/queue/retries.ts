// Decides whether a failed event waits or is parked, and for how long it waits.

import { errorText, errorTextWithFrames } from "../error-text.ts";
import type { FailureReason } from "../stores/event-states.ts";
import type { Entry, Outcome } from "../stores/event-store.ts";
import { clampWait } from "../stores/outcomes.ts";
import type { ClaimedEvent } from "../stores/stored-event.ts";
import { LONGEST_RETRY_AFTER } from "./gate.ts";
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

/** The longest wait of an event whose failure does not count, ms, so that it is handled soon after the outage. */
const LONGEST_UNCOUNTED = 40 * SECOND;
/**
 * The longest of the first waits of a record that got no answer while others did, ms. Such a failure is often gone at the
 * next read.
 */
const SOON = [2 * SECOND, 4 * SECOND, 8 * SECOND] as const;

/** What a failed attempt does to its event. */
export type FailedOutcome = Extract<Outcome, { state: "retrying" | "parked" }>;

/** Decides what follows a failed attempt: a retry that counts, a retry that does not count, or parking. */
export function outcomeOf(
  failure: WorkFailure,
  claim: ClaimedEvent,
  policy: Policy,
  now: {
    /** How long the attempt took, ms. */
    readonly duration: number;
    /** Whether the attempt counts. */
    readonly counts: boolean;
    /** ms until the next try of the event's lane. `undefined` if the lane is not shut. */
    readonly nextTryIn: number | undefined;
  },
): FailedOutcome {
  const { reason, type, outage } = failure;
  const { attempts, outages, outageFor } = claim;
  const what = { reason, type, entry: entryOf({ ...failure, duration: now.duration }) };
  const retry = (wait: number, counted: boolean) =>
    ({ state: "retrying", in: clampWait(wait), counted, ...what }) as const;
  const left = outage || !now.counts ? policy.giveUpAfter - outageFor : Number.POSITIVE_INFINITY;
  if (left <= 0 || (now.counts && isLastAttempt(attempts, failure, policy)))
    return { state: "parked", ...what };
  const nextTryIn = now.nextTryIn ?? Number.POSITIVE_INFINITY;
  if (!outage)
    return now.counts
      ? retry(policy.backoff(attempts), true)
      : // A refusal in a flood. Its wait grows with the attempts before the flood, too.
        retry(Math.min(policy.backoff(outages + attempts), left), false);
  const asked = Math.min(outage.retryAfter ?? 0, LONGEST_RETRY_AFTER);
  const wait = now.counts
    ? Math.min(policy.backoff(attempts), SOON[attempts - 1] ?? Number.POSITIVE_INFINITY)
    : Math.max(asked, Math.min(policy.backoff(outages + 1), LONGEST_UNCOUNTED));
  return retry(Math.min(wait, nextTryIn, left), now.counts);
}

/** Whether a counted attempt that failed is the last one. A failure may set a lower limit than the queue's. */
export function isLastAttempt(
  attempt: number,
  failure: Pick<WorkFailure, "maxAttempts">,
  { maxAttempts }: Pick<Policy, "maxAttempts">,
): boolean {
  return attempt >= Math.min(failure.maxAttempts ?? maxAttempts, maxAttempts);
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
