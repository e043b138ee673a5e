import { StayhookError } from "../../errors.ts";
import { change, type SqlDialect, type SqlSteps, select } from "./driver.ts";
import { number, text } from "./sql-rows.ts";

const EVENT = `id, record, state, ready_at, due_at, wait_from, received_at, source, topic, timestamp, notification,
  traceparent`;
/** The columns of the queue that a claim reads. Omits generated columns: reading a column takes about 0.1 µs. */
const QUEUE = `q.record, q.pending_due, q.pending_seq, q.retry_due, q.retry_seq, q.wait_from, q.wait_end, q.lease,
  q.lease_seq, q.lease_end`;
const CLAIMED = `e.id, e.record, e.state, e.ready_at, e.received_at, e.attempts, e.outages, e.first_outage_at, e.replayed,
  e.claimed_at, e.worker, e.history, e.source, e.topic, e.timestamp, e.notification, e.traceparent`;
const WAITING = `
  SELECT e.*, q.wait_end FROM stayhook_events AS e
  LEFT JOIN stayhook_queue AS q ON q.record = e.record AND e.ready_at IS NOT NULL`;

/** The start of a query for a record's first event in one state, in order of `ready_at` and `seq`. */
const FIRST = "SELECT ready_at, seq FROM stayhook_events WHERE record = ? AND state =";
const OLDEST_DUE = (condition: string) =>
  `SELECT * FROM (SELECT seq FROM stayhook_events WHERE record = ? AND ${condition} ORDER BY seq LIMIT 1)`;
/** A query for the oldest waiting event in one state. `state <> 'done'` lets SQLite use the partial index. */
const OLDEST = (condition: string) =>
  `SELECT * FROM (SELECT received_at AS at, seq FROM stayhook_events WHERE state <> 'done' AND ${condition} ORDER BY seq LIMIT 1)`;
const ENDED_BEFORE = "AND ended_at <= ? ORDER BY ended_at, seq LIMIT ?";
const OLD_DONE = `SELECT seq FROM stayhook_events WHERE state = 'done' ${ENDED_BEFORE}`;
const OLD_PARKED = `SELECT seq FROM stayhook_events WHERE state = 'parked' ${ENDED_BEFORE}`;
const OLD_PARKED_FOR = `SELECT seq FROM stayhook_events WHERE state = 'parked' AND reason = ? ${ENDED_BEFORE}`;
// MySQL rejects a `LIMIT` inside `IN (…)`. It also rejects a subquery that reads the table of the `DELETE`. A derived
// table avoids both errors.
const deleteOf = (seqs: string) =>
  `DELETE FROM stayhook_events WHERE seq IN (SELECT seq FROM (${seqs}) AS old)`;
/** A query for the `seq` of each event of a record. */
export function ofRecord(dialect: SqlDialect): string {
  return dialect.ofRecord ?? "SELECT seq FROM stayhook_events WHERE record = ?";
}

/** Returns the store's statements in the SQL of a dialect. */
export function statementsOf(dialect: SqlDialect) {
  const { forUpdate = "", skipLocked = "" } = dialect;
  const insertIgnore = (insert: string) => dialect.insertIgnore(insert);
  const statements = {
    insertEvent: insertIgnore(
      `INSERT INTO stayhook_events (${EVENT}) VALUES (?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    eventById: "SELECT seq, record FROM stayhook_events WHERE id = ?",
    insertQueue: insertIgnore(
      "INSERT INTO stayhook_queue (record, pending_due, pending_seq) VALUES (?, ?, ?)",
    ),
    // MySQL assigns columns from left to right. `pending_seq` comes first, because it needs the old `pending_due`.
    queueNow: `
      UPDATE stayhook_queue SET pending_seq = CASE WHEN pending_due = 0 THEN pending_seq ELSE ? END, pending_due = 0,
        wait_from = NULL, wait_end = 0
      WHERE record = ?`,
    queueLater: `
      UPDATE stayhook_queue SET pending_seq = ?, pending_due = ?
      WHERE record = ? AND (pending_due IS NULL OR pending_due > ?)`,

    queueOf: `SELECT ${QUEUE} FROM stayhook_queue AS q WHERE record = ? ${forUpdate}`,
    claimable: `
      SELECT ${QUEUE} FROM stayhook_queue AS q WHERE pending_at = 0 ORDER BY pending_seq LIMIT ? ${skipLocked}`,
    claimableNewest: `
      SELECT ${QUEUE} FROM stayhook_queue AS q WHERE pending_at = 0 ORDER BY pending_seq DESC LIMIT ? ${skipLocked}`,
    claimableAgain: `
      SELECT ${QUEUE} FROM stayhook_queue AS q WHERE pending_at > 0 AND pending_at <= ?
      ORDER BY pending_at, pending_seq LIMIT ? ${skipLocked}`,
    claimableRetries: `
      SELECT ${QUEUE} FROM stayhook_queue AS q WHERE retry_at <= ?
      ORDER BY retry_at, retry_seq LIMIT ? ${skipLocked}`,
    oldestDue: `
      ${OLDEST_DUE("state = 'pending' AND ready_at = 0")} AS a
      UNION ALL ${OLDEST_DUE("state = 'retrying' AND ready_at <= ?")} AS b
      UNION ALL ${OLDEST_DUE("state = 'processing' AND ready_at <= ?")} AS c
      ORDER BY seq LIMIT 1`,
    event: "SELECT * FROM stayhook_events WHERE seq = ?",
    held: `
      SELECT ${QUEUE}, e.due_at, e.attempts, e.outages, e.first_outage_at, e.claimed_at, e.worker, e.history
      FROM stayhook_queue AS q JOIN stayhook_events AS e ON e.seq = q.lease_seq
      WHERE q.record = ? AND q.lease = ? AND e.id = ? ${forUpdate}`,
    eventWithRecord: `
      SELECT ${CLAIMED}, r.snapshot, r.sequence FROM stayhook_events AS e
      LEFT JOIN stayhook_records AS r ON r.record = e.record WHERE e.seq = ?`,
    claimEvent: `
      UPDATE stayhook_events SET state = 'processing', attempts = attempts + 1, ready_at = ?, wait_from = NULL,
        claimed_at = ?, worker = ?, history = ?
      WHERE seq = ?`,
    setQueue: `
      UPDATE stayhook_queue SET pending_due = ?, pending_seq = ?, retry_due = ?, retry_seq = ?, wait_from = ?, wait_end = ?,
        lease = ?, lease_seq = ?, lease_end = ?
      WHERE record = ?`,
    dropQueue: "DELETE FROM stayhook_queue WHERE record = ?",
    firstPending: `${FIRST} 'pending' AND ready_at IS NOT NULL ORDER BY ready_at, seq LIMIT 1`,
    firstRetry: `
      SELECT * FROM (${FIRST} 'retrying' AND ready_at IS NOT NULL ORDER BY ready_at, seq LIMIT 1) AS a
      UNION ALL
      SELECT * FROM (${FIRST} 'processing' AND ready_at IS NOT NULL ORDER BY ready_at, seq LIMIT 1) AS b
      ORDER BY ready_at, seq LIMIT 1`,

    laterDue: `
      SELECT seq, record FROM stayhook_events WHERE state = 'pending' AND ready_at > 0 AND ready_at <= ? LIMIT 500`,
    waitsAhead: "SELECT seq, record, state FROM stayhook_events WHERE wait_from > ? LIMIT 500",
    ripen: "UPDATE stayhook_events SET ready_at = ?, wait_from = ? WHERE seq = ?",
    queueWaitsAhead: "SELECT record FROM stayhook_queue WHERE wait_from > ? LIMIT 500",
    endWait: "UPDATE stayhook_queue SET wait_from = NULL, wait_end = 0 WHERE record = ?",

    renewEvent: "UPDATE stayhook_events SET ready_at = ? WHERE seq = ?",
    endEvent: `
      UPDATE stayhook_events SET state = ?, ready_at = NULL, wait_from = NULL, ended_at = ?, type = coalesce(?, type),
        reason = ?, history = ?
      WHERE seq = ?`,
    retryEvent: `
      UPDATE stayhook_events SET state = 'retrying', ready_at = ?, due_at = ?, wait_from = ?, attempts = ?, outages = ?,
        first_outage_at = ?, type = coalesce(?, type), reason = ?, history = ?
      WHERE seq = ?`,
    releaseEvent: `
      UPDATE stayhook_events SET state = ?, ready_at = ?, wait_from = ?, attempts = attempts - 1 WHERE seq = ?`,

    record: "SELECT * FROM stayhook_records WHERE record = ?",
    setRecord:
      "UPDATE stayhook_records SET snapshot = ?, sequence = sequence + ?, seen_at = ? WHERE record = ? AND seen_from BETWEEN ? AND ?",
    setOldRecord: `
      UPDATE stayhook_records SET snapshot = ?, sequence = sequence + ?, seen_at = ?, seen_from = ? WHERE record = ?`,
    insertRecord: insertIgnore(
      "INSERT INTO stayhook_records (record, snapshot, sequence, seen_at, seen_from) VALUES (?, ?, 1, ?, ?)",
    ),
    recordsAfter: "SELECT * FROM stayhook_records WHERE record > ? ORDER BY record LIMIT ?",
    parkedOf:
      "SELECT 1 FROM stayhook_events WHERE record = ? AND ready_at IS NULL AND state = 'parked' LIMIT 1",
    oldRecords: `
      DELETE FROM stayhook_records WHERE record IN (SELECT record FROM (
        SELECT record FROM stayhook_records AS r
        WHERE seen_from <= ? AND seen_at <= ?
          AND NOT EXISTS (SELECT 1 FROM stayhook_queue AS q WHERE q.record = r.record)
        ORDER BY seen_from LIMIT ?) AS old)`,
    dropRecord: "DELETE FROM stayhook_records WHERE record = ?",

    replayEvent: `
      UPDATE stayhook_events SET state = 'pending', ready_at = 0, due_at = ?, wait_from = NULL, attempts = 0, outages = 0,
        first_outage_at = NULL, ended_at = NULL, reason = NULL, replayed = 1
      WHERE seq = ?`,
    hastenEvent: "UPDATE stayhook_events SET ready_at = ?, due_at = ?, wait_from = ? WHERE seq = ?",
    discardEvent: `
      UPDATE stayhook_events SET state = 'done', ready_at = NULL, wait_from = NULL, ended_at = ?, reason = 'discarded'
      WHERE seq = ?`,

    pruneDone: deleteOf(OLD_DONE),
    pruneParked: deleteOf(OLD_PARKED),
    pruneParkedFor: deleteOf(OLD_PARKED_FOR),
    eraseEvents: deleteOf(ofRecord(dialect)),

    get: `${WAITING} WHERE e.id = ?`,
    /** The `seq` at which a slice ends. The second parameter is the length of the slice minus 1. */
    sliceEnd: "SELECT seq FROM stayhook_events WHERE seq < ? ORDER BY seq DESC LIMIT 1 OFFSET ?",
    nextReady: `
      SELECT min(at) AS at FROM (
        SELECT * FROM (SELECT pending_at AS at FROM stayhook_queue WHERE pending_at IS NOT NULL ORDER BY pending_at LIMIT 1) AS a
        UNION ALL
        SELECT * FROM (SELECT retry_at AS at FROM stayhook_queue WHERE retry_at IS NOT NULL ORDER BY retry_at LIMIT 1) AS b
        UNION ALL
        SELECT * FROM (SELECT 0 AS at FROM stayhook_queue WHERE wait_from > ? LIMIT 1) AS c
        UNION ALL
        SELECT * FROM (SELECT 0 AS at FROM stayhook_events WHERE wait_from > ? LIMIT 1) AS d) AS ready`,
    oldestWaiting: `
      ${OLDEST("state = 'pending' AND (ready_at <= ? OR wait_from > ?)")} AS a
      UNION ALL ${OLDEST("state = 'retrying'")} AS b
      UNION ALL ${OLDEST("state = 'processing' AND ready_at <= ?")} AS c
      ORDER BY seq LIMIT 1`,
    counts: dialect.counts ?? "SELECT state, count(*) AS events FROM stayhook_events GROUP BY state",
    newestReceived: `
      SELECT seq, received_at FROM stayhook_events WHERE source = 'webhook' ORDER BY seq DESC LIMIT 1`,

    meta: "SELECT value, set_at FROM stayhook_meta WHERE name = ?",
    insertMeta: insertIgnore("INSERT INTO stayhook_meta (name, value, set_at) VALUES (?, ?, ?)"),
    updateMeta: "UPDATE stayhook_meta SET value = ?, set_at = ? WHERE name = ? AND value = ?",
    deleteMeta: "DELETE FROM stayhook_meta WHERE name = ? AND value = ?",
    setMeta: "UPDATE stayhook_meta SET value = ?, set_at = ? WHERE name = ?",
  };
  const entries = Object.entries(statements).map(([name, sql]) => [name, prepared(dialect, sql)]);
  return Object.fromEntries(entries) as Readonly<typeof statements>;
}

/** Rounds up a limit, and caps it at the largest limit that every database accepts. */
export function limitOf(limit: number): number {
  return Math.min(Math.ceil(limit), 2 ** 31 - 1);
}

/** Replaces each `?` with the dialect's placeholder. */
export function prepared(dialect: SqlDialect, sql: string): string {
  if (dialect.placeholder === undefined) return sql;
  let parameters = 0;
  return sql.replaceAll("?", () => dialect.placeholder!(++parameters));
}

export type Statements = ReturnType<typeof statementsOf>;

/** The version of the tables. Newer versions only add to the tables, so this package can use newer tables. */
const SCHEMA_VERSION = 1;

/** Whether the tables exist. Throws if they belong to stayhook 0.1. */
export function* isMigrated(dialect: SqlDialect): SqlSteps<boolean> {
  const meta = yield* select(dialect.tableExists, "stayhook_meta");
  if (meta.length > 0) {
    const [row] = yield* select(statementsOf(dialect).meta, "schema");
    return row !== undefined && number(text(row.value)) >= SCHEMA_VERSION;
  }
  const events = yield* select(dialect.tableExists, "stayhook_events");
  if (events.length === 0) return false;
  throw new StayhookError(
    "stayhook 0.1 made the tables, and this version of stayhook cannot read them. Let stayhook 0.1 handle all its events, then use an empty database",
  );
}

export function* migrate(dialect: SqlDialect): SqlSteps<void> {
  // Another process may have created the tables meanwhile.
  if (yield* isMigrated(dialect)) return;
  for (const statement of dialect.schema) yield* change(statement);
  yield* change(statementsOf(dialect).insertMeta, "schema", String(SCHEMA_VERSION), Date.now());
}
