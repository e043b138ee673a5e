import type { Change, Slice, Sliced } from "../base-store.ts";
import type { EventFilter, EventState, StoredEvent } from "../event-store.ts";
import { limitOf } from "./claims.ts";
import { change, type SqlRow, type SqlSteps, type SqlValue, select } from "./driver.ts";
import { type Operation, refresh } from "./queue.ts";
import { number, storedEventOf, text, toId, toText } from "./rows.ts";
import { ofRecord, prepared } from "./statements.ts";

/** How many events one step looks through at most, so that no step holds up the intake. */
const SCAN = 2000;

const CHANGED_FROM: Readonly<Record<Change, readonly EventState[]>> = {
  replay: ["done", "parked", "retrying"],
  discard: ["pending", "retrying", "parked"],
};

export function* list(
  operation: Operation,
  filter: EventFilter,
  slice: Slice,
): SqlSteps<Sliced<StoredEvent[]>> {
  const { found, next } = yield* matching(operation, filter, slice);
  return { found: found.map(storedEventOf), next };
}

/** Replays or discards the events that match. */
export function* changeAll(
  operation: Operation,
  what: Change,
  filter: EventFilter,
  slice: Slice,
): SqlSteps<Sliced<number>> {
  const { found, next } = yield* matching(operation, filter, slice, CHANGED_FROM[what]);
  const { sql, now } = operation;
  const records = new Set<string>();
  let changed = 0;
  for (const row of found) {
    const record = text(row.record);
    const seq = number(row.seq);
    // Locks the record, so that no other process claims the event meanwhile.
    if (!records.has(record)) {
      records.add(record);
      yield* change(sql.insertQueue, record, null, null);
      yield* select(sql.queueOf, record);
    }
    const [event] = yield* select(sql.event, seq);
    if (event === undefined || !CHANGED_FROM[what].includes(text(event.state) as EventState)) continue;
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
  // Due at any earlier time, too, as its wait is over.
  yield* change(sql.hastenEvent, readyAt, Math.min(number(event.due_at), now), readyAt, number(event.seq));
}

/** Events that match, with the wait of their records. */
function* matching(
  { sql, dialect }: Operation,
  filter: EventFilter,
  { before = Number.MAX_SAFE_INTEGER, limit: asked }: Slice,
  states?: readonly EventState[],
): SqlSteps<Sliced<SqlRow[]>> {
  const limit = limitOf(asked);
  const [conditions, params] = conditionsOf(filter, states);
  // Each of these has an index. The others look through all events, part by part.
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
  // The second part lets SQLite use its partial index.
  if (state !== undefined) add(state === "done" ? "e.state = ?" : "e.state = ? AND e.state <> 'done'", state);
  if (states !== undefined) add(`e.state IN (${states.map(() => "?").join(", ")})`, ...states);
  if (type !== undefined) add("e.type = ?", toText(type));
  if (reason !== undefined) add("e.reason = ?", reason);
  if (source !== undefined) add("e.source = ?", source);
  if (receivedAfter !== undefined) add("e.received_at >= ?", Math.ceil(receivedAfter.getTime()));
  if (receivedBefore !== undefined) add("e.received_at < ?", Math.ceil(receivedBefore.getTime()));
  return [conditions, params];
}
