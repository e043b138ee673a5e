import { errorText } from "../error-text.ts";
import type { Log } from "../logger.ts";
import { clampWait } from "../stores/base-store.ts";
import type { ClaimedEvent, Entry, EventStore, FailureReason, Outcome } from "../stores/event-store.ts";
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
  /** Wraps each attempt, from its start to the recording of its end. Must resolve to what `run` resolves to. */
  readonly process?: ProcessAttempt | undefined;
}

/** Runs an attempt: `run` has to be called once. */
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
  /** The event's type, where the attempt came to know it. */
  readonly type: string | undefined;
  /** How long the attempt took, ms. */
  readonly duration: number;
}

/** `observe` gets it when an attempt begins. An attempt that is cut off by `close` or by a lost lease has no end. */
export interface StartedObservation extends AttemptObservation {
  readonly kind: "started";
}

/** `observe` gets it when an event has been handled to its end. */
export interface DoneObservation extends AttemptEndObservation {
  readonly kind: "done";
  /** The record's status; `undefined` where the event is about no record. */
  readonly status: string | undefined;
}

/** `observe` gets it when an attempt has failed and another one follows. */
export interface FailedObservation extends AttemptEndObservation {
  readonly kind: "failed";
  /** Why the attempt failed. */
  readonly reason: FailureReason;
  /** The error that was thrown. */
  readonly error: unknown;
  /** ms until the next attempt. */
  readonly retryIn: number;
}

/** `observe` gets it when an attempt has failed and the event is parked until it is replayed or discarded. */
export interface ParkedObservation extends AttemptEndObservation {
  readonly kind: "parked";
  /** Why the attempt failed. */
  readonly reason: FailureReason;
  /** The error that was thrown. */
  readonly error: unknown;
}

/** `observe` gets it when the platform is out of reach, asks for a wait, or refuses the access token. */
export interface PausedObservation extends Pause {
  readonly kind: "paused";
  /** ms until the platform is tried again. */
  readonly wait: number;
  /** The error for which the queue pauses. */
  readonly error: unknown;
}

/** `observe` gets it when the platform answers again. */
export interface ResumedObservation {
  readonly kind: "resumed";
}

/** What the queue tells of its work. */
export type QueueObservation =
  | StartedObservation
  | DoneObservation
  | FailedObservation
  | ParkedObservation
  | PausedObservation
  | ResumedObservation;

/** How an attempt ended, as {@link QueueOptions.process} gets it. */
export interface AttemptResult {
  /**
   * `released`: the attempt was cut off and does not count. `lost`: another process may have the event now, and nothing
   * could be recorded.
   */
  readonly outcome: "done" | "retrying" | "parked" | "released" | "lost";
  /** The event's type, where the attempt came to know it. */
  readonly type?: string | undefined;
  /** Why the attempt failed. */
  readonly reason?: FailureReason | undefined;
  /** The error that was thrown. */
  readonly error?: unknown;
}

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
