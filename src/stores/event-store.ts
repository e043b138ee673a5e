import type { EventFilter } from "./event-filter.ts";
import type { EventState, FailureReason } from "./event-states.ts";
import type { RecordLedger, RecordSnapshot, Snapshot } from "./snapshot.ts";
import type {
  AddOptions,
  ClaimOptions,
  ErasedAccount,
  LearnOptions,
  ListOptions,
  NextDueOptions,
  PruneOptions,
  PruneSnapshotsOptions,
  StoreSchema,
} from "./store-options.ts";
import type { AttemptEntry, ClaimedEvent, NewEvent, StoredEvent } from "./stored-event.ts";

declare global {
  // Declares the symbol for projects whose `lib` does not have it. It merges with the declaration of TypeScript.
  interface SymbolConstructor {
    /** The method that `await using` calls at the end of its block. */
    readonly asyncDispose: unique symbol;
  }
}

/** The fields of an {@link AttemptEntry} that the queue passes to `settle`. The store adds the other fields. */
export type Entry = Omit<AttemptEntry, "at" | "outcome" | "worker" | "changes">;

declare const synchronous: unique symbol;

/** Marks a transaction whose writes must be synchronous. The property exists only in the type. */
export interface SynchronousTransaction {
  /** Absent at run time. */
  readonly [synchronous]?: true;
}

/**
 * A function passed to `event.atomically`. The store calls it in the transaction that ends the event, and awaits a
 * result that has a method `then`, such as a promise or a lazy query of an ORM.
 */
export type Write<Tx> = (tx: Tx) => unknown;

/** An event to record, with the options of {@link EventStore.add}. */
export interface FurtherEvent extends AddOptions {
  /** The event to record. */
  readonly event: NewEvent;
}

/** Changes to other events and to the record's ledger, in the same step as the end of an attempt. */
export interface FurtherChanges {
  /**
   * The record's new ledger. `null` or an empty text deletes the ledger, and `undefined` keeps it. An event without a record
   * has no ledger.
   */
  readonly ledger?: string | null | undefined;
  /**
   * Events to record. The attempt's own event has ended by then, so that `replace` can take its place. A duplicate, a
   * conflict and an event that another attempt is processing are skipped.
   */
  readonly events?: readonly FurtherEvent[] | undefined;
  /**
   * Events of this record to delete before `events` are recorded: these ids, or all timers of the record, fired ones
   * too. Other done events and the attempt's own event are kept. But if they name the attempt's own timer, the same time
   * can be set again: an `add` with `replace: "moved"` and the same `timestamp` replaces the timer.
   */
  readonly remove?: readonly string[] | "timers" | undefined;
}

/** How an attempt ended, as {@link EventStore.settle} records it. */
export type Outcome<Tx = never> =
  | ({
      /** The event is handled. */
      readonly state: "done";
      /** The event's type, such as `booking.Confirmed`. */
      readonly type: string;
      /** The attempt's entry in the event's history. */
      readonly entry: Entry;
      /** The record's new snapshot. It is absent if the attempt writes no snapshot. */
      readonly record?:
        | {
            /** The record's status and tracked fields, as the attempt read them. */
            readonly snapshot: Snapshot;
            /** Whether the record has changed since {@link ClaimedEvent.previous}. A change raises `sequence` by 1. */
            readonly changed: boolean;
          }
        | undefined;
      /** The functions passed to `event.atomically`. Only a `transactional` store gets them. */
      readonly writes?: readonly Write<Tx>[] | undefined;
    } & FurtherChanges)
  | ((
      | {
          /** The attempt failed, and the event is tried again. */
          readonly state: "retrying";
          /** ms from now until the event is due again; at most 5 years. */
          readonly in: number;
          /**
           * Whether the other events of the record wait, too: no pending or retrying event of the record is due before `in`
           * ms from now. Events that are due later, scheduled events and new events keep their time. Default `false`.
           */
          readonly holdsRecord?: boolean | undefined;
        }
      | {
          /** The attempt failed. The event is not tried again unless it is replayed. */
          readonly state: "parked";
        }
    ) & {
      /**
       * What the attempt counts as. `call`, the default, keeps it in `attempts`. Any other count takes it out of `attempts`
       * again, and raises `failures`, `refusals` or, for `nothing`, `outages` by 1. All but `nothing` set `outages` to 0, and
       * the row of `outages` begins anew if either this `reason` or that of the last failure is `unavailable`, but not both.
       */
      readonly count?: "call" | "failure" | "refusal" | "nothing" | undefined;
      /** Whether the attempt read its record. `failures` and `refusals` then begin anew at 0. Default `false`. */
      readonly found?: boolean | undefined;
      /** Why the attempt failed. */
      readonly reason: FailureReason;
      /** The attempt's entry in the event's history. */
      readonly entry: Entry;
      /** The event's type, if the attempt found it out. */
      readonly type?: string | undefined;
    } & FurtherChanges)
  | ({
      /**
       * The attempt was cut off, and does not count: `attempts` falls by 1, the history gets no entry, and the event is due
       * now. With a `ledger`, it keeps its due time.
       */
      readonly state: "released";
      /** Whether the attempt read its record. `failures` and `refusals` then begin anew at 0. Default `false`. */
      readonly found?: boolean | undefined;
    } & FurtherChanges);

/**
 * Stores events and the snapshots of their records. The queue decides when each event runs. `storeContract` from
 * `stayhook/store/contract` tests an implementation.
 *
 * An event has one due time: when it can next be claimed. For a processing event, that is the end of its lease. A
 * done or parked event has no due time. Due times and leases follow the store's own clock. If this clock is set back,
 * pending, retrying and recheck events become due now, timers keep their time, and no lease ends later than its
 * duration from now. So a retry may come early, and no event comes late.
 *
 * @typeParam Tx - the transaction that a callback's writes get; `never` if the store has no transactions
 */
export interface EventStore<Tx = never> {
  /** `true` if `settle` runs an outcome's `writes` in the transaction that ends the event. */
  readonly transactional?: true;

  /**
   * Records an event. When the call resolves, the event is as durable as the store guarantees.
   *
   * With `replace`, the event may take the place of a known event with the same id and `ref`. It is then pending or
   * scheduled anew, with 0 attempts and a new `receivedAt`. It keeps its place in lists and, unless it is a timer, its
   * history.
   *
   * @returns `duplicate` if the store has an event with this id and `ref`, and does not replace it. `conflict` if it
   * has an event with this id and another `ref`. `busy` if the event would be replaced, but an attempt is processing
   * it: try again when the attempt has ended
   */
  add(event: NewEvent, options?: AddOptions): Promise<"added" | "duplicate" | "conflict" | "busy">;

  /**
   * Leases up to `limit` records that are due and hold no lease, the record that is due longest first. Claims of each
   * record the event that is due longest. If two events have equal due times, the event that was received first comes
   * first. Adds 1 to `attempts`.
   *
   * An ended lease is no lease. The next claim of the record gives the event of that lease a `lost` entry, and the
   * event waits again: it is due since the end of the lease.
   *
   * @throws InvalidArgumentError if `except` or `only` has an empty text
   */
  claim(options: ClaimOptions): Promise<ClaimedEvent[]>;

  /** Extends the leases to `leaseDuration` ms from now. Resolves to the claims whose lease is still held. */
  renew(claims: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]>;

  /**
   * Records the outcome of an attempt in one atomic step, and ends its lease. The record is then due when the first of
   * its events is due, but not before now. An expired lease stays valid until the record is claimed again.
   *
   * A second call with the same claim resolves to `true` if this lease ended the attempt, also if another event of the
   * record was claimed since. It records nothing, and runs no `writes`. So a caller that got no answer can call again. Once
   * the event itself is claimed again, or deleted, a second call resolves to `false`.
   *
   * @returns `false` if the lease was lost. The store then records nothing
   * @throws if the outcome could not be recorded. The lease is then still held. If a function in `writes` threw an
   * error, or the database rejected the writes at their commit, `settle` rejects with that error. If a function broke
   * the store's rules, `settle` rejects with `InvalidWriteError`. If the connection was lost while a function ran,
   * `settle` rejects with an error of the store
   */
  settle(claim: ClaimedEvent, outcome: Outcome<Tx>): Promise<boolean>;

  /**
   * Deletes events of a record: these ids, or all its timers, fired ones too. Keeps other done events, so that a repeated
   * notification is known, and skips an event that is being processed.
   *
   * @returns how many events it deleted
   */
  remove(ref: string, what: readonly string[] | "timers"): Promise<number>;

  /**
   * Resolves to the ms until the next claim with the same `except` and `only` can succeed, or to `undefined` if all events of
   * these records are done or parked.
   *
   * @throws InvalidArgumentError if `except` or `only` has an empty text
   */
  nextDue(options?: NextDueOptions): Promise<number | undefined>;
  /**
   * Resolves to at most `limit` events that match the filter, the newest first. Without options, to the newest 100 of all.
   *
   * @throws InvalidArgumentError if `limit` is no positive whole number, or if the filter has an unknown field
   */
  list(options?: ListOptions): Promise<StoredEvent[]>;
  /**
   * Resolves to the event with this id, or to `undefined` if the store does not have it. Like all methods, it takes the
   * id of a timer with and without the time that was set.
   */
  get(eventId: string): Promise<StoredEvent | undefined>;
  /** Resolves to the number of events in each state. */
  counts(): Promise<Record<EventState, number>>;

  /**
   * Resolves to the age of the oldest waiting event, ms. An event waits if it is pending or retrying, if it is scheduled
   * and due, or if its lease has ended. The age is the time since
   * the event was due for the first time, or was replayed.
   */
  oldestWaiting(): Promise<number | undefined>;

  /**
   * Resolves to the number of scheduled events that are due. They wait, so that they count toward the handler's
   * `maxBacklog`. Without this method, they count from their first claim on.
   */
  scheduledDue?(): Promise<number>;

  /**
   * Resolves to the version of the store's tables or keys. A newer version is fine, because newer versions of stayhook
   * only add to them. Does not create or upgrade anything.
   */
  schema?(): Promise<StoreSchema>;

  /** Resolves to the time at which the last webhook event was recorded. Pruning and erasing do not change it. */
  lastReceivedAt(): Promise<Date | undefined>;

  /**
   * Makes done and parked events pending again, with 0 attempts. Makes retrying events, and pending events that wait
   * for the end of an outage, due now, and keeps their counts. Makes scheduled events due now, but only if the filter has `state: "scheduled"`
   * or an `eventId`. Works in batches, the newest events first. Changes each event at most once. Skips events that
   * arrive after the call.
   *
   * @returns how many events it changed
   * @throws InvalidArgumentError if the filter has no field, or an invalid date
   */
  replay(filter: EventFilter): Promise<number>;

  /**
   * Makes pending, retrying and parked events `done`, with `reason: "discarded"`. Discards scheduled events only if the
   * filter has `state: "scheduled"` or an `eventId`. Works in batches.
   *
   * @returns how many events it changed
   * @throws InvalidArgumentError if the filter has no field, or an invalid date
   */
  discard(filter: EventFilter): Promise<number>;

  /**
   * Deletes a record's snapshot, its ledger and all of its events, with their notifications and history. With a booking,
   * such as `booking:HX3K9`, also deletes its messages, `message:HX3K9`.
   *
   * @returns how many events it deleted
   * @throws InvalidArgumentError if the ref names no record, such as a code alone. StayhookError if an event of the record, or a
   * message of the booking, is being processed. The store then deletes nothing
   */
  erase(ref: string): Promise<number>;

  /**
   * Deletes the events, snapshots and ledgers of an account, in steps. Keeps the records that are being processed, and counts them.
   * May be called again.
   */
  eraseAccount?(account: string): Promise<ErasedAccount>;

  /** Resolves to the snapshot of a record, or to `undefined` if the store has none. */
  snapshotOf(ref: string): Promise<RecordSnapshot | undefined>;
  /** Yields the snapshots of all records, ordered by `ref` in the store's own collation. */
  snapshots(options?: {
    /** Yields only snapshots whose `ref` comes after this `ref`. */
    readonly after?: string | undefined;
  }): AsyncIterable<RecordSnapshot>;

  /** Resolves to the ledger of a record, with or without a snapshot, or to `undefined` if the record has none. */
  ledgerOf(ref: string): Promise<string | undefined>;
  /** Yields the ledgers of all records, with and without a snapshot, ordered by `ref` in the store's own collation. */
  ledgers(options?: {
    /** Yields only ledgers whose `ref` comes after this `ref`. */
    readonly after?: string | undefined;
  }): AsyncIterable<RecordLedger>;

  /**
   * Writes the first snapshot of a record, with `sequence: 1`, unless an event of the record waits, is processing or is
   * parked. A scheduled event that is not due does not wait. If the record already has this snapshot, or one that differs
   * only in lacking some of its fields, adds them and updates `seenAt`, but not `sequence`. Keeps the ledger. Must be atomic.
   *
   * @returns whether `snapshot` is the record's snapshot now
   */
  learn(ref: string, snapshot: Snapshot, options?: LearnOptions): Promise<boolean>;

  /** Resolves to the value that {@link setMeta} set for a key, and to the age of the value by the store's clock. */
  getMeta(key: string): Promise<
    | {
        /** The value that was set. */
        readonly value: string;
        /** ms since the value was set. */
        readonly age: number;
      }
    | undefined
  >;

  /**
   * Sets the value of a key if its current value is `expected`. If `expected` is `undefined`, the key must have no
   * value. If `value` is `undefined`, deletes the key.
   *
   * @returns whether the current value was `expected`
   */
  setMeta(
    key: string,
    value: string | undefined,
    options: {
      /** The value that the key must have now. */
      readonly expected: string | undefined;
    },
  ): Promise<boolean>;

  /**
   * Deletes up to `limit` events that entered `state` at least `age` ms ago, oldest first. Keeps a done timer as long as
   * its record has a snapshot. Resolves to the count.
   */
  prune(options: PruneOptions): Promise<number>;
  /**
   * Deletes up to `limit` snapshots whose `seenAt` is at least `age` ms ago. Skips records with a ledger, or with a
   * scheduled, pending, retrying or processing event. Resolves to the number of deleted snapshots.
   */
  pruneSnapshots(options: PruneSnapshotsOptions): Promise<number>;

  /**
   * Writes events, snapshots and ledgers as given, such as those that another store listed. Skips ids that are there, and
   * records that have a snapshot or a ledger. Events that come first in the batch count as received first.
   *
   * @throws InvalidArgumentError if an event is `processing`. The store then writes nothing
   */
  restore(batch: {
    /** The events, each with its state, attempts, history and times. */
    readonly events: readonly StoredEvent[];
    /** The snapshots, each with its sequence, its time and, if it has one, its ledger. */
    readonly snapshots: readonly RecordSnapshot[];
    /** The ledgers of records without a snapshot. Default: none. */
    readonly ledgers?: readonly RecordLedger[] | undefined;
  }): Promise<void>;

  /**
   * Calls `wake` when any process, this one included, may have made an event due sooner than `nextDue` said.
   * @returns a function that ends the subscription
   */
  subscribe?(wake: () => void): () => void;

  /**
   * Closes the store. All other methods then reject. A second call of `close` is safe. Close the server, the reconciler
   * and the handler before the store.
   */
  close(): Promise<void>;

  /** Calls {@link EventStore.close}, so that `await using` closes the store. */
  [Symbol.asyncDispose](): Promise<void>;
}
