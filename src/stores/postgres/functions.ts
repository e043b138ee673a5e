import { literal, quote } from "./tables.ts";

/**
 * Whatever the tables' statistics say at the moment, and whenever the plan was made (a session keeps one from when the
 * tables were empty): by the index that has the order. Where an id is looked for, no condition may lead to the index of
 * what is open: it was small when the plan was made. A lock that
 * somebody's transaction keeps is waited for a while, not for ever.
 */
const SETTINGS = `
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off SET lock_timeout = '5s'`;

/**
 * What the store does, each in one call: one round trip, one transaction, and no state of the session, so that it
 * goes through PgBouncer too. As READ COMMITTED gives each statement a view of its own, a record's row is
 * locked first, and its events are looked at in a statement after it: a view from before the lock would miss
 * what was added meanwhile.
 *
 * Conditions compare with now(), which an index takes; what is written is clock_timestamp().
 */
export function functions(schema: string, channel: string): string {
  const s = quote(schema);
  const define = (signature: string, returns: string, body: string) => `
CREATE FUNCTION ${s}.${signature} RETURNS ${returns} LANGUAGE plpgsql${SETTINGS} AS $stayhook$
#variable_conflict use_column
${body.trim()}
$stayhook$;
`;

  /** The heads of a record's row anew, from its events. */
  const heads = `
    (pending_due, pending_seq) = (
      SELECT e.ready_at, e.seq FROM ${s}.events e
      WHERE e.record = r.record AND e.state = 'pending' ORDER BY e.ready_at, e.seq LIMIT 1),
    (retry_due, retry_seq) = (
      SELECT e.ready_at, e.seq FROM ${s}.events e
      WHERE e.record = r.record AND e.state IN ('processing', 'retrying') ORDER BY e.ready_at, e.seq LIMIT 1)`;

  return [
    // Events in the order of their ids, then records in the order of theirs: who adds the same at the same time
    // waits, and neither waits for the other.
    define(
      "add_events(ids text[], records text[], sources text[], topics text[], timestamps text[], notifications text[], patience text, notify boolean)",
      "TABLE (answer text, made_due boolean)",
      `
DECLARE
  given_seqs bigint[];
  new_seqs bigint[];
  made boolean;
BEGIN
  PERFORM set_config('lock_timeout', patience, true);
  WITH given AS MATERIALIZED (
    SELECT nextval('${s}.event_seq') AS seq, clock_timestamp() AS at, g.*
    FROM unnest(ids, records, sources, topics, timestamps, notifications)
      WITH ORDINALITY AS g (id, record, source, topic, sent, notification, place)
  ), new AS (
    INSERT INTO ${s}.events
      (seq, id, record, state, ready_at, due_at, received_at, source, topic, "timestamp", notification)
    SELECT g.seq, g.id, g.record, 'pending', g.at, g.at, g.at, g.source, g.topic, g.sent, g.notification
    FROM given g ORDER BY g.id COLLATE "C", g.place
    ON CONFLICT (id) DO NOTHING
    RETURNING seq, record, received_at
  ), firsts AS (
    SELECT DISTINCT ON (n.record) n.record, n.received_at, n.seq FROM new n ORDER BY n.record, n.received_at, n.seq
  ), placed AS (
    INSERT INTO ${s}.records AS r (record, pending_due, pending_seq)
    SELECT f.record, f.received_at, f.seq FROM firsts f ORDER BY f.record
    ON CONFLICT (record) DO UPDATE SET
      wait_until = NULL,
      pending_due = CASE WHEN (r.pending_due, r.pending_seq) < (excluded.pending_due, excluded.pending_seq)
        THEN r.pending_due ELSE excluded.pending_due END,
      pending_seq = CASE WHEN (r.pending_due, r.pending_seq) < (excluded.pending_due, excluded.pending_seq)
        THEN r.pending_seq ELSE excluded.pending_seq END
    RETURNING r.lease_until IS NULL OR r.lease_until <= clock_timestamp() AS free
  )
  SELECT array_agg(g.seq ORDER BY g.place), ARRAY(SELECT n.seq FROM new n), coalesce((SELECT bool_or(p.free) FROM placed p), false)
  INTO given_seqs, new_seqs, made FROM given g;
  IF notify AND made THEN PERFORM pg_notify(${literal(channel)}, ''); END IF;
  RETURN QUERY SELECT
    CASE
      WHEN given_seqs[g.place] = ANY (new_seqs) THEN 'added'
      WHEN (SELECT e.record FROM ${s}.events e WHERE e.id = g.id) <> g.record THEN 'conflict'
      ELSE 'duplicate'
    END,
    made
  FROM unnest(ids, records) WITH ORDINALITY AS g (id, record, place) ORDER BY g.place;
END`,
    ),

    // Only at least 1 ms: a claim must not find its own again.
    define(
      "claim_events(most integer, lease_ms double precision, retries_first boolean, only_id text)",
      `TABLE (id text, record text, source text, topic text, "timestamp" text, notification text, received_at text,
  attempts text, outages text, outage_for text, replayed text, status text, sequence text, lease text)`,
      `
DECLARE
  chosen text[] := '{}';
  seqs bigint[] := '{}';
  retries boolean;
  some_records text[];
  some_seqs bigint[];
  until timestamptz;
  e ${s}.events;
  r ${s}.records;
BEGIN
  IF only_id IS NOT NULL THEN
    SELECT ARRAY[ev.record] INTO chosen FROM ${s}.events ev WHERE ev.id = only_id;
    PERFORM FROM ${s}.records rec WHERE rec.record = chosen[1]
      AND coalesce(rec.lease_until <= now(), true) AND coalesce(rec.wait_until <= now(), true) FOR UPDATE;
    IF NOT FOUND OR most < 1 THEN RETURN; END IF;
    SELECT array_agg(ev.seq) INTO seqs FROM ${s}.events ev
    WHERE ev.id = only_id AND ev.ready_at <= now();
  ELSE
    FOREACH retries IN ARRAY ARRAY[retries_first, NOT retries_first] LOOP
      IF retries THEN
        SELECT array_agg(t.record), array_agg(t.seq) INTO some_records, some_seqs FROM (
          SELECT rec.record, rec.retry_seq AS seq FROM ${s}.records rec
          WHERE rec.retry_at <= now() AND rec.record <> ALL (chosen)
          ORDER BY rec.retry_at, rec.retry_seq LIMIT most - cardinality(chosen) FOR UPDATE SKIP LOCKED) t;
      ELSE
        SELECT array_agg(t.record), array_agg(t.seq) INTO some_records, some_seqs FROM (
          SELECT rec.record, rec.pending_seq AS seq FROM ${s}.records rec
          WHERE rec.pending_at <= now() AND rec.record <> ALL (chosen)
          ORDER BY rec.pending_at, rec.pending_seq LIMIT most - cardinality(chosen) FOR UPDATE SKIP LOCKED) t;
      END IF;
      chosen := chosen || some_records;
      seqs := seqs || some_seqs;
    END LOOP;
  END IF;

  FOR i IN 1 .. coalesce(cardinality(seqs), 0) LOOP
    until := clock_timestamp() + greatest(lease_ms, 1) * interval '1 millisecond';
    UPDATE ${s}.events ev SET state = 'processing', attempts = ev.attempts + 1, ready_at = until
    WHERE ev.seq = seqs[i] AND ev.ready_at IS NOT NULL RETURNING ev.* INTO e;
    IF NOT FOUND THEN
      -- Somebody has deleted it by hand.
      UPDATE ${s}.records r SET ${heads} WHERE r.record = chosen[i];
      CONTINUE;
    END IF;
    UPDATE ${s}.records r SET lease = gen_random_uuid(), lease_seq = e.seq, lease_until = until, ${heads}
    WHERE r.record = chosen[i] RETURNING r.* INTO r;
    RETURN QUERY SELECT e.id, e.record, e.source, e.topic, e."timestamp", e.notification, ${epoch("e.received_at")},
      e.attempts::text, e.outages::text,
      coalesce(greatest(0, floor(extract(epoch FROM clock_timestamp() - e.first_outage_at) * 1000)), 0)::bigint::text,
      e.replayed::text, r.status, r.sequence::text, r.lease::text;
  END LOOP;
END`,
    ),

    // Without patience: those whose record another transaction holds are named, so that the others do not wait for it.
    define(
      "renew_leases(ids text[], records text[], leases text[], lease_ms double precision, patience text)",
      "TABLE (place text, locked boolean)",
      `
DECLARE
  until timestamptz;
  g record;
  held_seq bigint;
BEGIN
  PERFORM set_config('lock_timeout', coalesce(patience, '0'), true);
  FOR g IN SELECT * FROM unnest(ids, records, leases) WITH ORDINALITY AS t (id, record, lease, place)
    ORDER BY t.record COLLATE "C", t.place
  LOOP
    IF patience IS NULL THEN
      SELECT r.lease_seq INTO held_seq FROM ${s}.records r WHERE r.record = g.record AND r.lease::text = g.lease FOR UPDATE SKIP LOCKED;
      IF NOT FOUND THEN
        RETURN QUERY SELECT g.place::text, true FROM ${s}.records r WHERE r.record = g.record AND r.lease::text = g.lease;
        CONTINUE;
      END IF;
    ELSE
      SELECT r.lease_seq INTO held_seq FROM ${s}.records r WHERE r.record = g.record AND r.lease::text = g.lease FOR UPDATE;
      CONTINUE WHEN NOT FOUND;
    END IF;
    until := clock_timestamp() + lease_ms * interval '1 millisecond';
    UPDATE ${s}.events e SET ready_at = until WHERE e.seq = held_seq AND e.id = g.id;
    CONTINUE WHEN NOT FOUND;
    UPDATE ${s}.records r SET lease_until = until, ${heads} WHERE r.record = g.record;
    RETURN QUERY SELECT g.place::text, false;
  END LOOP;
END`,
    ),

    // `unsure`: the caller may have done it before, and lost the answer.
    define(
      `settle_event(event_id text, event_record text, held_lease text, outcome text, event_type text, event_status text,
  wait_ms double precision, counted boolean, why text, error text, unsure boolean)`,
      "TABLE (settled boolean, made_due boolean)",
      `
DECLARE
  held ${s}.records;
  moment timestamptz;
  later timestamptz;
BEGIN
  SELECT r.* INTO held FROM ${s}.records r WHERE r.record = event_record AND r.lease::text = held_lease FOR UPDATE;
  IF NOT FOUND THEN
    RETURN QUERY SELECT unsure AND EXISTS (
      SELECT FROM ${s}.events e WHERE e.id = event_id AND e.settled_by::text = held_lease), false;
    RETURN;
  END IF;
  moment := clock_timestamp();
  later := moment + wait_ms * interval '1 millisecond';
  IF outcome = 'retrying' THEN
    UPDATE ${s}.events e SET state = 'retrying',
      ready_at = CASE WHEN counted THEN later ELSE moment END,
      due_at = CASE WHEN counted THEN later ELSE moment END,
      attempts = CASE WHEN counted THEN e.attempts ELSE e.attempts - 1 END,
      outages = CASE WHEN counted THEN 0 ELSE e.outages + 1 END,
      first_outage_at = CASE WHEN NOT counted THEN coalesce(e.first_outage_at, moment) END,
      type = coalesce(event_type, e.type), reason = why, last_error = error, settled_by = held.lease
    WHERE e.seq = held.lease_seq AND e.id = event_id;
  ELSIF outcome = 'released' THEN
    UPDATE ${s}.events e SET
      state = CASE WHEN e.attempts = 1 AND e.outages = 0 THEN 'pending' ELSE 'retrying' END,
      ready_at = e.due_at, attempts = e.attempts - 1, settled_by = held.lease
    WHERE e.seq = held.lease_seq AND e.id = event_id;
  ELSE
    UPDATE ${s}.events e SET state = outcome, ready_at = NULL, ended_at = moment, type = coalesce(event_type, e.type),
      reason = why, last_error = coalesce(error, e.last_error), settled_by = held.lease
    WHERE e.seq = held.lease_seq AND e.id = event_id;
  END IF;
  IF NOT FOUND THEN RETURN QUERY SELECT false, false; RETURN; END IF;

  UPDATE ${s}.records r SET lease = NULL, lease_seq = NULL, lease_until = NULL,
    wait_until = CASE WHEN counted THEN r.wait_until ELSE greatest(r.wait_until, later) END,
    status = coalesce(event_status, r.status),
    sequence = r.sequence + (event_status IS NOT NULL AND event_status IS DISTINCT FROM r.status)::integer,
    seen_at = CASE WHEN event_status IS NULL THEN r.seen_at ELSE moment END,
    ${heads}
  WHERE r.record = event_record
  RETURNING least(r.pending_at, r.retry_at), r.status INTO later, event_status;
  IF later IS NULL AND event_status IS NULL THEN DELETE FROM ${s}.records r WHERE r.record = event_record; END IF;
  -- Who sleeps, sleeps until the end of this lease.
  RETURN QUERY SELECT true, coalesce(later < held.lease_until, false);
END`,
    ),

    define(
      "replay_event(event_id text)",
      "TABLE (replayed boolean, made_due boolean)",
      `
DECLARE
  of_record text;
  e ${s}.events;
  moment timestamptz;
  made boolean;
BEGIN
  SELECT ev.record INTO of_record FROM ${s}.events ev WHERE ev.id = event_id AND ev.state <> 'processing';
  IF NOT FOUND THEN RETURN QUERY SELECT false, false; RETURN; END IF;
  INSERT INTO ${s}.records AS r (record) VALUES (of_record) ON CONFLICT (record) DO UPDATE SET record = r.record;
  SELECT ev.* INTO e FROM ${s}.events ev WHERE ev.id = event_id FOR UPDATE;
  IF NOT FOUND OR e.state = 'processing' THEN
    DELETE FROM ${s}.records r
    WHERE r.record = of_record AND r.pending_due IS NULL AND r.retry_due IS NULL AND r.status IS NULL;
    RETURN QUERY SELECT false, false;
    RETURN;
  END IF;
  moment := clock_timestamp();
  IF e.state = 'retrying' THEN
    UPDATE ${s}.events ev SET ready_at = least(ev.ready_at, moment), due_at = least(ev.due_at, moment) WHERE ev.seq = e.seq;
  ELSIF e.state <> 'pending' THEN
    UPDATE ${s}.events ev SET state = 'pending', ready_at = moment, due_at = moment, attempts = 0, outages = 0,
      first_outage_at = NULL, reason = NULL, replayed = true
    WHERE ev.seq = e.seq;
  END IF;
  UPDATE ${s}.records r SET wait_until = NULL, ${heads} WHERE r.record = e.record
  RETURNING r.lease_until IS NULL OR r.lease_until <= moment INTO made;
  RETURN QUERY SELECT true, made;
END`,
    ),

    define(
      "replay_parked(after_seq bigint, most integer, for_reason text, before_ms double precision)",
      "TABLE (found integer, replayed integer, last_seq text, made_due boolean)",
      `
DECLARE
  ids text[];
  last bigint;
  total integer := 0;
  made boolean := false;
  each_id text;
  one record;
BEGIN
  SELECT array_agg(t.id ORDER BY t.record), max(t.seq) INTO ids, last FROM (
    SELECT e.id, e.record, e.seq FROM ${s}.events e
    WHERE e.state = 'parked' AND e.state <> 'done' AND -e.seq < -after_seq
      AND (for_reason IS NULL OR e.reason = for_reason)
      AND (before_ms IS NULL OR e.received_at < to_timestamp(before_ms / 1000))
    ORDER BY -e.seq DESC LIMIT most) t;
  FOREACH each_id IN ARRAY coalesce(ids, '{}') LOOP
    SELECT * INTO one FROM ${s}.replay_event(each_id);
    IF one.replayed THEN total := total + 1; END IF;
    made := made OR one.made_due;
  END LOOP;
  RETURN QUERY SELECT coalesce(cardinality(ids), 0), total, last::text, made;
END`,
    ),

    define(
      "prune_events(ended text, for_reason text, age_ms double precision, most integer)",
      "TABLE (gone bigint)",
      `
DECLARE
  until timestamptz := clock_timestamp() - age_ms * interval '1 millisecond';
BEGIN
  IF ended = 'done' THEN
    DELETE FROM ${s}.events WHERE seq = ANY (ARRAY(
      SELECT e.seq FROM ${s}.events e WHERE e.state = 'done' AND e.ended_at <= until AND for_reason IS NULL
      ORDER BY e.ended_at, e.seq LIMIT most FOR UPDATE SKIP LOCKED));
  ELSIF for_reason IS NULL THEN
    DELETE FROM ${s}.events WHERE seq = ANY (ARRAY(
      SELECT e.seq FROM ${s}.events e WHERE e.state = 'parked' AND e.ended_at <= until
      ORDER BY e.ended_at, e.seq LIMIT most FOR UPDATE SKIP LOCKED));
  ELSE
    DELETE FROM ${s}.events WHERE seq = ANY (ARRAY(
      SELECT e.seq FROM ${s}.events e WHERE e.state = 'parked' AND e.reason = for_reason AND e.ended_at <= until
      ORDER BY e.ended_at, e.seq LIMIT most FOR UPDATE SKIP LOCKED));
  END IF;
  GET DIAGNOSTICS gone = ROW_COUNT;
  RETURN NEXT;
END`,
    ),

    define(
      "prune_records(age_ms double precision, most integer)",
      "TABLE (gone bigint)",
      `
DECLARE
  until timestamptz := clock_timestamp() - age_ms * interval '1 millisecond';
BEGIN
  DELETE FROM ${s}.records WHERE record = ANY (ARRAY(
    SELECT r.record FROM ${s}.records r
    WHERE r.status IS NOT NULL AND r.seen_at <= until AND r.pending_due IS NULL AND r.retry_due IS NULL
    ORDER BY r.seen_at LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS gone = ROW_COUNT;
  RETURN NEXT;
END`,
    ),
  ].join("");
}

/** Epoch ms as text: how a connection is set up to read numbers and times is its owner's business. */
export function epoch(time: string): string {
  return `floor(extract(epoch FROM ${time}) * 1000)::bigint::text`;
}
