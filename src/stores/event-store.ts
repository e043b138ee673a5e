import type { EventOrigin, EventState, FailureReason } from "./event-states.ts";

/** A value that a snapshot can keep. */
export type TrackedValue = string | number | boolean | null;

/** A record's status and tracked fields when an event of it was last handled. */
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
  /** The origin of the event. */
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
  /** How the attempt ended. `lost`: its lease ended before its process recorded a result. */
  readonly outcome: "done" | "retrying" | "parked" | "lost";
  /** Why the attempt failed; `undefined` if it did not fail. */
  readonly reason?: FailureReason | undefined;
  /** The error's message and the messages of its causes, 2 KiB at most. */
  readonly error?: string | undefined;
  /** Host and pid of the process that made the attempt. */
  readonly worker?: string | undefined;
}

/** The part of an {@link AttemptEntry} that the queue passes to {@link EventStore.settle}. The store adds the rest. */
export type Entry = Omit<AttemptEntry, "at" | "outcome" | "worker">;

declare const synchronous: unique symbol;

/** Marks a transaction whose writes must be synchronous. The property exists only in the type. */
export interface SynchronousTransaction {
  readonly [synchronous]?: true;
}

/** A user's write, which runs in the transaction that ends the event. */
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
       * `true`: the attempt counts, only the event waits, and `outages` becomes 0. `false`: the platform was out of reach.
       * The store does not count the attempt (`attempts` - 1, `outages` + 1), and the whole record waits until a new event
       * of the record is added without `dueIn`.
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
  /** The state of the event. */
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

/** Selects events for {@link EventStore.list}, {@link EventStore.replay} and {@link EventStore.discard}. All given fields must match. */
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
  /** Continues after this `eventId`. An unknown id gives an empty list. */
  readonly after?: string | undefined;
}

/** Options of {@link EventStore.prune}. */
export interface PruneOptions {
  /** Only events in this state are deleted. */
  readonly state: "done" | "parked";
  /** Only events whose last attempt failed for this reason. Default: any reason. */
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
 * Due times and leases follow the store's own clock. An event that was added without `dueIn` is always due. A wait
 * (`dueIn`, a retry, a record's outage) ends at its time, and also if the clock is set back to before its beginning.
 *
 * @typeParam Tx - the transaction that a callback's writes get; `never` if the store has no transactions
 */
export interface EventStore<Tx = never> {
  /** Present on stores whose `settle` runs an outcome's `writes` in the transaction that ends the event. */
  readonly transactional?: true;

  /**
   * Records an event. When the promise resolves, the event is as durable as the store promises.
   *
   * An event without `dueIn` ends its record's wait for the platform. An event with `dueIn` ends no wait.
   *
   * @returns `duplicate` if the id is known, in any state; `conflict` if it is known with another `ref`
   */
  add(event: NewEvent, options?: AddOptions): Promise<"added" | "duplicate" | "conflict">;

  /**
   * Leases events that are due, or whose lease has ended: at most one of a record, and none of a record that is
   * leased or waits. Counts the attempt. A claim of an event whose lease had ended writes a `lost` entry.
   *
   * Order of records: `oldest` and `newest` first take the records that have a due pending event, by the arrival of the
   * first one. Then follow the other records, by the time at which their first retry became ready. `retries` begins with
   * all records that have a ready retry, by that time. Within a record the oldest due event always goes first.
   *
   * A retry has a time of its own: its due time, or the end of its lost lease. It becomes ready at that time, or when its
   * record's wait or lost lease ends, whichever is later. The first retry of a record is the one with the earliest time of
   * its own. Of equal times, the first to arrive counts.
   */
  claim(options: ClaimOptions): Promise<ClaimedEvent[]>;

  /** Makes leases end `leaseDuration` ms from now. Resolves to the claims whose lease is still held. */
  renew(claims: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]>;

  /**
   * Ends an attempt and its lease. A `done` outcome writes the record's snapshot in the same step. A lease is lost
   * once its record has been claimed again, for this event or another.
   *
   * @returns `false` if the lease was lost and nothing was recorded
   * @throws if nothing could be recorded and the lease is still held. Throws the same error that a write threw, and
   * `InvalidWriteError` if a write broke the store's rules. If the connection was lost during a write, throws an error of
   * the store
   */
  settle(claim: ClaimedEvent, outcome: Outcome<Tx>): Promise<boolean>;

  /** Resolves to the ms until an event can be claimed, also by the end of a lease; `undefined` if no event waits. */
  nextDue(): Promise<number | undefined>;

  /** Resolves to the events that match, the newest first, `limit` at most. */
  list(options: ListOptions): Promise<StoredEvent[]>;

  /** The event with this id; `undefined` where there is none. */
  get(eventId: string): Promise<StoredEvent | undefined>;

  /** How many events are in each state. */
  counts(): Promise<Record<EventState, number>>;

  /**
   * Age in ms, by `receivedAt`, of the first event to arrive that is pending or retrying, or whose lease has ended. An
   * event with `dueIn` counts once it is due.
   */
  oldestWaiting(): Promise<number | undefined>;

  /** When the newest webhook event was recorded. Pruning and erasing leave it. */
  newestReceived(): Promise<Date | undefined>;

  /**
   * Makes done and parked events pending again with 0 attempts, makes retrying events due now, and ends the wait of their
   * records. Changes each event that matches at the call once, in batches, the newest first.
   *
   * @returns how many events it changed
   * @throws InvalidArgumentError where the filter has no field, or an invalid date
   */
  replay(filter: EventFilter): Promise<number>;

  /**
   * Ends pending, retrying and parked events as `done` with `reason: "discarded"`, in batches as {@link replay} does.
   *
   * @returns how many events it changed
   * @throws InvalidArgumentError where the filter has no field, or an invalid date
   */
  discard(filter: EventFilter): Promise<number>;

  /**
   * Deletes a record's snapshot and all of its events, with their notifications and history.
   *
   * @returns how many events it deleted
   * @throws StayhookError while one of the record's events is being processed; nothing is deleted then
   */
  erase(ref: string): Promise<number>;

  /** The snapshot of a record; `undefined` where none is known. */
  recordOf(ref: string): Promise<RecordSnapshot | undefined>;

  /** All records with a snapshot, by `ref` in the store's own collation. */
  records(options?: {
    /** Continues after this `ref`. */
    readonly after?: string | undefined;
  }): AsyncIterable<RecordSnapshot>;

  /**
   * Writes a first snapshot, with `sequence: 1`, if there is none and no event of the record waits, is processed or is
   * parked. If the same snapshot exists, renews its `seenAt`. Must be atomic.
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
   * Sets a value if the present value is `expected`. `undefined` stands for no value: as `value` it deletes.
   *
   * @returns whether the present value was `expected`
   */
  setMeta(
    key: string,
    value: string | undefined,
    options: {
      /** The value to replace. */
      readonly expected: string | undefined;
    },
  ): Promise<boolean>;

  /** Deletes at most `limit` events that have been in `state` for `age` ms or longer, the oldest first. Resolves to their number. */
  prune(options: PruneOptions): Promise<number>;

  /** Deletes at most `limit` snapshots not seen for `age` ms, except those of records with a waiting event. Resolves to their number. */
  pruneRecords(options: PruneRecordsOptions): Promise<number>;

  /**
   * Calls `wake` when any process, this one included, may have made an event due sooner than `nextDue` said.
   *
   * @returns a function that ends the subscription
   */
  subscribe?(wake: () => void): () => void;

  /**
   * Closes the store. Your code calls it after it has closed the server, the reconciler and the handler. Every method
   * rejects afterwards. A second call is safe.
   */
  close(): Promise<void>;
}
