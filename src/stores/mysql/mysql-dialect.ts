import type { SqlDialect } from "../sql/driver.ts";

/** Up to this number, `counts()` counts the done events. Above this number, it returns the server's estimate. */
const COUNTED = 100_000;

/**
 * The dialect of MariaDB 10.6 and MySQL 8.4. The comment of `sqliteDialect` describes the columns.
 *
 * Key columns contain bytes, because most collations of text ignore case, accents or trailing spaces.
 */
export const mysqlDialect: SqlDialect = {
  tableExists: "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?",
  // INSERT IGNORE would truncate long text. With a plain INSERT of one row, the driver ignores a duplicate-key error.
  insertIgnore: (insert) =>
    insert.includes("), (")
      ? `${insert} ON DUPLICATE KEY UPDATE sequence = stayhook_records.sequence`
      : insert,
  forUpdate: "FOR UPDATE",
  skipLocked: "FOR UPDATE SKIP LOCKED",
  byRef: "FORCE INDEX (PRIMARY)",
  // A local time such as NOW() is ambiguous in the hour that comes twice in autumn.
  clock: "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS now",
  counts: `
    SELECT state, count(*) AS events FROM stayhook_events
    WHERE state IN ('scheduled', 'pending', 'processing', 'retrying', 'parked') GROUP BY state
    UNION ALL SELECT 'done', CASE WHEN events <= ${COUNTED} THEN events ELSE greatest(events, (
      SELECT table_rows FROM information_schema.tables
      WHERE table_schema = DATABASE() AND table_name = 'stayhook_events')) END
    FROM (SELECT count(*) AS events FROM (
      SELECT 1 FROM stayhook_events WHERE state = 'done' LIMIT ${COUNTED + 1}) AS some) AS done`,
  schema: [
    // Create this table first: without it, a process would take the other tables for those of an older version.
    `CREATE TABLE IF NOT EXISTS stayhook_meta (
      name VARBINARY(255) NOT NULL PRIMARY KEY,
      value MEDIUMBLOB NOT NULL,
      set_at BIGINT NOT NULL
    ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`,
    `CREATE TABLE IF NOT EXISTS stayhook_events (
      seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
      id VARBINARY(255) NOT NULL UNIQUE,
      ref VARBINARY(1024) NOT NULL,
      state VARCHAR(10) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
      due_at BIGINT,
      first_due_at BIGINT NOT NULL,
      received_at BIGINT NOT NULL,
      attempts INT NOT NULL DEFAULT 0,
      outages INT NOT NULL DEFAULT 0,
      first_outage_at BIGINT,
      failures INT NOT NULL DEFAULT 0,
      refusals INT NOT NULL DEFAULT 0,
      replayed TINYINT NOT NULL DEFAULT 0,
      lease VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
      claimed_at BIGINT,
      worker TEXT,
      done_at BIGINT,
      type VARBINARY(1024),
      reason VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin,
      history MEDIUMTEXT,
      source VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
      topic TEXT,
      timestamp TEXT NOT NULL,
      notification MEDIUMTEXT,
      traceparent TEXT,
      INDEX stayhook_events_due (ref, due_at, seq),
      INDEX stayhook_events_state (state, first_due_at),
      INDEX stayhook_events_ended (state, source, done_at),
      INDEX stayhook_events_received (source, received_at)
    ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
    `CREATE TABLE IF NOT EXISTS stayhook_records (
      ref VARBINARY(1024) NOT NULL PRIMARY KEY,
      due_at BIGINT,
      lease VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
      lease_end BIGINT,
      lease_duration BIGINT,
      snapshot MEDIUMTEXT,
      sequence INT NOT NULL DEFAULT 0,
      seen_at BIGINT,
      ledger MEDIUMTEXT,
      INDEX stayhook_records_due (due_at, lease_end),
      INDEX stayhook_records_seen (seen_at)
    ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
  ],
  // MySQL has no IF NOT EXISTS for columns and indexes. The driver ignores the error of one that exists.
  migrations: [],
};
