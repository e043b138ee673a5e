import type { Slice, Sliced } from "../base-store.ts";
import { isSameSnapshot } from "../base-store.ts";
import type { EventState } from "../event-states.ts";
import { type Change, changedFrom } from "../event-states.ts";
import type {
  EventFilter,
  PruneOptions,
  PruneRecordsOptions,
  Snapshot,
  StoredEvent,
} from "../event-store.ts";
import { change, type SqlRow, type SqlSteps, type SqlValue, select } from "./driver.ts";
import { type Operation, queueOf, refresh, remember } from "./sql-queue.ts";
import { number, snapshotOf, storedEventOf, text, toId, toText } from "./sql-rows.ts";
import { limitOf, ofRecord, prepared } from "./sql-statements.ts";

/** The maximum number of events that one step of a list, replay or discard reads. Long steps delay notifications. */
const SCAN = 2000;

export function* list(
  operation: Operation,
  filter: EventFilter,
  slice: Slice,
): SqlSteps<Sliced<StoredEvent[]>> {
  const { found, next } = yield* matching(operation, filter, slice);
  return { found: found.map(storedEventOf), next };
}

export function* changeAll(
  operation: Operation,
  what: Change,
  filter: EventFilter,
  slice: Slice,
): SqlSteps<Sliced<number>> {
  const { found, next } = yield* matching(operation, filter, slice, changedFrom[what]);
  const { sql, now } = operation;
  const records = new Set<string>();
  let changed = 0;
  for (const row of found) {
    const record = text(row.record);
    const seq = number(row.seq);
    // Lock the record, so that no other process claims the event meanwhile.
    if (!records.has(record)) {
      records.add(record);
      yield* change(sql.insertQueue, record, null, null);
      yield* select(sql.queueOf, record);
    }
    const [event] = yield* select(sql.event, seq);
    if (event === undefined || !changedFrom[what].includes(text(event.state) as EventState)) continue;
    changed += 1;
    if (what === "discard") yield* change(sql.discardEvent, now, seq);
    else if (text(event.state) !== "retrying") yield* change(sql.replayEvent, now, seq);
    else yield* hasten(operation, event);
  }
  const noWait = what === "replay" ? { waitFrom: null, waitEnd: 0 } : {};
  for (const record of records) yield* refresh(operation, record, noWait);
  return { found: changed, next };
}

/** Makes a retrying event due now. */
function* hasten({ sql, now }: Operation, event: SqlRow): SqlSteps<void> {
  const readyAt = Math.min(number(event.ready_at), now);
  // If the clock is set back, `ripen` finds the event by its `wait_from`, and makes it due.
  yield* change(sql.hastenEvent, readyAt, Math.min(number(event.due_at), now), readyAt, number(event.seq));
}

/** Selects the events that match `filter`. Each row also has the `wait_end` of the event's record. */
function* matching(
  { sql, dialect }: Operation,
  filter: EventFilter,
  { before = Number.MAX_SAFE_INTEGER, limit: asked }: Slice,
  states?: readonly EventState[],
): SqlSteps<Sliced<SqlRow[]>> {
  const limit = limitOf(asked);
  const [conditions, params] = conditionsOf(filter, states);
  // These filters have an index. A query with other filters scans all events, in slices of `SCAN` events.
  const isIndexed =
    filter.eventId !== undefined ||
    filter.ref !== undefined ||
    (filter.state !== undefined && filter.state !== "done") ||
    conditions.length === 0;
  const [end] = isIndexed ? [] : yield* select(sql.sliceEnd, before, SCAN - 1);
  const from = end === undefined ? 0 : number(end.seq);
  const ofRef =
    filter.ref === undefined ? "" : `e.seq IN (SELECT seq FROM (${ofRecord(dialect)}) AS mine) AND`;
  const ref = filter.ref === undefined ? [] : [toText(filter.ref)];
  const where = [...conditions, "e.seq < ?", "e.seq >= ?"].join(" AND ");
  const found = yield* select(
    prepared(
      dialect,
      `
      SELECT e.*, q.wait_end FROM stayhook_events AS e
      LEFT JOIN stayhook_queue AS q ON q.record = e.record AND e.ready_at IS NOT NULL
      WHERE ${ofRef} ${where} ORDER BY e.seq DESC LIMIT ?`,
    ),
    ...ref,
    ...params,
    before,
    from,
    limit,
  );
  if (found.length === limit) return { found: [...found], next: number(found.at(-1)!.seq) };
  return { found: [...found], next: end === undefined ? undefined : from };
}

function conditionsOf(
  { eventId, state, type, reason, source, receivedAfter, receivedBefore }: EventFilter,
  states: readonly EventState[] | undefined,
): [conditions: string[], params: SqlValue[]] {
  const conditions: string[] = [];
  const params: SqlValue[] = [];
  const add = (condition: string, ...values: SqlValue[]) => {
    conditions.push(condition);
    params.push(...values);
  };
  if (eventId !== undefined) add("e.id = ?", toId(eventId));
  // `e.state <> 'done'` lets SQLite use its partial index.
  if (state !== undefined) add(state === "done" ? "e.state = ?" : "e.state = ? AND e.state <> 'done'", state);
  if (states !== undefined) add(`e.state IN (${states.map(() => "?").join(", ")})`, ...states);
  if (type !== undefined) add("e.type = ?", toText(type));
  if (reason !== undefined) add("e.reason = ?", reason);
  if (source !== undefined) add("e.source = ?", source);
  if (receivedAfter !== undefined) add("e.received_at >= ?", Math.ceil(receivedAfter.getTime()));
  if (receivedBefore !== undefined) add("e.received_at < ?", Math.ceil(receivedBefore.getTime()));
  return [conditions, params];
}

/** The name of a row in `stayhook_meta`. If the newest webhook event was deleted, the row has the event's time. */
const NEWEST_DELETED = "newest_deleted";

/**
 * The `seq` and the arrival time of the newest webhook event. If this event was deleted, `seq` is the highest `seq`
 * of the remaining webhook events. Each later event gets a higher `seq`, even if the database reuses the `seq` of
 * the deleted event.
 */
interface Newest {
  readonly seq: number;
  readonly receivedAt: number;
}

export function* newestReceived({ sql }: Operation): SqlSteps<Newest | undefined> {
  const [row] = yield* select(sql.newestReceived);
  const newest = row && { seq: number(row.seq), receivedAt: number(row.received_at) };
  const [noted] = yield* select(sql.meta, NEWEST_DELETED);
  const deleted = noted && (JSON.parse(text(noted.value)) as Newest);
  return deleted === undefined || (newest !== undefined && newest.seq > deleted.seq) ? newest : deleted;
}

/** Runs a statement that deletes events. If it deletes the newest webhook event, saves the time of this event. */
function* deleteEvents(operation: Operation, statement: string, ...params: SqlValue[]): SqlSteps<number> {
  const { sql, now } = operation;
  const newest = yield* newestReceived(operation);
  const deleted = yield* change(statement, ...params);
  if (deleted === 0 || newest === undefined) return deleted;
  const [left] = yield* select(sql.newestReceived);
  const seq = left === undefined ? 0 : number(left.seq);
  if (seq < newest.seq) {
    const value = JSON.stringify({ ...newest, seq });
    if ((yield* change(sql.insertMeta, NEWEST_DELETED, value, now)) === 0)
      yield* change(sql.setMeta, value, now, NEWEST_DELETED);
  }
  return deleted;
}

export function* prune(operation: Operation, { state, reason, age, limit }: PruneOptions): SqlSteps<number> {
  const { sql, now } = operation;
  // No done event has a failure reason, so nothing matches.
  if (state === "done" && reason !== undefined) return 0;
  const old = [before(now, age), limitOf(limit)];
  if (state === "done") return yield* deleteEvents(operation, sql.pruneDone, ...old);
  return reason === undefined
    ? yield* deleteEvents(operation, sql.pruneParked, ...old)
    : yield* deleteEvents(operation, sql.pruneParkedFor, reason, ...old);
}

export function* pruneRecords(
  { sql, now }: Operation,
  { age, limit }: PruneRecordsOptions,
): SqlSteps<number> {
  const seen = before(now, age);
  return yield* change(sql.oldRecords, seen, seen, limitOf(limit));
}

/** @returns the number of deleted events, or `undefined` if an event of the record is being processed */
export function* erase(operation: Operation, ref: string): SqlSteps<number | undefined> {
  const { sql, now } = operation;
  const record = toText(ref);
  // Lock the record, so that no other process adds or claims an event of this record meanwhile.
  yield* change(sql.insertQueue, record, null, null);
  const row = yield* queueOf(operation, record);
  if (row !== undefined && row.lease !== null && row.leaseEnd > now) return undefined;
  const erased = yield* deleteEvents(operation, sql.eraseEvents, record);
  yield* change(sql.dropQueue, record);
  yield* change(sql.dropRecord, record);
  return erased;
}

export function* learn(operation: Operation, ref: string, snapshot: Snapshot): SqlSteps<boolean> {
  const { sql } = operation;
  const record = toText(ref);
  const [known] = yield* select(sql.record, record);
  if (known !== undefined) {
    if (!isSameSnapshot(snapshotOf(known), snapshot)) return false;
    yield* remember(operation, record, snapshot, { changed: false, isNew: false });
    return true;
  }
  // The new row locks the record until the transaction ends. A record that already has a row has unfinished events.
  if ((yield* change(sql.insertQueue, record, null, null)) === 0) return false;
  // Read again under the lock: another process may have written a snapshot since the first read.
  const [learned] = yield* select(sql.record, record);
  const isFree = learned === undefined && (yield* select(sql.parkedOf, record)).length === 0;
  if (isFree) yield* remember(operation, record, snapshot, { changed: true, isNew: true });
  yield* change(sql.dropQueue, record);
  return isFree || (learned !== undefined && isSameSnapshot(snapshotOf(learned), snapshot));
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

function before(now: number, age: number): number {
  return Math.max(Math.floor(now - age), Number.MIN_SAFE_INTEGER);
}
