import type { AddAnswer } from "../base-store.ts";
import type { ClaimedEvent, ClaimOptions, NewEvent, Outcome, Snapshot, Write } from "../event-store.ts";
import { change, type SqlDialect, type SqlRow, type SqlSteps, type SqlValue, select } from "./driver.ts";
import {
  claimOf,
  historyWith,
  number,
  numberOrNull,
  text,
  toId,
  toRecord,
  toRef,
  toText,
} from "./sql-rows.ts";
import { limitOf, type Statements } from "./sql-statements.ts";

export interface Operation {
  readonly sql: Statements;
  readonly dialect: SqlDialect;
  /** Epoch ms by the store's clock. */
  readonly now: number;
}

/** A row of `stayhook_queue`: a record that has a lease or an event to claim. */
interface QueueRow {
  readonly record: string;
  readonly pendingDue: number | null;
  readonly pendingSeq: number | null;
  readonly retryDue: number | null;
  readonly retrySeq: number | null;
  readonly waitFrom: number | null;
  readonly waitEnd: number;
  readonly lease: string | null;
  readonly leaseSeq: number | null;
  readonly leaseEnd: number;
}

function queueRowOf(row: SqlRow): QueueRow {
  return {
    record: text(row.record),
    pendingDue: numberOrNull(row.pending_due),
    pendingSeq: numberOrNull(row.pending_seq),
    retryDue: numberOrNull(row.retry_due),
    retrySeq: numberOrNull(row.retry_seq),
    waitFrom: numberOrNull(row.wait_from),
    waitEnd: number(row.wait_end),
    lease: row.lease === null ? null : text(row.lease),
    leaseSeq: numberOrNull(row.lease_seq),
    leaseEnd: number(row.lease_end),
  };
}

/** Reads the record's row, and locks it for the transaction. */
export function* queueOf({ sql }: Operation, record: string): SqlSteps<QueueRow | undefined> {
  const [row] = yield* select(sql.queueOf, record);
  return row && queueRowOf(row);
}

/** Writes a row of the queue. If the record has no more events to claim, deletes the row. */
function* putQueue({ sql }: Operation, row: QueueRow): SqlSteps<void> {
  if (row.pendingSeq === null && row.retrySeq === null) {
    yield* change(sql.dropQueue, row.record);
    return;
  }
  const { pendingDue, pendingSeq, retryDue, retrySeq, waitFrom, waitEnd, lease, leaseSeq, leaseEnd } = row;
  const first: SqlValue[] = [pendingDue, pendingSeq, retryDue, retrySeq];
  yield* change(sql.setQueue, ...first, waitFrom, waitEnd, lease, leaseSeq, leaseEnd, row.record);
}

/** Reads the first pending event of a record, as fields of a {@link QueueRow}. */
function* firstPending({ sql }: Operation, record: string) {
  const [first] = yield* select(sql.firstPending, record);
  return { pendingDue: numberOrNull(first?.ready_at), pendingSeq: numberOrNull(first?.seq) };
}

/** Reads the first retrying or processing event of a record, as fields of a {@link QueueRow}. */
function* firstRetry({ sql }: Operation, record: string) {
  const [first] = yield* select(sql.firstRetry, record, record);
  return { retryDue: numberOrNull(first?.ready_at), retrySeq: numberOrNull(first?.seq) };
}

/** Updates the record's row in the queue, after several events of the record have changed. */
export function* refresh(
  operation: Operation,
  record: string,
  changes: Partial<QueueRow> = {},
): SqlSteps<void> {
  const pending = yield* firstPending(operation, record);
  const retry = yield* firstRetry(operation, record);
  // A record whose events are all done or parked has no row. After a replay, the record needs a row.
  if (pending.pendingSeq !== null || retry.retrySeq !== null) {
    yield* change(operation.sql.insertQueue, record, null, null);
  }
  const row = yield* queueOf(operation, record);
  if (row !== undefined) yield* putQueue(operation, { ...row, ...pending, ...retry, ...changes });
}

export function* add(
  { sql, now }: Operation,
  event: NewEvent,
  dueIn: number | undefined,
): SqlSteps<AddAnswer> {
  const { eventId, ref, source, topic, timestamp, notification, traceparent = null } = event;
  const id = toId(eventId);
  const record = toRecord(ref, eventId);
  const dueAt = now + (dueIn ?? 0);
  const readyAt = dueIn === undefined ? 0 : dueAt;
  const inserted = yield {
    sql: sql.insertEvent,
    params: [
      id,
      record,
      readyAt,
      dueAt,
      dueIn === undefined ? null : now,
      now,
      source,
      topic,
      timestamp,
      notification,
      traceparent,
    ],
    query: false,
  };
  if (inserted.changes === 0) {
    const [known] = yield* select(sql.eventById, id);
    return toRef(known!.record) === ref ? "duplicate" : "conflict";
  }
  // Do not use `??`: the CommonJS build would then put the `yield` into an arrow function.
  const seq =
    inserted.insertId === undefined ? number((yield* select(sql.eventById, id))[0]!.seq) : inserted.insertId;
  if ((yield* change(sql.insertQueue, record, readyAt, seq)) > 0) return "added";
  if (dueIn === undefined) yield* change(sql.queueNow, seq, record);
  else yield* change(sql.queueLater, seq, readyAt, record, readyAt);
  return "added";
}

/** The minimum `LIMIT` of `claimableAgain`, whose result is not in order of arrival. `pending` sorts the result. */
const AGAIN = 500;

export function* claim(operation: Operation, options: ClaimOptions): SqlSteps<ClaimedEvent[]> {
  const limit = limitOf(options.limit);
  yield* ripen(operation);
  if (options.eventId !== undefined) return yield* claimById(operation, options, options.eventId);
  const claims: ClaimedEvent[] = [];
  const passes = options.order === "retries" ? [retries, pending] : [pending, retries];
  for (const pass of passes) {
    if (claims.length >= limit) break;
    // The second pass does not find records that the first pass has leased: a leased record is not ready.
    for (const row of yield* pass(operation, limit - claims.length, options.order)) {
      const seq = yield* oldestDue(operation, row);
      if (seq !== undefined) claims.push(yield* lease(operation, row, seq, options));
    }
  }
  return claims;
}

/** Reads records with due pending events, ordered by the arrival of the first of these events. */
function* pending(
  { sql, now }: Operation,
  limit: number,
  order: ClaimOptions["order"],
): SqlSteps<QueueRow[]> {
  const isNewest = order === "newest";
  const ready = yield* select(isNewest ? sql.claimableNewest : sql.claimable, limit);
  const again = yield* select(sql.claimableAgain, now, Math.max(limit, AGAIN));
  const rows = [...ready, ...again].map(queueRowOf);
  if (again.length > 0) rows.sort((a, b) => (a.pendingSeq! - b.pendingSeq!) * (isNewest ? -1 : 1));
  return rows.slice(0, limit);
}

/** Reads records with a ready retry, ordered by the time at which their first retry became ready. */
function* retries({ sql, now }: Operation, limit: number): SqlSteps<QueueRow[]> {
  return (yield* select(sql.claimableRetries, now, limit)).map(queueRowOf);
}

function* claimById(operation: Operation, options: ClaimOptions, eventId: string): SqlSteps<ClaimedEvent[]> {
  const { sql, now } = operation;
  const [known] = yield* select(sql.eventById, toId(eventId));
  if (known === undefined) return [];
  const row = yield* queueOf(operation, text(known.record));
  if (row === undefined || Math.max(row.leaseEnd, row.waitEnd) > now) return [];
  const [event] = yield* select(sql.event, number(known.seq));
  const readyAt = numberOrNull(event?.ready_at);
  if (readyAt === null || readyAt > now) return [];
  return [yield* lease(operation, row, number(known.seq), options)];
}

/** Returns the `seq` of the record's oldest due event. The record must be neither waiting nor leased. */
function* oldestDue({ sql, now }: Operation, row: QueueRow): SqlSteps<number | undefined> {
  const hasPending = row.pendingDue === 0;
  if (row.retrySeq === null || row.retryDue! > now) return hasPending ? row.pendingSeq! : undefined;
  const { record } = row;
  const [oldest] = yield* select(sql.oldestDue, record, record, now, record, now);
  return oldest && number(oldest.seq);
}

function* lease(
  operation: Operation,
  row: QueueRow,
  seq: number,
  { leaseDuration, worker }: ClaimOptions,
): SqlSteps<ClaimedEvent> {
  const { sql, now } = operation;
  const { record } = row;
  const held = { lease: crypto.randomUUID(), leaseSeq: seq, leaseEnd: leaseEndOf(now, leaseDuration) };
  const [event] = yield* select(sql.eventWithRecord, seq);
  yield* change(sql.claimEvent, held.leaseEnd, now, worker ?? null, historyWithLost(event!), seq);
  const next = row.pendingSeq === seq ? yield* firstPending(operation, record) : {};
  // The record may have another retry, which comes first now.
  const retry = row.retrySeq === seq && row.retryDue !== 0 ? yield* firstRetry(operation, record) : {};
  // If `retryDue` is 0, the record's only retry is the event of the previous lease, which has ended. The new lease
  // adds a second retry. So set `retryDue` to the end of the previous lease.
  const retryDue = row.retryDue === 0 && row.retrySeq !== seq ? row.leaseEnd : row.retryDue;
  yield* putQueue(operation, leased({ ...row, ...next, retryDue, ...retry, ...held }));
  return claimOf(event!, event!.snapshot === null ? undefined : event, { lease: held.lease, now });
}

/**
 * Returns the row with the leased event as its first retry, unless another retry is due sooner. If the row had no
 * retry, `retryDue` is 0. The database then computes `retry_at` from the lease's end, so `settle` runs fewer queries.
 */
function leased(row: QueueRow): QueueRow {
  const { retryDue, retrySeq, leaseSeq, leaseEnd } = row;
  if (retrySeq === null) return { ...row, retryDue: 0, retrySeq: leaseSeq };
  const isFirst = retrySeq === leaseSeq ? retryDue !== 0 : retryDue! > leaseEnd;
  return isFirst ? { ...row, retryDue: leaseEnd, retrySeq: leaseSeq } : row;
}

/** Returns the event's history. If the event's lease has ended, the history gets a `lost` entry. */
function historyWithLost(event: SqlRow): string | null {
  if (text(event.state) !== "processing") return event.history === null ? null : text(event.history);
  const at = number(event.claimed_at);
  return historyWith(event, {
    at,
    duration: Math.max(0, number(event.ready_at) - at),
    outcome: "lost",
    ...(event.worker !== null && { worker: text(event.worker) }),
  });
}

export function* renew(
  operation: Operation,
  claims: readonly ClaimedEvent[],
  leaseDuration: number,
): SqlSteps<ClaimedEvent[]> {
  const leaseEnd = leaseEndOf(operation.now, leaseDuration);
  const renewed: ClaimedEvent[] = [];
  for (const claim of claims) {
    const held = yield* heldBy(operation, claim);
    if (held === undefined) continue;
    yield* change(operation.sql.renewEvent, leaseEnd, held.row.leaseSeq);
    yield* putQueue(operation, leased({ ...held.row, leaseEnd }));
    renewed.push(claim);
  }
  return renewed;
}

/** Reads a claim's record and event. Returns `undefined` if the claim's lease is lost. */
function* heldBy(
  operation: Operation,
  { ref, eventId, lease }: ClaimedEvent,
): SqlSteps<{ readonly row: QueueRow; readonly event: SqlRow } | undefined> {
  const [held] = yield* select(operation.sql.held, toRecord(ref, eventId), lease, toId(eventId));
  return held === undefined ? undefined : { row: queueRowOf(held), event: held };
}

type Ending = Exclude<Outcome<never>, { readonly state: "released" }>;

/** @returns whether the lease was `held`, and whether the record has `more` events to handle */
export function* settle<Tx>(
  operation: Operation,
  claim: ClaimedEvent,
  outcome: Outcome<Tx>,
): SqlSteps<{ readonly held: boolean; readonly more: boolean }> {
  const held = yield* heldBy(operation, claim);
  if (held === undefined) return { held: false, more: false };
  const { row, event } = held;
  if (outcome.state === "done" && outcome.writes !== undefined && outcome.writes.length > 0) {
    yield { writes: outcome.writes as readonly Write<never>[] };
  }
  const changes = yield* end(operation, row, event, outcome as Outcome<never>, claim);
  const isOnlyRetry = row.retrySeq === row.leaseSeq && row.retryDue === 0;
  const hasRetry = outcome.state === "retrying" || outcome.state === "released" || !isOnlyRetry;
  const retry = hasRetry ? yield* firstRetry(operation, row.record) : { retryDue: null, retrySeq: null };
  const after = { ...row, ...retry, ...changes, lease: null, leaseSeq: null, leaseEnd: 0 };
  yield* putQueue(operation, after);
  return { held: true, more: after.pendingSeq !== null || after.retrySeq !== null };
}

function* end(
  operation: Operation,
  row: QueueRow,
  event: SqlRow,
  outcome: Outcome<never>,
  { ref, sequence }: ClaimedEvent,
): SqlSteps<Partial<QueueRow>> {
  const { sql, now } = operation;
  const seq = row.leaseSeq!;
  const attempts = number(event.attempts);
  const outages = number(event.outages);
  switch (outcome.state) {
    case "released": {
      if (attempts === 1 && outages === 0) {
        yield* change(sql.releaseEvent, "pending", 0, null, seq);
        return yield* firstPending(operation, row.record);
      }
      // If the clock is set back, `ripen` finds the event by its `wait_from`, and makes it due.
      const dueAt = Math.min(number(event.due_at), now);
      yield* change(sql.releaseEvent, "retrying", dueAt, dueAt, seq);
      return {};
    }
    case "done":
    case "parked": {
      const reason = outcome.state === "parked" ? outcome.reason : null;
      const told = [typeOf(outcome), reason, historyOf(event, outcome)];
      yield* change(sql.endEvent, outcome.state, now, ...told, seq);
      if (outcome.state === "done" && outcome.record !== undefined && ref !== null) {
        const { snapshot, changed } = outcome.record;
        yield* remember(operation, row.record, snapshot, { changed, isNew: sequence === 0 });
      }
      return {};
    }
    case "retrying": {
      const { counted, reason } = outcome;
      const until = now + outcome.in;
      const dueAt = counted ? until : now;
      const tries = counted
        ? [attempts, 0, null]
        : [attempts - 1, outages + 1, numberOrNull(event.first_outage_at) ?? now];
      const told = [typeOf(outcome), reason, historyOf(event, outcome)];
      yield* change(sql.retryEvent, dueAt, dueAt, now, ...tries, ...told, seq);
      return counted ? {} : { waitFrom: now, waitEnd: until };
    }
  }
}

/** The longest time that `seen_from` may be behind `seen_at`, ms. The lag avoids updates of the `seen_from` index. */
const SEEN_LAG = 3_600_000;

/**
 * Writes the snapshot of a record.
 *
 * @param isNew - `true` if the record probably has no snapshot. The function then tries the `INSERT` first
 */
export function* remember(
  { sql, now }: Operation,
  record: string,
  { status, fields }: Snapshot,
  { changed, isNew }: { readonly changed: boolean; readonly isNew: boolean },
): SqlSteps<void> {
  const json = JSON.stringify({ status, fields });
  if (isNew && (yield* change(sql.insertRecord, record, json, now, now)) > 0) return;
  const rise = changed ? 1 : 0;
  if ((yield* change(sql.setRecord, json, rise, now, record, now - SEEN_LAG, now)) > 0) return;
  if ((yield* change(sql.setOldRecord, json, rise, now, now, record)) > 0) return;
  yield* change(sql.insertRecord, record, json, now, now);
}

function typeOf({ type }: Ending): string | null {
  return type === undefined ? null : toText(type);
}

function historyOf(event: SqlRow, { state, entry }: Ending): string {
  return historyWith(event, {
    at: number(event.claimed_at),
    duration: entry.duration,
    outcome: state,
    ...(entry.reason !== undefined && { reason: entry.reason }),
    ...(entry.error !== undefined && { error: entry.error }),
    ...(event.worker !== null && { worker: text(event.worker) }),
  });
}

/**
 * Updates pending events whose wait has ended. Their `ready_at` becomes 0, so that a claim sorts them by arrival. If
 * a wait starts later than `now`, the clock was set back. The function then removes the wait.
 */
function* ripen(operation: Operation): SqlSteps<void> {
  const { sql, now } = operation;
  const later = yield* select(sql.laterDue, now);
  const ahead = yield* select(sql.waitsAhead, now);
  const waiting = yield* select(sql.queueWaitsAhead, now);
  if (later.length + ahead.length + waiting.length === 0) return;
  for (const { seq } of later) yield* change(sql.ripen, 0, null, number(seq));
  for (const { seq, state } of ahead) {
    // The wait of a retry is 0 ms, but has a start: if the clock is set back again, the next `ripen` finds the retry.
    const [readyAt, waitFrom] = text(state) === "pending" ? [0, null] : [now, now];
    yield* change(sql.ripen, readyAt, waitFrom, number(seq));
  }
  for (const { record } of waiting) yield* change(sql.endWait, text(record));
  for (const record of new Set([...later, ...ahead].map((row) => text(row.record)))) {
    yield* refresh(operation, record);
  }
}

function leaseEndOf(now: number, leaseDuration: number): number {
  // A lease of 0 ms would end at once, and the same claim would lease the event again. So use at least 1 ms.
  return now + Math.max(1, Math.ceil(leaseDuration));
}
