import { StayhookError } from "../../errors.ts";
import type { Session } from "./connections.ts";
import { functions } from "./functions.ts";
import { maintenance } from "./maintenance.ts";
import { literal, quote } from "./sql.ts";

/** How long making the tables may take, ms. */
const PATIENCE = 60_000;
/** PostgreSQL cuts longer names. */
export const NAME_BYTES = 63;

/** The steps from each version of the schema to the next. Never change a released step. */
const steps: readonly ((schema: string) => string)[] = [
  (schema) => `${tables(schema)}${functions(schema, channelOf(schema))}${maintenance(schema)}`,
];

/** The channel of the processes on one schema. PostgreSQL refuses a longer name in NOTIFY, and cuts it in LISTEN. */
export function channelOf(schema: string): string {
  let name = `stayhook ${schema}`;
  while (Buffer.byteLength(name) > NAME_BYTES) name = [...name].slice(0, -1).join("");
  return name;
}

/**
 * `events` has a row for each event. Its `record` is the `ref` of a booking or listing; an event without one is a
 * record of its own. `lane` says where the event stands in the queue: 0 pending and due, 1 tried before and due (its
 * lease may have ended), 2 waits until `ready_at`, 3 leased until `ready_at`; NULL for an ended event. `due_from` is when
 * the wait began.
 *
 * `records` has the lock, the lease, the wait and the snapshot of each record, and the heads of its queue: the oldest
 * event of lane 0, and the event of lane 1 that became due first. `blocked_until` is the end of the lease, or of
 * the wait if `wait_from` is set.
 *
 * Each write of a `records` row raises its `version`, and each lookup asks for the highest. Without the version, a lookup
 * would read every dead row of a busy record while a long transaction of any client keeps dead rows. The key includes the
 * version, so it cannot make records unique. `refs` makes them unique, and its rows are never updated.
 *
 * `events_open` has `-seq`. For ORDER BY `seq`, PostgreSQL may scan the primary key, and with it all done events.
 */
function tables(schema: string): string {
  const s = quote(schema);
  return `
CREATE SEQUENCE ${s}.event_seq;
CREATE SEQUENCE ${s}.record_version CACHE 1;

CREATE TABLE ${s}.events (
  seq bigint PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  record text COLLATE "C" NOT NULL,
  state text NOT NULL,
  lane smallint,
  ready_at timestamptz,
  due_at timestamptz NOT NULL,
  due_from timestamptz,
  received_at timestamptz NOT NULL,
  claimed_at timestamptz,
  worker text,
  attempts integer NOT NULL DEFAULT 0,
  outages integer NOT NULL DEFAULT 0,
  first_outage_at timestamptz,
  replayed boolean NOT NULL DEFAULT false,
  ended_at timestamptz,
  settled_by text,
  type text,
  reason text,
  history text[] NOT NULL DEFAULT '{}',
  source text NOT NULL,
  topic text,
  "timestamp" text NOT NULL,
  notification text,
  traceparent text
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX events_record ON ${s}.events (record, seq);
CREATE INDEX events_tried ON ${s}.events (record, lane, seq) WHERE lane IN (1, 2);
CREATE INDEX events_retries ON ${s}.events (record, ready_at, seq) WHERE lane = 1;
CREATE INDEX events_waits ON ${s}.events (ready_at) WHERE lane = 2;
CREATE INDEX events_waits_from ON ${s}.events (due_from) WHERE lane = 2;
CREATE INDEX events_open ON ${s}.events (state, (-seq)) WHERE state <> 'done';
CREATE INDEX events_done ON ${s}.events (ended_at, seq) WHERE state = 'done';
CREATE INDEX events_parked ON ${s}.events (ended_at, seq) WHERE state = 'parked';
CREATE INDEX events_parked_for ON ${s}.events (reason, ended_at, seq) WHERE state = 'parked';

CREATE TABLE ${s}.refs (record text COLLATE "C" PRIMARY KEY);

CREATE TABLE ${s}.records (
  record text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  pending_seq bigint,
  retry_at timestamptz,
  retry_seq bigint,
  lease text,
  lease_seq bigint,
  lease_end timestamptz,
  blocked_until timestamptz,
  wait_from timestamptz,
  wait_until timestamptz,
  snapshot text,
  sequence integer NOT NULL DEFAULT 0,
  seen_at timestamptz,
  PRIMARY KEY (record, version)
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX records_pending ON ${s}.records (pending_seq) WHERE blocked_until IS NULL AND pending_seq IS NOT NULL;
CREATE INDEX records_retries ON ${s}.records (greatest(retry_at, lease_end, wait_until), retry_seq)
  WHERE blocked_until IS NULL AND retry_seq IS NOT NULL;
CREATE INDEX records_blocked ON ${s}.records (blocked_until) WHERE blocked_until IS NOT NULL;
CREATE INDEX records_waits_from ON ${s}.records (wait_from) WHERE wait_from IS NOT NULL;
CREATE INDEX records_seen ON ${s}.records (seen_at) WHERE snapshot IS NOT NULL;

CREATE TABLE ${s}.meta (
  key text COLLATE "C" PRIMARY KEY,
  value text NOT NULL,
  set_at timestamptz NOT NULL
);
`;
}

/** Returns the SQL of the steps from version `from` to this one. The caller runs it in a transaction. */
export function migrationSql(schema: string, from = 0): string {
  if (from >= steps.length) return "";
  const s = quote(schema);
  const create = `
DO $stayhook$ BEGIN
  IF to_regnamespace(${literal(quote(schema))}) IS NULL THEN CREATE SCHEMA ${s}; END IF;
END $stayhook$;
`;
  const version = `
CREATE OR REPLACE FUNCTION ${s}.schema_version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT ${steps.length}';
`;
  return [from === 0 ? create : "", ...steps.slice(from).map((step) => step(schema)), version].join("");
}

/**
 * Upgrades the schema to this version, once even if many processes start at the same time. Leaves a newer version as it
 * is, because newer packages only add to the schema.
 *
 * @throws StayhookError for a schema of stayhook 0.1, or a database that is not in UTF-8
 */
export async function migrate(session: Session, schema: string): Promise<void> {
  if ((await versionOf(session, schema)) >= steps.length) return;
  await session.query("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
  try {
    const lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
    await session.query(lock, [`stayhook ${schema}`], PATIENCE);
    await assertUnicode(session);
    const version = await versionOf(session, schema);
    if (version < steps.length) await session.query(migrationSql(schema, version), undefined, PATIENCE);
    await session.query("COMMIT");
  } catch (error) {
    await session.query("ROLLBACK").catch(() => {});
    throw error;
  }
}

async function versionOf(session: Session, schema: string): Promise<number> {
  const [row] = await session.query(
    `SELECT p.prosrc AS source, to_regclass($2)::text AS refs
     FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
     WHERE n.nspname = $1 AND p.proname = 'schema_version'`,
    [schema, `${quote(schema)}.refs`],
  );
  if (row === undefined) return 0;
  // 0.1 called its schema version 1, too.
  if (row.refs !== null) return Number(/\d+/.exec(row.source ?? "")?.[0]);
  throw new StayhookError(
    `postgresStore: stayhook 0.1 made the schema ${schema}, and this version cannot use it. Give another schema, or drop this one when none of its events is needed any more.`,
  );
}

/** Another encoding may be unable to hold a notification. The handler could then never answer 200 to it. */
async function assertUnicode(session: Session): Promise<void> {
  const [row] = await session.query("SELECT current_setting('server_encoding') AS encoding");
  if (row?.encoding === "UTF8") return;
  throw new StayhookError(
    `postgresStore: the database's encoding is ${row?.encoding}, which cannot hold every notification. Create a database WITH ENCODING 'UTF8'.`,
  );
}
