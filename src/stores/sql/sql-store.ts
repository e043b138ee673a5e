import { type AddAnswer, BaseStore, type Slice, type Sliced } from "../base-store.ts";
import type { Change, EventState } from "../event-states.ts";
import type {
  ClaimedEvent,
  ClaimOptions,
  EventFilter,
  EventStore,
  NewEvent,
  Outcome,
  PruneOptions,
  PruneRecordsOptions,
  RecordSnapshot,
  Snapshot,
  StoredEvent,
} from "../event-store.ts";
import { type SqlDialect, type SqlDriver, type SqlSteps, select } from "./driver.ts";
import {
  changeAll,
  erase,
  learn,
  list,
  nameOf,
  newestReceived,
  prune,
  pruneRecords,
  setMeta,
} from "./sql-changes.ts";
import { add, claim, type Operation, renew, settle } from "./sql-queue.ts";
import { fromText, number, numberOrNull, recordOf, storedEventOf, text, toId, toText } from "./sql-rows.ts";
import { migrate, type Statements, statementsOf } from "./sql-statements.ts";

const READING = "events could not be read";

/**
 * Returns a store in your own SQL database. At its first use, the store creates tables with the prefix `stayhook_`.
 *
 * @param driver - runs statements on the database
 * @param dialect - the SQL that differs between databases, such as `sqliteDialect`
 *
 * @example
 * ```ts
 * import { runSync, sqliteDialect, sqlStore } from "stayhook/store";
 *
 * const store = sqlStore(driver, sqliteDialect);
 * ```
 */
export function sqlStore<Tx = never>(driver: SqlDriver, dialect: SqlDialect): EventStore<Tx> {
  return new SqlStore<Tx>(driver, dialect);
}

export class SqlStore<Tx> extends BaseStore<Tx> {
  declare readonly transactional?: true;
  readonly #driver: SqlDriver;
  readonly #dialect: SqlDialect;
  readonly #sql: Statements;
  #ready: Promise<void> | undefined;
  #isReady: boolean;
  #isWaking = false;
  #silence: (() => void) | undefined;

  /** @param options.migrated - `true` if the driver has already created the tables */
  constructor(driver: SqlDriver, dialect: SqlDialect, { migrated = false } = {}) {
    super();
    this.#driver = driver;
    this.#dialect = dialect;
    this.#sql = statementsOf(dialect);
    this.#isReady = migrated;
    if (driver.transactional) this.transactional = true;
  }

  protected async doAdd(event: NewEvent, dueIn: number | undefined): Promise<AddAnswer> {
    // Copy the event, because the caller may change it before the store writes it.
    const given = { ...event };
    const answer = await this.#write("the event could not be recorded", (operation) =>
      add(operation, given, dueIn),
    );
    if (answer === "added") this.#wake();
    return answer;
  }

  protected async doClaim(options: ClaimOptions): Promise<ClaimedEvent[]> {
    // If no event is due, do not claim: the locks of a claim would delay other processes.
    if (this.#driver.busy !== true && (await this.doNextDue()) !== 0) return [];
    return this.#write("events could not be claimed", (operation) => claim(operation, options));
  }

  protected doRenew(held: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]> {
    return this.#write("leases could not be renewed", (operation) => renew(operation, held, leaseDuration));
  }

  protected async doSettle(claim: ClaimedEvent, outcome: Outcome<Tx>): Promise<boolean> {
    const { held, more } = await this.#write("the result of an attempt could not be recorded", (operation) =>
      settle(operation, claim, outcome),
    );
    if (more) this.#wake();
    return held;
  }

  protected doNextDue(): Promise<number | undefined> {
    return this.#read(function* ({ sql, now }) {
      const [row] = yield* select(sql.nextReady, now, now);
      const at = numberOrNull(row?.at);
      return at === null ? undefined : Math.max(0, at - now);
    });
  }

  protected doGet(eventId: string): Promise<StoredEvent | undefined> {
    return this.#read(function* ({ sql }) {
      const [row] = yield* select(sql.get, toId(eventId));
      return row && storedEventOf(row);
    });
  }

  protected doList(filter: EventFilter, slice: Slice): Promise<Sliced<StoredEvent[]>> {
    return this.#read((operation) => list(operation, filter, slice));
  }

  protected arrivalOf(eventId: string): Promise<number | undefined> {
    return this.#read(function* ({ sql }) {
      const [row] = yield* select(sql.eventById, toId(eventId));
      return row && number(row.seq);
    });
  }

  protected async doChange(change: Change, filter: EventFilter, slice: Slice): Promise<Sliced<number>> {
    const sliced = await this.#write("events could not be changed", (operation) =>
      changeAll(operation, change, filter, slice),
    );
    if (sliced.found > 0) this.#wake();
    return sliced;
  }

  protected doCounts(): Promise<Record<EventState, number>> {
    return this.#read(function* ({ sql }) {
      const counts = { pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 };
      for (const { state, events } of yield* select(sql.counts))
        counts[text(state) as EventState] = number(events);
      return counts;
    });
  }

  protected doOldestWaiting(): Promise<number | undefined> {
    return this.#read(function* ({ sql, now }) {
      const [row] = yield* select(sql.oldestWaiting, now, now, now);
      const at = numberOrNull(row?.at);
      return at === null ? undefined : Math.max(0, now - at);
    });
  }

  protected async doNewestReceived(): Promise<Date | undefined> {
    const newest = await this.#read(newestReceived);
    return newest && new Date(newest.receivedAt);
  }

  protected doErase(ref: string): Promise<number | undefined> {
    return this.#write("the record could not be erased", (operation) => erase(operation, ref));
  }

  protected doRecordOf(ref: string): Promise<RecordSnapshot | undefined> {
    return this.#read(function* ({ sql }) {
      const [row] = yield* select(sql.record, toText(ref));
      return row && recordOf(row);
    });
  }

  protected doRecords(after: string | undefined, limit: number): Promise<RecordSnapshot[]> {
    return this.#read(function* ({ sql }) {
      const rows = yield* select(sql.recordsAfter, after === undefined ? "" : toText(after), limit);
      return rows.map(recordOf);
    });
  }

  protected doLearn(ref: string, { status, fields }: Snapshot): Promise<boolean> {
    const given = { status, fields: { ...fields } };
    return this.#write("the snapshot could not be written", (operation) => learn(operation, ref, given));
  }

  protected doGetMeta(key: string): Promise<{ readonly value: string; readonly age: number } | undefined> {
    return this.#read(function* ({ sql, now }) {
      const [row] = yield* select(sql.meta, nameOf(key));
      return row && { value: fromText(text(row.value)), age: Math.max(0, now - number(row.set_at)) };
    });
  }

  protected doSetMeta(
    key: string,
    value: string | undefined,
    expected: string | undefined,
  ): Promise<boolean> {
    return this.#write("the meta value could not be written", (operation) =>
      setMeta(operation, key, value, expected),
    );
  }

  protected doPrune(options: PruneOptions): Promise<number> {
    return this.#write("old events could not be deleted", (operation) => prune(operation, options));
  }

  protected doPruneRecords(options: PruneRecordsOptions): Promise<number> {
    return this.#write("old snapshots could not be deleted", (operation) => pruneRecords(operation, options));
  }

  override subscribe(wake: () => void): () => void {
    const unsubscribe = super.subscribe(wake);
    this.#silence ??= this.#driver.notifier?.listen(() => this.subscribers.wake());
    return () => {
      unsubscribe();
      if (!this.subscribers.isEmpty) return;
      this.#silence?.();
      this.#silence = undefined;
    };
  }

  protected async doClose(): Promise<void> {
    this.#silence?.();
    this.#silence = undefined;
    await this.#driver.close();
  }

  /** Wakes the subscribers once for all events that one commit made due. */
  #wake(): void {
    if (this.#isWaking) return;
    this.#isWaking = true;
    queueMicrotask(() => {
      this.#isWaking = false;
      if (!this.closed) this.subscribers.wake();
      this.#driver.notifier?.notify();
    });
  }

  async #write<T>(failing: string, steps: (operation: Operation) => SqlSteps<T>): Promise<T> {
    if (!this.#isReady) await this.#migrate();
    return this.#driver.transaction(() => this.#steps(steps), failing);
  }

  async #read<T>(steps: (operation: Operation) => SqlSteps<T>): Promise<T> {
    if (!this.#isReady) await this.#migrate();
    const driver = this.#driver;
    return driver.read === undefined
      ? driver.transaction(() => this.#steps(steps), READING)
      : driver.read(() => this.#steps(steps), READING);
  }

  *#steps<T>(steps: (operation: Operation) => SqlSteps<T>): SqlSteps<T> {
    const dialect = this.#dialect;
    const { clock } = dialect;
    const now = clock === undefined ? Date.now() : number((yield* select(clock))[0]!.now);
    return yield* steps({ sql: this.#sql, dialect, now });
  }

  #migrate(): Promise<void> {
    this.#ready ??= this.#driver
      .transaction(() => migrate(this.#dialect), "the tables could not be created")
      .then(
        () => {
          this.#isReady = true;
        },
        (error: unknown) => {
          this.#ready = undefined;
          throw error;
        },
      );
    return this.#ready;
  }
}
