import { errorText } from "../error-text.ts";
import type { ClaimedEvent, Entry, FailureReason, Outcome } from "../stores/event-store.ts";
import { clampWait } from "../stores/limits.ts";
import { LONGEST_RETRY_AFTER } from "./outage.ts";
import type { Policy } from "./policy.ts";
import type { WorkFailure } from "./work.ts";

const LONGEST_MESSAGE = 1000;

type Failed = Extract<Outcome, { state: "retrying" | "parked" }>;

/** What follows from a failure: another attempt, counted or not, or the end of trying. */
export function outcomeOf(
  failure: WorkFailure,
  claim: ClaimedEvent,
  policy: Policy,
  duration: number,
): Failed {
  const { reason, type } = failure;
  const what = { reason, type, entry: entryOf({ ...failure, duration }) };
  if (failure.outage) {
    const left = policy.giveUpAfter - claim.outageFor;
    if (left <= 0) return { state: "parked", ...what };
    const asked = Math.min(failure.outage.retryAfter ?? 0, LONGEST_RETRY_AFTER);
    const wait = Math.max(policy.backoff(claim.outages + 1), asked);
    return { state: "retrying", in: clampWait(Math.min(wait, left)), counted: false, ...what };
  }
  const limit = Math.min(failure.maxAttempts ?? policy.maxAttempts, policy.maxAttempts);
  if (claim.attempts >= limit) return { state: "parked", ...what };
  return { state: "retrying", in: clampWait(policy.backoff(claim.attempts)), counted: true, ...what };
}

/** What the history keeps of an attempt. */
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

/** A line about whatever was thrown: an `Error`, a string, `undefined`, or an object whose getters throw in turn. */
export function describeThrown(thrown: unknown): string {
  try {
    const text = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : `thrown: ${String(thrown)}`;
    return text.length > LONGEST_MESSAGE ? `${text.slice(0, LONGEST_MESSAGE)}…` : text;
  } catch {
    return "thrown: something that cannot be shown";
  }
}
