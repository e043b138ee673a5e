// The steps of lists, replays, deletions and snapshots in SQL.

import type { RowFilter } from "../event-filter.ts";
import type { Change, EventState } from "../event-states.ts";
import type { PruneOptions, PruneSnapshotsOptions } from "../event-store.ts";
import { endedAtOf, isSameSnapshot } from "../outcomes.ts";
import type { Slice, Sliced } from "../slices.ts";
import type { RecordSnapshot, Snapshot } from "../snapshot.ts";
import type { EraseStep } from "../store-steps.ts";
import type { StoredEvent } from "../stored-event.ts";
import { change, type SqlDialect, type SqlRow, type SqlSteps, type SqlValue, select } from "./driver.ts";
import { lists, lock, lockOrInsertAll, type Operation, refreshAll, removeEvents } from "./sql-records.ts";
import {
  contentOf,
  number,
  snapshotOf,
  storedEventOf,
  text,
  toHistory,
  toId,
  toRecord,
  toSnapshot,
  toText,
  toTextOrNull,
} from "./sql-rows.ts";
import { limitOf, ofAccount, ofRecord, prepared, recordsOf } from "./sql-statements.ts";

/** The maximum number of events that one step of a list, replay or discard reads. Long steps delay notifications. */
const SCAN = 2000;

export function* list(
  operation: Operation,
  filter: RowFilter,
  slice: Slice,
): SqlSteps<Sliced<StoredEvent[]>> {
  const { found, next } = yield* matching(operation, filter, slice);
  return { found: found.map(storedEventOf), next };
}

/** Selects the rows of the events that match `filter`, the newest first. */
function* matching(
  { sql, dialect }: Operation,
  filter: RowFilter,
  { before = Number.MAX_SAFE_INTEGER, limit: asked }: Slice,
  states?: readonly EventState[],
): SqlSteps<Sliced<SqlRow[]>> {
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
  const statement = `SELECT * FROM stayhook_events WHERE ${where} ORDER BY ${seq} DESC LIMIT ?`;
  const found = yield* select(prepared(dialect, statement), ...params, before, from, limit);
  if (found.length === limit) return { found: [...found], next: number(found.at(-1)!.seq) };
  return { found: [...found], next: end === undefined ? undefined : from };
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

export function* changeAll(
  operation: Operation,
  what: Change,
  filter: RowFilter,
  states: readonly EventState[],
  slice: Slice,
): SqlSteps<Sliced<number>> {
  const { sql, now, dialect } = operation;
  const first = yield* matching(operation, filter, slice, states);
  const refs = [...new Set(first.found.map(({ ref }) => text(ref)))];
  // A record whose events have all ended has no row, and needs one for the replayed event. The rows also are the locks.
  for (const list of lists(seqsOf(first.found))) yield* change(sql.insertRecords, ...list);
  yield* lockOrInsertAll(operation, refs);
  // Others may have changed the events before the lock.
  const isAlone = dialect.forUpdate === undefined;
  const { found } = isAlone ? first : yield* matching(operation, filter, slice, states);
  const locked = found.filter(({ ref }) => refs.includes(text(ref)));
  const scheduled = states.includes("scheduled") ? "scheduled" : "retrying";
  let changed = 0;
  if (what === "discard") {
    for (const list of lists(seqsOf(locked))) changed += yield* change(sql.discard, now, ...list, scheduled);
  } else {
    // If an event had ended and waits now, another call has replayed it.
    const ended = new Set(seqsOf(first.found.filter(({ state }) => state === "done" || state === "parked")));
    const waiting = seqsOf(locked).filter((seq) => !ended.has(seq));
    for (const list of lists(seqsOf(locked))) changed += yield* change(sql.replay, now, ...list);
    for (const list of lists(waiting))
      changed += yield* change(sql.hasten, now, now, ...list, now, scheduled);
  }
  yield* refreshAll(operation, refs);
  return { found: changed, next: first.next };
}

function seqsOf(rows: readonly SqlRow[]): number[] {
  return rows.map(({ seq }) => number(seq));
}

export function* remove(
  operation: Operation,
  ref: string,
  what: readonly string[] | "timers",
): SqlSteps<number> {
  const { sql } = operation;
  const key = toText(ref);
  // Without a row, there is no lock: a replay could bring events back meanwhile.
  yield* lock(operation, key);
  const removed = yield* removeEvents(operation, key, what);
  if (removed === 0) {
    yield* change(sql.deleteRecord, key);
    return 0;
  }
  // The removed event may be that of a lease that has ended.
  if ((yield* select(sql.processingOf, key)).length === 0) yield* change(sql.dropLease, key, operation.now);
  yield* refreshAll(operation, [key]);
  return removed;
}

/** @returns the number of deleted events, or `undefined` if an event of the record is being processed */
export function* erase(operation: Operation, ref: string): SqlSteps<number | undefined> {
  const { sql, now } = operation;
  const key = toText(ref);
  const { lease_end: leaseEnd } = yield* lock(operation, key);
  if (leaseEnd !== null && number(leaseEnd) > now) return undefined;
  const erased = yield* change(sql.erase, key);
  yield* change(sql.eraseRecord, key);
  return erased;
}

/** The number of records that one step of `eraseAccount` deletes. */
const ERASED = 50;

/** Deletes the next records of an account. @param after - the key of the last record of the step before */
export function* eraseAccount(operation: Operation, account: string, after = ""): SqlSteps<EraseStep> {
  const { sql, now, dialect } = operation;
  const [query, params] = recordsOf(dialect, account, after, ERASED);
  const keys = (yield* select(query, ...params)).map(({ ref }) => text(ref));
  const erased = { events: 0, snapshots: 0, processing: 0 };
  // Lock in the order of other transactions, so that no two wait for each other.
  for (const key of keys.toSorted()) {
    const { lease_end: leaseEnd, snapshot } = yield* lock(operation, key);
    if (leaseEnd !== null && number(leaseEnd) > now) {
      erased.processing += 1;
      continue;
    }
    erased.events += yield* change(sql.erase, key);
    yield* change(sql.eraseRecord, key);
    if (snapshot !== null) erased.snapshots += 1;
  }
  return { ...erased, next: keys.length < ERASED ? undefined : keys.at(-1) };
}

export function* learn(operation: Operation, ref: string, snapshot: Snapshot): SqlSteps<boolean> {
  const { sql, now } = operation;
  const key = toText(ref);
  const record = yield* lock(operation, key);
  const known = record.snapshot === null ? undefined : snapshotOf(record);
  const isFree =
    known === undefined
      ? (yield* select(sql.waitingOf, key, now)).length + (yield* select(sql.parkedOf, key)).length === 0
      : isSameSnapshot(known, snapshot);
  if (isFree) {
    const sequence = known === undefined ? 1 : number(record.sequence);
    yield* change(sql.setSnapshot, toSnapshot(snapshot), sequence, now, key);
  } else {
    yield* change(sql.deleteRecord, key);
  }
  return isFree;
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
export function nameOf(key: string): string {
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
    for (const source of ["webhook", "reconcile", "recheck"])
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

export function* pruneSnapshots(
  { sql, now }: Operation,
  { age, limit }: PruneSnapshotsOptions,
): SqlSteps<number> {
  const until = earlier(now, age);
  return yield* change(sql.pruneSnapshots, until, until, limitOf(limit));
}

function earlier(now: number, age: number): number {
  return Math.max(Math.floor(now - age), Number.MIN_SAFE_INTEGER);
}

export function* restore(
  operation: Operation,
  events: readonly StoredEvent[],
  snapshots: readonly RecordSnapshot[],
): SqlSteps<void> {
  const { sql } = operation;
  const refs = [
    ...events.map(({ ref, eventId }) => toRecord(ref, eventId)),
    ...snapshots.map(({ ref }) => toText(ref)),
  ];
  yield* lockOrInsertAll(operation, [...new Set(refs)]);
  for (const event of events) {
    const { eventId, ref, state, dueAt, receivedAt, attempts, type, reason, history } = event;
    const doneAt = dueAt === null ? endedAtOf(event).getTime() : null;
    yield* change(
      sql.restoreEvent,
      toId(eventId),
      toRecord(ref, eventId),
      state,
      dueAt === null ? null : dueAt.getTime(),
      receivedAt.getTime(),
      ...contentOf(event),
      attempts,
      doneAt,
      toTextOrNull(type),
      reason,
      toHistory(history),
    );
  }
  for (const { ref, snapshot, sequence, seenAt } of snapshots) {
    const key = toText(ref);
    const [record] = yield* select(sql.record, key);
    if (record !== undefined && record.snapshot !== null) continue;
    yield* change(sql.setSnapshot, toSnapshot(snapshot), sequence, seenAt.getTime(), key);
  }
  yield* refreshAll(operation, [...new Set(refs)]);
}
