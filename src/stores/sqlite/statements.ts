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

/** Each statement by what it does. (Numbered parameters cannot be bound by position before Node 24.) */
const sql = {
  insertEvent: `
    INSERT INTO stayhook_events (id, lock, state, ready_at, due_at, received_at, source, topic, timestamp, notification)
    VALUES (:id, :lock, 'pending', :now, :now, :now, :source, :topic, :timestamp, :notification) ON CONFLICT (id) DO NOTHING`,
  lockOf: "SELECT lock FROM stayhook_events WHERE id = :id",

  readyPending: `
    SELECT lock, pending_seq AS seq FROM stayhook_locks
    WHERE pending_at <= :now ORDER BY pending_at, pending_seq LIMIT :limit`,
  readyRetries: `
    SELECT lock, retry_seq AS seq FROM stayhook_locks
    WHERE retry_at <= :now ORDER BY retry_at, retry_seq LIMIT :limit`,
  readyById: `
    SELECT e.lock, e.seq FROM stayhook_events AS e JOIN stayhook_locks AS l ON l.lock = e.lock
    WHERE e.id = :id AND max(e.ready_at, l.wait_end, l.lease_end) <= :now`,
  claimEvent: `
    UPDATE stayhook_events SET state = 'processing', attempts = attempts + 1, ready_at = :leaseEnd WHERE seq = :seq RETURNING *`,
  leaseLock: `
    UPDATE stayhook_locks SET lease = :lease, lease_seq = :seq, lease_end = :leaseEnd WHERE lock = :lock`,

  held: `
    SELECT e.* FROM stayhook_events AS e JOIN stayhook_locks AS l ON l.lock = e.lock
    WHERE e.id = :id AND l.lease = :lease AND l.lease_seq = e.seq`,
  renewEvent: "UPDATE stayhook_events SET ready_at = :leaseEnd WHERE seq = :seq",
  renewLock: "UPDATE stayhook_locks SET lease_end = :leaseEnd WHERE lock = :lock",
  endEvent: `
    UPDATE stayhook_events SET state = :state, ready_at = NULL, ended_at = :now, type = coalesce(:type, type), reason = :reason,
      last_error = coalesce(:error, last_error)
    WHERE seq = :seq`,
  retryEvent: `
    UPDATE stayhook_events SET state = 'retrying', ready_at = :dueAt, due_at = :dueAt, attempts = :attempts, outages = :outages,
      first_outage_at = :firstOutageAt, type = coalesce(:type, type), reason = :reason, last_error = :error
    WHERE seq = :seq`,
  releaseEvent:
    "UPDATE stayhook_events SET state = :state, ready_at = due_at, attempts = attempts - 1 WHERE seq = :seq",
  unlock: `
    UPDATE stayhook_locks SET lease = NULL, lease_seq = NULL, lease_end = 0, wait_end = max(wait_end, :waitEnd)
    WHERE lock = :lock`,
  setStatus: `
    INSERT INTO stayhook_statuses (ref, status, sequence, seen_at) VALUES (:ref, :status, 1, :now)
    ON CONFLICT (ref) DO UPDATE SET
      sequence = sequence + (status <> excluded.status), status = excluded.status, seen_at = excluded.seen_at`,

  refresh: `UPDATE stayhook_locks SET ${READY} WHERE lock = :lock RETURNING pending_at IS NOT NULL OR retry_at IS NOT NULL AS waits`,
  insertLock: `
    INSERT INTO stayhook_locks (lock, pending_at, pending_seq) VALUES (:lock, :now, :seq) ON CONFLICT (lock) DO NOTHING`,
  endWait: "UPDATE stayhook_locks SET wait_end = 0 WHERE lock = :lock",
  dropLock: "DELETE FROM stayhook_locks WHERE lock = :lock",

  replayEnded: `
    UPDATE stayhook_events SET state = 'pending', ready_at = :now, due_at = :now, attempts = 0, outages = 0,
      first_outage_at = NULL, reason = NULL, replayed = 1
    WHERE seq = :seq`,
  replayRetrying:
    "UPDATE stayhook_events SET ready_at = min(ready_at, :now), due_at = min(due_at, :now) WHERE seq = :seq",
  parkedAfter: `
    SELECT seq, lock, state FROM stayhook_events INDEXED BY stayhook_events_open
    WHERE state <> 'done' AND state = 'parked' AND seq > :after AND (:reason IS NULL OR reason = :reason) AND (:before IS NULL OR received_at < :before)
    ORDER BY seq LIMIT :limit`,

  pruneDone: `
    DELETE FROM stayhook_events WHERE seq IN (
      SELECT seq FROM stayhook_events WHERE state = 'done' AND ended_at <= :until ORDER BY ended_at, seq LIMIT :limit)`,
  pruneParked: `
    DELETE FROM stayhook_events WHERE seq IN (
      SELECT seq FROM stayhook_events WHERE state = 'parked' AND ended_at <= :until ORDER BY ended_at, seq LIMIT :limit)`,
  pruneParkedFor: `
    DELETE FROM stayhook_events WHERE seq IN (
      SELECT seq FROM stayhook_events
      WHERE state = 'parked' AND reason = :reason AND ended_at <= :until ORDER BY ended_at, seq LIMIT :limit)`,
  pruneStatuses: `
    DELETE FROM stayhook_statuses WHERE ref IN (
      SELECT ref FROM stayhook_statuses
      WHERE seen_at <= :until AND NOT EXISTS (SELECT 1 FROM stayhook_locks WHERE lock = ref)
      ORDER BY seen_at LIMIT :limit)`,

  get: `${WITH_WAIT} WHERE id = :id`,
  seqOf: "SELECT seq FROM stayhook_events WHERE id = :id",
  list: `${WITH_WAIT} WHERE seq < :before ORDER BY seq DESC LIMIT :limit`,
  listDone: `${WITH_WAIT} NOT INDEXED WHERE state = 'done' AND seq < :before ORDER BY seq DESC LIMIT :limit`,
  listOpen: `${WITH_WAIT} INDEXED BY stayhook_events_open WHERE state = :state AND state <> 'done' AND seq < :before ORDER BY seq DESC LIMIT :limit`,
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
      SELECT * FROM (${OLDEST} state = 'processing' AND ready_at <= :now ORDER BY seq LIMIT 1))`,
  statusOf: "SELECT * FROM stayhook_statuses WHERE ref = :ref",
  statusesAfter: "SELECT * FROM stayhook_statuses WHERE ref > :after ORDER BY ref LIMIT :limit",
} as const;

export type Statements = Readonly<Record<keyof typeof sql, StatementSync>>;

export function prepareStatements(db: DatabaseSync): Statements {
  const entries = Object.entries(sql).map(([name, text]) => [name, db.prepare(text)] as const);
  return Object.fromEntries(entries) as Record<keyof typeof sql, StatementSync>;
}

/** For tests and benchmarks that ask SQLite how it goes about them. */
export const statementTexts: Readonly<Record<keyof typeof sql, string>> = sql;
