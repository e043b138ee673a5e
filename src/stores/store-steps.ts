// The steps that each store implements, and the values that they take and give.

import type { Restriction } from "./beginnings.ts";
import type { RowFilter } from "./event-filter.ts";
import type { Change, EventState } from "./event-states.ts";
import type { EventStore } from "./event-store.ts";
import type { MemoryTables } from "./memory/memory-tables.ts";
import type { Addition, ClaimedRow, Settlement } from "./outcomes.ts";
import type { Slice, Sliced } from "./slices.ts";
import type { RecordLedger, RecordSnapshot } from "./snapshot.ts";
import type { Timed } from "./store-clock.ts";
import type { ClaimOptions, PruneOptions, PruneSnapshotsOptions } from "./store-options.ts";
import type { ClaimedEvent, RecordName, StoredEvent } from "./stored-event.ts";

/** The answer of {@link EventStore.add}. */
export type AddAnswer = Awaited<ReturnType<EventStore["add"]>>;

/** A claimed event, and what the end of its attempt adds to. */
export interface Claimed {
  readonly claim: ClaimedEvent;
  readonly row: ClaimedRow;
}

/** What a claim found. */
export interface ClaimResult {
  readonly claimed: readonly Claimed[];
  /**
   * When the next claim can succeed, epoch ms by the store's clock. It is `null` if all events are done or parked, and
   * `undefined` if the store has not looked.
   */
  readonly nextDueAt?: number | null | undefined;
}

/** What a settlement did. */
export interface Settled {
  /** Whether the claim's lease ended the attempt. */
  readonly held: boolean;
  /** Whether the record may have more events that are due now or later. */
  readonly more: boolean;
}

/** Some of the records that a change takes one step after the other. */
export type RecordPage = Sliced<readonly RecordName[], string>;

/** The rows that a rule needs: the records, with those of their events that have a due time. */
export interface Scope {
  readonly records: readonly RecordName[];
  /** The rule also needs these events, which may be events of other records. */
  readonly ids?: readonly string[];
  /** Which ended events of the records the rule also needs. Default: none. */
  readonly ended?: "parked" | "timers" | "all";
  /** What failed, for error messages. */
  readonly failing: string;
}

/** One call of `claim`, as a store makes it. Its `except` and `only` are checked, and not empty. */
export interface ClaimCall extends ClaimOptions {
  /** The tokens of the call's leases are `<token>:0`, `<token>:1` and so on. */
  readonly token: string;
  /** The claims that the call is about to commit. The store sets them before the step whose answer may be lost. */
  claimed: readonly Claimed[];
}

/**
 * What a store does. The steps get only checked values, and write down what they get. `BaseStore` and `RecordStore` call them.
 *
 * Each event has an **arrival number**, which is higher than the numbers of all earlier events.
 *
 * A timer has one row, whose id has no time.
 */
export abstract class StoreSteps<Tx> {
  /**
   * Records events, each in one atomic step with the due time of its record. The additions of a call have different ids,
   * and may have equal records. The answers have the order of the additions.
   */
  protected abstract doAdd(additions: readonly Addition[]): Promise<readonly AddAnswer[]>;
  protected abstract doClaim(call: ClaimCall): Promise<Timed<ClaimResult>>;
  /**
   * Returns the claims of calls that got no answer. A store that cannot know them before the answer must read them, and
   * must see to it that a call that arrives later claims nothing. On a database, a claim that has not ended yet holds the
   * locks of its records, so that the release comes after it.
   */
  protected async doFindLost(calls: readonly ClaimCall[]): Promise<readonly Claimed[]> {
    return calls.flatMap(({ claimed }) => claimed);
  }
  /** Returns the tokens of the leases that are still held. */
  protected abstract doRenew(
    claims: readonly ClaimedEvent[],
    leaseDuration: number,
  ): Promise<readonly string[]>;
  /**
   * Ends attempts, each in one atomic step. The settlements of a call have different records. A settlement with `writes`
   * comes alone.
   */
  protected abstract doSettle(settlements: readonly Settlement<Tx>[]): Promise<readonly Settled[]>;
  protected abstract doNextDue(restriction: Restriction): Promise<Timed<number | undefined>>;
  /**
   * Repairs the times after the store's clock was set back: pending and retrying events and rechecks become due now,
   * and no lease ends later than its duration from now.
   */
  protected abstract doSetBack(): Promise<void>;
  protected abstract doGet(eventId: string): Promise<StoredEvent | undefined>;
  /** Does the same as {@link doGet} for a decision: the answer must not be from a copy of the database that is behind. */
  protected doFind(eventId: string): Promise<StoredEvent | undefined> {
    return this.doGet(eventId);
  }
  /** Returns events that match `filter`. A result with fewer than `limit` events may still have a `next`. */
  protected abstract doList(filter: RowFilter, slice: Slice): Promise<Sliced<StoredEvent[]>>;
  /** Returns the arrival number of an event, or `undefined` if the store does not have the event. */
  protected abstract arrivalOf(eventId: string): Promise<number | undefined>;
  /**
   * Changes events that match `filter` and are in one of `states`, but each event at most once. `found` is the number
   * of changed events.
   */
  protected abstract doChange(
    change: Change,
    filter: RowFilter,
    states: readonly EventState[],
    slice: Slice,
  ): Promise<Sliced<number>>;
  protected abstract doCounts(): Promise<Record<EventState, number>>;
  protected abstract doOldestWaiting(): Promise<number | undefined>;
  protected abstract doScheduledDue(): Promise<number>;
  /** Returns when the newest webhook event that is still there was recorded, epoch ms. */
  protected abstract doLastReceivedAt(): Promise<number | undefined>;
  protected abstract doSnapshotOf(ref: string): Promise<RecordSnapshot | undefined>;
  /** Returns snapshots whose `ref` follows `after`. A result with fewer than `limit` is the last page. */
  protected abstract doSnapshots(after: string | undefined, limit: number): Promise<RecordSnapshot[]>;
  protected abstract doLedgerOf(ref: string): Promise<string | undefined>;
  /** Returns ledgers whose `ref` follows `after`. A result with fewer than `limit` is the last page. */
  protected abstract doLedgers(after: string | undefined, limit: number): Promise<RecordLedger[]>;
  protected abstract doGetMeta(
    key: string,
  ): Promise<{ readonly value: string; readonly age: number } | undefined>;
  protected abstract doSetMeta(
    key: string,
    value: string | undefined,
    expected: string | undefined,
  ): Promise<boolean>;
  protected abstract doPrune(options: PruneOptions): Promise<number>;
  /**
   * Loads rows, runs a rule on them, and writes what it changed, all in one atomic step. The rule may run again, on newer
   * rows. It does not await.
   */
  protected abstract withRecords<T>(scope: Scope, rule: (tables: MemoryTables) => T): Promise<T>;
  /** Returns records that have a due time. @param from - the `next` of the page before */
  protected abstract dueRecords(from: string | undefined): Promise<RecordPage>;
  /** Returns records of an account. @param from - the `next` of the page before */
  protected abstract recordsOf(account: string, from: string | undefined): Promise<RecordPage>;
  /** Returns the records with the oldest snapshots that `pruneSnapshots` deletes. Fewer than `limit` are all of them. */
  protected abstract oldSnapshots(options: PruneSnapshotsOptions): Promise<readonly RecordName[]>;
  protected abstract doClose(): Promise<void>;
}
