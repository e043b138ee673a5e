import { StayhookError } from "../errors.ts";

/**
 * Where an event stands.
 *
 * `pending` (recorded, not tried yet) becomes `processing` (leased to a process), and that becomes `done`. A failed
 * attempt makes it `retrying`, and `processing` again when its wait is over. An event that is given up is `parked`
 * until it is replayed or discarded.
 */
export type EventState = "pending" | "processing" | "retrying" | "done" | "parked";

/** Why an attempt failed. */
export type FailureReason = "callback" | "invalid-record" | "not-found" | "denied" | "unavailable";

/** Where an event came from: the platform, the reconciler, or a second read of a record that had not changed yet. */
export type EventOrigin = "webhook" | "reconcile" | "recheck";

/** A value that a snapshot can keep. */
export type TrackedValue = string | number | boolean | null;

/** What a record looked like when an event of it was last handled: its status and its tracked fields. */
export interface Snapshot {
  /** The record's status. */
  readonly status: string;
  /** The tracked fields by name. */
  readonly fields: Readonly<Record<string, TrackedValue>>;
}

/** The snapshot that a store keeps of a booking or listing. */
export interface RecordSnapshot {
  /** `booking:<code>` or `listing:<id>`. */
  readonly ref: string;
  /** The record as of the last event that was handled to its end. */
  readonly snapshot: Snapshot;
  /** Rises by one with each change; 1 for the first snapshot. */
  readonly sequence: number;
  /** When the snapshot was last written or confirmed. */
  readonly seenAt: Date;
}

/** An event as it is recorded before its notification is answered. */
export interface NewEvent {
  /** The notification's `eventId` in lower case. Stores de-duplicate on it. */
  readonly eventId: string;
  /** `booking:<code>`, `listing:<id>`, or `null` where the event refers to no record. */
  readonly ref: string | null;
  /** Where the event came from. */
  readonly source: EventOrigin;
  /** The topic of the endpoint that received the notification, where the endpoint was told its topic. */
  readonly topic: string | null;
  /** ISO 8601 in UTC. */
  readonly timestamp: string;
  /** The notification's own JSON text; `null` for an event that no notification brought. */
  readonly notification: string | null;
  /** The W3C `traceparent` of the span that recorded the event. Default `null`. */
  readonly traceparent?: string | null | undefined;
}

/** An event under lease. This process alone may work on it and on its record. */
export interface ClaimedEvent extends NewEvent {
  /** When the store recorded the event. Epoch ms by the store's clock. */
  readonly receivedAt: number;
  /** When this claim was made. Epoch ms by the store's clock. */
  readonly claimedAt: number;
  /** Attempts that count, this one included. */
  readonly attempts: number;
  /** Attempts in a row that found the platform out of reach. They are not in `attempts`. */
  readonly outages: number;
  /** ms since the first of `outages`; 0 where there was none. */
  readonly outageFor: number;
  /** The event was replayed. */
  readonly replayed: boolean;
  /** The record's snapshot, read under the lease; `undefined` where none is known. */
  readonly previous: Snapshot | undefined;
  /** The record's sequence number, read under the lease; 0 where no snapshot is known. */
  readonly sequence: number;
  /** The fencing token of this lease. No other lease has the same one. */
  readonly lease: string;
}

/** One attempt in an event's history. */
export interface AttemptEntry {
  /** When the attempt's claim was made. */
  readonly at: Date;
  /** ms from the claim to the end of the attempt, or to the end of a lease that was lost. */
  readonly duration: number;
  /** How the attempt ended. `lost`: its lease ended before its process said how. */
  readonly outcome: "done" | "retrying" | "parked" | "lost";
  /** Why the attempt failed; `undefined` for one that did not. */
  readonly reason?: FailureReason | undefined;
  /** The error's message and the messages of its causes, 2 KiB at most. */
  readonly error?: string | undefined;
  /** Host and pid of the process that made the attempt. */
  readonly worker?: string | undefined;
}

/** The part of an {@link AttemptEntry} that the queue hands to {@link EventStore.settle}; the store knows the rest. */
export type Entry = Omit<AttemptEntry, "at" | "outcome" | "worker">;

declare const synchronous: unique symbol;

/** Marks a transaction whose writes must not be asynchronous. The property exists in the type alone. */
export interface SynchronousTransaction {
  readonly [synchronous]?: true;
}

/** A write of the user's that runs in the transaction that ends the event. */
export type Write<Tx> = (tx: Tx) => void | Promise<void>;

/** How an attempt ended, as {@link EventStore.settle} records it. */
export type Outcome<Tx = never> =
  | {
      /** The event is handled. */
      readonly state: "done";
      /** The event's type, such as `booking.Confirmed`. */
      readonly type: string;
      /** The attempt, for the event's history. */
      readonly entry: Entry;
      /** Absent where the event is about no record. */
      readonly record?:
        | {
            /** The record as it was handled. */
            readonly snapshot: Snapshot;
            /** Whether it differs from {@link ClaimedEvent.previous}. The store then adds 1 to its sequence. */
            readonly changed: boolean;
          }
        | undefined;
      /** The user's writes. Only a transactional store is given any. */
      readonly writes?: readonly Write<Tx>[] | undefined;
    }
  | {
      /** The attempt failed, and the event is tried again. */
      readonly state: "retrying";
      /** ms from now until the event is due again; at most 366 days. */
      readonly in: number;
      /**
       * `true`: the attempt counts, the event alone waits, and its row of outages is over. `false`: the platform was out
       * of reach. The store takes the attempt back (`attempts` - 1, `outages` + 1), and the whole record waits until a
       * new event for it is added without `dueIn`.
       */
      readonly counted: boolean;
      /** Why the attempt failed. */
      readonly reason: FailureReason;
      /** The attempt, for the event's history. */
      readonly entry: Entry;
      /** The event's type, where the attempt came to know it. */
      readonly type?: string | undefined;
    }
  | {
      /** The attempt failed, and the event is given up until it is replayed or discarded. */
      readonly state: "parked";
      /** Why the attempt failed. */
      readonly reason: FailureReason;
      /** The attempt, for the event's history. */
      readonly entry: Entry;
      /** The event's type, where the attempt came to know it. */
      readonly type?: string | undefined;
    }
  | {
      /** The attempt never happened: `attempts` - 1, due now, and no entry in the history. */
      readonly state: "released";
    };

/** An event as {@link EventStore.list} and {@link EventStore.get} show it. */
export interface StoredEvent extends NewEvent {
  /** Where the event stands. */
  readonly state: EventState;
  /** Attempts that count. */
  readonly attempts: number;
  /** When the store recorded the event. */
  readonly receivedAt: Date;
  /** When it may be claimed; while it is processed, when its lease ends; `null` when done or parked. */
  readonly dueAt: Date | null;
  /** When it was done or discarded. */
  readonly doneAt: Date | null;
  /** The event's type, once it is known. */
  readonly type: string | null;
  /** The error of the last entry of `history`. */
  readonly lastError: string | null;
  /** Why the last attempt failed; `discarded` for an event that {@link EventStore.discard} ended. */
  readonly reason: FailureReason | "discarded" | null;
  /** The last 10 attempts, the oldest first. A replay keeps them. Releases leave no entry. */
  readonly history: readonly AttemptEntry[];
  /** The W3C `traceparent` of the request that brought the event; `null` where there was none. */
  readonly traceparent: string | null;
}

/** Which events {@link EventStore.list}, {@link EventStore.replay} and {@link EventStore.discard} are about. All given fields must match. */
export interface EventFilter {
  /** The event with this id, in lower case. */
  readonly eventId?: string | undefined;
  /** Events of this record: `booking:<code>` or `listing:<id>`. */
  readonly ref?: string | undefined;
  /** Events in this state. */
  readonly state?: EventState | undefined;
  /** Events of this type, such as `booking.Confirmed`. */
  readonly type?: string | undefined;
  /** Events whose last attempt failed for this reason; `discarded` for events that were discarded. */
  readonly reason?: FailureReason | "discarded" | undefined;
  /** Events from this source. */
  readonly source?: EventOrigin | undefined;
  /** Events recorded at this time or later. */
  readonly receivedAfter?: Date | undefined;
  /** Events recorded before this time. */
  readonly receivedBefore?: Date | undefined;
}

/** Options of {@link EventStore.add}. */
export interface AddOptions {
  /** ms until the event is due; at most 366 days. Default: it is due at once. */
  readonly dueIn?: number | undefined;
}

/** Options of {@link EventStore.claim}. */
export interface ClaimOptions {
  /** The most events that the claim takes. */
  readonly limit: number;
  /** ms */
  readonly leaseDuration: number;
  /** Host and pid of this process, for the history. */
  readonly worker?: string | undefined;
  /** Claims this event and no other, if it can be claimed now. */
  readonly eventId?: string | undefined;
  /** Which records go first. Default `oldest`. */
  readonly order?: "oldest" | "newest" | "retries" | undefined;
}

/** Options of {@link EventStore.list}. */
export interface ListOptions extends EventFilter {
  /** How many events the list gives at most. */
  readonly limit: number;
  /** Goes on behind this `eventId`. An id that is not known gives an empty list. */
  readonly after?: string | undefined;
}

/** Options of {@link EventStore.prune}. */
export interface PruneOptions {
  /** Only events in this state are deleted. */
  readonly state: "done" | "parked";
  /** Only events whose last attempt failed for this reason. Default: whatever the reason. */
  readonly reason?: FailureReason | undefined;
  /** ms */
  readonly age: number;
  /** The most events that one call deletes. */
  readonly limit: number;
}

/** Options of {@link EventStore.pruneRecords}. */
export interface PruneRecordsOptions {
  /** ms */
  readonly age: number;
  /** The most snapshots that one call deletes. */
  readonly limit: number;
}

/**
 * Keeps events and the snapshots of their records. A store persists and nothing more: the queue decides what runs
 * when. `storeContract` from `stayhook/store` tests an implementation.
 *
 * All times of due and lease are by the store's own clock. An event that was added without `dueIn` is due whatever
 * the clock says. A wait (`dueIn`, a retry, a record's outage) is over at its time, and also when the clock is
 * earlier than it was when the wait began.
 *
 * @typeParam Tx - what a callback's `atomically` hands to the user's writes; `never` where the store has no transactions
 */
export interface EventStore<Tx = never> {
  /** Present on stores whose `settle` runs an outcome's `writes` in the transaction that ends the event. */
  readonly transactional?: true;

  /**
   * Records an event. When it resolves, the event survives what this store promises to survive.
   *
   * An event without `dueIn` ends its record's wait for the platform. An event with `dueIn` ends no wait.
   *
   * @returns `duplicate` where the id is known, in whatever state; `conflict` where it is known with another `ref`
   */
  add(event: NewEvent, options?: AddOptions): Promise<"added" | "duplicate" | "conflict">;

  /**
   * Leases events that are due, or whose lease has ended: at most one of a record, and none of a record that is
   * leased or waits. Counts the attempt. A claim of an event whose lease had ended writes a `lost` entry.
   *
   * `oldest` and `newest` take records by the arrival of their first due pending event, then the other records by the
   * time at which their first retry became ready. `retries` takes all records with a ready retry first, by that time. A
   * retry became ready at its own time (of an event whose lease ended: that end), or at the end of its record's wait
   * or lost lease, whichever is later; of a record's retries, the one with the smallest own time decides, and of equals
   * the first to arrive goes first. Within a record the oldest due event always goes first.
   */
  claim(options: ClaimOptions): Promise<ClaimedEvent[]>;

  /** Makes leases end `leaseDuration` ms from now. Resolves to the claims whose lease is still held. */
  renew(claims: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]>;

  /**
   * Ends an attempt and its lease. A `done` outcome writes the record's snapshot in the same step. A lease is lost
   * once its record has been claimed again, for this event or another.
   *
   * @returns `false` where the lease was lost: nothing was recorded
   * @throws where nothing could be recorded and the lease is still held. Where a write threw, the very error that it
   * threw; `InvalidWriteError` where a write broke the store's rules; for a connection that was lost under a write, an
   * error of the store's own
   */
  settle(claim: ClaimedEvent, outcome: Outcome<Tx>): Promise<boolean>;

  /** ms until something can be claimed, ends of leases included; `undefined` where nothing waits. */
  nextDue(): Promise<number | undefined>;

  /** Events that match, the newest first: `limit` of them, or fewer where there are no more. */
  list(options: ListOptions): Promise<StoredEvent[]>;

  /** The event with this id; `undefined` where there is none. */
  get(eventId: string): Promise<StoredEvent | undefined>;

  /** How many events are in each state. */
  counts(): Promise<Record<EventState, number>>;

  /**
   * Age in ms, by `receivedAt`, of the oldest event that is pending or retrying, or whose lease has ended. An event with `dueIn` counts once
   * it is due.
   */
  oldestWaiting(): Promise<number | undefined>;

  /** When the newest webhook event was recorded. Pruning and erasing leave it. */
  newestReceived(): Promise<Date | undefined>;

  /**
   * Makes done and parked events pending again with attempts from 0, and retrying ones due now, and ends the wait of their records.
   * Handles each event that matches at the call once, the newest first, in batches.
   *
   * @returns how many events it changed
   * @throws InvalidArgumentError where the filter has no field, or an invalid date
   */
  replay(filter: EventFilter): Promise<number>;

  /**
   * Ends pending, retrying and parked events as `done` with `reason: "discarded"`. Handles each event that matches at
   * the call once, the newest first, in batches.
   *
   * @returns how many events it changed
   * @throws InvalidArgumentError where the filter has no field, or an invalid date
   */
  discard(filter: EventFilter): Promise<number>;

  /**
   * Deletes all events of a record, with notifications and history, and its snapshot.
   *
   * @returns how many events it deleted
   * @throws StayhookError while one of the record's events is being processed; nothing is deleted then
   */
  erase(ref: string): Promise<number>;

  /** The snapshot of a record; `undefined` where none is known. */
  recordOf(ref: string): Promise<RecordSnapshot | undefined>;

  /** All records with a snapshot, by `ref` in the store's own collation. */
  records(options?: {
    /** Goes on behind this `ref`. */
    readonly after?: string | undefined;
  }): AsyncIterable<RecordSnapshot>;

  /**
   * Writes a first snapshot, with `sequence: 1`, where none is known and no event of the record waits, is processed or is parked.
   * Where the same snapshot is known, renews its `seenAt`. One step.
   *
   * @returns whether `snapshot` is the record's snapshot now
   */
  learn(ref: string, snapshot: Snapshot): Promise<boolean>;

  /** A value that was kept with {@link setMeta}, and its age in ms by the store's clock. */
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
   * Compares and sets. `undefined` stands for no value: as `value` it deletes.
   *
   * @returns whether the value was `expected`, and so was set
   */
  setMeta(
    key: string,
    value: string | undefined,
    options: {
      /** The value that is replaced. Any other value stays. */
      readonly expected: string | undefined;
    },
  ): Promise<boolean>;

  /** Deletes at most `limit` events that have been in `state` for `age` ms or longer, the oldest first. Resolves to their number. */
  prune(options: PruneOptions): Promise<number>;

  /** Forgets the snapshots of at most `limit` records not seen for `age` ms, but of none with an event that waits. Resolves to their number. */
  pruneRecords(options: PruneRecordsOptions): Promise<number>;

  /**
   * Calls `wake` when something may be due sooner than `nextDue` said, through any process, this one included.
   *
   * @returns a function that ends the subscription
   */
  subscribe?(wake: () => void): () => void;

  /** For the caller: the handler closes no store that it was given. Every method rejects afterwards. Twice is safe. */
  close(): Promise<void>;
}

/** Takes events in, and leaves their processing to another queue. `forwardTo` makes one. */
export interface IntakeStore {
  /** Tells the handler that another queue processes the events. */
  readonly intakeOnly: true;
  /** Resolves when the queue has the event. The queue de-duplicates. */
  add(event: NewEvent): Promise<"added">;
  /** Does nothing: the queue is yours to close. */
  close(): Promise<void>;
}

/**
 * A write that was given to `event.atomically` broke the rules of its store: it returned a promise where writes
 * are synchronous, ended the store's transaction or left it unusable, or took too long. A store's `settle` rejects
 * with it when the write, and not the store, is to blame: the attempt has failed then.
 */
export class InvalidWriteError extends StayhookError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "InvalidWriteError";
  }
}
