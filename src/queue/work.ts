import type { ClaimedEvent, FailureReason, Snapshot, Write } from "../stores/event-store.ts";

/** What an attempt is given beside its event. */
export interface WorkContext {
  /** Aborts when the attempt is cut off: its time is over, its lease is lost, or the process closes. */
  readonly signal: AbortSignal;
  /** To be called as soon as the other side has answered: ends an outage without waiting for the rest of the work. */
  answered(): void;
}

/** Does what an event asks for. Reports failures; what it throws is taken for a failed callback. */
export type Work<Tx> = (claim: ClaimedEvent, context: WorkContext) => Promise<WorkResult<Tx>>;

export type WorkResult<Tx> =
  | {
      readonly state: "done";
      readonly type: string;
      /** The record as it was handled. */
      readonly record?: { readonly snapshot: Snapshot; readonly changed: boolean } | undefined;
      /** For the history, where the event ends as done although something failed: a recheck that could not read its record. */
      readonly error?: unknown;
      readonly reason?: FailureReason | undefined;
      readonly writes?: readonly Write<Tx>[] | undefined;
    }
  | ({ readonly state: "failed" } & WorkFailure);

/** A failure in the queue's own terms. Whoever reports it knows what it means; the queue knows what follows. */
export interface WorkFailure {
  readonly reason: FailureReason;
  readonly error: unknown;
  readonly type?: string | undefined;
  /** Attempts in all, where it deserves fewer than the queue's own limit. */
  readonly maxAttempts?: number | undefined;
  /** The other side answered, but would not give this record. */
  readonly refused?: boolean | undefined;
  /** The other side is out of reach: the attempt does not count. */
  readonly outage?: Outage | undefined;
}

export interface Outage {
  /** It concerns every record (a limit, a token), so that all work pauses at once. */
  readonly everything: boolean;
  /** How long the other side asked to be left alone, ms. */
  readonly retryAfter?: number | undefined;
}
