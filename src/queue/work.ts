import type { Log } from "../logger.ts";
import type { FailureReason } from "../stores/event-states.ts";
import type { ClaimedEvent, EventStore, Snapshot, Write } from "../stores/event-store.ts";

/** The context of an attempt. */
export interface WorkContext {
  /** Aborts when the attempt is cut off: by its timeout, a lost lease, or `close`. */
  readonly signal: AbortSignal;
  /** Call it when the platform has answered. It ends a pause before the rest of the work is done. */
  answered(): void;
}

/** Handles an event. Returns failures. An error that it throws counts as a failure of the callback. */
export type Work<Tx> = (claim: ClaimedEvent, context: WorkContext) => Promise<WorkResult<Tx>>;

export type WorkResult<Tx> =
  | {
      readonly state: "done";
      readonly type: string;
      /** The record as it was handled. */
      readonly record?: { readonly snapshot: Snapshot; readonly changed: boolean } | undefined;
      /** For the history: the error of a recheck that could not read its record, which still ends as done. */
      readonly error?: unknown;
      readonly reason?: FailureReason | undefined;
      readonly writes?: readonly Write<Tx>[] | undefined;
    }
  | ({ readonly state: "failed" } & WorkFailure);

/** A failed attempt. The work says what failed, and the queue decides what follows. */
export interface WorkFailure {
  readonly reason: FailureReason;
  readonly error: unknown;
  readonly type?: string | undefined;
  /** The most attempts that this failure allows. Default: `maxAttempts` of the queue. */
  readonly maxAttempts?: number | undefined;
  /** The platform answered, but refused this record. */
  readonly refused?: boolean | undefined;
  /** The platform is out of reach. The attempt does not count. */
  readonly outage?: Outage | undefined;
}

export interface Outage {
  /** The outage concerns every record, such as a rate limit or a refused token. The queue pauses at once. */
  readonly everything: boolean;
  /** The wait that the platform asked for, ms. */
  readonly retryAfter?: number | undefined;
}

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

/** Returns the wait before the next attempt, ms. `attempt` is the number of attempts so far, from 1. */
export type Backoff = (attempt: number) => number;

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

/** Runs an attempt: calls `run` once and resolves to its result. */
export type ProcessAttempt = <R extends AttemptResult>(
  event: ClaimedEvent,
  run: () => Promise<R>,
) => Promise<R>;

/** A pause of the queue. */
export interface Pause {
  /** When the pause began. */
  readonly since: Date;
  /** The text of the last error. */
  readonly reason: string;
}

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
