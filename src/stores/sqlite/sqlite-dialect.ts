import type { SqlDialect } from "../sql/driver.ts";

/**
 * The two columns of the index that finds a record's events. `BLOCK` numbers blocks of 1024 events in order of
 * arrival. So new events change only the few index pages of the newest block. An index on the record alone would
 * change another page for each event. These changes would take 20 % of the time of an `add` or `settle`. `SUFFIX` is
 * only the end of the record's key, so that the index stays small.
 */
const BLOCK = "seq / 1024";
const SUFFIX = "substr(record, -3)";

/**
 * The dialect of SQLite 3.37 and newer, for drivers of your own. `sqliteStore` and the Durable Object example use it.
 *
 * **events**: `record` is the key of the event's `ref`. An event without a `ref` has its own key. `ready_at` is when
 * the event itself can be claimed, or when its lease ends. It is 0 for an event that need not wait, and NULL for a
 * done or parked event. `due_at` is the due time without the record's wait. `wait_from` is when the event's wait
 * began.
 *
 * **queue**: the records that have a lease or an event to claim. `pending_due` and `pending_seq` belong to the
 * record's first pending event, in order of `ready_at` and `seq`. `retry_due` and `retry_seq` belong to the record's
 * first retrying or processing event. `pending_at` and `retry_at` are when these events can be claimed: after the
 * record's wait and lease. A record whose events are all done or parked has no row. So the table stays small, and an
 * `add` changes few pages.
 *
 * **records**: the snapshots. `seen_from` lags behind `seen_at` by at most one hour, so that the index on `seen_from`
 * seldom changes.
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
    // One index for each state: when an event ends, only the small index of processing events changes.
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
    // All entries have the same `source`, so the index is in order of `seq`. An `add` only appends to the index.
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
    // Triggers update the counts, because counting millions of events every second would take too long.
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
