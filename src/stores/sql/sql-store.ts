import { createSlots, type Slots } from "../../async.ts";
import type { Restriction } from "../beginnings.ts";
import { ANSWER_WITHIN, LockedError } from "../call-errors.ts";
import type { RowFilter } from "../event-filter.ts";
import type { Change, EventState } from "../event-states.ts";
import type { MemoryTables } from "../memory/memory-tables.ts";
import { changeEvents } from "../memory/record-rules.ts";
import type { Addition, Settlement } from "../outcomes.ts";
import { RecordStore } from "../record-store.ts";
import type { Slice, Sliced } from "../slices.ts";
import type { RecordLedger, RecordSnapshot } from "../snapshot.ts";
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
  arrivalOf,
  countsOf,
  dueRecords,
  eventOf,
  list,
  matching,
  metaOf,
  oldestWaiting,
  oldSnapshots,
  prune,
  recordsOf,
  scheduledDue,
  setMeta,
  snapshotOf,
  type TimersSeen,
} from "./sql-changes.ts";
import { type ClaimSearch, claimEvents, nextDue, noneDue } from "./sql-claims.ts";
import { type SqlScope, withRecords } from "./sql-loaded.ts";
import { add, alreadySettled, LeaseLost, renew, settle } from "./sql-queue.ts";
import { type Operation, timed, type Untimed } from "./sql-records.ts";
import { ledgerIn, numberOrNull, recordSnapshotOf, text, toName, toRef, toText } from "./sql-rows.ts";
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

export interface SqlStoreOptions extends TablesOptions {
  /** How many settles with the user's writes may hold a connection at once. Default: any number. */
  readonly writesAtOnce?: number;
}

/**
 * A store in any SQL database. The steps of the hot path (`adding`, `claiming`, `settling`) run one statement after the other
 * for each event. `MysqlStore` and `PgStore` have statements for groups in their place.
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
    return this.write(failing.add, (operation) => this.adding(operation, additions), options);
  }

  protected async doClaim(call: ClaimCall): Promise<Timed<ClaimResult>> {
    // If no record is due, do not claim: the locks of a claim would delay other processes.
    const from = call.except === undefined ? 0 : this.start.of(call);
    const { now, result, since } = await this.read((operation) => noneDue(operation, call, from));
    this.start.note(call, result === undefined ? since : now);
    if (result !== undefined) return { now, result };
    const claiming = this.claiming.bind(this);
    const steps = function* (untimed: Untimed) {
      // The database's time is a moment old, so that the leases end no later than the caller expects.
      const time = untimed.dialect.clock === undefined ? Date.now() : now;
      const timed = yield* claiming({ ...untimed, now: time }, call, { since, from });
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
    const steps = (operation: Operation) => this.renewingAll(operation, claims, leaseDuration);
    return this.write(failing.renew, steps, { mayBeLost: true, patience });
  }

  protected async doSettle(settlements: readonly Settlement<Tx>[]): Promise<readonly Settled[]> {
    const hasWrites = settlements.some(({ writes }) => writes.length > 0);
    // The user's writes may wait for locks of the user, and go on after them.
    const options = hasWrites ? {} : { patience: patienceOf(settlements.length) };
    const steps = (operation: Operation) => this.settling(operation, settlements);
    const run = () => this.write(failing.settle, steps, options);
    try {
      // The user's writes may be slow. Leave connections for adds, claims and renewals.
      return await (hasWrites ? this.writing.run(run) : run());
    } catch (error) {
      if (!(error instanceof LeaseLost)) throw error;
      // An earlier call of this settlement may have ended the attempt while the writes of this one ran.
      return [await this.decide((operation) => alreadySettled(operation, settlements[0]!.claim))];
    }
  }

  protected dueRecords(from = ""): Promise<RecordPage> {
    return this.decide((operation) => dueRecords(operation, from, this.step));
  }

  protected override withRecords<T>(scope: SqlScope, rule: (tables: MemoryTables) => T): Promise<T> {
    const writing = this.writeUntimed(scope.failing, (untimed) => withRecords(untimed, scope, rule));
    // A restored event may be due before all others.
    return writing.finally(() => this.start.forget());
  }

  protected async doNextDue(restriction: Restriction): Promise<Timed<number | undefined>> {
    return this.decide((operation) => nextDue(operation, restriction));
  }

  protected doGet(eventId: string): Promise<StoredEvent | undefined> {
    return this.read((operation) => eventOf(operation, eventId));
  }

  protected override doFind(eventId: string): Promise<StoredEvent | undefined> {
    return this.decide((operation) => eventOf(operation, eventId));
  }

  protected doList(filter: RowFilter, slice: Slice): Promise<Sliced<StoredEvent[]>> {
    return this.read((operation) => list(operation, filter, slice));
  }

  protected arrivalOf(eventId: string): Promise<number | undefined> {
    return this.read((operation) => arrivalOf(operation, eventId));
  }

  protected async doChange(
    change: Change,
    filter: RowFilter,
    states: readonly EventState[],
    slice: Slice,
  ): Promise<Sliced<number>> {
    const find = (untimed: Untimed) => matching(untimed, "seq, id, ref", filter, slice, states);
    const { found, next } = await this.decide(find);
    const records = [...new Set(found.map(({ ref }) => text(ref)))].map(toName);
    const scope = { records, find, failing: "events could not be changed" };
    const changed = await this.withRecords(scope, (tables) =>
      changeEvents(tables, change, tables.matching(filter, slice.before), states),
    );
    return { found: changed, next };
  }

  protected doCounts(): Promise<Record<EventState, number>> {
    return this.read(countsOf);
  }

  protected doOldestWaiting(): Promise<number | undefined> {
    return this.read(oldestWaiting);
  }

  protected doScheduledDue(): Promise<number> {
    return this.read(scheduledDue);
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
    return this.decide((operation) => recordsOf(operation, account, from));
  }

  protected doSnapshotOf(ref: string): Promise<RecordSnapshot | undefined> {
    return this.read((operation) => snapshotOf(operation, ref));
  }

  protected doSnapshots(after: string | undefined, limit: number): Promise<RecordSnapshot[]> {
    return this.read(function* ({ sql }) {
      const rows = yield* select(sql.snapshotsAfter, after === undefined ? "" : toText(after), limit);
      return rows.map(recordSnapshotOf);
    });
  }

  protected doLedgerOf(ref: string): Promise<string | undefined> {
    return this.read(function* ({ sql }) {
      const [row] = yield* select(sql.record, toText(ref));
      return row && ledgerIn(row);
    });
  }

  protected doLedgers(after: string | undefined, limit: number): Promise<RecordLedger[]> {
    return this.read(function* ({ sql }) {
      const rows = yield* select(sql.ledgersAfter, after === undefined ? "" : toText(after), limit);
      return rows.map((row) => ({ ref: toRef(row.ref)!, ledger: ledgerIn(row)! }));
    });
  }

  protected doGetMeta(key: string): Promise<{ readonly value: string; readonly age: number } | undefined> {
    return this.read((operation) => metaOf(operation, key));
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
      add: (additions) => this.adding(operation, additions),
      claim: (call) => this.claiming(operation, call),
      settle: (settlements) => this.settling(operation, settlements),
    };
  }

  /** The steps of `add`. */
  protected adding(operation: Operation, additions: readonly Addition[]): SqlSteps<readonly AddAnswer[]> {
    return add(operation, additions);
  }

  protected claiming(
    operation: Operation,
    call: ClaimCall,
    search?: ClaimSearch,
  ): SqlSteps<Timed<ClaimResult>> {
    return claimEvents(operation, call, search);
  }

  protected renewingAll(
    operation: Operation,
    claims: readonly ClaimedEvent[],
    leaseDuration: number,
  ): SqlSteps<readonly string[]> {
    return renew(operation, claims, leaseDuration);
  }

  protected settling(
    operation: Operation,
    settlements: readonly Settlement<never>[],
  ): SqlSteps<readonly Settled[]> {
    return settle(operation, settlements);
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

  /** Runs steps that only read, and decide what happens next: a copy of the database that is behind must not answer. */
  protected async decide<T>(steps: (operation: Operation) => SqlSteps<T>): Promise<T> {
    if (this.driver.decide === undefined) return this.read(steps);
    await this.ready();
    const { dialect, sql } = this;
    return this.driver.decide(() => timed({ sql, dialect }, steps), failing.read);
  }

  /** Creates or upgrades the tables at the first call. */
  protected ready(): Promise<void> {
    return this.tables.ready();
  }
}
