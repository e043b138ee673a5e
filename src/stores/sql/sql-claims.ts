// The steps of `claim` and `nextDue` in SQL.

import { type Restriction, takesOf } from "../beginnings.ts";
import type { Timed } from "../store-clock.ts";
import type { ClaimCall, Claimed, ClaimResult } from "../store-steps.ts";
import { change, type SqlRow, type SqlSteps, select } from "./driver.ts";
import { type Condition, searchingFor } from "./sql-beginnings.ts";
import { endLease } from "./sql-queue.ts";
import { expire, isFree, type Operation, type Untimed } from "./sql-records.ts";
import { claimOf, number, numberOrNull, text, toId, toRef, toTextOrNull } from "./sql-rows.ts";
import { limitOf, search } from "./sql-statements.ts";

function* nextDueAt(untimed: Untimed, restriction: Restriction, known?: Condition): SqlSteps<number | null> {
  const condition = known ? known : yield* searchingFor(untimed.dialect, restriction);
  const { params } = condition;
  return numberOrNull((yield* select(search(untimed, "nextDue", condition), ...params, ...params))[0]!.at);
}

/** Returns the ms until the next claim can succeed. */
export function* nextDue(
  operation: Operation,
  restriction: Restriction,
): SqlSteps<Timed<number | undefined>> {
  const { now } = operation;
  const at = yield* nextDueAt(operation, restriction);
  return { now, result: at === null ? undefined : Math.max(0, at - now) };
}

/**
 * Returns the result of a claim that finds nothing; `undefined` if a record can be claimed. `since` is then the due time at
 * which a restricted claim may begin to look.
 */
export function* noneDue(
  operation: Operation,
  call: ClaimCall,
  from: number,
): SqlSteps<Timed<ClaimResult | undefined> & { readonly since: number }> {
  const { sql, now } = operation;
  const condition = yield* searchingFor(operation.dialect, call, from);
  const query = condition.and === "" ? sql.due : search(operation, "firstFree", condition);
  const [first] = yield* select(query, now, now, ...condition.params);
  if (first !== undefined) return { now, result: undefined, since: number(first.found) };
  return { now, result: { claimed: [], nextDueAt: yield* nextDueAt(operation, call, condition) }, since: 0 };
}

/** How {@link claimEvents} looks, and what it does with the records that it has found. */
export interface ClaimSearch {
  /** The due time at which a claim with `except` or `only` begins to look. */
  readonly since?: number;
  /** The due time at which the search for the next due event begins. */
  readonly from?: number;
  readonly take?: typeof claimEach;
}

export function* claimEvents(
  operation: Operation,
  call: ClaimCall,
  { since = 0, from = 0, take = claimEach }: ClaimSearch = {},
): SqlSteps<Timed<ClaimResult>> {
  const { now } = operation;
  const claimed: Claimed[] = [];
  if (call.eventId !== undefined) {
    const only = yield* claimById(operation, call, call.eventId);
    return { now, result: { claimed: only === undefined ? [] : [only] } };
  }
  const limit = limitOf(call.limit);
  const condition = yield* searchingFor(operation.dialect, call, from);
  const claimable = search(operation, "claimable", condition);
  const params = condition.and === "" ? [] : [...condition.params, since];
  for (let isLast = false; !isLast && claimed.length < limit; ) {
    const room = limit - claimed.length;
    const records = yield* select(claimable, now, now, ...params, room);
    claimed.push(...(yield* take(operation, records, call, claimed.length)));
    isLast = records.length < room;
  }
  if (claimed.length >= limit) return { now, result: { claimed } };
  return { now, result: { claimed, nextDueAt: yield* nextDueAt(operation, call, condition) } };
}

/** How long a record waits if one of its events is locked by a session of somebody else, ms. */
export const LOCKED_FOR = 1000;

/** Claims the first due event of each of these locked records. @param n - the number of the call's claims before */
export function* claimEach(
  operation: Operation,
  records: readonly SqlRow[],
  call: ClaimCall,
  n: number,
): SqlSteps<Claimed[]> {
  const claimed: Claimed[] = [];
  for (const record of records) {
    const first = yield* claimFirst(operation, record, call, n + claimed.length);
    if (first !== undefined) claimed.push(first);
  }
  return claimed;
}

/** Claims the first due event of a locked record. */
function* claimFirst(
  operation: Operation,
  record: SqlRow,
  call: ClaimCall,
  n: number,
): SqlSteps<Claimed | undefined> {
  const { sql, now } = operation;
  const key = text(record.ref);
  const hasExpired = yield* expire(operation, record);
  const [event] = yield* select(sql.firstDue, key, now);
  if (event === undefined) yield* endLease(operation, key, 0);
  else if (!hasExpired || !(yield* isFree(operation, event)))
    yield* change(sql.setDue, now + LOCKED_FOR, key);
  else return yield* leaseOf(operation, record, event, call, n);
  return undefined;
}

function* claimById(operation: Operation, call: ClaimCall, eventId: string): SqlSteps<Claimed | undefined> {
  const { sql, now } = operation;
  const id = toId(eventId);
  const [known] = yield* select(sql.eventById, id);
  if (known === undefined) return undefined;
  const takes = takesOf(call);
  if (takes !== undefined && !takes(toRef(known.ref) ?? eventId)) return undefined;
  const [record] = yield* select(sql.lockRecord, text(known.ref));
  if (record === undefined || (numberOrNull(record.lease_end) ?? 0) > now) return undefined;
  const [event] = yield* select(sql.eventById, id);
  const dueAt = event === undefined ? null : numberOrNull(event.due_at);
  if (dueAt === null || dueAt > now) return undefined;
  if (!(yield* expire(operation, record))) return undefined;
  // Read the event again, because it may have a `lost` entry now.
  return yield* leaseOf(operation, record, (yield* select(sql.eventById, id))[0]!, call, 0);
}

function* leaseOf(
  { sql, now }: Operation,
  record: SqlRow,
  event: SqlRow,
  { token, leaseDuration, worker }: ClaimCall,
  n: number,
): SqlSteps<Claimed> {
  const lease = `${token}:${n}`;
  const end = now + leaseDuration;
  yield* change(sql.claimEvent, end, now, toTextOrNull(worker), lease, number(event.seq));
  yield* change(sql.leaseRecord, lease, end, leaseDuration, end, text(record.ref));
  return claimOf(event, record, { lease, now, worker });
}
