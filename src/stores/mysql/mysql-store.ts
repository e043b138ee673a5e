import type { PoolConnection } from "mysql2/promise";
import { createSlots, type Slots } from "../../async.ts";
import { StayhookError } from "../../errors.ts";
import { LockedError } from "../call-errors.ts";
import type { Write } from "../event-store.ts";
import { type Addition, dueTime, type Settlement, stateOfNew } from "../outcomes.ts";
import { change, type SqlDriver, type SqlRow, type SqlSteps, type SqlValue, select } from "../sql/driver.ts";
import {
  addOne,
  alreadySettled,
  claimEvents,
  endLease,
  endValues,
  heldBy,
  keyOf,
  knownAnswer,
  LeaseLost,
  nextDueAt,
} from "../sql/sql-queue.ts";
import { expire, lists, lockAll, type Operation, removeEvents, type Untimed } from "../sql/sql-records.ts";
import {
  CONTENT,
  CONTENT_COLUMNS,
  claimOf,
  contentOf,
  fromId,
  historyOf,
  number,
  numberOrNull,
  text,
  toId,
  toSnapshot,
  toTextOrNull,
} from "../sql/sql-rows.ts";
import type { Tables } from "../sql/sql-schema.ts";
import { limitOf, search } from "../sql/sql-statements.ts";
import { failing, SqlStore } from "../sql/sql-store.ts";
import type { Timed } from "../store-clock.ts";
import type { StoreProblem } from "../store-problem.ts";
import type { AddAnswer, ClaimCall, Claimed, ClaimResult, Settled } from "../store-steps.ts";
import type { ClaimedEvent } from "../stored-event.ts";
import type { MysqlTransactionOptions } from "./mysql-driver.ts";

/** Without a character set, a text column of `JSON_TABLE` has the one of the database, which may not hold every text. */
const [ASCII, UNICODE] = ["CHARACTER SET ascii", "CHARACTER SET utf8mb4"];

/**
 * The columns of the JSON parameters, with their types. `id` and `ref` are hexadecimal, because MariaDB caches the results
 * of subqueries by the text of their parameters, and this text ignores case and spaces at the end.
 */
const TYPES = {
  id: `VARCHAR(510) ${ASCII}`,
  ref: `VARCHAR(2048) ${ASCII}`,
  seq: "BIGINT",
  state: `VARCHAR(10) ${ASCII}`,
  due_at: "BIGINT",
  lease: `VARCHAR(36) ${ASCII}`,
  done_at: "BIGINT",
  attempts: "INT",
  outages: "INT",
  first_outage_at: "BIGINT",
  replayed: "TINYINT",
  type: `VARCHAR(1024) ${UNICODE}`,
  reason: `VARCHAR(20) ${ASCII}`,
  history: `MEDIUMTEXT ${UNICODE}`,
  drops: "TINYINT",
  next: "BIGINT",
  snapshot: `MEDIUMTEXT ${UNICODE}`,
  sequence: "INT",
} as const;
type Row = { readonly [name in keyof typeof TYPES]?: string | number | null | undefined };

/**
 * A table `j` of the rows in a JSON parameter. MariaDB cuts a text that is too long for its column, but all keys in these
 * rows have the length of a stored key.
 */
function jsonTable(...names: (keyof typeof TYPES)[]): string {
  const columns = names.map((name) => `${name} ${TYPES[name]} PATH '$.${name}' NULL ON EMPTY ERROR ON ERROR`);
  return `JSON_TABLE(?, '$[*]' COLUMNS (${columns.join(", ")})) AS j`;
}

// `STRAIGHT_JOIN` reads the tables from left to right, and `FORCE INDEX` lets each row of the parameter find its rows by an
// index. In a small table, MariaDB would scan all rows, and wait for those that others have locked.
const EVENT_BY_SEQ = "STRAIGHT_JOIN stayhook_events AS e FORCE INDEX (PRIMARY) ON e.seq";
const EVENT_BY_ID = "STRAIGHT_JOIN stayhook_events AS e FORCE INDEX (id) ON e.id = UNHEX(j.id)";
const RECORD = "STRAIGHT_JOIN stayhook_records AS r FORCE INDEX (PRIMARY) ON r.ref";
const KNOWN = `
  SELECT e.id, e.ref, e.lease FROM ${jsonTable("id")} ${EVENT_BY_ID}`;
/**
 * Inserts events. `INSERT … SELECT` from a JSON parameter would lock the counter of `seq` for the whole table, so that
 * concurrent adds would wait for each other, and `JSON_TABLE` cuts long text where a plain value is an error.
 */
function insertOf(rows: number): string {
  const row = `(${Array(6 + CONTENT_COLUMNS.length)
    .fill("?")
    .join(", ")})`;
  return `INSERT INTO stayhook_events (id, ref, state, due_at, received_at, ${CONTENT}, lease) VALUES ${Array(rows).fill(row).join(", ")}`;
}
// The end of a lease computes the due time. But write the row of a leased record, too: in Galera, an `add` on one node and a
// `settle` on another conflict only if both write it.
const BECOME_DUE = `
  INSERT INTO stayhook_records (ref, due_at) SELECT UNHEX(j.ref), j.due_at FROM ${jsonTable("ref", "due_at")}
  ON DUPLICATE KEY UPDATE due_at = CASE WHEN lease_end IS NULL THEN LEAST(COALESCE(stayhook_records.due_at, VALUES(due_at)), VALUES(due_at))
    ELSE stayhook_records.due_at - 1 END`;
const FIRST_DUE = `
  SELECT e.* FROM ${jsonTable("ref")} ${EVENT_BY_SEQ} = (
    SELECT first.seq FROM stayhook_events AS first WHERE first.ref = UNHEX(j.ref) AND first.due_at <= ?
    ORDER BY first.due_at, first.seq LIMIT 1)`;
/** The event that each record's lease is for. */
const LEASED = `
  SELECT e.ref FROM ${jsonTable("ref")} ${EVENT_BY_SEQ} = (
    SELECT leased.seq FROM stayhook_events AS leased
    WHERE leased.ref = UNHEX(j.ref) AND leased.due_at IS NOT NULL AND leased.state = 'processing' LIMIT 1)`;
const POSTPONE = "UPDATE stayhook_records SET due_at = ? WHERE ref = ?";
/** A session of somebody else may hold a row of an event for long. Without this clause, a claim would wait for it. */
const UNLOCKED = "FOR UPDATE SKIP LOCKED";
const CLAIM = `
  UPDATE ${jsonTable("seq", "lease")} ${EVENT_BY_SEQ} = j.seq
    ${RECORD} = e.ref
  SET e.state = 'processing', e.attempts = e.attempts + 1, e.due_at = ?, e.claimed_at = ?, e.worker = ?, e.lease = j.lease,
    r.lease = j.lease, r.lease_end = ?, r.lease_duration = ?, r.due_at = ?`;
/** @param clock - the query for the time, because a statement of its own would cost as much as this one */
const lockHeldAt = (clock: string) => `
  SELECT e.seq, r.lease, r.sequence, r.snapshot IS NOT NULL AS has_snapshot, (${clock}) AS now FROM ${jsonTable("id", "ref", "lease")}
  ${RECORD} = UNHEX(j.ref) AND r.lease = j.lease AND r.lease_end IS NOT NULL
  ${EVENT_BY_ID} AND e.lease = r.lease AND e.state = 'processing'
  FOR UPDATE`;
const RENEW = `
  UPDATE ${jsonTable("seq")} ${EVENT_BY_SEQ} = j.seq
    ${RECORD} = e.ref
  SET e.due_at = ?, r.due_at = ?, r.lease_end = ?, r.lease_duration = ?`;
/** The next due time of each record without the event whose attempt ends. A plain read, which waits for no lock. */
const NEXT = `
  SELECT j.seq, (
    SELECT MIN(e.due_at) FROM stayhook_events AS e WHERE e.ref = UNHEX(j.ref) AND e.due_at IS NOT NULL AND e.seq <> j.seq) AS next
  FROM ${jsonTable("ref", "seq")}`;
const SETTLE = `
  UPDATE ${jsonTable("seq", "state", "due_at", "done_at", "attempts", "outages", "first_outage_at", "replayed", "type", "reason", "history", "drops", "next", "snapshot", "sequence")}
    ${EVENT_BY_SEQ} = j.seq ${RECORD} = e.ref
  SET e.state = j.state, e.due_at = j.due_at, e.done_at = j.done_at, e.attempts = j.attempts, e.outages = j.outages,
    e.first_outage_at = j.first_outage_at, e.replayed = j.replayed, e.type = COALESCE(j.type, e.type), e.reason = j.reason,
    e.history = j.history, e.notification = CASE WHEN j.drops = 1 THEN NULL ELSE e.notification END, r.lease_end = NULL, r.due_at = j.next,
    r.seen_at = CASE WHEN j.snapshot IS NULL THEN r.seen_at ELSE ? END,
    r.sequence = COALESCE(j.sequence, r.sequence), r.snapshot = COALESCE(j.snapshot, r.snapshot)`;

/** Runs the hot path in statements for whole groups. A JSON parameter holds the rows of a group. */
export class MysqlStore extends SqlStore<PoolConnection> {
  declare readonly transactional: true;
  readonly #writing: Slots;

  /** @param options.writesAtOnce - how many settles with the user's writes may hold a connection at once */
  constructor(driver: SqlDriver, tables: Tables, { writesAtOnce = 1, migrates = true } = {}) {
    super(driver, tables, { migrates });
    this.#writing = createSlots(writesAtOnce);
  }

  override async problems(): Promise<readonly StoreProblem[]> {
    const found = await super.problems();
    const [row] = await this.read(function* () {
      return yield* select(
        "SELECT @@GLOBAL.innodb_flush_log_at_trx_commit AS flush, @@GLOBAL.read_only AS fixed",
      );
    });
    const told: StoreProblem[] = [];
    if (number(row!.flush) !== 1)
      told.push({
        fails: false,
        detail: `innodb_flush_log_at_trx_commit is ${number(row!.flush)}, so a crash may lose the events of the last second. Set it to 1.`,
      });
    if (Number(row!.fixed) !== 0)
      told.push({ fails: true, detail: "The server is read-only. Give the store the primary." });
    return [...found, ...told];
  }

  protected override doSettle(
    settlements: readonly Settlement<PoolConnection>[],
  ): Promise<readonly Settled[]> {
    // The user's writes may be slow. Leave connections for adds, claims and renewals.
    return settlements.some(({ writes }) => writes.length > 0)
      ? this.#writing.run(() => super.doSettle(settlements))
      : super.doSettle(settlements);
  }

  protected override doAdd(additions: readonly Addition[]): Promise<readonly AddAnswer[]> {
    const steps = (operation: Operation) => addAll(operation, additions);
    return this.write(failing.add, steps, patienceOf(additions.length));
  }

  protected override readonly claiming: typeof claimEvents = (operation, call, since) =>
    call.eventId === undefined ? claimAll(operation, call, since) : claimEvents(operation, call);

  protected override async doRenew(
    claims: readonly ClaimedEvent[],
    duration: number,
  ): Promise<readonly string[]> {
    const patience = patienceOf(claims.length, Math.min(PATIENCE, duration / 3));
    try {
      return await this.writeUntimed(
        failing.renew,
        (untimed) => renewAll(untimed, claims, duration),
        patience,
      );
    } catch (error) {
      if (!(error instanceof LockedError)) throw error;
      if (claims.length === 1) return [];
    }
    // Renew each lease alone. During a wait for one lock, the other leases could end.
    return (await Promise.all(claims.map((claim) => this.doRenew([claim], duration)))).flat();
  }

  protected override settling(settlements: readonly Settlement<PoolConnection>[]): Promise<Settled[]> {
    const steps = (untimed: Untimed) => settleAll(untimed, settlements);
    // The user's writes may wait for locks of the user, and go on after them.
    const hasWrites = settlements.some(({ writes }) => writes.length > 0);
    return this.writeUntimed(failing.settle, steps, hasWrites ? {} : patienceOf(settlements.length));
  }
}

/** How long a statement of one call waits for a lock, ms. The calls of a group do not wait, so that each waits alone. */
const PATIENCE = 5000;
/** How long a record waits if one of its events is locked by a session of somebody else, ms. */
const LOCKED_FOR = 1000;

function patienceOf(calls: number, alone = PATIENCE): MysqlTransactionOptions {
  return { lockPatience: calls > 1 ? 0 : alone };
}

/** How often `addAll` asks for known events. One round suffices, unless another process deletes an event meanwhile. */
const ROUNDS = 10;

function* addAll(operation: Operation, additions: readonly Addition[]): SqlSteps<AddAnswer[]> {
  const { now } = operation;
  /** The row of each event that the store has already, by its id. */
  let known: ReadonlyMap<string, SqlRow> = new Map();
  let fresh = additions;
  for (let round = 0; fresh.length > 0; round += 1) {
    if (round === ROUNDS)
      throw new StayhookError("the store rejects an event id as known, but has no such event");
    const inserted = yield* change(
      insertOf(fresh.length),
      ...fresh.flatMap((addition) => rowOf(addition, now)),
    );
    if (inserted === fresh.length) {
      yield* change(BECOME_DUE, json(dueTimes(fresh, now)));
      break;
    }
    // If the store has one of the ids, the statement inserts nothing.
    const ids = additions.map(({ event }) => ({ id: hex(toId(event.eventId)) }));
    const found = yield* select(KNOWN, json(ids));
    known = new Map(found.map((row) => [fromId(row.id), row]));
    fresh = additions.filter(({ event }) => !known.has(event.eventId));
  }
  const answers: AddAnswer[] = [];
  for (const addition of additions) {
    const row = known.get(addition.event.eventId);
    const answer = row === undefined ? "added" : knownAnswer(addition, row);
    answers.push(
      answer === "duplicate" && addition.replace !== undefined ? yield* addOne(operation, addition) : answer,
    );
  }
  return answers;
}

/** Returns the values of {@link insertOf} for one event. */
function rowOf(addition: Addition, now: number): SqlValue[] {
  const { event } = addition;
  const token = addition.token ?? null;
  return [
    toId(event.eventId),
    keyOf(event),
    stateOfNew(addition),
    dueTime(addition, now),
    now,
    ...contentOf(event),
    token,
  ];
}

/** Returns the first due time of each record. */
function dueTimes(additions: readonly Addition[], now: number): Row[] {
  const first = new Map<string, number>();
  for (const addition of additions) {
    const key = keyOf(addition.event);
    first.set(key, Math.min(first.get(key) ?? Number.POSITIVE_INFINITY, dueTime(addition, now)));
  }
  return inOrder([...first].map(([key, due_at]) => ({ ref: hex(key), due_at })));
}

function* claimAll(operation: Operation, call: ClaimCall, since = 0): SqlSteps<Timed<ClaimResult>> {
  const { now } = operation;
  const { token, leaseDuration, worker } = call;
  const limit = limitOf(call.limit);
  const [claimable, restricted] = search(operation, "claimable", call);
  const params = restricted.length === 0 ? [] : [...restricted, since];
  const records = yield* select(claimable, now, now, ...params, limit);
  const locked = yield* expireAll(operation, records);
  const found =
    records.length === 0 ? [] : yield* select(`${FIRST_DUE} ${UNLOCKED}`, json(records.map(refOf)), now);
  const events = new Map(found.map((event) => [text(event.ref), event]));
  for (const record of records) {
    const ref = text(record.ref);
    if (events.has(ref) || locked.has(ref)) continue;
    if ((yield* select(FIRST_DUE, json([refOf(record)]), now)).length > 0) locked.add(ref);
  }
  const leases: Row[] = [];
  const claimed: Claimed[] = [];
  for (const record of records) {
    const ref = text(record.ref);
    const event = events.get(ref);
    if (locked.has(ref)) yield* change(POSTPONE, now + LOCKED_FOR, ref);
    else if (event === undefined) yield* endLease(operation, ref, 0);
    if (event === undefined || locked.has(ref)) continue;
    const lease = `${token}:${leases.length}`;
    leases.push({ seq: number(event.seq), lease });
    claimed.push({ claim: claimOf(event, record, lease, now), row: { history: historyOf(event), worker } });
  }
  const end = now + leaseDuration;
  if (leases.length > 0)
    yield* change(CLAIM, json(leases), end, now, toTextOrNull(worker), end, leaseDuration, end);
  // Records without a due event have a later due time now, so that the next records take their places.
  if (claimed.length === 0 && records.length > 0) return yield* claimAll(operation, call, since);
  if (claimed.length >= limit) return { now, result: { claimed } };
  return { now, result: { claimed, nextDueAt: yield* nextDueAt(operation, call) } };
}

/**
 * Ends the leases of locked records that have ended.
 *
 * @returns the records whose event is locked by a session of somebody else. Their leases have not been ended
 */
function* expireAll(operation: Operation, records: readonly SqlRow[]): SqlSteps<Set<string>> {
  const ended = records.filter(({ lease_end: end }) => end !== null);
  if (ended.length === 0) return new Set();
  const refs = json(ended.map(refOf));
  const all = (yield* select(LEASED, refs)).map(({ ref }) => text(ref));
  const free = new Set((yield* select(`${LEASED} ${UNLOCKED}`, refs)).map(({ ref }) => text(ref)));
  const locked = new Set(all.filter((ref) => !free.has(ref)));
  for (const record of ended) if (!locked.has(text(record.ref))) yield* expire(operation, record);
  return locked;
}

/** Locks the records of the claims. Returns a row with the time for each lease that is still held, by its token. */
function* lockHeld({ dialect }: Untimed, claims: readonly ClaimedEvent[]): SqlSteps<Map<string, SqlRow>> {
  const rows = claims.map((claim) => ({
    id: hex(toId(claim.eventId)),
    ref: hex(keyOf(claim)),
    lease: claim.lease,
  }));
  const clock = dialect.clock ?? `SELECT ${Date.now()}`;
  const held = yield* select(lockHeldAt(clock), json(inOrder(rows)));
  return new Map(held.map((row) => [text(row.lease), row]));
}

function* renewAll(
  untimed: Untimed,
  claims: readonly ClaimedEvent[],
  leaseDuration: number,
): SqlSteps<string[]> {
  const held = yield* lockHeld(untimed, claims);
  const [first] = held.values();
  if (first === undefined) return [];
  const end = number(first.now) + leaseDuration;
  const rows = [...held.values()].map(({ seq }) => ({ seq: number(seq) }));
  yield* change(RENEW, json(rows), end, end, end, leaseDuration);
  return [...held.keys()];
}

function* settleAll(
  untimed: Untimed,
  settlements: readonly Settlement<PoolConnection>[],
): SqlSteps<Settled[]> {
  const { claim, writes } = settlements[0]!;
  if (writes.length > 0) {
    // Run the writes before the record is locked, so that an `add` does not wait for them.
    if ((yield* heldBy(untimed, claim)) === undefined) return [yield* alreadySettled(untimed, claim)];
    yield { writes: writes as unknown as readonly Write<never>[] };
  }
  const others = settlements.flatMap(({ additions }) => additions.map(({ event }) => keyOf(event)));
  const own = settlements.map(({ claim }) => keyOf(claim));
  if (others.some((key) => !own.includes(key))) yield* lockAll(untimed, [...new Set([...own, ...others])]);
  const held = yield* lockHeld(
    untimed,
    settlements.map(({ claim }) => claim),
  );
  if (writes.length > 0 && held.size === 0) throw new LeaseLost();
  const mine = settlements.flatMap((settlement) => {
    const row = held.get(settlement.claim.lease);
    return row === undefined ? [] : [{ settlement, row, key: keyOf(settlement.claim) }];
  });
  const more = yield* endAll(untimed, mine);
  const settled: Settled[] = [];
  for (const { claim } of settlements) {
    settled.push(
      held.has(claim.lease)
        ? { held: true, more: more.get(claim.lease) !== null }
        : yield* alreadySettled(untimed, claim),
    );
  }
  return settled;
}

interface Held {
  readonly settlement: Settlement<PoolConnection>;
  readonly row: SqlRow;
  readonly key: string;
}

/** Ends the attempts of held leases. Returns the new due time of each record by the token of its lease. */
function* endAll(untimed: Untimed, held: readonly Held[]): SqlSteps<Map<string, number | null>> {
  const due = new Map<string, number | null>();
  const [first] = held;
  if (first === undefined) return due;
  const operation = { ...untimed, now: number(first.row.now) };
  const { sql, now } = operation;
  for (const { settlement, row, key } of held) {
    const { change: ended, delay, remove } = settlement;
    if (remove !== undefined) yield* removeEvents(operation, key, remove, number(row.seq));
    if (delay !== undefined) yield* change(sql.delayEvents, now + delay, key, now + delay);
    if (ended.event !== undefined)
      yield* change(sql.replaceContent, now, ...contentOf(ended.event), number(row.seq));
  }
  const additions = held.flatMap(({ settlement }) => settlement.additions);
  yield* addEach(operation, additions);
  const seqs = json(held.map(({ row, key }) => ({ ref: hex(key), seq: number(row.seq) })));
  const next = new Map((yield* select(NEXT, seqs)).map((row) => [number(row.seq), numberOrNull(row.next)]));
  const rows: Row[] = [];
  const empty: string[] = [];
  for (const { settlement, row, key } of held) {
    const ended = endedRow(settlement, row, now, next.get(number(row.seq)) ?? null);
    due.set(settlement.claim.lease, ended.next ?? null);
    if (ended.next === null && ended.snapshot === null && number(row.has_snapshot) === 0) empty.push(key);
    rows.push(ended);
  }
  yield* change(SETTLE, json(rows), now);
  for (const list of lists(empty)) yield* change(sql.deleteRecords, ...list);
  return due;
}

/** Adds the events of a group of settlements. Two of them may have the same id, and a statement cannot add both. */
function* addEach(operation: Operation, additions: readonly Addition[]): SqlSteps<void> {
  const ids = new Set(additions.map(({ event }) => event.eventId));
  if (ids.size === additions.length && ids.size > 0) yield* addAll(operation, additions);
  else for (const addition of additions) yield* addOne(operation, addition);
}

/** Returns the new values of an event whose attempt ends, and of its record. */
function endedRow(
  { change: ended, record }: Settlement<PoolConnection>,
  { seq, sequence, has_snapshot }: SqlRow,
  now: number,
  others: number | null,
) {
  const [state, due_at, done_at, attempts, outages, first_outage_at, replayed, type, reason, history, drops] =
    endValues(ended, now);
  const due = Math.min(due_at ?? Number.POSITIVE_INFINITY, others ?? Number.POSITIVE_INFINITY);
  const rise = record?.changed ? 1 : 0;
  return {
    ...{
      seq: number(seq),
      state,
      due_at,
      done_at,
      attempts,
      outages,
      first_outage_at,
      replayed,
      type,
      reason,
      history,
      drops,
    },
    next: due === Number.POSITIVE_INFINITY ? null : Math.max(now, due),
    snapshot: record === undefined ? null : toSnapshot(record.snapshot),
    sequence: record === undefined ? null : number(has_snapshot) === 0 ? 1 : number(sequence) + rise,
  } satisfies Row;
}

function json(rows: readonly Row[]): string {
  return JSON.stringify(rows);
}

/** Sorts the rows in the order in which all transactions lock records. Hexadecimal text has the order of its bytes. */
function inOrder<T extends { readonly ref: string }>(rows: readonly T[]): T[] {
  return rows.toSorted((a, b) => (a.ref < b.ref ? -1 : 1));
}

function refOf({ ref }: SqlRow): Row {
  return { ref: hex(text(ref)) };
}

function hex(value: string | Uint8Array): string {
  return Buffer.from(value as string).toString("hex");
}
