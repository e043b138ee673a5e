import { createSlots, type Slots } from "../../async.ts";
import type { Restriction } from "../beginnings.ts";
import { ANSWER_WITHIN, LockedError } from "../call-errors.ts";
import type { RowFilter } from "../event-filter.ts";
import { type Change, type EventState, noEvents } from "../event-states.ts";
import type { EventStore } from "../event-store.ts";
import type { MemoryTables } from "../memory/memory-tables.ts";
import { changeEvents } from "../memory/record-rules.ts";
import type { Addition, Settlement } from "../outcomes.ts";
import { RecordStore } from "../record-store.ts";
import type { Slice, Sliced } from "../slices.ts";
import type { RecordSnapshot } from "../snapshot.ts";
import type { Timed } from "../store-clock.ts";
import type { PruneOptions, PruneSnapshotsOptions, StoreSchema } from "../store-options.ts";
import type { StoreProblem } from "../store-problem.ts";
import type { AddAnswer, ClaimCall, ClaimResult, RecordPage, Settled } from "../store-steps.ts";
import type { ClaimedEvent, RecordName, StoredEvent } from "../stored-event.ts";
import { ClaimStart } from "./claim-start.ts";
import {
  type SqlDialect,
  type SqlDriver,
  type SqlNotifier,
  type SqlSteps,
  select,
  type TransactionOptions,
} from "./driver.ts";
import {
  dueRecords,
  list,
  matching,
  nameOf,
  oldSnapshots,
  prune,
  recordsOf,
  setMeta,
  type TimersSeen,
} from "./sql-changes.ts";
import { type SqlScope, withRecords } from "./sql-loaded.ts";
import {
  add,
  alreadySettled,
  claimEvents,
  LeaseLost,
  nextDueAt,
  noneDue,
  renew,
  settle,
} from "./sql-queue.ts";
import { type Operation, timed, type Untimed } from "./sql-records.ts";
import {
  fromText,
  number,
  numberOrNull,
  recordSnapshotOf,
  storedEventOf,
  text,
  toId,
  toName,
  toText,
} from "./sql-rows.ts";
import { latestVersion, type Tables } from "./sql-schema.ts";
import { type Statements, statementsOf } from "./sql-statements.ts";
import { SqlTables, type TablesOptions } from "./sql-tables.ts";
import { type HotSteps, tryAndRollBack } from "./sql-trial.ts";

/** How long a transaction of one call waits for a lock, ms. The calls of a group do not wait, so that each waits alone. */
const PATIENCE = 5000;

function patienceOf(calls: number): number {
  return calls > 1 ? 0 : PATIENCE;
}

/** What failed, for error messages. */
export const failing = {
  add: "the event could not be recorded",
  claim: "events could not be claimed",
  renew: "leases could not be renewed",
  settle: "the result of an attempt could not be recorded",
  read: "events could not be read",
} as const;

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
  return new SqlStore<Tx>(driver, { dialect, place: "the database" });
}

export interface SqlStoreOptions extends TablesOptions {
  /** How many settles with the user's writes may hold a connection at once. Default: any number. */
  readonly writesAtOnce?: number;
}

/**
 * A store in any SQL database. The methods of the hot path (`doAdd`, `doClaim`, `doRenew`, `doSettle`, `doSetBack`) run
 * one statement after the other for each event. `PgStore` overrides them with statements for groups.
 */
export class SqlStore<Tx> extends RecordStore<Tx> {
  declare readonly transactional?: true;
  protected readonly driver: SqlDriver;
  protected readonly dialect: SqlDialect;
  protected readonly tables: SqlTables;
  /** Limits the settles with the user's writes. */
  protected readonly writing: Slots;
  protected readonly sql: Statements;
  readonly #timers: TimersSeen = { doneAt: 0, seq: 0 };
  /** Where claims begin to look. */
  protected readonly start = new ClaimStart();

  constructor(
    driver: SqlDriver,
    tables: Tables,
    { writesAtOnce = Number.POSITIVE_INFINITY, ...options }: SqlStoreOptions = {},
  ) {
    super();
    this.writing = createSlots(writesAtOnce);
    this.driver = driver;
    this.tables = new SqlTables(driver, tables, options);
    this.dialect = tables.dialect;
    this.sql = statementsOf(this.dialect);
    if (driver.transactional) this.transactional = true;
  }

  protected doAdd(additions: readonly Addition[]): Promise<readonly AddAnswer[]> {
    const options = { patience: patienceOf(additions.length), answerWithin: ANSWER_WITHIN };
    return this.write(failing.add, (operation) => add(operation, additions), options);
  }

  protected async doClaim(call: ClaimCall): Promise<Timed<ClaimResult>> {
    // If no record is due, do not claim: the locks of a claim would delay other processes.
    const from = call.except === undefined ? 0 : this.start.of(call);
    const { now, result, since } = await this.read((operation) => noneDue(operation, call, from));
    this.start.note(call, result === undefined ? since : now);
    if (result !== undefined) return { now, result };
    const steps = function* (untimed: Untimed) {
      // The database's time is a moment old, so that the leases end no later than the caller expects.
      const time = untimed.dialect.clock === undefined ? Date.now() : now;
      const timed = yield* claimEvents({ ...untimed, now: time }, call, since, from);
      call.claimed = timed.result.claimed;
      return timed;
    };
    return this.writeUntimed(failing.claim, steps, { mayBeLost: true });
  }

  protected async doRenew(
    claims: readonly ClaimedEvent[],
    leaseDuration: number,
  ): Promise<readonly string[]> {
    const patience = Math.min(patienceOf(claims.length), leaseDuration / 3);
    try {
      return await this.renewing(claims, leaseDuration, patience);
    } catch (error) {
      if (!(error instanceof LockedError)) throw error;
      if (claims.length === 1) return [];
    }
    // Renew each lease alone. During a wait for one lock, the other leases could end.
    return (await Promise.all(claims.map((claim) => this.doRenew([claim], leaseDuration)))).flat();
  }

  /** Renews leases in one transaction, which waits for locks for `patience` ms. */
  protected renewing(
    claims: readonly ClaimedEvent[],
    leaseDuration: number,
    patience: number,
  ): Promise<readonly string[]> {
    const steps = (operation: Operation) => renew(operation, claims, leaseDuration);
    return this.write(failing.renew, steps, { mayBeLost: true, patience });
  }

  protected async doSettle(settlements: readonly Settlement<Tx>[]): Promise<readonly Settled[]> {
    const hasWrites = settlements.some(({ writes }) => writes.length > 0);
    // The user's writes may wait for locks of the user, and go on after them.
    const options = hasWrites ? {} : { patience: patienceOf(settlements.length) };
    const steps = (operation: Operation) => settle(operation, settlements);
    const run = () => this.write(failing.settle, steps, options);
    try {
      // The user's writes may be slow. Leave connections for adds, claims and renewals.
      return await (hasWrites ? this.writing.run(run) : run());
    } catch (error) {
      if (!(error instanceof LeaseLost)) throw error;
      // An earlier call of this settlement may have ended the attempt while the writes of this one ran.
      return [await this.read((operation) => alreadySettled(operation, settlements[0]!.claim))];
    }
  }

  protected dueRecords(from = ""): Promise<RecordPage> {
    return this.read((operation) => dueRecords(operation, from, this.step));
  }

  protected override withRecords<T>(scope: SqlScope, rule: (tables: MemoryTables) => T): Promise<T> {
    const writing = this.writeUntimed(scope.failing, (untimed) => withRecords(untimed, scope, rule));
    // A restored event may be due before all others.
    return writing.finally(() => this.start.forget());
  }

  protected async doNextDue(restriction: Restriction): Promise<Timed<number | undefined>> {
    return this.read(function* (operation) {
      const { now } = operation;
      const at = yield* nextDueAt(operation, restriction);
      return { now, result: at === null ? undefined : Math.max(0, at - now) };
    });
  }

  protected doGet(eventId: string): Promise<StoredEvent | undefined> {
    return this.read(function* ({ sql }) {
      const [row] = yield* select(sql.eventById, toId(eventId));
      return row && storedEventOf(row);
    });
  }

  protected doList(filter: RowFilter, slice: Slice): Promise<Sliced<StoredEvent[]>> {
    return this.read((operation) => list(operation, filter, slice));
  }

  protected arrivalOf(eventId: string): Promise<number | undefined> {
    return this.read(function* ({ sql }) {
      const [row] = yield* select(sql.eventById, toId(eventId));
      return row && number(row.seq);
    });
  }

  protected async doChange(
    change: Change,
    filter: RowFilter,
    states: readonly EventState[],
    slice: Slice,
  ): Promise<Sliced<number>> {
    const find = (untimed: Untimed) => matching(untimed, "seq, id, ref", filter, slice, states);
    const { found, next } = await this.read(find);
    const records = [...new Set(found.map(({ ref }) => text(ref)))].map(toName);
    const scope = { records, find, failing: "events could not be changed" };
    const changed = await this.withRecords(scope, (tables) =>
      changeEvents(tables, change, tables.matching(filter, slice.before), states),
    );
    return { found: changed, next };
  }

  protected doCounts(): Promise<Record<EventState, number>> {
    return this.read(function* ({ sql }) {
      const counts = { ...noEvents };
      for (const { state, events } of yield* select(sql.counts))
        counts[text(state) as EventState] = number(events);
      return counts;
    });
  }

  protected doOldestWaiting(): Promise<number | undefined> {
    return this.read(function* ({ sql, now }) {
      const at = numberOrNull((yield* select(sql.oldestWaiting, now, now))[0]!.at);
      return at === null ? undefined : Math.max(0, now - at);
    });
  }

  protected doScheduledDue(): Promise<number> {
    return this.read(function* ({ sql, now }) {
      return number((yield* select(sql.scheduledDue, now))[0]!.events);
    });
  }

  protected doLastReceivedAt(): Promise<number | undefined> {
    return this.read(function* ({ sql }) {
      return numberOrNull((yield* select(sql.lastReceived))[0]!.at) ?? undefined;
    });
  }

  async schema(): Promise<StoreSchema> {
    this.assertOpen();
    const version = await this.tables.version();
    return { version, expected: latestVersion(this.dialect) };
  }

  protected recordsOf(account: string, from = ""): Promise<RecordPage> {
    return this.read((operation) => recordsOf(operation, account, from));
  }

  protected doSnapshotOf(ref: string): Promise<RecordSnapshot | undefined> {
    return this.read(function* ({ sql }) {
      const [row] = yield* select(sql.record, toText(ref));
      return row === undefined || row.snapshot === null ? undefined : recordSnapshotOf(row);
    });
  }

  protected doSnapshots(after: string | undefined, limit: number): Promise<RecordSnapshot[]> {
    return this.read(function* ({ sql }) {
      const rows = yield* select(sql.snapshotsAfter, after === undefined ? "" : toText(after), limit);
      return rows.map(recordSnapshotOf);
    });
  }

  protected doGetMeta(key: string): Promise<{ readonly value: string; readonly age: number } | undefined> {
    return this.read(function* ({ sql, now }) {
      const [row] = yield* select(sql.meta, nameOf(key));
      return row && { value: fromText(text(row.value)), age: Math.max(0, now - number(row.set_at)) };
    });
  }

  protected doSetMeta(
    key: string,
    value: string | undefined,
    expected: string | undefined,
  ): Promise<boolean> {
    return this.write("the meta value could not be written", (operation) =>
      setMeta(operation, key, value, expected),
    );
  }

  protected doPrune(options: PruneOptions): Promise<number> {
    return this.write("old events could not be deleted", (operation) =>
      prune(operation, options, this.#timers),
    );
  }

  protected oldSnapshots(options: PruneSnapshotsOptions): Promise<readonly RecordName[]> {
    return this.read((operation) => oldSnapshots(operation, options));
  }

  protected override get notifier(): SqlNotifier | undefined {
    return this.driver.notifier;
  }

  protected async doClose(): Promise<void> {
    await this.driver.close();
  }

  async problems(): Promise<readonly StoreProblem[]> {
    this.assertOpen();
    const failure = await this.tryOut().then(
      () => [],
      (error: Error) => [{ fails: true, detail: error.message }],
    );
    return [...failure, ...(await this.risks())];
  }

  /** Returns what the settings of the server can lose. */
  protected async risks(): Promise<readonly StoreProblem[]> {
    return [];
  }

  /** Does the whole job with an event of its own, in a transaction that is rolled back, so that no process sees the event. */
  protected tryOut(): Promise<void> {
    const failing = "the store cannot add, claim, settle and remove an event";
    const run = (steps: (operation: Operation) => SqlSteps<void>) => this.write(failing, steps);
    return tryAndRollBack(run, (operation) => this.hotSteps(operation));
  }

  /** The steps of the hot path, for {@link tryOut}. */
  protected hotSteps(operation: Operation): HotSteps {
    return {
      add: (additions) => add(operation, additions),
      *claim(call) {
        return (yield* claimEvents(operation, call)).result.claimed;
      },
      settle: (settlements) => settle(operation, settlements),
    };
  }

  /** Runs steps in one transaction. The steps may run again, for example after a deadlock. */
  protected write<T>(
    failing: string,
    steps: (operation: Operation) => SqlSteps<T>,
    options?: TransactionOptions,
  ): Promise<T> {
    return this.writeUntimed(failing, (untimed) => timed(untimed, steps), options);
  }

  /** Runs steps that find out the time by themselves in one transaction. */
  protected async writeUntimed<T>(
    failing: string,
    steps: (untimed: Untimed) => SqlSteps<T>,
    options?: TransactionOptions,
  ): Promise<T> {
    await this.ready();
    const { dialect, sql } = this;
    return this.driver.transaction(() => steps({ sql, dialect }), failing, options);
  }

  /** Runs steps that only read. */
  protected async read<T>(steps: (operation: Operation) => SqlSteps<T>): Promise<T> {
    if (this.driver.read === undefined) return this.write(failing.read, steps);
    await this.ready();
    const { dialect, sql } = this;
    return this.driver.read(() => timed({ sql, dialect }, steps), failing.read);
  }

  /** Creates or upgrades the tables at the first call. */
  protected ready(): Promise<void> {
    return this.tables.ready();
  }
}
