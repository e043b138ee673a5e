// What the methods of `EventStore` take and give.

import type { EventFilter } from "./event-filter.ts";
import type { FailureReason } from "./event-states.ts";

/**
 * When a new event takes the place of a known event with the same id and `ref`. `ended`: if the known event is done or
 * parked. `moved`: if its `timestamp` differs.
 */
export type Replace = "ended" | "moved";

/** Options of {@link EventStore.add}. */
export interface AddOptions {
  /**
   * ms until the event is due; at most 1,000 years (365,250 days). An event with a `dueIn` above 0 is `scheduled` until its
   * first claim. With a `dueIn` below 0, it is due for as long, so that it comes before the events of its record that are due
   * for a shorter time. Default 0: the event is `pending`, and due at once.
   */
  readonly dueIn?: number | undefined;
  /**
   * When the event is due, by the clock of this process; at most 1,000 years from now. It wins over `dueIn`. A timer has
   * it, because the call may take long: with `dueIn`, the event would be late by as much. The store converts the time if its
   * own clock differs. A time that has passed means now, and the event is `pending`.
   */
  readonly dueAt?: Date | undefined;
  /** When the event takes the place of a known event with its id. Default: never. */
  readonly replace?: Replace | undefined;
}

/**
 * Options of {@link EventStore.nextDue}, and of `claim`: which records they concern, by the beginnings of the records' keys.
 *
 * The key of a record is its `ref`. An event without a record has its `eventId` as the key, so that `a17/` also covers the
 * events without a record of account a17. Beginnings are compared byte by byte, and no character has a special meaning:
 * `a1/` does not cover `a17/booking:HX3K9`, and `booking:` covers no record of an account.
 */
export interface NextDueOptions {
  /**
   * Leaves out the records whose key begins with one of these texts, such as `["a17/", "b2/booking:"]`. A store must take
   * 1,000 of them. Default: none. An empty list is the same as none.
   */
  readonly except?: readonly string[] | undefined;
  /**
   * Takes only the records whose key begins with one of these texts, and with none of `except`. Default: all records. An
   * empty list takes no record.
   */
  readonly only?: readonly string[] | undefined;
}

/** Options of {@link EventStore.claim}. A record must meet `except`, `only` and `eventId`, if they are given. */
export interface ClaimOptions extends NextDueOptions {
  /** The maximum number of events to claim. */
  readonly limit: number;
  /** How long each lease lasts, ms. */
  readonly leaseDuration: number;
  /** Host and pid of this process, for the history. */
  readonly worker?: string | undefined;
  /** Claims only this event, if it can be claimed now. */
  readonly eventId?: string | undefined;
  /**
   * Called at most once, before the call resolves, with what {@link EventStore.nextDue} gives after this claim, for the
   * same `except` and `only`. A store need not call it: the queue then calls `nextDue`.
   */
  readonly onNextDue?: ((ms: number | undefined) => void) | undefined;
}

/** Options of {@link EventStore.list}. */
export interface ListOptions extends EventFilter {
  /** The maximum number of events in the list: a positive whole number. Default 100. */
  readonly limit?: number | undefined;
  /** The list starts after the event with this id. An unknown id gives an empty list. */
  readonly after?: string | undefined;
}

/** Options of {@link EventStore.prune}. */
export interface PruneOptions {
  /** Deletes only events in this state. */
  readonly state: "done" | "parked";
  /** Deletes only events whose last attempt failed for this reason. Default: any reason. */
  readonly reason?: FailureReason | undefined;
  /** The minimum time since the event entered `state`, ms. */
  readonly age: number;
  /** The maximum number of events to delete. */
  readonly limit: number;
}

/** Options of {@link EventStore.pruneSnapshots}. */
export interface PruneSnapshotsOptions {
  /** The minimum time since the snapshot's `seenAt`, ms. */
  readonly age: number;
  /** The maximum number of snapshots to delete. */
  readonly limit: number;
}

/** Options of {@link EventStore.learn}. */
export interface LearnOptions {
  /** Whether to write nothing if the record has no snapshot: it may have been erased. Default `false`. */
  readonly known?: boolean | undefined;
}

/** What {@link EventStore.eraseAccount} did. */
export interface ErasedAccount {
  /** How many events were deleted. */
  readonly events: number;
  /** How many snapshots were deleted. */
  readonly snapshots: number;
  /** How many records were being processed, so that nothing of them was deleted. Call again when they are done. */
  readonly processing: number;
}

/** The version of a store's tables or keys. */
export interface StoreSchema {
  /** The version of the tables or keys. 0 if there are none. */
  readonly version: number;
  /** The version that this version of stayhook makes. If `version` is higher, a newer one has upgraded the store. */
  readonly expected: number;
}
