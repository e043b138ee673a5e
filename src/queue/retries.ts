// Decides whether a failed event waits or is parked, and for how long it waits.

import { errorText, errorTextWithFrames } from "../error-text.ts";
import type { FailureReason } from "../stores/event-states.ts";
import type { Entry, Outcome } from "../stores/event-store.ts";
import { clampWait } from "../stores/outcomes.ts";
import type { ClaimedEvent } from "../stores/stored-event.ts";
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

/** The longest `Retry-After` that the queue obeys, ms. */
export const LONGEST_RETRY_AFTER = 15 * 60_000;
/**
 * The longest wait of an event whose lane gets no answer, ms. Otherwise, the event could wait for hours after the outage.
 */
const LONGEST_WAIT_IN_OUTAGE = 30_000;
/**
 * The longest of the first waits of a record that got no answer while others did, ms. Such a failure is often gone at the
 * next read.
 */
const SOON = [2 * SECOND, 4 * SECOND, 8 * SECOND] as const;

/** Decides what follows a failed attempt: a retry that counts, a retry that does not count, or parking. */
export function outcomeOf(
  failure: WorkFailure,
  claim: ClaimedEvent,
  policy: Policy,
  now: {
    /** How long the attempt took, ms. */
    readonly duration: number;
    /** Whether the platform is out of reach. */
    readonly paused: boolean;
    /** Whether the platform has answered for another record within the last seconds. */
    readonly up: boolean;
    /** Whether the platform refuses many records in a row. If `true`, a refusal says nothing about this record. */
    readonly limiting: boolean;
  },
): Extract<Outcome, { state: "retrying" | "parked" }> {
  const { reason, type, outage } = failure;
  const what = { reason, type, entry: entryOf({ ...failure, duration: now.duration }) };
  if (failure.waitFor !== undefined)
    return { state: "retrying", in: failure.waitFor, counted: false, waits: true, ...what };
  if (outage || (failure.refused && now.limiting)) {
    const left = policy.giveUpAfter - claim.outageFor;
    if (left <= 0) return { state: "parked", ...what };
    // The wait grows with the number of outages. After a refusal, the wait also grows with the counted attempts.
    const own = policy.backoff(claim.outages + (outage ? 1 : claim.attempts));
    const backoff = outage ? Math.min(own, longestWait(claim.outages, now)) : own;
    const asked = Math.min(outage?.retryAfter ?? 0, LONGEST_RETRY_AFTER);
    return {
      state: "retrying",
      in: clampWait(Math.min(Math.max(backoff, asked), left)),
      counted: false,
      ...what,
    };
  }
  if (isLastAttempt(claim.attempts, failure, policy)) return { state: "parked", ...what };
  return { state: "retrying", in: clampWait(policy.backoff(claim.attempts)), counted: true, ...what };
}

/** Whether a counted attempt that failed is the last one. A failure may set a lower limit than the queue's. */
export function isLastAttempt(
  attempt: number,
  failure: Pick<WorkFailure, "maxAttempts">,
  { maxAttempts }: Pick<Policy, "maxAttempts">,
): boolean {
  return attempt >= Math.min(failure.maxAttempts ?? maxAttempts, maxAttempts);
}

function longestWait(outages: number, now: { readonly paused: boolean; readonly up: boolean }): number {
  return now.up && !now.paused ? (SOON[outages] ?? Number.POSITIVE_INFINITY) : LONGEST_WAIT_IN_OUTAGE;
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
