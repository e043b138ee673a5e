import type { DatabaseSync } from "node:sqlite";
import { StayhookError } from "../../errors.ts";

/**
 * What each version of the schema adds to the one before it. A step that was released is never changed.
 *
 * `id` is a UUID's 16 bytes (any other id is text). `lock` is the record's `ref`, as text; for an event without
 * one, bytes of its own. `ready_at` is when the event itself can be claimed: `due_at`, or while it is processed
 * the end of its lease. What is done is in none of the indexes by which events are claimed.
 */
const migrations: readonly string[] = [
  `
  CREATE TABLE stayhook_events (
    seq INTEGER PRIMARY KEY,
    id ANY NOT NULL UNIQUE,
    lock ANY NOT NULL,
    state TEXT NOT NULL,
    ready_at INTEGER,
    due_at INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    outages INTEGER NOT NULL DEFAULT 0,
    first_outage_at INTEGER,
    replayed INTEGER NOT NULL DEFAULT 0,
    ended_at INTEGER,
    type TEXT,
    reason TEXT,
    last_error TEXT,
    source TEXT NOT NULL,
    topic TEXT,
    timestamp TEXT NOT NULL,
    notification TEXT
  ) STRICT;
  CREATE INDEX stayhook_events_pending ON stayhook_events (lock, ready_at) WHERE state = 'pending';
  CREATE INDEX stayhook_events_retries ON stayhook_events (lock, ready_at) WHERE state IN ('processing', 'retrying');
  CREATE INDEX stayhook_events_open ON stayhook_events (state) WHERE state <> 'done';
  CREATE INDEX stayhook_events_done ON stayhook_events (ended_at) WHERE state = 'done';
  CREATE INDEX stayhook_events_parked ON stayhook_events (ended_at) WHERE state = 'parked';
  CREATE INDEX stayhook_events_parked_for ON stayhook_events (reason, ended_at) WHERE state = 'parked';

  -- The locks that something waits for, or holds: when each one's first pending event and its first retry can be
  -- claimed, and which they are.
  CREATE TABLE stayhook_locks (
    lock ANY PRIMARY KEY,
    pending_at INTEGER,
    pending_seq INTEGER,
    retry_at INTEGER,
    retry_seq INTEGER,
    wait_end INTEGER NOT NULL DEFAULT 0,
    lease TEXT,
    lease_seq INTEGER,
    lease_end INTEGER NOT NULL DEFAULT 0
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX stayhook_locks_pending ON stayhook_locks (pending_at, pending_seq) WHERE pending_at IS NOT NULL;
  CREATE INDEX stayhook_locks_retries ON stayhook_locks (retry_at, retry_seq) WHERE retry_at IS NOT NULL;

  -- Apart from their locks: there are many, and an event touches its own once, at its end.
  CREATE TABLE stayhook_statuses (
    ref TEXT PRIMARY KEY,
    status TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    seen_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX stayhook_statuses_seen ON stayhook_statuses (seen_at);

  -- How many events there are in each state: counting millions of them takes too long to be asked for often.
  CREATE TABLE stayhook_counts (state TEXT PRIMARY KEY, events INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  INSERT INTO stayhook_counts VALUES ('pending', 0), ('processing', 0), ('retrying', 0), ('done', 0), ('parked', 0);
  CREATE TRIGGER stayhook_counts_insert AFTER INSERT ON stayhook_events BEGIN
    UPDATE stayhook_counts SET events = events + 1 WHERE state = NEW.state;
  END;
  CREATE TRIGGER stayhook_counts_delete AFTER DELETE ON stayhook_events BEGIN
    UPDATE stayhook_counts SET events = events - 1 WHERE state = OLD.state;
  END;
  CREATE TRIGGER stayhook_counts_update AFTER UPDATE OF state ON stayhook_events WHEN OLD.state <> NEW.state BEGIN
    UPDATE stayhook_counts SET events = events - 1 WHERE state = OLD.state;
    UPDATE stayhook_counts SET events = events + 1 WHERE state = NEW.state;
  END;
  `,
];

/**
 * Brings the tables up to this version, in one transaction.
 *
 * @throws {@link StayhookError} where the file is a later version's
 */
export function migrate(db: DatabaseSync, steps: readonly string[] = migrations): void {
  if (versionOf(db, steps.length) === steps.length) return;
  db.exec("BEGIN IMMEDIATE");
  try {
    // Another process may have been faster.
    for (const step of steps.slice(versionOf(db, steps.length))) db.exec(step);
    db.exec(`PRAGMA user_version = ${steps.length}`);
    db.exec("COMMIT");
  } catch (error) {
    db.exec("ROLLBACK");
    throw error;
  }
}

function versionOf(db: DatabaseSync, newest: number): number {
  const version = Number(db.prepare("PRAGMA user_version").get()?.user_version);
  if (version > newest) {
    throw new StayhookError(
      `it was written by a newer version of stayhook (its user_version is ${version}, this one knows up to ${newest}): update stayhook, or use another file`,
    );
  }
  const tables = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'stayhook_events'").get();
  if (version > 0 && tables === undefined) {
    throw new StayhookError(
      `its user_version is ${version}, but it has no tables of stayhook's, which keeps its schema's version there: use another file`,
    );
  }
  return version;
}
