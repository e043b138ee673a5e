// What the queue asks of the code that handles an event.

import type { RunInContext } from "../async-context.ts";
import type { Log } from "../logger.ts";
import type { FailureReason } from "../stores/event-states.ts";
import type { EventStore, FurtherChanges, FurtherEvent, Write } from "../stores/event-store.ts";
import type { Snapshot } from "../stores/snapshot.ts";
import type { ClaimedEvent, NewEvent } from "../stores/stored-event.ts";

export interface WorkContext {
  /**
   * Aborts when the attempt is cut off. The causes are a timeout, `close`, a stopped drain, the caller, and a lease
   * that is lost or about to end.
   */
  readonly signal: AbortSignal;
  /**
   * Reports that the platform has answered. A pause of the queue can then end while the callback still runs.
   *
   * @param withWhat - the event's record, which begins the counts of its failures anew, or another record of its kind
   */
  answered(withWhat: "record" | "another"): void;
  /** Reports that a callback of the user begins. From then on, a timeout is a failure of the callback. */
  calling(): void;
  /** Reports the ledger that every outcome of this attempt records from now on, unless its result has one. */
  noted(ledger: string): void;
}

/** Handles an event. Resolves to a result even if the event failed. A thrown error counts as a failed callback. */
export type Work<Tx> = (claim: ClaimedEvent, context: WorkContext) => Promise<WorkResult<Tx>>;

export type WorkResult<Tx> =
  | {
      readonly state: "done";
      readonly type: string;
      /** The snapshot that the store saves for the record. */
      readonly snapshot?: { readonly snapshot: Snapshot; readonly changed: boolean } | undefined;
      readonly writes?: readonly Write<Tx>[] | undefined;
      /** The events that the store records with the end of the attempt. */
      readonly events?: readonly FurtherEvent[] | undefined;
      /** Events that the handler adds by itself. If the store does not record them, the attempt ends without them. */
      readonly extra?: readonly FurtherEvent[] | undefined;
      /** The events of the record that the store deletes before it records `events`. */
      readonly remove?: readonly string[] | "timers" | undefined;
      /** The ledger that the store keeps of the record. An empty text deletes it, `undefined` keeps the one before. */
      readonly ledger?: string | undefined;
    }
  /** The attempt records changes before its call, does not count, and the event is claimed again at once. */
  | ({ readonly state: "released" } & FurtherChanges)
  | ({ readonly state: "failed" } & WorkFailure);

/** A failed attempt. The queue decides whether the event is retried or parked. */
export interface WorkFailure {
  readonly reason: FailureReason;
  readonly error: unknown;
  readonly type?: string | undefined;
  /** The platform refused this record, or did not find it. */
  readonly refused?: boolean | undefined;
  /** `false` if the platform was not even asked. Default `true`. */
  readonly answered?: boolean | undefined;
  /** Present if the platform is out of reach. The gates decide whether the attempt counts. */
  readonly outage?: Outage | undefined;
  /** The events that the store records with the end of the attempt. */
  readonly events?: readonly FurtherEvent[] | undefined;
  readonly remove?: readonly string[] | undefined;
  readonly ledger?: string | undefined;
}

export interface Outage {
  /** Whether the whole account is affected, as by a rate limit or a refused token. If `true`, it pauses at once. */
  readonly everything: boolean;
  /** Whether the platform may hide every record of this kind, so that no record is gone. If `true`, the kind pauses at once. */
  readonly wholeKind?: boolean | undefined;
  /** Whether the answer is a rate limit. */
  readonly limited?: boolean | undefined;
  /** The wait from the `Retry-After` header, ms. */
  readonly retryAfter?: number | undefined;
}

/** The limits of the queue. All times are in ms. */
export interface Policy {
  readonly concurrency: number;
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  readonly attemptTimeout: number;
  readonly leaseDuration: number;
  readonly giveUpAfter: number;
  readonly retention: number;
  readonly parkedRetention: number;
  readonly snapshotRetention: number;
}

export interface QueueOptions<Tx> {
  readonly store: EventStore<Tx>;
  readonly work: Work<Tx>;
  /** Names the lane of an event. */
  readonly laneOf: (event: Pick<NewEvent, "ref" | "eventId">) => Lane;
  /** Returns how the refs of a lane begin, or, without a kind, the refs and event ids of an account. */
  readonly beginningOf: (lane: Lane) => string;
  /** Whether events have accounts. Events without one then stay for other processes. */
  readonly hasAccounts: boolean;
  readonly policy: Policy;
  /**
   * Returns the work that runs in the place of parking an event for want of a read. Its result ends the attempt. By default,
   * the event is parked.
   */
  readonly lastResort?: ((claim: ClaimedEvent) => Work<Tx> | undefined) | undefined;
  /** Gets each observation. Must not throw. */
  readonly observe: (event: QueueObservation) => void;
  readonly logger: Log;
  /** Host and pid of this process, such as `web-1:4711`. The history of each event shows them. */
  readonly worker: string;
  /** Wraps each attempt, including the write of its result to the store. */
  readonly process?: ProcessAttempt | undefined;
  /** Returns the async context in which an attempt at this event runs. Default: the context of who claims it. */
  readonly contextOf?: ((eventId: string) => RunInContext | undefined) | undefined;
}

/** Returns the wait before the next attempt, ms. `attempt` is the number of failures of the same kind so far, at least 1. */
export type Backoff = (attempt: number) => number;

/** How an attempt ended. */
export type AttemptResult = {
  /** A `released` attempt was cut off and does not count. A `lost` attempt lost its lease and recorded nothing. */
  readonly outcome: "done" | "retrying" | "parked" | "released" | "lost";
  /** The event's type, such as `booking.Confirmed`. It is `undefined` if the type is unknown. */
  readonly type?: string | undefined;
  /** The reason of the failure. It is `undefined` if the attempt did not fail. */
  readonly reason?: FailureReason | undefined;
  /** The error that was thrown. */
  readonly error?: unknown;
};

/** Wraps an attempt: calls `run` once and resolves to the result of `run`. */
export type ProcessAttempt = <R extends AttemptResult>(
  event: ClaimedEvent,
  run: () => Promise<R>,
) => Promise<R>;

/**
 * What pauses: the reads of bookings, the reads of listings, or all processing. With `accountFrom`, also all events of one
 * account.
 */
export type PauseScope = "everything" | "account" | "bookings" | "listings";

/** A pause of the queue. */
export type Pause = {
  /** What pauses. If only bookings or listings are out of reach, the other events go on. */
  readonly scope: PauseScope;
  /** The account that pauses. It is `undefined` without `accountFrom`, and if everything pauses. */
  readonly account?: string | undefined;
  /** When the pause began. */
  readonly since: Date;
  /** When the queue tries the platform again, as far as it knows now. */
  readonly nextTryAt: Date;
  /** The text of the last error. */
  readonly reason: string;
  /** The record whose read failed with this error: `booking:<code>` or `listing:<id>`. It is `listings` for their list. */
  readonly ref: string;
};

/** A kind of records, which can be out of reach by itself. */
export type LaneKind = Exclude<PauseScope, "everything" | "account">;

/** What shares a fate: the events of one account and one kind. */
export interface Lane {
  /** It is `undefined` for all events of an app that has one account. */
  readonly account: string | undefined;
  /** It is `undefined` for an event that reads nothing. */
  readonly kind: LaneKind | undefined;
}

export function laneKey({ account, kind }: Lane): string {
  return `${account ?? ""} ${kind ?? ""}`;
}

/** The lanes of an account, or of everything in an app without accounts. A lane is itself. */
export function lanesOf({ account, kind }: Lane): readonly Lane[] {
  if (kind !== undefined) return [{ account, kind }];
  return [
    { account, kind: "bookings" },
    { account, kind: "listings" },
  ];
}

/** Returns the name of the event's record: its `ref`. An event without a record counts as a record of its own. */
export function recordOf({ ref, eventId }: Pick<NewEvent, "ref" | "eventId">): string {
  return ref ?? eventId;
}

/** The fields of every observation of an attempt. */
export type AttemptObservation = {
  /** The id of the event in lower case. */
  readonly eventId: string;
  /** The event's record: `booking:<code>`, `listing:<id>`, or `null` if the event has no record. */
  readonly ref: string | null;
  /** The event's account, in a handler with `accountFrom`. */
  readonly account?: string | undefined;
  /** The number of this call of the callback, from 1, as in `event.attempt`. Attempts whose read failed are left out. */
  readonly attempt: number;
  /** When the store recorded the event. A timer is recorded when it is set. */
  readonly receivedAt: Date;
  /** When the event was first due, or was replayed. Take the delay of its handling from this time. */
  readonly firstDueAt: Date;
};

/** The fields of every observation of an attempt's end. */
export type AttemptEndObservation = AttemptObservation & {
  /** The event's type, such as `booking.Confirmed`. It is `undefined` if the type is unknown. */
  readonly type: string | undefined;
  /** How long the attempt took, ms. */
  readonly duration: number;
};

/**
 * An attempt begins. If `close`, a stopped drain or a lost lease cuts the attempt off, no observation of its end
 * follows.
 */
export type StartedObservation = AttemptObservation & {
  /** The kind of the observation. */
  readonly kind: "started";
  /** For the first attempt at a timer: the time from its `at` to the start of the attempt, ms. Otherwise `undefined`. */
  readonly lateness: number | undefined;
};

/** An attempt ended, and the event is done. */
export type DoneObservation = AttemptEndObservation & {
  /** The kind of the observation. */
  readonly kind: "done";
  /** The record's status. It is `undefined` if the attempt handled no record. */
  readonly status: string | undefined;
};

/** An attempt failed, and another attempt follows. */
export type FailedObservation = AttemptEndObservation & {
  /** The kind of the observation. */
  readonly kind: "failed";
  /** Why the attempt failed. */
  readonly reason: FailureReason;
  /** The error that was thrown. */
  readonly error: unknown;
  /** ms until the next attempt. */
  readonly retryIn: number;
};

/** An attempt failed, and the event is parked until it is replayed or discarded. */
export type ParkedObservation = AttemptEndObservation & {
  /** The kind of the observation. */
  readonly kind: "parked";
  /** Why the attempt failed. */
  readonly reason: FailureReason;
  /** The error that was thrown. */
  readonly error: unknown;
};

/**
 * The queue pauses: the platform is out of reach, asks for a wait, or refuses the access token. It is observed again when a
 * try has failed.
 */
export type PausedObservation = Pause & {
  /** The kind of the observation. */
  readonly kind: "paused";
  /** ms until the queue tries the platform again. */
  readonly wait: number;
  /** The error that caused the pause. */
  readonly error: unknown;
};

/** The pause has ended, because the platform answers again, or because nothing waits for it any more. */
export type ResumedObservation = {
  /** The kind of the observation. */
  readonly kind: "resumed";
  /** What goes on again. */
  readonly scope: PauseScope;
  /** The account that goes on again. It is `undefined` without `accountFrom`, and if everything had paused. */
  readonly account?: string | undefined;
};

/** What the queue tells `observe`: the attempts and the pauses. */
export type QueueObservation =
  | StartedObservation
  | DoneObservation
  | FailedObservation
  | ParkedObservation
  | PausedObservation
  | ResumedObservation;
