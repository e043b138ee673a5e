import type { SqlDialect } from "../sql/driver.ts";

/**
 * Finds a record's events in each block of 1024 arrivals. With an index on the record alone, each event would change a
 * different page, which costs a fifth of the time of an add or a settle. The newest block is a few pages. The index has
 * only the end of the record's key, which keeps it small.
 */
const BLOCK = "seq / 1024";
const SUFFIX = "substr(record, -3)";

/**
 * The dialect of SQLite 3.37 and newer, for drivers of your own. `sqliteStore` and the Durable Object example use it.
 *
 * **events**: `record` is the event's `ref` in the form of a key; an event without one has a record of its own.
 * `ready_at` is when the event itself can be claimed: 0 whatever the clock says, and NULL once it is done or parked.
 * While it is processed, `ready_at` is the end of its lease. `due_at` is what `dueAt` shows. `wait_from` is when its
 * wait began.
 *
 * **queue**: the records that have an event to claim, or a lease. `pending_due` and `pending_seq` belong to the first
 * pending event of the record by `ready_at` and `seq`. `retry_due` and `retry_seq` belong to its first retrying or
 * processing event. `pending_at` and `retry_at` also take the record's wait and lease into account. Old records are not in
 * this table, so that it stays small and an add changes few pages.
 *
 * **records**: the snapshots. `seen_from` is `seen_at` or up to an hour earlier, so that its index seldom changes.
 */
export const sqliteDialect: SqlDialect = {
  tableExists: "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?",
  insertIgnore: (insert) => `${insert} ON CONFLICT DO NOTHING`,
  ofRecord: `
    WITH RECURSIVE blocks (block) AS (
      SELECT min(seq) / 1024 FROM stayhook_events
      UNION ALL
      SELECT (SELECT min(seq) / 1024 FROM stayhook_events WHERE seq >= (block + 1) * 1024) FROM blocks
      WHERE block IS NOT NULL
    ), wanted (record) AS (SELECT ?)
    SELECT seq FROM wanted CROSS JOIN blocks CROSS JOIN stayhook_events AS e
    WHERE e.${BLOCK} = block AND ${SUFFIX.replace("record", "e.record")} = ${SUFFIX.replace("record", "wanted.record")} AND e.record = wanted.record`,
  counts: "SELECT state, events FROM stayhook_counts",
  schema: [
    `CREATE TABLE stayhook_meta (
      name TEXT PRIMARY KEY,
      value TEXT NOT NULL,
      set_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID`,
    `CREATE TABLE stayhook_events (
      seq INTEGER PRIMARY KEY,
      id BLOB NOT NULL UNIQUE,
      record TEXT NOT NULL,
      state TEXT NOT NULL,
      ready_at INTEGER,
      due_at INTEGER NOT NULL,
      wait_from INTEGER,
      received_at INTEGER NOT NULL,
      attempts INTEGER NOT NULL DEFAULT 0,
      outages INTEGER NOT NULL DEFAULT 0,
      first_outage_at INTEGER,
      replayed INTEGER NOT NULL DEFAULT 0,
      claimed_at INTEGER,
      worker TEXT,
      ended_at INTEGER,
      type TEXT,
      reason TEXT,
      history TEXT,
      source TEXT NOT NULL,
      topic TEXT,
      timestamp TEXT NOT NULL,
      notification TEXT,
      traceparent TEXT
    ) STRICT`,
    // One index a state: the last two are small, so that the end of an event changes no page of the first.
    "CREATE INDEX stayhook_events_pending ON stayhook_events (record, ready_at) WHERE state = 'pending'",
    "CREATE INDEX stayhook_events_retrying ON stayhook_events (record, ready_at) WHERE state = 'retrying'",
    "CREATE INDEX stayhook_events_processing ON stayhook_events (record, ready_at) WHERE state = 'processing'",
    `CREATE INDEX stayhook_events_record ON stayhook_events (${BLOCK}, ${SUFFIX})`,
    "CREATE INDEX stayhook_events_parked_of ON stayhook_events (record) WHERE state = 'parked'",
    "CREATE INDEX stayhook_events_waits ON stayhook_events (wait_from) WHERE wait_from IS NOT NULL",
    "CREATE INDEX stayhook_events_later ON stayhook_events (ready_at) WHERE state = 'pending' AND ready_at > 0",
    "CREATE INDEX stayhook_events_open ON stayhook_events (state) WHERE state <> 'done'",
    "CREATE INDEX stayhook_events_done ON stayhook_events (ended_at) WHERE state = 'done'",
    "CREATE INDEX stayhook_events_parked ON stayhook_events (ended_at) WHERE state = 'parked'",
    "CREATE INDEX stayhook_events_parked_for ON stayhook_events (reason, ended_at) WHERE state = 'parked'",
    // Only webhook events, so that an add writes to the end of the index.
    "CREATE INDEX stayhook_events_webhook ON stayhook_events (source) WHERE source = 'webhook'",
    `CREATE TABLE stayhook_queue (
      record TEXT PRIMARY KEY,
      pending_due INTEGER,
      pending_seq INTEGER,
      retry_due INTEGER,
      retry_seq INTEGER,
      wait_from INTEGER,
      wait_end INTEGER NOT NULL DEFAULT 0,
      lease TEXT,
      lease_seq INTEGER,
      lease_end INTEGER NOT NULL DEFAULT 0,
      pending_at INTEGER AS (max(pending_due, wait_end, lease_end)),
      retry_at INTEGER AS (max(retry_due, wait_end, lease_end))
    ) STRICT, WITHOUT ROWID`,
    "CREATE INDEX stayhook_queue_pending ON stayhook_queue (pending_at, pending_seq) WHERE pending_at IS NOT NULL",
    "CREATE INDEX stayhook_queue_retries ON stayhook_queue (retry_at, retry_seq) WHERE retry_at IS NOT NULL",
    "CREATE INDEX stayhook_queue_waits ON stayhook_queue (wait_from) WHERE wait_from IS NOT NULL",
    `CREATE TABLE stayhook_records (
      record TEXT PRIMARY KEY,
      snapshot TEXT NOT NULL,
      sequence INTEGER NOT NULL,
      seen_at INTEGER NOT NULL,
      seen_from INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID`,
    "CREATE INDEX stayhook_records_seen ON stayhook_records (seen_from)",
    // Counting millions of events each second would take too long.
    "CREATE TABLE stayhook_counts (state TEXT PRIMARY KEY, events INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    "INSERT INTO stayhook_counts VALUES ('pending', 0), ('processing', 0), ('retrying', 0), ('done', 0), ('parked', 0)",
    `CREATE TRIGGER stayhook_counts_insert AFTER INSERT ON stayhook_events BEGIN
      UPDATE stayhook_counts SET events = events + 1 WHERE state = NEW.state;
    END`,
    `CREATE TRIGGER stayhook_counts_delete AFTER DELETE ON stayhook_events BEGIN
      UPDATE stayhook_counts SET events = events - 1 WHERE state = OLD.state;
    END`,
    `CREATE TRIGGER stayhook_counts_update AFTER UPDATE OF state ON stayhook_events WHEN OLD.state <> NEW.state BEGIN
      UPDATE stayhook_counts SET events = events + CASE state WHEN NEW.state THEN 1 ELSE -1 END
      WHERE state IN (OLD.state, NEW.state);
    END`,
  ],
};
