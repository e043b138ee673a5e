import { queueFunctions } from "./postgres-queue-functions.ts";
import { definer, NEWEST_RECEIVED, newest, parts, quote } from "./postgres-statements.ts";

/** The maximum number of events that one step of a list, a replay or a discard reads. */
const MOST_SCANNED = 5000;

/** Returns the SQL that creates all tables and functions. */
export function schemaSql(schema: string): string {
  return `${tables(schema)}${queueFunctions(schema)}${otherFunctions(schema)}`;
}

/**
 * `events` has a row for each event. `record` is the `ref` of a booking or listing. An event without a `ref` has a
 * record of its own. `lane` is the event's part of the queue. 0: pending and due. 1: due again after an attempt or an
 * expired lease. 2: waiting until `ready_at`. 3: leased until `ready_at`. NULL: ended. `due_from` is when the wait in
 * lane 2 began.
 *
 * `records` has the lock, lease, wait and snapshot of each record. `pending_seq` is the `seq` of the record's oldest
 * event in lane 0. `retry_seq` is the `seq` of the record's event in lane 1 that became due first. `wait_from` is
 * when the record's own wait began. If it is set, `blocked_until` is the end of this wait, and otherwise of the
 * lease.
 *
 * While any client has a long transaction, dead rows pile up, and a lookup of a record would read all of them. So
 * each write of a `records` row raises its `version`, and a lookup starts at the record's highest version, the live
 * row. The primary key of `records` contains `version`, so this key allows two rows for one record. The table `refs`
 * prevents them: its primary key is `record` alone, and its rows never change.
 *
 * With ORDER BY `seq`, PostgreSQL could scan the primary key, which contains all done events. So queries of events
 * that are not done sort by `-seq`, and use the index `events_open`.
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

/** Returns the SQL of the other functions: for filters, replay, discard, snapshots and deletions. */
function otherFunctions(schema: string): string {
  const s = quote(schema);
  const define = definer(schema);
  const { version, retries, pending } = parts(schema);

  const select = `SELECT v.seq, v.record, v.state, v.type, v.reason, v.source, v.received_at FROM ${s}.events v`;

  /** SQL that deletes events. Writes the `seq` and the receipt time of the newest deleted webhook event to `meta`. */
  const remove = (which: string) => `
    WITH deleted AS (DELETE FROM ${s}.events WHERE ${which} RETURNING source, seq, received_at), noted AS (
      INSERT INTO ${s}.meta AS m (key, value, set_at)
      SELECT '${NEWEST_RECEIVED}', seq::text, received_at FROM deleted WHERE source = 'webhook' ORDER BY seq DESC LIMIT 1
      ON CONFLICT (key) DO UPDATE SET value = excluded.value, set_at = excluded.set_at
      WHERE m.value::bigint < excluded.value::bigint)
    SELECT count(*) INTO gone FROM deleted;`;

  return [
    // Returns the newest matches with a `seq` below `before_seq`. The next call gets `resume` as its `before_seq`.
    define(
      `scan_events(of_id text, of_record text, of_state text, of_type text, of_reason text, of_source text,
  from_ms double precision, until_ms double precision, states text[], before_seq bigint, most integer)`,
      "TABLE (matches bigint[], resume bigint)",
      `
DECLARE
  rows refcursor;
  e record;
  scanned integer := 0;
BEGIN
  matches := '{}';
  before_seq := coalesce(before_seq, 9223372036854775807);
  IF of_id IS NOT NULL THEN
    OPEN rows FOR ${select}
      WHERE v.id = of_id AND v.seq + 0 < before_seq;
  ELSIF of_record IS NOT NULL THEN
    OPEN rows FOR ${select}
      WHERE v.record = of_record AND v.seq < before_seq ORDER BY v.record DESC, v.seq DESC;
  ELSIF of_state <> 'done' THEN
    OPEN rows FOR ${select}
      WHERE v.state = of_state AND v.state <> 'done' AND -v.seq > -before_seq ORDER BY -v.seq;
  ELSE
    OPEN rows FOR ${select}
      WHERE v.seq < before_seq ORDER BY v.seq DESC;
  END IF;
  LOOP
    FETCH rows INTO e;
    EXIT WHEN NOT FOUND;
    scanned := scanned + 1;
    resume := e.seq;
    IF (of_record IS NULL OR e.record = of_record) AND (of_state IS NULL OR e.state = of_state)
      AND (of_type IS NULL OR e.type = of_type) AND (of_reason IS NULL OR e.reason = of_reason)
      AND (of_source IS NULL OR e.source = of_source) AND (states IS NULL OR e.state = ANY (states))
      AND (from_ms IS NULL OR e.received_at >= to_timestamp(from_ms / 1000))
      AND (until_ms IS NULL OR e.received_at < to_timestamp(until_ms / 1000))
    THEN matches := matches || e.seq; END IF;
    IF cardinality(matches) >= most OR scanned >= ${MOST_SCANNED} THEN RETURN NEXT; RETURN; END IF;
  END LOOP;
  resume := NULL;
  RETURN NEXT;
END`,
    ),

    // Locks records in order of name, as `add_events` does, so that calls do not deadlock.
    define(
      `change_events(change text, states text[], of_id text, of_record text, of_state text, of_type text, of_reason text, of_source text,
  from_ms double precision, until_ms double precision, before_seq bigint, most integer)`,
      "TABLE (changed integer, resume bigint, made_due boolean)",
      `
DECLARE
  seqs bigint[];
  g record;
  r ${s}.records;
  e ${s}.events;
  moment timestamptz;
BEGIN
  changed := 0;
  made_due := false;
  SELECT f.matches, f.resume INTO seqs, resume
  FROM ${s}.scan_events(of_id, of_record, of_state, of_type, of_reason, of_source, from_ms, until_ms, states, before_seq, most) f;
  FOR g IN SELECT u.seq, v.record FROM unnest(seqs) u (seq), LATERAL (SELECT w.record FROM ${s}.events w WHERE w.seq = u.seq LIMIT 1) v
    ORDER BY v.record, u.seq
  LOOP
    r := ${s}.lock_record(g.record, change = 'replay');
    SELECT v.* INTO e FROM ${s}.events v WHERE v.seq = g.seq FOR UPDATE;
    moment := clock_timestamp();
    IF NOT FOUND OR e.state <> ALL (states) THEN
      PERFORM ${s}.forget_record(g.record);
      CONTINUE;
    END IF;
    changed := changed + 1;
    IF change = 'discard' THEN
      UPDATE ${s}.events v SET state = 'done', lane = NULL, ready_at = NULL, due_from = NULL, ended_at = moment, reason = 'discarded'
      WHERE v.seq = e.seq;
      UPDATE ${s}.records t SET ${version}, ${retries("r.retry_seq IS NOT NULL")}, ${pending("e.seq")}
      WHERE t.record = r.record AND t.version = r.version;
      PERFORM ${s}.forget_record(g.record);
      CONTINUE;
    END IF;
    made_due := true;
    IF e.state = 'retrying' THEN
      UPDATE ${s}.events v SET lane = 1, ready_at = least(v.ready_at, moment), due_at = least(v.due_at, moment), due_from = NULL
      WHERE v.seq = e.seq;
    ELSE
      UPDATE ${s}.events v SET state = 'pending', lane = 0, ready_at = moment, due_at = moment, due_from = NULL, attempts = 0, outages = 0,
        first_outage_at = NULL, reason = NULL, replayed = true
      WHERE v.seq = e.seq;
    END IF;
    UPDATE ${s}.records t SET ${version}, ${retries()},
      pending_seq = CASE WHEN e.state = 'retrying' THEN r.pending_seq ELSE least(r.pending_seq, e.seq) END,
      blocked_until = CASE WHEN r.wait_from IS NULL THEN r.blocked_until END, wait_from = NULL, wait_until = NULL
    WHERE t.record = r.record AND t.version = r.version;
  END LOOP;
  RETURN NEXT;
END`,
    ),

    define(
      "lock_record(name text, make boolean)",
      `${s}.records`,
      `
DECLARE
  r ${s}.records;
BEGIN
  IF make THEN
    INSERT INTO ${s}.refs AS k (record) VALUES (name) ON CONFLICT (record) DO UPDATE SET record = excluded.record WHERE false;
    IF FOUND THEN
      INSERT INTO ${s}.records (record, version) VALUES (name, nextval('${s}.record_version')) RETURNING * INTO r;
      RETURN r;
    END IF;
  END IF;
  SELECT rec.* INTO r ${newest(schema, "name")};
  RETURN r;
END`,
      false,
    ),

    // Returns the ms until the next claim can succeed. Considers waits of events, and waits and leases of records.
    define(
      "next_due(since bigint)",
      "TABLE (wait double precision)",
      `
BEGIN
  IF EXISTS (SELECT FROM ${s}.records r WHERE r.blocked_until IS NULL AND r.pending_seq IS NOT NULL AND r.pending_seq >= since ORDER BY r.pending_seq LIMIT 1)
    OR EXISTS (SELECT FROM ${s}.records r WHERE r.blocked_until IS NULL AND r.retry_seq IS NOT NULL
      ORDER BY greatest(r.retry_at, r.lease_end, r.wait_until), r.retry_seq LIMIT 1)
    OR since > 0 AND EXISTS (SELECT FROM ${s}.records r WHERE r.blocked_until IS NULL AND r.pending_seq IS NOT NULL ORDER BY r.pending_seq LIMIT 1)
    OR EXISTS (SELECT FROM ${s}.records r WHERE r.wait_from > now() AND (r.pending_seq IS NOT NULL OR r.retry_seq IS NOT NULL))
    OR EXISTS (SELECT FROM ${s}.events e WHERE e.lane = 2 AND e.due_from > now() AND NOT EXISTS (
      SELECT FROM (SELECT rec.blocked_until, rec.wait_from ${newest(schema, "e.record", "")}) b WHERE b.blocked_until > now() AND b.wait_from IS NULL))
  THEN
    wait := 0;
  ELSE
    SELECT extract(epoch FROM least(
      (SELECT r.blocked_until FROM ${s}.records r WHERE r.blocked_until IS NOT NULL
        AND (r.wait_from IS NULL OR r.pending_seq IS NOT NULL OR r.retry_seq IS NOT NULL) ORDER BY r.blocked_until LIMIT 1),
      (SELECT greatest(e.ready_at, b.blocked_until) FROM ${s}.events e LEFT JOIN LATERAL (
          SELECT rec.blocked_until, rec.wait_from IS NOT NULL AND rec.pending_seq IS NULL AND rec.retry_seq IS NULL AS alone
          ${newest(schema, "e.record", "")}) b ON true
        WHERE e.lane = 2 AND (b.blocked_until IS NULL OR b.blocked_until <= e.ready_at OR b.alone) ORDER BY e.ready_at LIMIT 1)
    ) - clock_timestamp()) * 1000 INTO wait;
  END IF;
  RETURN NEXT;
END`,
    ),

    define(
      "erase_record(name text)",
      "TABLE (gone bigint)",
      `
DECLARE
  r ${s}.records;
BEGIN
  r := ${s}.lock_record(name, true);
  IF r.lease IS NOT NULL AND r.blocked_until > clock_timestamp() THEN RETURN NEXT; RETURN; END IF;
  ${remove("record = name")}
  DELETE FROM ${s}.records t WHERE t.record = name;
  DELETE FROM ${s}.refs k WHERE k.record = name;
  RETURN NEXT;
END`,
    ),

    define(
      "learn_snapshot(name text, known text)",
      "TABLE (learned boolean)",
      `
DECLARE
  r ${s}.records;
BEGIN
  r := ${s}.lock_record(name, true);
  learned := CASE WHEN r.snapshot IS NOT NULL THEN r.snapshot = known ELSE r.lease_seq IS NULL AND NOT EXISTS (
    SELECT FROM ${s}.events e WHERE e.record = name AND e.state || '' <> 'done') END;
  IF learned THEN
    UPDATE ${s}.records t SET ${version}, snapshot = known, sequence = greatest(r.sequence, 1), seen_at = clock_timestamp()
    WHERE t.record = r.record AND t.version = r.version;
  ELSE
    PERFORM ${s}.forget_record(name);
  END IF;
  RETURN NEXT;
END`,
    ),

    // Releases the events of claims whose answers were lost. A `lease` begins with the token of its claim.
    define(
      "give_back(tokens text[])",
      "TABLE (token text)",
      `
DECLARE
  ids text[];
  names text[];
  leases text[];
BEGIN
  SELECT array_agg(e.id), array_agg(rec.record), array_agg(rec.lease) INTO ids, names, leases
  FROM ${s}.records rec JOIN ${s}.events e ON e.seq = ANY (ARRAY[rec.lease_seq])
  WHERE rec.blocked_until > now() AND rec.wait_from IS NULL AND split_part(rec.lease, ':', 1) = ANY (tokens);
  IF ids IS NULL THEN RETURN; END IF;
  PERFORM ${s}.settle_events(ids, names, leases, array_fill('released'::text, ARRAY[cardinality(ids)]), NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, current_setting('lock_timeout'));
  RETURN QUERY SELECT split_part(l, ':', 1) FROM unnest(leases) l;
END`,
    ),

    define(
      "set_meta(name text, new_value text, old_value text)",
      "TABLE (done boolean)",
      `
BEGIN
  IF old_value IS NULL AND new_value IS NULL THEN
    done := NOT EXISTS (SELECT FROM ${s}.meta m WHERE m.key = name);
    RETURN NEXT;
    RETURN;
  ELSIF old_value IS NULL THEN
    INSERT INTO ${s}.meta (key, value, set_at) VALUES (name, new_value, clock_timestamp()) ON CONFLICT (key) DO NOTHING;
  ELSIF new_value IS NULL THEN
    DELETE FROM ${s}.meta m WHERE m.key = name AND m.value = old_value;
  ELSE
    UPDATE ${s}.meta m SET value = new_value, set_at = clock_timestamp() WHERE m.key = name AND m.value = old_value;
  END IF;
  done := FOUND;
  RETURN NEXT;
END`,
    ),

    define(
      "prune_events(ended text, for_reason text, age_ms double precision, most integer)",
      "TABLE (gone bigint)",
      `
DECLARE
  until timestamptz := clock_timestamp() - age_ms * interval '1 millisecond';
  old bigint[];
BEGIN
  IF ended = 'done' THEN
    old := ARRAY(SELECT e.seq FROM ${s}.events e WHERE e.state = 'done' AND e.ended_at <= until AND for_reason IS NULL
      ORDER BY e.ended_at, e.seq LIMIT most FOR UPDATE SKIP LOCKED);
  ELSIF for_reason IS NULL THEN
    old := ARRAY(SELECT e.seq FROM ${s}.events e WHERE e.state = 'parked' AND e.ended_at <= until
      ORDER BY e.ended_at, e.seq LIMIT most FOR UPDATE SKIP LOCKED);
  ELSE
    old := ARRAY(SELECT e.seq FROM ${s}.events e WHERE e.state = 'parked' AND e.reason = for_reason AND e.ended_at <= until
      ORDER BY e.ended_at, e.seq LIMIT most FOR UPDATE SKIP LOCKED);
  END IF;
  ${remove("seq = ANY (old)")}
  RETURN NEXT;
END`,
    ),

    define(
      "prune_records(age_ms double precision, most integer)",
      "TABLE (gone bigint)",
      `
DECLARE
  r ${s}.records;
  until timestamptz := clock_timestamp() - age_ms * interval '1 millisecond';
BEGIN
  gone := 0;
  FOR r IN SELECT rec.* FROM ${s}.records rec
    WHERE rec.snapshot IS NOT NULL AND rec.seen_at <= until AND rec.pending_seq IS NULL AND rec.retry_seq IS NULL AND rec.lease_seq IS NULL
    ORDER BY rec.seen_at FOR UPDATE SKIP LOCKED
  LOOP
    EXIT WHEN gone >= most;
    CONTINUE WHEN EXISTS (SELECT FROM ${s}.events h WHERE h.record = r.record AND h.lane = 2);
    PERFORM FROM ${s}.refs k WHERE k.record = r.record FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    DELETE FROM ${s}.records t WHERE t.record = r.record AND t.version = r.version;
    DELETE FROM ${s}.refs k WHERE k.record = r.record;
    gone := gone + 1;
  END LOOP;
  RETURN NEXT;
END`,
    ),
  ].join("");
}
