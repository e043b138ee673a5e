import type { ClaimedEvent, Outcome, Snapshot, Write } from "../event-store.ts";
import { firstPending, firstRetry, heldBy, type Operation, putQueue, type QueueRow } from "./claims.ts";
import { change, type SqlRow, type SqlSteps } from "./driver.ts";
import { historyWith, number, numberOrNull, text, toText } from "./sql-rows.ts";

type Ending = Exclude<Outcome<never>, { readonly state: "released" }>;

/** @returns whether the lease was held, and whether the record has more to do */
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
      // The wait ends at the time at which it begins, so the event is due by any clock.
      const dueAt = Math.min(number(event.due_at), now);
      yield* change(sql.releaseEvent, "retrying", dueAt, dueAt, seq);
      return {};
    }
    case "done":
      yield* change(sql.endEvent, "done", now, toText(outcome.type), null, historyOf(event, outcome), seq);
      if (outcome.record !== undefined && ref !== null) {
        const { snapshot, changed } = outcome.record;
        yield* remember(operation, row.record, snapshot, { changed, isNew: sequence === 0 });
      }
      return {};
    case "parked": {
      const type = typeOf(outcome);
      yield* change(sql.endEvent, "parked", now, type, outcome.reason, historyOf(event, outcome), seq);
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

/** How far `seen_from` may be behind `seen_at`, ms. */
const SEEN_LAG = 3_600_000;

/**
 * Writes the snapshot of a record.
 *
 * @param isNew - there is probably none yet, which saves a statement
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
