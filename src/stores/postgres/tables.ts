/** A name as SQL takes it. */
export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/**
 * Two tables. `record` is the `ref` of a booking or listing; an event that has none has a row of its own in
 * `records`. A row there is lock, lease and head of the queue: which event is its first pending one, which its
 * first retry, and from when each can be claimed. `ready_at` is when the event itself can be: `due_at`, or while
 * it is processed the end of its lease. What is done is in none of the indexes by which events are claimed.
 *
 * `events_open` goes by `-seq`, for those who ask for that order alone: asked for the first few by `seq`, PostgreSQL may
 * take the primary key for the quicker way, and walk through all that is done.
 *
 * Every claim changes what the indexes of `records` hold, so that its rows need room, and vacuuming often.
 */
export function tables(schema: string): string {
  const s = quote(schema);
  return `
CREATE SEQUENCE ${s}.event_seq;

CREATE TABLE ${s}.events (
  seq bigint PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  record text COLLATE "C" NOT NULL,
  state text NOT NULL,
  ready_at timestamptz,
  due_at timestamptz NOT NULL,
  received_at timestamptz NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  outages integer NOT NULL DEFAULT 0,
  first_outage_at timestamptz,
  replayed boolean NOT NULL DEFAULT false,
  ended_at timestamptz,
  settled_by uuid,
  type text,
  reason text,
  last_error text,
  source text NOT NULL,
  topic text,
  "timestamp" text NOT NULL,
  notification text
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX events_pending ON ${s}.events (record, ready_at, seq) WHERE state = 'pending';
CREATE INDEX events_retries ON ${s}.events (record, ready_at, seq) WHERE state IN ('processing', 'retrying');
CREATE INDEX events_open ON ${s}.events (state, (-seq)) WHERE state <> 'done';
CREATE INDEX events_done ON ${s}.events (ended_at, seq) WHERE state = 'done';
CREATE INDEX events_parked ON ${s}.events (ended_at, seq) WHERE state = 'parked';
CREATE INDEX events_parked_for ON ${s}.events (reason, ended_at, seq) WHERE state = 'parked';

CREATE TABLE ${s}.records (
  record text COLLATE "C" PRIMARY KEY,
  pending_due timestamptz,
  pending_seq bigint,
  retry_due timestamptz,
  retry_seq bigint,
  wait_until timestamptz,
  lease uuid,
  lease_seq bigint,
  lease_until timestamptz,
  pending_at timestamptz GENERATED ALWAYS AS (CASE WHEN pending_due IS NOT NULL THEN greatest(pending_due, wait_until, lease_until) END) STORED,
  retry_at timestamptz GENERATED ALWAYS AS (CASE WHEN retry_due IS NOT NULL THEN greatest(retry_due, wait_until, lease_until) END) STORED,
  status text,
  sequence integer NOT NULL DEFAULT 0,
  seen_at timestamptz
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX records_pending ON ${s}.records (pending_at, pending_seq) WHERE pending_at IS NOT NULL;
CREATE INDEX records_retries ON ${s}.records (retry_at, retry_seq) WHERE retry_at IS NOT NULL;
CREATE INDEX records_seen ON ${s}.records (seen_at) WHERE status IS NOT NULL;
`;
}
