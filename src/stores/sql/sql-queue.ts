// The steps of `add`, `claim`, `renew` and `settle` in SQL.

import type { Write } from "../event-store.ts";
import {
  type Addition,
  dueTime,
  type EventChange,
  replaces,
  type Settlement,
  stateOfNew,
} from "../outcomes.ts";
import type { AddAnswer, Settled } from "../store-steps.ts";
import type { ClaimedEvent } from "../stored-event.ts";
import { change, type SqlRow, type SqlSteps, type SqlValue, select } from "./driver.ts";
import { expire, lock, lockAll, type Operation, removeEvents, type Untimed } from "./sql-records.ts";
import {
  contentOf,
  number,
  numberOrNull,
  storedEventOf,
  text,
  toHistory,
  toId,
  toRecord,
  toRef,
  toSnapshot,
  toTextOrNull,
} from "./sql-rows.ts";

/** Thrown to roll back a transaction although its statements have succeeded. */
export class RollBack extends Error {}

/** Thrown to roll back the writes of `event.atomically`, because the lease was lost while they ran. */
export class LeaseLost extends RollBack {}

/** Returns the key of the record of an event or claim. */
export function keyOf({ ref, eventId }: { readonly ref: string | null; readonly eventId: string }): string {
  return toRecord(ref, eventId);
}

/** Locks the records of additions in order: two transactions that lock in different orders would deadlock. */
export function* lockInOrder(operation: Operation, additions: readonly Addition[]) {
  const inOrder = additions.map((addition, index) => ({ addition, index, key: keyOf(addition.event) }));
  inOrder.sort((a, b) => (a.key < b.key ? -1 : 1));
  const keys = inOrder.map(({ key }) => key);
  return { inOrder, locked: yield* lockAll(operation, keys) };
}

export function* add(operation: Operation, additions: readonly Addition[]): SqlSteps<AddAnswer[]> {
  const answers: AddAnswer[] = [];
  const { inOrder, locked } = yield* lockInOrder(operation, additions);
  for (const { addition, index } of inOrder) answers[index] = yield* addOne(operation, addition, locked);
  return answers;
}

/** Returns the values of `insertEvent`. */
export function newEventValues({ now }: Operation, addition: Addition): SqlValue[] {
  const { event, token } = addition;
  const dueAt = dueTime(addition, now);
  const own = [toId(event.eventId), keyOf(event), stateOfNew(addition), dueAt, dueAt, now];
  return [...own, ...contentOf(event), token ?? null];
}

/** @param locked - the rows of records that {@link lockAll} has locked */
export function* addOne(
  operation: Operation,
  addition: Addition,
  locked: Map<string, SqlRow>,
): SqlSteps<AddAnswer> {
  const { sql, now } = operation;
  const { event } = addition;
  const dueAt = dueTime(addition, now);
  const id = toId(event.eventId);
  const key = keyOf(event);
  if ((yield* change(sql.insertEvent, ...newEventValues(operation, addition))) > 0) {
    yield* becomeDue(operation, key, dueAt, locked);
    return "added";
  }
  const [known] = yield* select(sql.eventById, id);
  // Another transaction may have deleted the event meanwhile.
  if (known === undefined) return yield* addOne(operation, addition, locked);
  const answer = knownAnswer(addition, known);
  return answer === "duplicate" && addition.replace !== undefined
    ? yield* replace(operation, addition, locked)
    : answer;
}

/** Returns the answer of an addition without `replace`, whose id the store has already. */
export function knownAnswer({ event, token }: Addition, known: SqlRow): "added" | "duplicate" | "conflict" {
  if (toRef(known.ref) !== event.ref) return "conflict";
  // The first call of this addition got no answer, but the store recorded the event.
  return token !== undefined && known.lease !== null && text(known.lease) === token ? "added" : "duplicate";
}

/** Lets an event take the place of the event with its id, if the rules of `replace` allow it. */
function* replace(
  operation: Operation,
  addition: Addition,
  locked: Map<string, SqlRow>,
): SqlSteps<AddAnswer> {
  const { sql, now } = operation;
  const { event } = addition;
  const newDueAt = dueTime(addition, now);
  const key = keyOf(event);
  const record = yield* lock(operation, key);
  // Read the event again, because it may have changed before the record was locked.
  const [known] = yield* select(sql.eventById, toId(event.eventId));
  if (known === undefined) return yield* addOne(operation, addition, locked);
  const { state, timestamp, dueAt } = storedEventOf(known);
  const isReplaced = replaces(addition, { ref: event.ref, timestamp }, state);
  if (state === "processing" && dueAt!.getTime() > now)
    return isReplaced || addition.replace === "ended" ? "busy" : "duplicate";
  if (!isReplaced) return "duplicate";
  if (state === "processing" && !(yield* expire(operation, record))) return "busy";
  const values = [...[stateOfNew(addition), newDueAt, newDueAt, now], ...contentOf(event), number(known.seq)];
  // A prune deletes ended events without the lock.
  if ((yield* change(sql.replaceEvent, ...values)) === 0) return yield* addOne(operation, addition, locked);
  locked.delete(key);
  yield* becomeDue(operation, key, newDueAt, locked);
  return "added";
}

/** Makes a record due at `dueAt`, or earlier. During a lease, a due time below its end tells `settle` of the event. */
function* becomeDue(
  operation: Operation,
  key: string,
  dueAt: number,
  locked: Map<string, SqlRow>,
): SqlSteps<void> {
  const { sql } = operation;
  const known = locked.get(key);
  if (known === undefined && (yield* change(sql.insertDueRecord, key, dueAt)) > 0) return;
  // No `??` here: the build to CommonJS would put the `yield` into a function.
  const record = known === undefined ? yield* lock(operation, key) : known;
  const leaseEnd = numberOrNull(record.lease_end);
  const due = Math.min(dueAt, (leaseEnd ?? Number.POSITIVE_INFINITY) - 1);
  const before = numberOrNull(record.due_at) ?? Number.POSITIVE_INFINITY;
  // In Galera, an `add` on one node and a `settle` on another conflict only if both write the record.
  const next = before > due ? due : leaseEnd === null ? before : before - 1;
  if (next < before) yield* change(sql.setDue, next, key);
  // Other additions of this transaction may have the same record.
  locked.set(key, { ...record, due_at: next });
}

export function* renew(
  operation: Operation,
  claims: readonly ClaimedEvent[],
  leaseDuration: number,
): SqlSteps<string[]> {
  const { sql, now } = operation;
  const end = now + leaseDuration;
  const held: string[] = [];
  yield* lockAll(operation, claims.map(keyOf));
  for (const claim of claims) {
    const { eventId, lease } = claim;
    if ((yield* change(sql.renewEvent, end, toId(eventId), lease)) === 0) continue;
    yield* change(sql.renewRecord, end, end, end, leaseDuration, keyOf(claim), lease);
    held.push(lease);
  }
  return held;
}

export function* settle(
  operation: Operation,
  settlements: readonly Settlement<never>[],
): SqlSteps<Settled[]> {
  const first = settlements[0];
  if (first !== undefined && first.writes.length > 0) {
    // Run the writes before the record is locked, so that an `add` does not wait for them.
    if ((yield* heldBy(operation, first.claim)) === undefined)
      return [yield* alreadySettled(operation, first.claim)];
    yield { writes: first.writes as readonly Write<never>[] };
  }
  const keys = settlements.flatMap(({ claim, additions }) => [
    keyOf(claim),
    ...additions.map(({ event }) => keyOf(event)),
  ]);
  const locked = yield* lockAll(operation, keys);
  const settled: Settled[] = [];
  for (const settlement of settlements) settled.push(yield* settleOne(operation, settlement, locked));
  return settled;
}

export function* settleOne(
  operation: Operation,
  settlement: Settlement<never>,
  locked: Map<string, SqlRow>,
): SqlSteps<Settled> {
  const { sql, now } = operation;
  const { claim, change: ended, delay, remove, additions } = settlement;
  const held = yield* heldBy(operation, claim);
  if (held === undefined) {
    if (settlement.writes.length > 0) throw new LeaseLost();
    return yield* alreadySettled(operation, claim);
  }
  const key = keyOf(claim);
  if (remove !== undefined) yield* removeEvents(operation, key, remove, number(held.seq));
  yield* change(sql.endEvent, ...endValues(ended, now), number(held.seq));
  if (ended.event !== undefined)
    yield* change(sql.replaceContent, now, ...contentOf(ended.event), number(held.seq));
  if (delay !== undefined) yield* change(sql.delayEvents, now + delay, key, now + delay);
  for (const addition of additions) yield* addOne(operation, addition, locked);
  locked.delete(key);
  const { record, ledger } = settlement;
  const written = {
    snapshot: record && snapshotValues(record, held, now),
    ledger: ledger === undefined ? undefined : [toTextOrNull(ledger)],
  };
  return { held: true, more: yield* endLease(operation, key, now, written) };
}

/** Returns the columns of a snapshot: itself, its sequence and its time. */
export function snapshotValues(
  record: NonNullable<Settlement<never>["record"]>,
  held: SqlRow,
  now: number,
): SqlValue[] {
  const hasSnapshot = number(held.has_snapshot) === 1;
  const sequence = !hasSnapshot ? 1 : number(held.sequence) + (record.changed ? 1 : 0);
  return [toSnapshot(record.snapshot), sequence, now];
}

/** Returns the values of `endEvent`. */
export function endValues(change: EventChange, now: number) {
  const {
    state,
    dueIn,
    dueAt,
    attempts,
    outages,
    firstOutageAt,
    failures,
    refusals,
    replayed,
    type,
    reason,
    history,
    dropsText,
  } = change;
  return [
    state,
    dueIn === null ? null : dueTime({ dueIn, dueAt }, now),
    dueIn === null ? now : null,
    attempts,
    outages,
    firstOutageAt,
    failures,
    refusals,
    replayed ? 1 : 0,
    toTextOrNull(type),
    reason,
    toHistory(history),
    dropsText ? 1 : 0,
  ] as const;
}

/**
 * Ends the lease of a record, and makes it due when its first event is, but not before `from`. Deletes the row if it is
 * not needed.
 *
 * @param written - the columns of the snapshot and of the ledger that the attempt has made
 * @returns whether the record has more events that are due now or later
 */
export function* endLease(
  { sql }: Operation,
  key: string,
  from: number,
  { snapshot, ledger }: { readonly [part in "snapshot" | "ledger"]?: readonly SqlValue[] | undefined } = {},
): SqlSteps<boolean> {
  const first = numberOrNull((yield* select(sql.firstDueAt, key))[0]!.at);
  const dueAt = first === null ? null : Math.max(from, first);
  const withSnapshot = ledger === undefined ? sql.endLeaseWithSnapshot : sql.endLeaseWithBoth;
  const bare = ledger === undefined ? sql.endLease : sql.endLeaseWithLedger;
  const end = snapshot === undefined ? bare : withSnapshot;
  yield* change(end, ...(snapshot ?? []), ...(ledger ?? []), dueAt, key);
  if (dueAt === null && snapshot === undefined) yield* change(sql.deleteRecord, key);
  return dueAt !== null;
}

/** Reads a claim's record and event. Returns `undefined` if the claim's lease is lost, or has ended the attempt. */
function* heldBy({ sql }: Untimed, claim: ClaimedEvent): SqlSteps<SqlRow | undefined> {
  const [held] = yield* select(sql.held, toId(claim.eventId), keyOf(claim), claim.lease);
  return held;
}

/** Whether a lease that is not held has ended the attempt. The event keeps its token until the event's next claim. */
export function* alreadySettled({ sql }: Untimed, { eventId, lease }: ClaimedEvent): SqlSteps<Settled> {
  const held = (yield* select(sql.endedBy, toId(eventId), lease)).length > 0;
  return { held, more: held };
}
