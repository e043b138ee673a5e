import { errorText } from "../errors.ts";
import { clampWait } from "../stores/base-store.ts";
import type { FailureReason } from "../stores/event-states.ts";
import type { ClaimedEvent, Entry, Outcome } from "../stores/event-store.ts";
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

/** 5 s, 30 s, 2 min, 10 min, 30 min, 1 h, 2 h, 3 h, 5 h, then 6 h. Each wait is up to a quarter shorter, at random: retries that fall due together would overload the platform. */
export const defaultBackoff: Backoff = (attempt) =>
  (SCHEDULE[attempt - 1] ?? LONGEST) * (1 - Math.random() / 4);

/** Wraps the user's `backoff`. If that function throws or returns no valid wait, the default wait applies. */
export function safeBackoff(backoff: Backoff): Backoff {
  return (attempt) => {
    try {
      const wait = backoff(attempt);
      if (typeof wait === "number" && wait >= 0 && Number.isFinite(wait)) return wait;
    } catch {
      // The default wait below replaces it.
    }
    return defaultBackoff(attempt);
  };
}

/** The longest `Retry-After` that the queue obeys, ms. */
export const LONGEST_RETRY_AFTER = 15 * 60_000;
/** The longest wait of a record whose attempt failed during a pause, ms. By its own backoff, it would wait for hours after the outage. */
const LONGEST_WAIT_IN_PAUSE = 60_000;

/** Decides what follows from a failed attempt: a retry, which may not count, or parking. */
export function outcomeOf(
  failure: WorkFailure,
  claim: ClaimedEvent,
  policy: Policy,
  now: {
    /** ms that the attempt took. */
    readonly duration: number;
    /** The circuit breaker is open. */
    readonly paused: boolean;
    /** The platform refuses many records in a row, so a refusal says nothing about this record. */
    readonly limiting: boolean;
  },
): Extract<Outcome, { state: "retrying" | "parked" }> {
  const { reason, type, outage } = failure;
  const what = { reason, type, entry: entryOf({ ...failure, duration: now.duration }) };
  if (outage || (failure.refused && now.limiting)) {
    const left = policy.giveUpAfter - claim.outageFor;
    if (left <= 0) return { state: "parked", ...what };
    // Earlier attempts that counted make the wait longer, too.
    const own = policy.backoff(claim.outages + (outage ? 1 : claim.attempts));
    const backoff = outage && now.paused ? Math.min(own, LONGEST_WAIT_IN_PAUSE) : own;
    const asked = Math.min(outage?.retryAfter ?? 0, LONGEST_RETRY_AFTER);
    return {
      state: "retrying",
      in: clampWait(Math.min(Math.max(backoff, asked), left)),
      counted: false,
      ...what,
    };
  }
  const limit = Math.min(failure.maxAttempts ?? policy.maxAttempts, policy.maxAttempts);
  if (claim.attempts >= limit) return { state: "parked", ...what };
  return { state: "retrying", in: clampWait(policy.backoff(claim.attempts)), counted: true, ...what };
}

/** Makes the entry of an attempt for the history. */
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
    ...(error !== undefined && { error: errorText(error) }),
  };
}
