import { errorText } from "../errors.ts";
import type { Log } from "../logger.ts";
import { clampWait } from "../stores/base-store.ts";
import type { FailureReason } from "../stores/event-states.ts";
import type { ClaimedEvent, Entry, EventStore, Outcome } from "../stores/event-store.ts";
import type { Backoff } from "./backoff.ts";
import { LONGEST_RETRY_AFTER, type Pause } from "./circuit-breaker.ts";
import type { Work, WorkFailure } from "./work.ts";

/** The longest wait of a record whose attempt failed during a pause, ms. By its own backoff, it would wait for hours after the outage. */
const LONGEST_WAIT_IN_PAUSE = 60_000;

/** The limits of the queue. All times in ms. */
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
  /** Gets each observation. Must not throw. */
  readonly observe: (event: QueueObservation) => void;
  readonly logger: Log;
  /** Host and pid of this process, for the history: `web-1:4711`. */
  readonly worker: string;
  /** Wraps each attempt, from its start to the recording of its end. */
  readonly process?: ProcessAttempt | undefined;
}

/** Runs an attempt: calls `run` once and resolves to its result. */
export type ProcessAttempt = <R extends AttemptResult>(
  event: ClaimedEvent,
  run: () => Promise<R>,
) => Promise<R>;

/** The fields of every observation of an attempt. */
export interface AttemptObservation {
  /** The id of the event in lower case. */
  readonly eventId: string;
  /** `booking:<code>`, `listing:<id>`, or `null`. */
  readonly ref: string | null;
  /** The number of the attempt, from 1. Attempts that found the platform out of reach do not count. */
  readonly attempt: number;
  /** When the store recorded the event. */
  readonly receivedAt: Date;
}

/** The fields of every observation of an attempt's end. */
export interface AttemptEndObservation extends AttemptObservation {
  /** The event's type, such as `booking.Confirmed`; `undefined` if the record was not read. */
  readonly type: string | undefined;
  /** How long the attempt took, ms. */
  readonly duration: number;
}

/** An attempt begins. An attempt that `close` or a lost lease cuts off has no observation of its end. */
export interface StartedObservation extends AttemptObservation {
  readonly kind: "started";
}

/** An event was handled to its end. */
export interface DoneObservation extends AttemptEndObservation {
  readonly kind: "done";
  /** The record's status; `undefined` if the event refers to no record. */
  readonly status: string | undefined;
}

/** An attempt failed, and another one follows. */
export interface FailedObservation extends AttemptEndObservation {
  readonly kind: "failed";
  /** Why the attempt failed. */
  readonly reason: FailureReason;
  /** The error that was thrown. */
  readonly error: unknown;
  /** ms until the next attempt. */
  readonly retryIn: number;
}

/** An attempt failed, and the event is parked until it is replayed or discarded. */
export interface ParkedObservation extends AttemptEndObservation {
  readonly kind: "parked";
  /** Why the attempt failed. */
  readonly reason: FailureReason;
  /** The error that was thrown. */
  readonly error: unknown;
}

/** The queue pauses: the platform is out of reach, asks for a wait, or refuses the access token. */
export interface PausedObservation extends Pause {
  readonly kind: "paused";
  /** ms until the platform is tried again. */
  readonly wait: number;
  /** The error for which the queue pauses. */
  readonly error: unknown;
}

/** The pause is over: the platform answers again. */
export interface ResumedObservation {
  readonly kind: "resumed";
}

/** The observations of the queue. */
export type QueueObservation =
  | StartedObservation
  | DoneObservation
  | FailedObservation
  | ParkedObservation
  | PausedObservation
  | ResumedObservation;

/** The result of an attempt. */
export interface AttemptResult {
  /**
   * `released`: the attempt was cut off and does not count. `lost`: the lease ended, so the store recorded nothing.
   */
  readonly outcome: "done" | "retrying" | "parked" | "released" | "lost";
  /** The event's type, such as `booking.Confirmed`; `undefined` if the record was not read. */
  readonly type?: string | undefined;
  /** Why the attempt failed; `undefined` if it did not. */
  readonly reason?: FailureReason | undefined;
  /** The error that was thrown. */
  readonly error?: unknown;
}

type Failed = Extract<Outcome, { state: "retrying" | "parked" }>;

/** The state of the queue when an attempt fails. */
export interface Circumstances {
  /** ms that the attempt took. */
  readonly duration: number;
  /** The circuit breaker is open. */
  readonly paused: boolean;
  /** The platform refuses many records in a row, so a refusal says nothing about this record. */
  readonly limiting: boolean;
}

/** Decides what follows from a failed attempt: a retry, which may not count, or parking. */
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
