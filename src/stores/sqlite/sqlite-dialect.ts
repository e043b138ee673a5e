import type { SqlDialect } from "../sql/driver.ts";

/**
 * The two columns of the index that finds a record's events. `BLOCK` numbers blocks of 1024 events in order of
 * arrival. So new events change only the few index pages of the newest block. An index on the `ref` alone would
 * change another page for each event. These changes would take 20 % of the time of an `add` or `settle`. `SUFFIX` is
 * only the end of the `ref`, so that the index stays small.
 */
const BLOCK = "seq / 1024";
const SUFFIX = "substr(ref, -3)";

/**
 * The dialect of SQLite 3.37 and newer, for drivers of your own. `sqliteStore` and the Durable Object example use it.
 *
 * All times are epoch ms.
 *
 * **events**: `seq` numbers the events in order of arrival. `ref` is the key of the event's record. An event without a
 * record has its own key. `due_at` is when the event can be claimed, or when its lease ends. It is NULL for a done or
 * parked event. `first_due_at` is when it was first due or replayed. `lease` is the token of the event's last lease. `done_at` is when the event became done or parked.
 *
 * **records**: one row for each record that has a due event, a lease, a snapshot or a ledger. `due_at` is when its next event or
 * its lease is due. It is NULL if all events are done or parked. `lease` is the token of the last lease, and `lease_end`
 * is NULL without a lease.
 *
 * **meta**: values of the store and its users by name.
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
    ), wanted (ref) AS (SELECT ?)
    SELECT seq FROM wanted CROSS JOIN blocks CROSS JOIN stayhook_events AS e
    WHERE e.${BLOCK} = block AND ${SUFFIX.replace("ref", "e.ref")} = ${SUFFIX.replace("ref", "wanted.ref")} AND e.ref = wanted.ref`,
  // The index on the ref has no done events. But all ids of an account begin with it.
  ofAccount: (range) => `
    SELECT seq FROM stayhook_events WHERE id >= ? AND id < ?
    UNION SELECT seq FROM stayhook_events WHERE due_at IS NOT NULL AND (${range})
    UNION SELECT seq FROM stayhook_events WHERE state = 'parked' AND (${range})`,
  jsonTexts: "SELECT value FROM json_each(?)",
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
      ref TEXT NOT NULL,
      state TEXT NOT NULL,
      due_at INTEGER,
      first_due_at INTEGER NOT NULL,
      received_at INTEGER NOT NULL,
      attempts INTEGER NOT NULL DEFAULT 0,
      outages INTEGER NOT NULL DEFAULT 0,
      first_outage_at INTEGER,
      failures INTEGER NOT NULL DEFAULT 0,
      refusals INTEGER NOT NULL DEFAULT 0,
      replayed INTEGER NOT NULL DEFAULT 0,
      lease TEXT,
      claimed_at INTEGER,
      worker TEXT,
      done_at INTEGER,
      type TEXT,
      reason TEXT,
      history TEXT,
      source TEXT NOT NULL,
      topic TEXT,
      timestamp TEXT NOT NULL,
      notification TEXT,
      traceparent TEXT
    ) STRICT`,
    "CREATE INDEX stayhook_events_due ON stayhook_events (ref, due_at) WHERE due_at IS NOT NULL",
    `CREATE INDEX stayhook_events_record ON stayhook_events (${BLOCK}, ${SUFFIX})`,
    "CREATE INDEX stayhook_events_waiting ON stayhook_events (state, first_due_at) WHERE state <> 'done'",
    "CREATE INDEX stayhook_events_scheduled ON stayhook_events (due_at) WHERE state = 'scheduled'",
    "CREATE INDEX stayhook_events_done ON stayhook_events (source, done_at) WHERE state = 'done'",
    "CREATE INDEX stayhook_events_parked ON stayhook_events (done_at) WHERE state = 'parked'",
    "CREATE INDEX stayhook_events_parked_of ON stayhook_events (ref) WHERE state = 'parked'",
    "CREATE INDEX stayhook_events_received ON stayhook_events (received_at) WHERE source = 'webhook'",
    `CREATE TABLE stayhook_records (
      ref TEXT PRIMARY KEY,
      due_at INTEGER,
      lease TEXT,
      lease_end INTEGER,
      lease_duration INTEGER,
      snapshot TEXT,
      sequence INTEGER NOT NULL DEFAULT 0,
      seen_at INTEGER,
      ledger TEXT
    ) STRICT, WITHOUT ROWID`,
    "CREATE INDEX stayhook_records_due ON stayhook_records (due_at, lease_end) WHERE due_at IS NOT NULL",
    "CREATE INDEX stayhook_records_seen ON stayhook_records (seen_at) WHERE snapshot IS NOT NULL AND ledger IS NULL",
    // Triggers update the counts, because counting millions of events every second would take too long.
    "CREATE TABLE stayhook_counts (state TEXT PRIMARY KEY, events INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    `INSERT INTO stayhook_counts VALUES
      ('scheduled', 0), ('pending', 0), ('processing', 0), ('retrying', 0), ('done', 0), ('parked', 0)`,
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
  migrations: [],
};
