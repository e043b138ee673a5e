import type { SqlDialect } from "../sql/driver.ts";

/** Above this many done events, their number is an estimate of the server's. */
const COUNTED = 100_000;

/**
 * The dialect of MariaDB 10.6 and MySQL 8. `sqliteDialect` says what the columns hold.
 *
 * Keys are bytes, because every collation of text ignores something: case, accents, or trailing spaces.
 */
export const mysqlDialect: SqlDialect = {
  tableExists: "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?",
  // Not INSERT IGNORE, which also cuts a text that is too long. The driver knows a duplicate by the error. In the queue
  // the error would leave a shared lock on the row, and two processes with one would both wait for an exclusive one.
  insertIgnore: (insert) =>
    insert.includes("INTO stayhook_queue")
      ? `${insert} ON DUPLICATE KEY UPDATE duplicates = duplicates + 1`
      : insert,
  forUpdate: "FOR UPDATE",
  skipLocked: "FOR UPDATE SKIP LOCKED",
  clock: "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) AS now",
  counts: `
    SELECT state, count(*) AS events FROM stayhook_events
    WHERE state IN ('pending', 'processing', 'retrying', 'parked') GROUP BY state
    UNION ALL SELECT 'done', CASE WHEN events <= ${COUNTED} THEN events ELSE greatest(events, (
      SELECT table_rows FROM information_schema.tables
      WHERE table_schema = DATABASE() AND table_name = 'stayhook_events')) END
    FROM (SELECT count(*) AS events FROM (
      SELECT 1 FROM stayhook_events WHERE state = 'done' LIMIT ${COUNTED + 1}) AS some) AS done`,
  schema: [
    // This table comes first. Another process that looks between two statements would take the others for tables of 0.1.
    `CREATE TABLE IF NOT EXISTS stayhook_meta (
      name VARBINARY(255) NOT NULL PRIMARY KEY,
      value MEDIUMBLOB NOT NULL,
      set_at BIGINT NOT NULL
    ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`,
    `CREATE TABLE IF NOT EXISTS stayhook_events (
      seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
      id VARBINARY(255) NOT NULL UNIQUE,
      record VARBINARY(1024) NOT NULL,
      state VARCHAR(10) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
      ready_at BIGINT,
      due_at BIGINT NOT NULL,
      wait_from BIGINT,
      received_at BIGINT NOT NULL,
      attempts INT NOT NULL DEFAULT 0,
      outages INT NOT NULL DEFAULT 0,
      first_outage_at BIGINT,
      replayed TINYINT NOT NULL DEFAULT 0,
      claimed_at BIGINT,
      worker TEXT,
      ended_at BIGINT,
      type VARBINARY(1024),
      reason VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin,
      history MEDIUMTEXT,
      source VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
      topic TEXT,
      timestamp TEXT NOT NULL,
      notification MEDIUMTEXT,
      traceparent TEXT,
      INDEX stayhook_events_ready (record, state, ready_at, seq),
      INDEX stayhook_events_state (state, seq),
      INDEX stayhook_events_later (state, ready_at),
      INDEX stayhook_events_ended (state, ended_at),
      INDEX stayhook_events_reason (state, reason, ended_at),
      INDEX stayhook_events_waits (wait_from),
      INDEX stayhook_events_source (source, seq)
    ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
    `CREATE TABLE IF NOT EXISTS stayhook_queue (
      record VARBINARY(1024) NOT NULL PRIMARY KEY,
      pending_due BIGINT,
      pending_seq BIGINT,
      retry_due BIGINT,
      retry_seq BIGINT,
      wait_from BIGINT,
      wait_end BIGINT NOT NULL DEFAULT 0,
      lease VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
      lease_seq BIGINT,
      lease_end BIGINT NOT NULL DEFAULT 0,
      duplicates BIGINT NOT NULL DEFAULT 0,
      pending_at BIGINT AS (greatest(pending_due, wait_end, lease_end)) STORED,
      retry_at BIGINT AS (greatest(retry_due, wait_end, lease_end)) STORED,
      INDEX stayhook_queue_pending (pending_at, pending_seq),
      INDEX stayhook_queue_retries (retry_at, retry_seq),
      INDEX stayhook_queue_waits (wait_from)
    ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
    `CREATE TABLE IF NOT EXISTS stayhook_records (
      record VARBINARY(1024) NOT NULL PRIMARY KEY,
      snapshot MEDIUMTEXT NOT NULL,
      sequence INT NOT NULL,
      seen_at BIGINT NOT NULL,
      seen_from BIGINT NOT NULL,
      INDEX stayhook_records_seen (seen_from)
    ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
  ],
};
