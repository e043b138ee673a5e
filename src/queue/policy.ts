import { errorText } from "../error-text.ts";
import type { Log } from "../logger.ts";
import type { ClaimedEvent, Entry, EventStore, FailureReason, Outcome } from "../stores/event-store.ts";
import { clampWait } from "../stores/limits.ts";
import type { Backoff } from "./backoff.ts";
import { LONGEST_RETRY_AFTER, type Pause } from "./circuit-breaker.ts";
import type { Work, WorkFailure } from "./work.ts";

/** The longest wait of a record whose attempt failed as part of a pause, ms. After an outage, it would sleep on for hours by its own backoff. */
const LONGEST_WAIT_IN_PAUSE = 60_000;

/** The limits by which the queue decides what becomes of an event. All times in ms. */
export interface Policy {
  readonly concurrency: number;
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  readonly attemptTimeout: number;
  readonly leaseDuration: number;
  readonly giveUpAfter: number;
  readonly retention: number;
  readonly parkedRetention: number;
  readonly recordRetention: number;
}

export interface QueueOptions<Tx> {
  readonly store: EventStore<Tx>;
  readonly work: Work<Tx>;
  readonly policy: Policy;
  /** Must not throw. */
  readonly observe: (event: QueueObservation) => void;
  readonly logger: Log;
  /** Host and pid of this process, for the history: `web-1:4711`. */
  readonly worker: string;
}

interface OfEvent {
  readonly eventId: string;
  /** `booking:<code>`, `listing:<id>`, or `null`. */
  readonly ref: string | null;
  /** The event's type, where the attempt came to know it. */
  readonly type: string | undefined;
  /** The number of the attempt. Attempts that found the platform out of reach do not count. */
  readonly attempt: number;
}

/** What the queue tells of its work. */
export type QueueObservation =
  | (OfEvent & {
      readonly kind: "done";
      /** The record's status; `undefined` where the event is about no record. */
      readonly status: string | undefined;
      /** ms */
      readonly duration: number;
    })
  | (OfEvent & {
      readonly kind: "failed";
      readonly reason: FailureReason;
      readonly error: unknown;
      /** ms until the next attempt. */
      readonly retryIn: number;
      /** ms */
      readonly duration: number;
    })
  | (OfEvent & {
      readonly kind: "parked";
      readonly reason: FailureReason;
      readonly error: unknown;
    })
  | (Pause & {
      /** The platform is out of reach, asks for a wait, or refuses the access token. Notifications are still recorded. */
      readonly kind: "paused";
      /** ms until the platform is tried again. */
      readonly wait: number;
      readonly error: unknown;
    })
  | { readonly kind: "resumed" };

type Failed = Extract<Outcome, { state: "retrying" | "parked" }>;

/** How the queue is doing when an attempt fails. */
export interface Circumstances {
  /** ms that the attempt took. */
  readonly duration: number;
  /** The circuit breaker is open. */
  readonly paused: boolean;
  /** Record after record is refused: a refusal says nothing about this record. */
  readonly limiting: boolean;
}

/** Decides what follows from a failure: another attempt, counted or not, or the end of trying. */
export function outcomeOf(
  failure: WorkFailure,
  claim: ClaimedEvent,
  policy: Policy,
  now: Circumstances,
): Failed {
  const { reason, type, outage } = failure;
  const what = { reason, type, entry: entryOf({ ...failure, duration: now.duration }) };
  if (outage || (failure.refused && now.limiting)) {
    const left = policy.giveUpAfter - claim.outageFor;
    if (left <= 0) return { state: "parked", ...what };
    // A refusal that counted before is no reason to come back sooner.
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
