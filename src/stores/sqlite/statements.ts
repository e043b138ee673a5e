import type { DatabaseSync, StatementSync } from "node:sqlite";

/** `pending_at` and `retry_at` anew, from the record's events, its wait and its lease. */
const READY = `
  (pending_at, pending_seq) = (
    SELECT max(ready_at, wait_end, lease_end), seq FROM stayhook_events AS e
    WHERE e.lock = stayhook_locks.lock AND state = 'pending' ORDER BY ready_at, seq LIMIT 1
  ),
  (retry_at, retry_seq) = (
    SELECT max(ready_at, wait_end, lease_end), seq FROM stayhook_events AS e
    WHERE e.lock = stayhook_locks.lock AND state IN ('processing', 'retrying') ORDER BY ready_at, seq LIMIT 1
  )`;

const WITH_WAIT = `
  SELECT *, (SELECT wait_end FROM stayhook_locks AS l WHERE l.lock = e.lock AND e.ready_at IS NOT NULL) AS wait_end
  FROM stayhook_events AS e`;

const OLDEST =
  "SELECT received_at FROM stayhook_events INDEXED BY stayhook_events_open WHERE state <> 'done' AND";

/** Each statement by what it does. Parameters are numbered in the order in which they are passed. */
const sql = {
  begin: "BEGIN IMMEDIATE",
  commit: "COMMIT",

  insertEvent: `
    INSERT INTO stayhook_events (id, lock, state, ready_at, due_at, received_at, source, topic, timestamp, notification)
    VALUES (?1, ?2, 'pending', ?3, ?3, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO NOTHING`,
  lockOf: "SELECT lock FROM stayhook_events WHERE id = ?1",

  readyPending: `
    SELECT lock, pending_seq AS seq FROM stayhook_locks
    WHERE pending_at <= ?1 ORDER BY pending_at, pending_seq LIMIT ?2`,
  readyRetries: `
    SELECT lock, retry_seq AS seq FROM stayhook_locks
    WHERE retry_at <= ?1 ORDER BY retry_at, retry_seq LIMIT ?2`,
  readyById: `
    SELECT e.lock, e.seq FROM stayhook_events AS e JOIN stayhook_locks AS l ON l.lock = e.lock
    WHERE e.id = ?1 AND max(e.ready_at, l.wait_end, l.lease_end) <= ?2`,
  claimEvent: `
    UPDATE stayhook_events SET state = 'processing', attempts = attempts + 1, ready_at = ?2 WHERE seq = ?1 RETURNING *`,
  leaseLock: `
    UPDATE stayhook_locks SET lease = ?2, lease_seq = ?3, lease_end = ?4 WHERE lock = ?1`,

  held: `
    SELECT e.* FROM stayhook_events AS e JOIN stayhook_locks AS l ON l.lock = e.lock
    WHERE e.id = ?1 AND l.lease = ?2 AND l.lease_seq = e.seq`,
  renewEvent: "UPDATE stayhook_events SET ready_at = ?2 WHERE seq = ?1",
  renewLock: "UPDATE stayhook_locks SET lease_end = ?2 WHERE lock = ?1",
  endEvent: `
    UPDATE stayhook_events SET state = ?2, ready_at = NULL, ended_at = ?3, type = coalesce(?4, type), reason = ?5,
      last_error = coalesce(?6, last_error)
    WHERE seq = ?1`,
  retryEvent: `
    UPDATE stayhook_events SET state = 'retrying', ready_at = ?2, due_at = ?2, attempts = ?3, outages = ?4,
      first_outage_at = ?5, type = coalesce(?6, type), reason = ?7, last_error = ?8
    WHERE seq = ?1`,
  releaseEvent:
    "UPDATE stayhook_events SET state = ?2, ready_at = due_at, attempts = attempts - 1 WHERE seq = ?1",
  unlock: `
    UPDATE stayhook_locks SET lease = NULL, lease_seq = NULL, lease_end = 0, wait_end = max(wait_end, ?2)
    WHERE lock = ?1`,
  setStatus: `
    INSERT INTO stayhook_statuses (ref, status, sequence, seen_at) VALUES (?1, ?2, 1, ?3)
    ON CONFLICT (ref) DO UPDATE SET
      sequence = sequence + (status <> excluded.status), status = excluded.status, seen_at = excluded.seen_at`,

  refresh: `UPDATE stayhook_locks SET ${READY} WHERE lock = ?1 RETURNING pending_at IS NOT NULL OR retry_at IS NOT NULL AS waits`,
  insertLock: `
    INSERT INTO stayhook_locks (lock, pending_at, pending_seq) VALUES (?1, ?2, ?3) ON CONFLICT (lock) DO NOTHING`,
  endWait: "UPDATE stayhook_locks SET wait_end = 0 WHERE lock = ?1",
  dropLock: "DELETE FROM stayhook_locks WHERE lock = ?1",

  replayEnded: `
    UPDATE stayhook_events SET state = 'pending', ready_at = ?2, due_at = ?2, attempts = 0, outages = 0,
      first_outage_at = NULL, reason = NULL, replayed = 1, ended_at = NULL
    WHERE seq = ?1`,
  replayRetrying:
    "UPDATE stayhook_events SET ready_at = min(ready_at, ?2), due_at = min(due_at, ?2) WHERE seq = ?1",
  parkedAfter: `
    SELECT seq, lock, state FROM stayhook_events INDEXED BY stayhook_events_open
    WHERE state <> 'done' AND state = 'parked' AND seq > ?1 AND (?2 IS NULL OR reason = ?2) AND (?3 IS NULL OR received_at < ?3)
    ORDER BY seq LIMIT ?4`,

  pruneDone: `
    DELETE FROM stayhook_events WHERE seq IN (
      SELECT seq FROM stayhook_events WHERE state = 'done' AND ended_at <= ?1 ORDER BY ended_at, seq LIMIT ?2)`,
  pruneParked: `
    DELETE FROM stayhook_events WHERE seq IN (
      SELECT seq FROM stayhook_events WHERE state = 'parked' AND ended_at <= ?1 ORDER BY ended_at, seq LIMIT ?2)`,
  pruneParkedFor: `
    DELETE FROM stayhook_events WHERE seq IN (
      SELECT seq FROM stayhook_events
      WHERE state = 'parked' AND reason = ?3 AND ended_at <= ?1 ORDER BY ended_at, seq LIMIT ?2)`,
  pruneStatuses: `
    DELETE FROM stayhook_statuses WHERE ref IN (
      SELECT ref FROM stayhook_statuses
      WHERE seen_at <= ?1 AND NOT EXISTS (SELECT 1 FROM stayhook_locks WHERE lock = ref)
      ORDER BY seen_at LIMIT ?2)`,

  get: `${WITH_WAIT} WHERE id = ?1`,
  seqOf: "SELECT seq FROM stayhook_events WHERE id = ?1",
  list: `${WITH_WAIT} WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2`,
  listDone: `${WITH_WAIT} NOT INDEXED WHERE state = 'done' AND seq < ?1 ORDER BY seq DESC LIMIT ?2`,
  listOpen: `${WITH_WAIT} INDEXED BY stayhook_events_open WHERE state = ?3 AND state <> 'done' AND seq < ?1 ORDER BY seq DESC LIMIT ?2`,
  counts: "SELECT state, events FROM stayhook_counts",
  nextReady: `
    SELECT min(at) AS at FROM (
      SELECT * FROM (SELECT pending_at AS at FROM stayhook_locks WHERE pending_at IS NOT NULL ORDER BY pending_at LIMIT 1)
      UNION ALL
      SELECT * FROM (SELECT retry_at FROM stayhook_locks WHERE retry_at IS NOT NULL ORDER BY retry_at LIMIT 1))`,
  oldestWaiting: `
    SELECT min(received_at) AS at FROM (
      SELECT * FROM (${OLDEST} state = 'pending' ORDER BY seq LIMIT 1)
      UNION ALL
      SELECT * FROM (${OLDEST} state = 'retrying' ORDER BY seq LIMIT 1)
      UNION ALL
      SELECT * FROM (${OLDEST} state = 'processing' AND ready_at <= ?1 ORDER BY seq LIMIT 1))`,
  statusOf: "SELECT * FROM stayhook_statuses WHERE ref = ?1",
  statusesAfter: "SELECT * FROM stayhook_statuses WHERE ref > ?1 ORDER BY ref LIMIT ?2",
} as const;

export type Statements = Readonly<Record<keyof typeof sql, StatementSync>>;

export function prepareStatements(db: DatabaseSync): Statements {
  const entries = Object.entries(sql).map(([name, text]) => [name, db.prepare(text)] as const);
  return Object.fromEntries(entries) as Record<keyof typeof sql, StatementSync>;
}

/** For tests and benchmarks that ask SQLite how it goes about them. */
export const statementTexts: Readonly<Record<keyof typeof sql, string>> = sql;
