// The steps that lock records, end their leases and compute when they are due.

import { lostHistory } from "../outcomes.ts";
import { change, type SqlDialect, type SqlRow, type SqlSteps, type SqlValue, select } from "./driver.ts";
import { historyOf, number, numberOrNull, text, toHistory, toId, workerOf } from "./sql-rows.ts";
import { LIST, type Statements } from "./sql-statements.ts";

/** What the steps of a call work with. */
export interface Operation {
  readonly sql: Statements;
  readonly dialect: SqlDialect;
  /** Epoch ms by the store's clock. */
  readonly now: number;
}

/** What the steps of a call work with before they know the time. */
export type Untimed = Omit<Operation, "now">;

/** Splits values into lists of {@link LIST} values. Fills the last list with its last value. */
export function lists<T extends SqlValue>(values: readonly T[]): T[][] {
  const found: T[][] = [];
  for (let at = 0; at < values.length; at += LIST)
    found.push(Array.from({ length: LIST }, (_, index) => values[Math.min(at + index, values.length - 1)]!));
  return found;
}

/**
 * Locks the rows of records in one order, so that no two transactions wait for each other.
 *
 * @returns the rows by their refs. They are empty if the database has no row locks
 */
export function* lockAll({ sql, dialect }: Untimed, refs: readonly string[]): SqlSteps<Map<string, SqlRow>> {
  const rows = new Map<string, SqlRow>();
  if (dialect.forUpdate === undefined) return rows;
  for (const list of lists([...new Set(refs)].sort()))
    for (const row of yield* select(sql.lockRecords, ...list)) rows.set(text(row.ref), row);
  return rows;
}

/** Whether nobody else holds the row of an event. A session of somebody else may hold it for long. Locks the row. */
export function* isFree({ sql, dialect }: Untimed, { seq }: SqlRow): SqlSteps<boolean> {
  return dialect.skipLocked === undefined || (yield* select(sql.lockEvent, number(seq))).length > 0;
}

/** Returns the database's time, epoch ms. */
export function* nowOf({ dialect }: Untimed): SqlSteps<number> {
  const { clock } = dialect;
  return clock === undefined ? Date.now() : number((yield* select(clock))[0]!.now);
}

/** Runs steps that use the database's time. */
export function* timed<T>(untimed: Untimed, steps: (operation: Operation) => SqlSteps<T>): SqlSteps<T> {
  return yield* steps({ ...untimed, now: yield* nowOf(untimed) });
}

/** Locks the rows of records in one order, and returns them. Makes the rows that are not there. */
export function* lockOrInsertAll({ sql }: Untimed, refs: readonly string[]): SqlSteps<SqlRow[]> {
  const found = new Map<string, SqlRow>();
  for (const list of lists(refs.toSorted())) {
    for (;;) {
      for (const row of yield* select(sql.loadRecords, ...list)) found.set(text(row.ref), row);
      const missing = list.filter((ref) => !found.has(ref));
      if (missing.length === 0) break;
      // Another transaction may delete a row between these statements, so look again.
      for (const some of lists(missing)) yield* change(sql.insertRecords, ...some);
    }
  }
  return [...found.values()];
}

/** Reads and locks the row of a record. Makes the row if there is none. */
export function* lock({ sql }: Operation, key: string): SqlSteps<SqlRow> {
  let [row] = yield* select(sql.lockRecord, key);
  // Another transaction may delete the row between these statements.
  while (row === undefined) {
    yield* change(sql.insertRecord, key);
    [row] = yield* select(sql.lockRecord, key);
  }
  return row;
}

/**
 * If the lease of a locked record has ended, gives its event a `lost` entry, and lets the event wait again.
 *
 * @returns `false` if somebody else holds the row of the event
 */
export function* expire(operation: Operation, record: SqlRow): SqlSteps<boolean> {
  const { sql, now } = operation;
  const end = numberOrNull(record.lease_end);
  if (end === null || end > now) return true;
  const key = text(record.ref);
  for (const row of yield* select(sql.processingOf, key)) {
    if (!(yield* isFree(operation, row))) return false;
    const before = { history: historyOf(row), worker: workerOf(row) };
    const history = lostHistory(before, number(row.claimed_at), number(row.due_at));
    yield* change(sql.loseEvent, toHistory(history), number(row.seq));
  }
  yield* change(sql.endLease, number(record.due_at), key);
  return true;
}

/** Deletes events of a record. Skips done events but timers, an event that is being processed, and the event `kept`. */
export function* removeEvents(
  { sql, now }: Operation,
  ref: string,
  what: readonly string[] | "timers",
  kept = 0,
): SqlSteps<number> {
  let removed = 0;
  if (what === "timers") {
    removed += yield* change(sql.removeOpenTimers, ref, now, kept);
    removed += yield* change(sql.removeEndedTimers, ref, kept);
  } else {
    for (const eventId of new Set(what))
      removed += yield* change(sql.removeById, toId(eventId), ref, now, kept);
  }
  return removed;
}
