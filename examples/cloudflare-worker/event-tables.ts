// The tables of an EventStore, and what is read from them.
import type { EventState, EventStore, NewEvent, RecordStatus, StoredEvent } from "stayhook";

/** Runs a statement, and returns its rows. */
export type Sql = <Row>(text: TemplateStringsArray, ...values: (string | number | null)[]) => Row[];

/**
 * **events**: what was received. **records**: one row for each booking or listing that something waits for or whose
 * status is known, with its lock, and the times at which its first event can be claimed, so that a claim is quick
 * however many events are kept.
 */
export const tables = `
  CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY,             -- rises with each event: the order of arrival
    id TEXT NOT NULL UNIQUE,             -- eventId: this is what takes each event once
    record TEXT NOT NULL,                -- its row in records
    ref TEXT,
    source TEXT NOT NULL,
    topic TEXT,
    timestamp TEXT NOT NULL,
    notification TEXT,
    state TEXT NOT NULL,
    ready_at INTEGER,                    -- when it is due; while it is processed, when its lease ends
    lease TEXT,                          -- a token: of the last one
    attempts INTEGER NOT NULL DEFAULT 0,
    outages INTEGER NOT NULL DEFAULT 0,
    first_outage_at INTEGER,
    replayed INTEGER NOT NULL DEFAULT 0,
    received_at INTEGER NOT NULL,
    ended_at INTEGER,                    -- when it was done or parked
    type TEXT,
    reason TEXT,
    last_error TEXT
  );
  CREATE INDEX IF NOT EXISTS events_waiting ON events (record, state, ready_at) WHERE ready_at IS NOT NULL;
  CREATE INDEX IF NOT EXISTS events_ended ON events (state, ended_at) WHERE ended_at IS NOT NULL;

  CREATE TABLE IF NOT EXISTS records (
    record TEXT PRIMARY KEY,
    lease TEXT,                          -- the token of who works on it
    lease_end INTEGER NOT NULL DEFAULT 0,
    wait_end INTEGER NOT NULL DEFAULT 0, -- after an outage, none of its events is claimed before
    pending_at INTEGER,                  -- when its first event that was never tried can be claimed
    retry_at INTEGER,                    -- the same of those that were
    status TEXT,
    sequence INTEGER NOT NULL DEFAULT 0, -- how often its status has changed
    seen_at INTEGER
  );
  CREATE INDEX IF NOT EXISTS records_pending ON records (pending_at) WHERE pending_at IS NOT NULL;
  CREATE INDEX IF NOT EXISTS records_retry ON records (retry_at) WHERE retry_at IS NOT NULL;
  CREATE INDEX IF NOT EXISTS records_seen ON records (seen_at) WHERE seen_at IS NOT NULL;
`;

export interface EventRow {
  readonly seq: number;
  readonly id: string;
  readonly record: string;
  readonly ref: string | null;
  readonly source: NewEvent["source"];
  readonly topic: string | null;
  readonly timestamp: string;
  readonly notification: string | null;
  readonly state: EventState;
  readonly ready_at: number | null;
  readonly attempts: number;
  readonly outages: number;
  readonly first_outage_at: number | null;
  readonly replayed: number;
  readonly received_at: number;
  readonly ended_at: number | null;
  readonly type: string | null;
  readonly reason: StoredEvent["reason"];
  readonly last_error: string | null;
}

/** With the wait of its record. */
type WaitingRow = EventRow & { readonly wait_end: number | null };

export interface RecordRow {
  readonly record: string;
  readonly status: string | null;
  readonly sequence: number;
  readonly seen_at: number;
}

export function nextDue(sql: Sql): number | undefined {
  const [next] = sql<{ readonly at: number | null }>`
    SELECT min(at) AS at FROM (
      SELECT min(pending_at) AS at FROM records UNION ALL SELECT min(retry_at) FROM records)`;
  return typeof next?.at === "number" ? Math.max(0, next.at - Date.now()) : undefined;
}

export function oldestWaiting(sql: Sql): number | undefined {
  const now = Date.now();
  const [oldest] = sql<{ readonly at: number | null }>`
    SELECT min(received_at) AS at FROM events
    WHERE state IN ('pending', 'retrying') OR (state = 'processing' AND ready_at <= ${now})`;
  return typeof oldest?.at === "number" ? now - oldest.at : undefined;
}

export function counts(sql: Sql): Record<EventState, number> {
  const counts = { pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 };
  const rows = sql<{ readonly state: EventState; readonly n: number }>`
    SELECT state, count(*) AS n FROM events GROUP BY state`;
  for (const { state, n } of rows) counts[state] = n;
  return counts;
}

export function get(sql: Sql, eventId: string): StoredEvent | undefined {
  const [row] = sql<WaitingRow>`
    SELECT events.*, wait_end FROM events LEFT JOIN records USING (record) WHERE id = ${eventId}`;
  return row && toStoredEvent(row);
}

export function list(sql: Sql, options: NonNullable<Parameters<EventStore["list"]>[0]>): StoredEvent[] {
  const state = options.state ?? null;
  const after = options.after ?? null;
  return sql<WaitingRow>`
    SELECT events.*, wait_end FROM events LEFT JOIN records USING (record)
    WHERE (${state} IS NULL OR state = ${state})
      AND (${after} IS NULL OR seq < (SELECT seq FROM events WHERE id = ${after}))
    ORDER BY seq DESC LIMIT ${options.limit}`.map(toStoredEvent);
}

export function statusOf(sql: Sql, ref: string): RecordStatus | undefined {
  const [row] = sql<RecordRow>`SELECT * FROM records WHERE record = ${ref} AND status IS NOT NULL`;
  return row && toRecordStatus(row);
}

/** A page of them. */
export function statusesAfter(sql: Sql, ref: string): RecordStatus[] {
  return sql<RecordRow>`
    SELECT * FROM records WHERE record > ${ref} AND status IS NOT NULL ORDER BY record LIMIT 100`.map(
    toRecordStatus,
  );
}

export function toNewEvent({ id, ref, source, topic, timestamp, notification }: EventRow): NewEvent {
  return { eventId: id, ref, source, topic, timestamp, notification };
}

function toStoredEvent(row: WaitingRow): StoredEvent {
  const { state, ready_at, ended_at } = row;
  const waitEnd = state === "processing" ? 0 : (row.wait_end ?? 0);
  return {
    ...toNewEvent(row),
    state,
    attempts: row.attempts,
    receivedAt: new Date(row.received_at),
    dueAt: ready_at === null ? null : new Date(Math.max(ready_at, waitEnd)),
    doneAt: state === "done" && ended_at !== null ? new Date(ended_at) : null,
    type: row.type,
    lastError: row.last_error,
    reason: row.reason,
  };
}

function toRecordStatus({ record, status, sequence, seen_at }: RecordRow): RecordStatus {
  return { ref: record, status: status ?? "", sequence, seenAt: new Date(seen_at) };
}
