// The hot path of MySQL for several events at once. Each statement costs a round trip, so that a statement for each event
// would make a group as slow as calls one after the other.

import { type Addition, dueTime, type Settlement } from "../outcomes.ts";
import { change, type SqlRow, type SqlSteps, type SqlValue, select } from "../sql/driver.ts";
import { claimEach, LOCKED_FOR } from "../sql/sql-claims.ts";
import {
  addOne,
  alreadySettled,
  endLease,
  endValues,
  keyOf,
  lockInOrder,
  newEventValues,
  settle,
  settleOne,
  snapshotValues,
} from "../sql/sql-queue.ts";
import { lists, lockAll, type Operation } from "../sql/sql-records.ts";
import { claimOf, fromId, number, numberOrNull, text, toId, toTextOrNull } from "../sql/sql-rows.ts";
import { EMPTY, IN_LIST, LIST, NEW_EVENT } from "../sql/sql-statements.ts";
import type { AddAnswer, ClaimCall, Claimed, Settled } from "../store-steps.ts";
import type { ClaimedEvent } from "../stored-event.ts";

const KNOWN = `SELECT id FROM stayhook_events WHERE id ${IN_LIST}`;

/**
 * Makes records due, and the rows that are missing. During a lease, a due time below its end tells `settle` of the event. In
 * Galera, an `add` on one node and a `settle` on another conflict only if both write the record.
 */
const becomeDue = (rows: number) => `
  INSERT INTO stayhook_records (ref, due_at) VALUES ${valuesOf(rows, 2)}
  ON DUPLICATE KEY UPDATE due_at = CASE
    WHEN due_at IS NULL OR due_at > LEAST(VALUES(due_at), COALESCE(lease_end - 1, VALUES(due_at)))
      THEN LEAST(VALUES(due_at), COALESCE(lease_end - 1, VALUES(due_at)))
    WHEN lease_end IS NULL THEN due_at ELSE due_at - 1 END`;

const INSERTED = `${NEW_EVENT}, lease`;
const insertEvents = (rows: number) =>
  `INSERT INTO stayhook_events (${INSERTED}) VALUES ${valuesOf(rows, INSERTED.split(",").length)}`;

function valuesOf(rows: number, columns: number): string {
  return Array(rows)
    .fill(`(${Array(columns).fill("?").join(", ")})`)
    .join(", ");
}

function* chunks<T>(values: readonly T[]): Generator<readonly T[]> {
  for (let at = 0; at < values.length; at += LIST) yield values.slice(at, at + LIST);
}

export function* addTogether(operation: Operation, additions: readonly Addition[]): SqlSteps<AddAnswer[]> {
  const { inOrder, locked } = yield* lockInOrder(operation, additions);
  const known = new Set<string>();
  for (const list of lists(additions.map(({ event }) => toId(event.eventId))))
    for (const { id } of yield* select(KNOWN, ...list)) known.add(fromId(id));
  const answers: AddAnswer[] = [];
  const fresh = inOrder.filter(({ addition }) => !known.has(addition.event.eventId));
  for (const some of chunks(fresh)) {
    const due = some.flatMap(({ addition, key }) => [key, dueTime(addition, operation.now)]);
    yield* change(becomeDue(some.length), ...due);
    for (const { key } of some) locked.delete(key);
    // Another process may have added one of the events meanwhile. The statement then inserts none of them.
    const rows = some.flatMap(({ addition }) => newEventValues(operation, addition));
    const inserted = yield* change(insertEvents(some.length), ...rows);
    if (inserted > 0) for (const { index } of some) answers[index] = "added";
  }
  for (const { addition, index } of inOrder) answers[index] ??= yield* addOne(operation, addition, locked);
  return answers;
}

/** The first due event of each record. The subquery reads one entry of the index. */
const FIRST_DUE = `
  SELECT r.ref, (
    SELECT e.seq FROM stayhook_events AS e FORCE INDEX (stayhook_events_due)
    WHERE e.ref = r.ref AND e.due_at IS NOT NULL AND e.due_at <= ? ORDER BY e.due_at, e.seq LIMIT 1) AS seq
  FROM stayhook_records AS r FORCE INDEX (PRIMARY) WHERE r.ref ${IN_LIST}`;
const FREE_EVENTS = `SELECT * FROM stayhook_events FORCE INDEX (PRIMARY) WHERE seq ${IN_LIST} FOR UPDATE SKIP LOCKED`;
const leasesBy = (key: string, rows: number) =>
  `lease = CASE ${key} ${Array(rows).fill("WHEN ? THEN ?").join(" ")} END`;
const claimEvents = (rows: number) => `
  UPDATE stayhook_events FORCE INDEX (PRIMARY)
  SET state = 'processing', attempts = attempts + 1, due_at = ?, claimed_at = ?, worker = ?, ${leasesBy("seq", rows)}
  WHERE seq IN (${Array(rows).fill("?").join(", ")})`;
const leaseRecords = (rows: number) => `
  UPDATE stayhook_records FORCE INDEX (PRIMARY) SET lease_end = ?, lease_duration = ?, due_at = ?, ${leasesBy("ref", rows)}
  WHERE ref IN (${Array(rows).fill("?").join(", ")})`;

/** Claims the first due event of each of these locked records. @param n - the number of the call's claims before */
export function* claimTogether(
  operation: Operation,
  records: readonly SqlRow[],
  call: ClaimCall,
  n: number,
): SqlSteps<Claimed[]> {
  const free = records.filter(({ lease_end: end }) => numberOrNull(end) === null);
  const leased = records.filter((record) => !free.includes(record));
  const claimed = yield* claimEach(operation, leased, call, n);
  for (const some of chunks(free))
    claimed.push(...(yield* claimSome(operation, some, call, n + claimed.length)));
  return claimed;
}

function* claimSome(
  operation: Operation,
  records: readonly SqlRow[],
  { token, leaseDuration, worker }: ClaimCall,
  n: number,
): SqlSteps<Claimed[]> {
  const { sql, now } = operation;
  const [refs] = lists(records.map(({ ref }) => text(ref)));
  const first = new Map<string, number | null>();
  for (const { ref, seq } of yield* select(FIRST_DUE, now, ...refs!)) first.set(text(ref), numberOrNull(seq));
  const events = new Map<number, SqlRow>();
  const [seqs] = lists([...first.values()].filter((seq) => seq !== null));
  if (seqs !== undefined)
    for (const event of yield* select(FREE_EVENTS, ...seqs)) events.set(number(event.seq), event);
  const leased: { readonly ref: string; readonly seq: number; readonly lease: string }[] = [];
  const claimed: Claimed[] = [];
  for (const record of records) {
    const ref = text(record.ref);
    const seq = first.get(ref) ?? null;
    const event = seq === null ? undefined : events.get(seq);
    if (seq === null) yield* endLease(operation, ref, 0);
    else if (event === undefined) yield* change(sql.setDue, now + LOCKED_FOR, ref);
    else {
      const lease = `${token}:${n + claimed.length}`;
      leased.push({ ref, seq, lease });
      claimed.push(claimOf(event, record, { lease, now, worker }));
    }
  }
  if (leased.length === 0) return claimed;
  const end = now + leaseDuration;
  const bySeq = leased.flatMap(({ seq, lease }): SqlValue[] => [seq, lease]);
  const byRef = leased.flatMap(({ ref, lease }) => [ref, lease]);
  const worked = toTextOrNull(worker);
  yield* change(claimEvents(leased.length), end, now, worked, ...bySeq, ...leased.map(({ seq }) => seq));
  yield* change(
    leaseRecords(leased.length),
    end,
    leaseDuration,
    end,
    ...byRef,
    ...leased.map(({ ref }) => ref),
  );
  return claimed;
}

const HELD = `
  SELECT e.seq, e.id, e.lease, r.ref, r.sequence, CASE WHEN r.snapshot IS NULL THEN 0 ELSE 1 END AS has_snapshot
  FROM stayhook_events AS e JOIN stayhook_records AS r ON r.ref = e.ref AND r.lease = e.lease
  WHERE e.id ${IN_LIST} AND e.state = 'processing' AND r.lease_end IS NOT NULL`;

const RENEW_EVENTS = `UPDATE stayhook_events FORCE INDEX (PRIMARY) SET due_at = ? WHERE seq ${IN_LIST}`;
// MySQL assigns the columns from left to right, and `due_at` needs the old `lease_end`.
const RENEW_RECORDS = `
  UPDATE stayhook_records FORCE INDEX (PRIMARY)
  SET due_at = CASE WHEN due_at < lease_end AND due_at < ? THEN due_at ELSE ? END, lease_end = ?, lease_duration = ?
  WHERE ref ${IN_LIST}`;

export function* renewTogether(
  operation: Operation,
  claims: readonly ClaimedEvent[],
  leaseDuration: number,
): SqlSteps<string[]> {
  const end = operation.now + leaseDuration;
  const renewed: string[] = [];
  yield* lockAll(operation, claims.map(keyOf));
  for (const some of chunks(claims)) {
    const rows = yield* heldOf(some);
    const [seqs] = lists([...rows.values()].map(({ seq }) => number(seq)));
    const [refs] = lists([...rows.values()].map(({ ref }) => text(ref)));
    if (seqs === undefined || refs === undefined) continue;
    yield* change(RENEW_EVENTS, end, ...seqs);
    yield* change(RENEW_RECORDS, end, end, end, leaseDuration, ...refs);
    renewed.push(...rows.keys());
  }
  return renewed;
}

/** Returns the rows of the events and records of those claims whose lease is held, by their leases. */
function* heldOf(claims: readonly ClaimedEvent[]): SqlSteps<Map<string, SqlRow>> {
  const [ids] = lists(claims.map(({ eventId }) => toId(eventId)));
  const rows = new Map<string, SqlRow>();
  const leases = new Set(claims.map(({ lease }) => lease));
  for (const row of yield* select(HELD, ...ids!))
    if (leases.has(text(row.lease))) rows.set(text(row.lease), row);
  return rows;
}

/** The columns that the end of an attempt changes, in the order of {@link endValues}, and their types. */
const ENDED = {
  state: "VARCHAR(10)",
  due_at: "BIGINT",
  done_at: "BIGINT",
  attempts: "INT",
  outages: "INT",
  first_outage_at: "BIGINT",
  failures: "INT",
  refusals: "INT",
  replayed: "TINYINT",
  type: "VARCHAR(1024)",
  reason: "VARCHAR(20)",
  history: "LONGTEXT",
  drops: "TINYINT",
};
const NAMES = Object.keys(ENDED);
const typed = Object.entries({ seq: "BIGINT", ...ENDED }).map(
  ([name, type]) => `${name} ${type} PATH '$.${name}'`,
);
const plain = NAMES.filter((name) => name !== "type" && name !== "drops").map(
  (name) => `e.${name} = g.${name}`,
);
/** A column without a value is missing in the JSON. */
const END_EVENTS = `
  UPDATE JSON_TABLE(?, '$[*]' COLUMNS (${typed.join(", ")})) AS g
  STRAIGHT_JOIN stayhook_events AS e FORCE INDEX (PRIMARY) ON e.seq = g.seq
  SET ${plain.join(", ")}, e.type = COALESCE(g.type, e.type),
    e.notification = CASE WHEN g.drops = 1 THEN NULL ELSE e.notification END`;

const FIRST_DUE_AT = `
  SELECT r.ref, (
    SELECT e.due_at FROM stayhook_events AS e FORCE INDEX (stayhook_events_due)
    WHERE e.ref = r.ref AND e.due_at IS NOT NULL ORDER BY e.due_at, e.seq LIMIT 1) AS at
  FROM stayhook_records AS r FORCE INDEX (PRIMARY) WHERE r.ref ${IN_LIST}`;

/** Ends the leases of records. A column without a value stays as it is, and an empty ledger is deleted. */
const endLeases = (rows: number) => `
  INSERT INTO stayhook_records (ref, due_at, snapshot, sequence, seen_at, ledger) VALUES ${valuesOf(rows, 6)}
  ON DUPLICATE KEY UPDATE lease_end = NULL, due_at = VALUES(due_at), snapshot = COALESCE(VALUES(snapshot), snapshot),
    sequence = VALUES(sequence), seen_at = COALESCE(VALUES(seen_at), seen_at),
    ledger = CASE WHEN VALUES(ledger) IS NULL THEN ledger ELSE NULLIF(VALUES(ledger), '') END`;
const DELETE_EMPTY = `
  DELETE FROM stayhook_records WHERE ref ${IN_LIST} AND ${EMPTY}`;

export function* settleTogether(
  operation: Operation,
  settlements: readonly Settlement<never>[],
): SqlSteps<Settled[]> {
  if (settlements.length === 1) return yield* settle(operation, settlements);
  const keys = settlements.flatMap(({ claim, additions }) => [claim, ...additions.map(({ event }) => event)]);
  const locked = yield* lockAll(operation, keys.map(keyOf));
  const settled = new Map<Settlement<never>, Settled>();
  for (const some of chunks(settlements.filter(isPlain))) {
    for (const each of yield* endSome(operation, some)) settled.set(...each);
    for (const { claim } of some) locked.delete(keyOf(claim));
  }
  const answers: Settled[] = [];
  for (const each of settlements) {
    const known = settled.get(each);
    answers.push(known === undefined ? yield* settleOne(operation, each, locked) : known);
  }
  return answers;
}

/** Whether a settlement changes only its own event and its record. */
function isPlain({ change: { event }, delay, remove, additions }: Settlement<never>): boolean {
  return event === undefined && delay === undefined && remove === undefined && additions.length === 0;
}

function* endSome(
  operation: Operation,
  settlements: readonly Settlement<never>[],
): SqlSteps<(readonly [Settlement<never>, Settled])[]> {
  const { now } = operation;
  const rows = yield* heldOf(settlements.map(({ claim }) => claim));
  const held = settlements.filter(({ claim }) => rows.has(claim.lease));
  const answers: (readonly [Settlement<never>, Settled])[] = [];
  for (const each of settlements)
    if (!held.includes(each)) answers.push([each, yield* alreadySettled(operation, each.claim)]);
  if (held.length === 0) return answers;
  const ends = held.map(({ claim, change: ended }) => {
    const values = endValues(ended, now).map((value, index) => [NAMES[index], value ?? undefined]);
    return { seq: number(rows.get(claim.lease)!.seq), ...Object.fromEntries(values) };
  });
  yield* change(END_EVENTS, JSON.stringify(ends));
  const [refs] = lists(held.map(({ claim }) => keyOf(claim)));
  const first = new Map<string, number | null>();
  for (const { ref, at } of yield* select(FIRST_DUE_AT, ...refs!)) first.set(text(ref), numberOrNull(at));
  const values = held.map((each): SqlValue[] => {
    const key = keyOf(each.claim);
    const at = first.get(key) ?? null;
    answers.push([each, { held: true, more: at !== null }]);
    const row = rows.get(each.claim.lease)!;
    const { record, ledger } = each;
    const written = record ? snapshotValues(record, row, now) : [null, number(row.sequence), null];
    const dueAt = at === null ? null : Math.max(now, at);
    return [key, dueAt, ...written, ledger === null ? "" : toTextOrNull(ledger)];
  });
  yield* change(endLeases(held.length), ...values.flat());
  if (values.some(([, dueAt, snapshot]) => dueAt === null && snapshot === null))
    yield* change(DELETE_EMPTY, ...refs!);
  return answers;
}
