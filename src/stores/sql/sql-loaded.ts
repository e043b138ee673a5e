// Loads the rows of records for a rule, and writes what the rule has changed.

import type { EventRow, RecordRow } from "../memory/memory-rows.ts";
import { MemoryTables } from "../memory/memory-tables.ts";
import type { Scope } from "../store-steps.ts";
import type { RecordName } from "../stored-event.ts";
import { change, type SqlRow, type SqlSteps, type SqlValue, select } from "./driver.ts";
import { keyOf } from "./sql-queue.ts";
import { lists, lockOrInsertAll, nowOf, type Untimed } from "./sql-records.ts";
import {
  contentOf,
  fromId,
  ledgerIn,
  number,
  numberOrNull,
  snapshotOf,
  storedEventOf,
  text,
  toHistory,
  toId,
  toSnapshot,
  toTextOrNull,
} from "./sql-rows.ts";
import { updateAll } from "./sql-statements.ts";

/** Stands for a notification, which is not loaded, because a rule at most drops it. */
const NOT_LOADED = "";

type Columns = Readonly<Record<string, SqlValue>>;

/** A row of the tables, and its columns before the rule. */
interface Loaded<T> {
  readonly row: T;
  readonly columns: Columns;
}

interface LoadedRecord extends Loaded<RecordRow> {
  readonly key: string;
  /** The row in the database. */
  readonly stored: SqlRow;
}

export interface SqlScope extends Scope {
  /** Finds events that the rule also needs, when the records are locked: others may have changed the events before. */
  readonly find?: (untimed: Untimed) => SqlSteps<{ readonly found: readonly SqlRow[] }>;
}

/** Runs a rule on the rows of a scope, and writes what the rule changed. */
export function* withRecords<T>(
  untimed: Untimed,
  scope: SqlScope,
  rule: (tables: MemoryTables) => T,
): SqlSteps<T> {
  const names = new Map(scope.records.map((name) => [keyOf(name), name]));
  const stored = yield* lockOrInsertAll(untimed, [...names.keys()]);
  // Read the clock after the locks, so that it is not behind the clock of somebody who changed the rows before.
  const tables = new MemoryTables(yield* nowOf(untimed));
  for (const row of yield* eventsOf(untimed, scope, [...names.keys()])) {
    const name = names.get(text(row.ref));
    if (name !== undefined && !tables.events.has(fromId(row.id)))
      tables.insert(eventRowOf(row, tables.recordFor(name.ref, name.eventId)));
  }
  const events = [...tables.events.values()].map((row) => ({ row, columns: columnsOf(row) }));
  const records = stored.map((row) => recordOf(tables, names.get(text(row.ref))!, row));
  const result = rule(tables);
  const changed = yield* writeEvents(untimed, tables, events);
  yield* writeRecords(untimed, tables.now(), records, changed);
  return result;
}

/** Reads the events of a scope, without their text and history. */
function* eventsOf(
  untimed: Untimed,
  { ids: given = [], find, ended }: SqlScope,
  keys: readonly string[],
): SqlSteps<SqlRow[]> {
  const { sql } = untimed;
  const found: SqlRow[] = [];
  for (const list of lists(keys)) found.push(...(yield* select(sql.openEvents, ...list)));
  const ids =
    find === undefined ? given.map(toId) : (yield* find(untimed)).found.map(({ id }) => id as Uint8Array);
  for (const list of lists(ids)) found.push(...(yield* select(sql.eventsById, ...list)));
  const endedEvents = { parked: sql.parkedEvents, timers: sql.endedTimers, all: sql.endedEvents };
  if (ended !== undefined) for (const key of keys) found.push(...(yield* select(endedEvents[ended], key)));
  return found;
}

/** Completes the record of a row. The tables have its events. */
function recordOf(tables: MemoryTables, { ref, eventId }: RecordName, stored: SqlRow): LoadedRecord {
  const row = tables.recordFor(ref, eventId);
  if (stored.snapshot !== null) row.snapshot = snapshotOf(stored);
  row.sequence = number(stored.sequence);
  row.seenAt = number(stored.seen_at);
  row.ledger = ledgerIn(stored);
  const [due, end] = [numberOrNull(stored.due_at), numberOrNull(stored.lease_end)];
  const holder = [...row.open].find(({ state }) => state === "processing");
  if (end !== null && holder !== undefined)
    row.lease = { row: holder, end, duration: number(stored.lease_duration) };
  tables.due.set(row, row.lease?.end ?? due ?? undefined);
  return { row, columns: columnsOfRecord(row, due), key: text(stored.ref), stored };
}

function eventRowOf(row: SqlRow, record: RecordRow): EventRow {
  const {
    state,
    attempts,
    receivedAt,
    dueAt,
    firstDueAt,
    failures,
    refusals,
    doneAt: _,
    type,
    reason,
    history,
    ...event
  } = storedEventOf(row);
  return {
    ...{ event: { ...event, traceparent: null, notification: NOT_LOADED }, arrival: number(row.seq), record },
    ...{ state, attempts, type, reason, history },
    receivedAt: receivedAt.getTime(),
    dueAt: dueAt?.getTime(),
    firstDueAt: firstDueAt.getTime(),
    failures,
    refusals,
    outages: number(row.outages),
    firstOutageAt: numberOrNull(row.first_outage_at),
    replayed: number(row.replayed) === 1,
    ...{ claimedAt: 0, worker: undefined, lease: undefined },
    endedAt: number(row.done_at),
  };
}

/** The columns of an event that a rule may change. */
function columnsOf(row: EventRow): Columns {
  return {
    state: row.state,
    due_at: row.dueAt ?? null,
    first_due_at: row.firstDueAt,
    done_at: row.dueAt === undefined ? row.endedAt : null,
    attempts: row.attempts,
    outages: row.outages,
    first_outage_at: row.firstOutageAt,
    failures: row.failures,
    refusals: row.refusals,
    replayed: row.replayed ? 1 : 0,
    reason: row.reason,
    ...(row.event.notification === null && { notification: null }),
  };
}

/** @returns the records of which an event was changed or added */
function* writeEvents(
  { sql, dialect }: Untimed,
  tables: MemoryTables,
  loaded: readonly Loaded<EventRow>[],
): SqlSteps<Set<RecordRow>> {
  const changed = new Set<RecordRow>();
  const updates = new Updates();
  const deleted: number[] = [];
  for (const { row, columns } of loaded) {
    if (tables.events.get(row.event.eventId) !== row) deleted.push(row.arrival);
    else if (updates.add(columns, columnsOf(row), row.arrival) && row.record.lease?.row !== row)
      changed.add(row.record);
  }
  for (const list of lists(deleted)) yield* change(sql.deleteEvents, ...list);
  yield* updates.write((names) => updateAll(dialect, "stayhook_events", names, "seq"));
  const known = new Set(loaded.map(({ row }) => row));
  for (const row of [...tables.events.values()].filter((row) => !known.has(row))) {
    // Another record, or an `add` since the locks, has the id.
    const isKnown = (yield* change(sql.restoreEvent, ...restoredValues(row))) === 0;
    changed.add(row.record);
    if (!isKnown) continue;
    tables.forget(row);
    tables.refresh(row.record);
  }
  return changed;
}

function restoredValues({ event, record, ...row }: EventRow): SqlValue[] {
  return [
    ...[toId(event.eventId), keyOf(event), row.state, row.dueAt ?? null, row.firstDueAt, row.receivedAt],
    ...contentOf(event),
    ...[row.attempts, row.failures, row.refusals],
    row.dueAt === undefined ? row.endedAt : null,
    ...[toTextOrNull(row.type), row.reason, toHistory(row.history)],
  ];
}

/** Writes the records, and deletes the rows of those that have nothing to do, no snapshot and no ledger. */
function* writeRecords(
  { sql, dialect }: Untimed,
  now: number,
  loaded: readonly LoadedRecord[],
  changed: ReadonlySet<RecordRow>,
): SqlSteps<void> {
  const updates = new Updates();
  const empty: string[] = [];
  for (const { row, columns, key, stored } of loaded) {
    const due = dueOf(row, stored, changed.has(row) ? now : undefined);
    if (due === null && row.snapshot === undefined && row.ledger === undefined) empty.push(key);
    else updates.add(columns, columnsOfRecord(row, due), key);
  }
  yield* updates.write((names) => updateAll(dialect, "stayhook_records", names, "ref"));
  for (const list of lists(empty)) yield* change(sql.eraseRecords, ...list);
}

function columnsOfRecord(
  { snapshot, sequence, seenAt, ledger, lease }: RecordRow,
  due: number | null,
): Columns {
  return {
    due_at: due,
    lease_end: lease?.end ?? null,
    ledger: toTextOrNull(ledger),
    ...(snapshot !== undefined && { snapshot: toSnapshot(snapshot), sequence, seen_at: seenAt }),
  };
}

/**
 * Returns when a record is due. During a lease, a due time below the end of the lease tells `settle` that an event may have
 * become due, also if the lease has ended. If the due time is too early, a claim finds no event and sets it right.
 *
 * @param changedAt - `undefined` if no event was changed or added
 */
function dueOf(
  { lease, index, time }: RecordRow,
  stored: SqlRow,
  changedAt: number | undefined,
): number | null {
  if (lease === undefined) return index === -1 ? null : time;
  const known = numberOrNull(stored.due_at) ?? lease.end;
  if (changedAt === undefined && known >= number(stored.lease_end)) return lease.end;
  return Math.min(known, changedAt ?? known, lease.end - 1);
}

/** Groups rows that get the same values, so that one statement writes many of them. */
class Updates {
  readonly #groups = new Map<string, { readonly columns: Columns; readonly keys: (string | number)[] }>();

  /** @returns whether a column differs */
  add(before: Columns, after: Columns, key: string | number): boolean {
    const differing = Object.entries(after).filter(([name, value]) => before[name] !== value);
    if (differing.length === 0) return false;
    const columns = Object.fromEntries(differing);
    const id = JSON.stringify(columns);
    const group = this.#groups.get(id) ?? { columns, keys: [] };
    this.#groups.set(id, group);
    group.keys.push(key);
    return true;
  }

  *write(statementOf: (columns: readonly string[]) => string): SqlSteps<void> {
    for (const { columns, keys } of this.#groups.values()) {
      const statement = statementOf(Object.keys(columns));
      for (const list of lists(keys)) yield* change(statement, ...Object.values(columns), ...list);
    }
  }
}
