/**
 * Where an event stands.
 *
 * `pending` (recorded, not tried yet) -> `processing` (leased to a process) -> `done`; or -> `retrying`
 * (failed, or the platform was out of reach) -> `processing` ...; or -> `parked` (given up until replayed).
 */
export type EventState = "pending" | "processing" | "retrying" | "done" | "parked";

/** Why an event was put off or parked. */
export type FailureReason = "callback" | "invalid-record" | "not-found" | "denied" | "unavailable";

/** What is recorded of a notification before it is answered. */
export interface NewEvent {
  /** The notification's `eventId` in lower case; the key that is de-duplicated on. */
  readonly eventId: string;
  /** `booking:<code>`, `listing:<id>`, or `null` where the notification refers to no record. */
  readonly ref: string | null;
  readonly source: "webhook" | "reconcile";
  /** The topic that the endpoint was told it serves, where it was. Of a reconcile event, what it does without a callback. */
  readonly topic: string | null;
  /** ISO 8601 in UTC. */
  readonly timestamp: string;
  /** The notification's own JSON text; `null` for a reconcile event. */
  readonly notification: string | null;
}

/** An event under lease: this process, and no other, may work on it and on its record. */
export interface ClaimedEvent extends NewEvent {
  /** Epoch ms. */
  readonly receivedAt: number;
  /** Claims that count, this one included. */
  readonly attempts: number;
  /** Attempts in a row that found the platform out of reach. They are not in `attempts`. */
  readonly outages: number;
  /** ms since the first of `outages`; 0 where there was none. */
  readonly outageFor: number;
  /** It was done or parked before, and somebody asked for it again. */
  readonly replayed: boolean;
  /** Status with which an event of this record was last handled to its end. Read under the lease. */
  readonly previousStatus: string | undefined;
  /** The record's sequence number: how often its handled status has changed. 0 before the first. Read under the lease. */
  readonly sequence: number;
  /** Fencing token: names this lease and no other. */
  readonly lease: string;
}

/** How an attempt ended, as {@link EventStore.settle} records it. */
export type Outcome<Tx = never> =
  | {
      readonly state: "done";
      /** The event's type, such as `booking.Confirmed`. */
      readonly type: string;
      /** The record's status, now handled; left out where there is no record. */
      readonly status?: string | undefined;
      /** The user's writes, to run inside the transaction that records the end; only for a transactional store. */
      readonly writes?: readonly ((tx: Tx) => void | Promise<void>)[] | undefined;
    }
  | {
      readonly state: "retrying";
      /** ms from now until it is due again. */
      readonly in: number;
      /**
       * `false`: the platform was out of reach. The attempt is taken back (`attempts` - 1, `outages` + 1), and
       * the whole record waits, until a new event for it is added. `true`: it counts, the event alone waits,
       * and the outages before it are over.
       */
      readonly counted: boolean;
      readonly reason: FailureReason;
      readonly error: string;
      readonly type?: string | undefined;
    }
  | {
      readonly state: "parked";
      readonly reason: FailureReason;
      readonly error: string;
      readonly type?: string | undefined;
    }
  /** The attempt never happened: `attempts` - 1, due now. */
  | { readonly state: "released" };

/** An event as {@link EventStore.list} and {@link EventStore.get} show it. */
export interface StoredEvent extends NewEvent {
  readonly state: EventState;
  readonly attempts: number;
  readonly receivedAt: Date;
  /** When it may be claimed; while it is processed, when its lease ends; `null` when done or parked. */
  readonly dueAt: Date | null;
  readonly doneAt: Date | null;
  /** The event's type, once it is known. */
  readonly type: string | null;
  readonly lastError: string | null;
  readonly reason: FailureReason | null;
}

/** The last status of a booking or listing that was handled to its end. */
export interface RecordStatus {
  readonly ref: string;
  readonly status: string;
  /** Rises by one each time the status changes; 1 for the first. */
  readonly sequence: number;
  /** When an event of it was last done. */
  readonly seenAt: Date;
}

/**
 * Keeps events and the statuses of their records. It persists and nothing more: who runs when is decided by
 * the one loop that all stores share.
 *
 * Two tables are enough for it: **events**, and **records**, where one row is a record's lease, the due time
 * of its first event, its last handled status and that status's sequence number. An event without a `ref` has
 * a record row of its own. All times of due and lease are by the store's own clock.
 *
 * `storeContract` from `stayhook/testing` shows whether an implementation holds.
 *
 * @typeParam Tx - what a callback's `atomically` hands to the user's writes; `never` where the store has no transactions
 */
export interface EventStore<Tx = never> {
  /** Present on stores whose `settle` runs an outcome's `writes` in the transaction that ends the event. */
  readonly transactional?: true;

  /**
   * Records an event. When it resolves, the event survives what this store says it survives.
   *
   * @returns `duplicate` where the id is known, in whatever state; `conflict` where it is known with another `ref`
   */
  add(event: NewEvent): Promise<"added" | "duplicate" | "conflict">;

  /**
   * Leases events that are due, or whose lease has ended; at most one a record, and none of a record that is
   * leased or waits. Events never claimed before go first, the oldest first, then retries in the order in
   * which they became due; with `retriesFirst` the other way round. Counts the attempt.
   */
  claim(options: {
    readonly limit: number;
    /** ms */
    readonly leaseDuration: number;
    /** This event and no other, if it can be claimed now. */
    readonly eventId?: string | undefined;
    readonly retriesFirst?: boolean | undefined;
  }): Promise<ClaimedEvent[]>;

  /** Makes leases end `leaseDuration` ms from now, and resolves to those that are still held. */
  renew(claims: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]>;

  /**
   * Ends an attempt, and with it the lease. A `done` outcome writes the record's status in the same step. The
   * lease is lost once its record has been claimed again, for this event or another.
   *
   * @returns `false` where the lease was lost: nothing was recorded
   * @throws where nothing could be recorded and the lease is still held; `InvalidWriteError` where a write broke
   * the store's rules
   */
  settle(claim: ClaimedEvent, outcome: Outcome<Tx>): Promise<boolean>;

  /** ms until something can be claimed, ends of leases included; `undefined` where nothing is left to do. */
  nextDue(): Promise<number | undefined>;

  /** Deletes at most `limit` events that have been `state` for `age` ms or longer, the oldest first; resolves to how many it was. */
  prune(options: {
    readonly state: "done" | "parked";
    readonly reason?: FailureReason | undefined;
    readonly age: number;
    readonly limit: number;
  }): Promise<number>;

  /** Forgets the statuses of at most `limit` records not handled for `age` ms; never one with an event that waits. */
  pruneRecords(options: { readonly age: number; readonly limit: number }): Promise<number>;

  /** Events, the newest first. `after`: goes on behind this `eventId`; none where it is not known. */
  list(options: {
    readonly state?: EventState | undefined;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<StoredEvent[]>;

  get(eventId: string): Promise<StoredEvent | undefined>;

  counts(): Promise<Record<EventState, number>>;

  /** Age in ms of the oldest event that is pending or retrying, or whose lease has ended. */
  oldestWaiting(): Promise<number | undefined>;

  /**
   * Done or parked -> pending, with attempts from 0; retrying -> due now.
   *
   * @returns `false` where the event is unknown, or being processed
   */
  replay(eventId: string): Promise<boolean>;

  /** Replays all that is parked, or what was parked for `reason`, or received `before`; resolves to how many. */
  replayParked(options?: {
    readonly reason?: FailureReason | undefined;
    readonly before?: Date | undefined;
  }): Promise<number>;

  statusOf(ref: string): Promise<RecordStatus | undefined>;

  /**
   * All records with a status, by `ref` in the store's own collation. `after`: goes on behind this one. What the
   * reconciler keeps for itself, under refs that begin with `reconcile:`, may be left out.
   */
  statuses(options?: { readonly after?: string | undefined }): AsyncIterable<RecordStatus>;

  /**
   * Calls `wake` when something may be due sooner than `nextDue` said, through any process, this one too.
   *
   * @returns a function that ends the subscription
   */
  subscribe?(wake: () => void): () => void;

  /** The caller's to call: the handler closes no store that it was given. Every method rejects afterwards; twice is safe. */
  close(): Promise<void>;
}

/** Takes events in, and leaves their processing to another queue: see `forwardTo`. */
export interface IntakeStore {
  readonly intakeOnly: true;
  /** Resolves when the queue has the event; it is the queue that de-duplicates. */
  add(event: NewEvent): Promise<"added">;
  close(): Promise<void>;
}
