// The steps of lists, replays, deletions and snapshots in SQL.

import type { RowFilter } from "../event-filter.ts";
import { type EventState, eventOrigins, noEvents } from "../event-states.ts";
import type { Slice, Sliced } from "../slices.ts";
import type { RecordSnapshot } from "../snapshot.ts";
import type { PruneOptions, PruneSnapshotsOptions } from "../store-options.ts";
import type { RecordPage } from "../store-steps.ts";
import type { RecordName, StoredEvent } from "../stored-event.ts";
import {
  change,
  prepared,
  type SqlDialect,
  type SqlRow,
  type SqlSteps,
  type SqlValue,
  select,
} from "./driver.ts";
import { lists, type Operation, type Untimed } from "./sql-records.ts";
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
import { limitOf, ofAccount, ofRecord, recordsOfAccount } from "./sql-statements.ts";

/** The maximum number of events that one step of a list, replay or discard reads. Long steps delay notifications. */
const SCAN = 2000;

export function* list(untimed: Untimed, filter: RowFilter, slice: Slice): SqlSteps<Sliced<StoredEvent[]>> {
  const { found, next } = yield* matching(untimed, "*", filter, slice);
  return { found: found.map(storedEventOf), next };
}

/** Selects columns of the events that match `filter` and are in one of `states`, the newest first. */
export function* matching(
  { sql, dialect }: Untimed,
  columns: "*" | "seq, id, ref",
  filter: RowFilter,
  { before = Number.MAX_SAFE_INTEGER, limit: asked }: Slice,
  states?: readonly EventState[],
): SqlSteps<Sliced<readonly SqlRow[]>> {
  const limit = limitOf(asked);
  const [conditions, params] = conditionsOf(filter, states, dialect);
  // These filters have an index. A query with other filters scans all events, in slices of `SCAN` events.
  const hasIndex =
    filter.eventId !== undefined ||
    filter.account !== undefined ||
    filter.ref !== undefined ||
    (filter.state !== undefined && filter.state !== "done");
  const [end] = hasIndex || conditions.length === 0 ? [] : yield* select(sql.sliceEnd, before, SCAN - 1);
  const from = end === undefined ? 0 : number(end.seq);
  // The unary plus keeps a database from reading all events in order of `seq`, instead of the index.
  const seq = hasIndex ? "+seq" : "seq";
  const where = [...conditions, `${seq} < ?`, `${seq} >= ?`].join(" AND ");
  const statement = `SELECT ${columns} FROM stayhook_events WHERE ${where} ORDER BY ${seq} DESC LIMIT ?`;
  const found = yield* select(prepared(dialect, statement), ...params, before, from, limit);
  if (found.length === limit) return { found, next: number(found.at(-1)!.seq) };
  return { found, next: end === undefined ? undefined : from };
}

function conditionsOf(
  {
    eventId,
    timestamps,
    account,
    ref,
    state,
    type,
    reason,
    source,
    receivedAfter,
    receivedBefore,
  }: RowFilter,
  states: readonly EventState[] | undefined,
  dialect: SqlDialect,
): [conditions: string[], params: SqlValue[]] {
  const conditions: string[] = [];
  const params: SqlValue[] = [];
  const add = (condition: string, ...values: SqlValue[]) => {
    conditions.push(condition);
    params.push(...values);
  };
  if (eventId !== undefined) add("id = ?", toId(eventId));
  if (timestamps !== undefined) add("timestamp IN (?, ?)", ...timestamps.map(toText));
  if (ref !== undefined) add(ofRecord(dialect), toText(ref));
  if (account !== undefined) {
    const [condition, values] = ofAccount(dialect, account);
    add(condition, ...values);
  }
  // `state <> 'done'` lets a database use a partial index.
  if (state !== undefined) add(state === "done" ? "state = ?" : "state = ? AND state <> 'done'", state);
  if (states !== undefined) add(`state IN (${states.map(() => "?").join(", ")})`, ...states);
  if (type !== undefined) add("type = ?", toText(type));
  if (reason !== undefined) add("reason = ?", reason);
  if (source !== undefined) add("source = ?", source);
  if (receivedAfter !== undefined) add("received_at >= ?", Math.ceil(receivedAfter.getTime()));
  if (receivedBefore !== undefined) add("received_at < ?", Math.ceil(receivedBefore.getTime()));
  return [conditions, params];
}

/** The number of records that one step of `eraseAccount` deletes, with all their events. */
const ERASED = 50;

/** Selects the next records of an account. @param after - the last key of the page before */
export function* recordsOf({ dialect }: Operation, account: string, after: string): SqlSteps<RecordPage> {
  const [query, params] = recordsOfAccount(dialect, account, after, ERASED);
  return pageOf(yield* select(query, ...params), ERASED);
}

/** Selects the next records that have a due time. @param after - the last key of the page before */
export function* dueRecords({ sql }: Operation, after: string, limit: number): SqlSteps<RecordPage> {
  return pageOf(yield* select(sql.dueRecords, after, limit), limit);
}

export function* oldSnapshots(
  { sql, now }: Operation,
  { age, limit }: PruneSnapshotsOptions,
): SqlSteps<readonly RecordName[]> {
  return pageOf(yield* select(sql.oldSnapshots, earlier(now, age), limit), limit).found;
}

function pageOf(rows: readonly SqlRow[], limit: number): RecordPage {
  const keys = rows.map(({ ref }) => text(ref));
  return { found: keys.map(toName), next: keys.length < limit ? undefined : keys.at(-1) };
}

export function* setMeta(
  { sql, now }: Operation,
  key: string,
  value: string | undefined,
  expected: string | undefined,
): SqlSteps<boolean> {
  const name = nameOf(key);
  if (expected === undefined) {
    if (value !== undefined) return (yield* change(sql.insertMeta, name, toText(value), now)) > 0;
    return (yield* select(sql.meta, name)).length === 0;
  }
  const known = toText(expected);
  if (value === undefined) return (yield* change(sql.deleteMeta, name, known)) > 0;
  return (yield* change(sql.updateMeta, toText(value), now, name, known)) > 0;
}

/** Adds a prefix to a caller's key, so that the key never equals a key of the store. */
function nameOf(key: string): string {
  return `:${toText(key)}`;
}

/** Where the next `prune` goes on to look for timers whose record has no snapshot. */
export interface TimersSeen {
  doneAt: number;
  seq: number;
}

/** The number of done timers that one `prune` looks at. */
const TIMERS = 500;

export function* prune(
  operation: Operation,
  { state, reason, age, limit: asked }: PruneOptions,
  seen: TimersSeen,
): SqlSteps<number> {
  const { sql, now } = operation;
  const until = earlier(now, age);
  const limit = limitOf(asked);
  const old: SqlRow[] = [];
  if (state === "done") {
    for (const source of eventOrigins.filter((origin) => origin !== "timer"))
      old.push(...(yield* select(sql.oldDone, source, until, limit)));
    old.push(...(yield* oldTimers(operation, until, seen)));
    old.sort((a, b) => number(a.done_at) - number(b.done_at) || number(a.seq) - number(b.seq));
  } else if (reason === undefined) {
    old.push(...(yield* select(sql.oldParked, until, limit)));
  } else {
    old.push(...(yield* select(sql.oldParkedFor, until, reason, limit)));
  }
  let deleted = 0;
  for (const list of lists(old.slice(0, limit).map(({ seq }) => number(seq))))
    deleted += yield* change(sql.deleteOld, ...list, state, until);
  return deleted;
}

/**
 * Selects done timers whose record has no snapshot. A store may keep very many timers whose record has one. So each call
 * looks at only {@link TIMERS} timers, and the next call goes on behind them.
 */
function* oldTimers({ sql }: Operation, until: number, seen: TimersSeen): SqlSteps<SqlRow[]> {
  const { doneAt, seq } = seen;
  const timers = yield* select(sql.doneTimers, until, doneAt, doneAt, seq, TIMERS);
  const last = timers.length < TIMERS ? undefined : timers.at(-1);
  seen.doneAt = last === undefined ? 0 : number(last.done_at);
  seen.seq = last === undefined ? 0 : number(last.seq);
  return timers.filter(({ kept }) => number(kept) === 0);
}

function earlier(now: number, age: number): number {
  return Math.max(Math.floor(now - age), Number.MIN_SAFE_INTEGER);
}

export function* eventOf({ sql }: Untimed, eventId: string): SqlSteps<StoredEvent | undefined> {
  const [row] = yield* select(sql.eventById, toId(eventId));
  return row && storedEventOf(row);
}

export function* countsOf({ sql }: Untimed): SqlSteps<Record<EventState, number>> {
  const counts = { ...noEvents };
  for (const { state, events } of yield* select(sql.counts))
    counts[text(state) as EventState] = number(events);
  return counts;
}

/** Reads a value that {@link setMeta} set, and its age. */
export function* metaOf({ sql, now }: Operation, key: string) {
  const [row] = yield* select(sql.meta, nameOf(key));
  return row && { value: fromText(text(row.value)), age: Math.max(0, now - number(row.set_at)) };
}

/** Returns for how long the oldest waiting event waits, ms. */
export function* oldestWaiting({ sql, now }: Operation): SqlSteps<number | undefined> {
  const at = numberOrNull((yield* select(sql.oldestWaiting, now, now))[0]!.at);
  return at === null ? undefined : Math.max(0, now - at);
}

export function* scheduledDue({ sql, now }: Operation): SqlSteps<number> {
  return number((yield* select(sql.scheduledDue, now))[0]!.events);
}

export function* arrivalOf({ sql }: Untimed, eventId: string): SqlSteps<number | undefined> {
  const [row] = yield* select(sql.eventById, toId(eventId));
  return row && number(row.seq);
}

export function* snapshotOf({ sql }: Untimed, ref: string): SqlSteps<RecordSnapshot | undefined> {
  const [row] = yield* select(sql.record, toText(ref));
  return row === undefined || row.snapshot === null ? undefined : recordSnapshotOf(row);
}
