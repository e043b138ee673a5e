import { channelOf, definer, epoch, joined, literal, newest, parts, quote } from "./postgres-statements.ts";

/** The maximum number of rows that each query in `end_waits` reads. */
const MOST_ENDED = 200;

/**
 * Returns the SQL of the queue's functions. Each call is one round trip and one transaction. The functions keep no
 * state in the session, so they work behind PgBouncer. In READ COMMITTED, a statement sees only commits from before
 * its start. So a function locks the record's row first, and reads the record's events in a later statement.
 *
 * WHERE clauses use now(): it is constant in a transaction, so PostgreSQL can use an index. Times that a function
 * writes come from clock_timestamp().
 */
export function queueFunctions(schema: string): string {
  const s = quote(schema);
  const define = definer(schema);
  const { version, retries, pending, history } = parts(schema);

  return [
    // Locks events in order of id, and then records in order of name, so that two calls do not deadlock. If an event
    // is added with a wait, `due_from` is set, even if the wait is 0. `answers` is NULL if all events are new.
    define(
      `add_events(ids text[], records text[], sources text[], topics text[], timestamps text[], notifications text[],
  traces text[], waits double precision[], patience text, notify boolean)`,
      "TABLE (answers text, made_due boolean)",
      `
DECLARE
  added text[];
  names text[];
  firsts bigint[];
  ends boolean[];
  versions bigint[];
  missing boolean;
  differ boolean;
  made boolean := false;
  rounds integer := 0;
BEGIN
  PERFORM set_config('lock_timeout', patience, true);
  WITH new AS (
    INSERT INTO ${s}.events
      (seq, id, record, state, lane, ready_at, due_at, due_from, received_at, source, topic, "timestamp", notification, traceparent)
    SELECT g.seq, g.id, g.record, 'pending', CASE WHEN g.wait > 0 THEN 2 ELSE 0 END, g.due, g.due,
      CASE WHEN g.wait IS NOT NULL THEN g.at END, g.at, coalesce(g.source, 'webhook'), g.topic, g.sent, g.notification, g.trace
    FROM (
      SELECT n.*, n.at + coalesce(n.wait, 0) * interval '1 millisecond' AS due FROM (
        SELECT nextval('${s}.event_seq') AS seq, clock_timestamp() AS at, u.*
        FROM unnest(ids, records, sources, topics, timestamps, notifications, traces, waits)
          WITH ORDINALITY AS u (id, record, source, topic, sent, notification, trace, wait, place)
      ) n
    ) g ORDER BY g.id COLLATE "C", g.place
    ON CONFLICT (id) DO NOTHING
    RETURNING seq, id, record, lane, due_from
  )
  SELECT ARRAY(SELECT n.id FROM new n), array_agg(o.record), array_agg(o.first), array_agg(o.ends) INTO added, names, firsts, ends
  FROM (
    SELECT n.record, min(n.seq) FILTER (WHERE n.lane = 0) AS first, bool_or(n.due_from IS NULL) AS ends
    FROM new n GROUP BY n.record ORDER BY n.record
  ) o;
  WHILE names IS NOT NULL LOOP
    -- Lock a record even if nothing changes. Otherwise a running claim would not see the new event.
    SELECT array_agg(l.version), made OR coalesce(bool_or(l.free), false), bool_or(l.version IS NULL),
      coalesce(bool_or(l.pending_seq > f.first OR l.pending_seq IS NULL AND f.first IS NOT NULL OR f.ends AND l.wait_until IS NOT NULL)
        FILTER (WHERE l.version IS NOT NULL), false)
    INTO versions, made, missing, differ FROM unnest(names, firsts, ends) f (record, first, ends) LEFT JOIN LATERAL (
      SELECT rec.version, rec.pending_seq, rec.wait_until,
        rec.blocked_until IS NULL OR rec.wait_from IS NOT NULL OR rec.blocked_until <= clock_timestamp() AS free
      ${newest(schema, "f.record")}) l ON true;
    IF differ THEN
      UPDATE ${s}.records r SET ${version},
        pending_seq = least(r.pending_seq, t.first),
        blocked_until = CASE WHEN t.ends AND r.wait_from IS NOT NULL THEN NULL ELSE r.blocked_until END,
        wait_from = CASE WHEN t.ends THEN NULL ELSE r.wait_from END,
        wait_until = CASE WHEN t.ends THEN NULL ELSE r.wait_until END
      FROM unnest(names, firsts, ends, versions) t (record, first, ends, version)
      WHERE ${joined("r", "t")}
        AND (r.pending_seq > t.first OR r.pending_seq IS NULL AND t.first IS NOT NULL OR t.ends AND r.wait_until IS NOT NULL);
    END IF;
    EXIT WHEN NOT missing;
    WITH fresh AS (
      INSERT INTO ${s}.refs AS t (record) SELECT f.record FROM unnest(names, versions) f (record, version) WHERE f.version IS NULL
      ON CONFLICT (record) DO NOTHING RETURNING t.record
    ), placed AS (
      INSERT INTO ${s}.records AS t (record, version, pending_seq)
      SELECT f.record, nextval('${s}.record_version'), f.first
      FROM unnest(names, firsts) f (record, first) JOIN fresh USING (record)
      RETURNING t.record
    )
    -- Look again for records that another call has made meanwhile.
    SELECT array_agg(f.record) FILTER (WHERE p.record IS NULL), array_agg(f.first) FILTER (WHERE p.record IS NULL),
      array_agg(f.ends) FILTER (WHERE p.record IS NULL), made OR bool_or(p.record IS NOT NULL)
    INTO names, firsts, ends, made
    FROM unnest(names, firsts, ends, versions) f (record, first, ends, version) LEFT JOIN placed p USING (record)
    WHERE f.version IS NULL;
    -- Somebody may have deleted a row of records by hand. Then delete its row of refs, too.
    rounds := rounds + 1;
    IF rounds > 3 THEN
      DELETE FROM ${s}.refs k WHERE k.record = ANY (names) AND NOT EXISTS (SELECT FROM ${s}.records r WHERE r.record = k.record);
    END IF;
  END LOOP;
  IF notify AND made THEN PERFORM pg_notify(${literal(channelOf(schema))}, ''); END IF;
  IF cardinality(added) < cardinality(ids) THEN
    SELECT string_agg(CASE
      WHEN g.id = ANY (added) AND g.place = array_position(ids, g.id) THEN 'added'
      WHEN (SELECT e.record FROM ${s}.events e WHERE e.id = g.id) <> g.record THEN 'conflict'
      ELSE 'duplicate'
    END, ',' ORDER BY g.place) INTO answers FROM unnest(ids, records) WITH ORDINALITY AS g (id, record, place);
  END IF;
  made_due := made;
  RETURN NEXT;
END`,
    ),

    // Makes events claimable when their wait or lease has ended. Skips locked records, which a later claim updates.
    define(
      "end_waits()",
      "void",
      `
DECLARE
  r ${s}.records;
  w record;
  to_lane smallint;
BEGIN
  FOR r IN SELECT b.* FROM ${s}.records b WHERE b.blocked_until <= now() ORDER BY b.blocked_until LIMIT ${MOST_ENDED} FOR UPDATE SKIP LOCKED
  LOOP
    IF r.wait_from IS NULL THEN
      UPDATE ${s}.events e SET lane = 1 WHERE e.seq = r.lease_seq AND e.lane + 0 = 3;
      UPDATE ${s}.records t SET ${version}, blocked_until = NULL, lease_end = r.blocked_until, ${retries()}
      WHERE t.record = r.record AND t.version = r.version;
    ELSE
      UPDATE ${s}.records t SET ${version}, blocked_until = NULL, wait_from = NULL
      WHERE t.record = r.record AND t.version = r.version;
    END IF;
  END LOOP;
  FOR r IN SELECT b.* FROM ${s}.records b WHERE b.wait_from > now() LIMIT ${MOST_ENDED} FOR UPDATE SKIP LOCKED LOOP
    UPDATE ${s}.records t SET ${version}, blocked_until = NULL, wait_from = NULL
    WHERE t.record = r.record AND t.version = r.version;
  END LOOP;
  FOR w IN
    (SELECT e.seq, e.record FROM ${s}.events e WHERE e.lane = 2 AND e.ready_at <= now() ORDER BY e.ready_at LIMIT ${MOST_ENDED})
    UNION ALL
    (SELECT e.seq, e.record FROM ${s}.events e WHERE e.lane = 2 AND e.due_from > now() ORDER BY e.due_from LIMIT ${MOST_ENDED})
  LOOP
    SELECT rec.* INTO r ${newest(schema, "w.record", "FOR UPDATE SKIP LOCKED")};
    CONTINUE WHEN NOT FOUND;
    UPDATE ${s}.events e SET lane = CASE WHEN e.state = 'pending' THEN 0 ELSE 1 END, due_from = NULL
    WHERE e.seq = w.seq AND e.lane + 0 = 2 RETURNING e.lane INTO to_lane;
    CONTINUE WHEN NOT FOUND;
    UPDATE ${s}.records t SET ${version}, ${retries()},
      pending_seq = CASE WHEN to_lane = 0 THEN least(r.pending_seq, w.seq) ELSE r.pending_seq END
    WHERE t.record = r.record AND t.version = r.version;
  END LOOP;
END`,
      false,
    ),

    // A lease lasts at least 1 ms, because a lease of 0 ms would expire at once. With order `oldest`, the function
    // ignores pending events with a `seq` below `since`, so that it skips dead index entries. The caller expects that
    // no event below `since` is claimable.
    define(
      `claim_events(token text, most integer, lease_ms double precision, first text, only_id text, by_worker text, since bigint)`,
      `TABLE (id text, record text, source text, topic text, "timestamp" text, notification text, traceparent text, received_at text,
  claimed_at text, attempts text, outages text, outage_for text, replayed text, snapshot text, sequence text, lease text, seq text)`,
      `
DECLARE
  picked ${s}.records[] := '{}';
  names text[] := '{}';
  more ${s}.records[];
  pass text;
  only_seq bigint;
  only_record text;
  moment timestamptz;
  until timestamptz;
  places bigint[];
  seqs bigint[];
  versions bigint[];
BEGIN
  IF EXISTS (SELECT FROM ${s}.records b WHERE b.blocked_until <= now()) OR EXISTS (SELECT FROM ${s}.records b WHERE b.wait_from > now())
    OR EXISTS (SELECT FROM ${s}.events ev WHERE ev.lane = 2 AND ev.ready_at <= now())
    OR EXISTS (SELECT FROM ${s}.events ev WHERE ev.lane = 2 AND ev.due_from > now())
  THEN PERFORM ${s}.end_waits(); END IF;
  IF only_id IS NOT NULL THEN
    SELECT ev.seq, ev.record INTO only_seq, only_record FROM ${s}.events ev WHERE ev.id = only_id;
    picked := ARRAY(SELECT l.rec FROM (SELECT rec ${newest(schema, "only_record")}) l WHERE (l.rec).blocked_until IS NULL);
  ELSE
    FOREACH pass IN ARRAY CASE first WHEN 'retries' THEN ARRAY['retries', 'oldest'] ELSE ARRAY[first, 'retries'] END LOOP
      IF pass = 'oldest' THEN
        SELECT array_agg(t.rec) INTO more FROM (
          SELECT rec FROM ${s}.records rec
          WHERE rec.blocked_until IS NULL AND rec.pending_seq IS NOT NULL AND rec.pending_seq >= since AND rec.record <> ALL (names)
          ORDER BY rec.pending_seq LIMIT most - cardinality(picked) FOR UPDATE SKIP LOCKED) t;
      ELSIF pass = 'newest' THEN
        SELECT array_agg(t.rec) INTO more FROM (
          SELECT rec FROM ${s}.records rec
          WHERE rec.blocked_until IS NULL AND rec.pending_seq IS NOT NULL AND rec.record <> ALL (names)
          ORDER BY rec.pending_seq DESC LIMIT most - cardinality(picked) FOR UPDATE SKIP LOCKED) t;
      ELSE
        SELECT array_agg(t.rec) INTO more FROM (
          SELECT rec FROM ${s}.records rec
          WHERE rec.blocked_until IS NULL AND rec.retry_seq IS NOT NULL AND rec.record <> ALL (names)
          ORDER BY greatest(rec.retry_at, rec.lease_end, rec.wait_until), rec.retry_seq
          LIMIT most - cardinality(picked) FOR UPDATE SKIP LOCKED) t;
      END IF;
      picked := picked || more;
      EXIT WHEN cardinality(picked) >= most;
      names := ARRAY(SELECT p.record FROM unnest(picked) p);
    END LOOP;
  END IF;

  IF cardinality(picked) = 0 THEN RETURN; END IF;
  moment := clock_timestamp();
  until := moment + greatest(lease_ms, 1) * interval '1 millisecond';
  WITH claimed AS (
    UPDATE ${s}.events ev SET state = 'processing', lane = 3, attempts = ev.attempts + 1, ready_at = until, due_from = NULL,
      claimed_at = moment, worker = by_worker,
      history = CASE WHEN ev.state <> 'processing' THEN ev.history ELSE ${history(`(
        '{"at":' || ${epoch("ev.claimed_at")} || ',"duration":' || greatest(0, round(extract(epoch FROM ev.ready_at - ev.claimed_at) * 1000))
        || ',"outcome":"lost"' || coalesce(',"worker":' || ev.worker, '') || '}')`)} END
    FROM (
      SELECT p.record, p.version, p.ordinality AS place,
        CASE WHEN only_seq IS NOT NULL THEN only_seq WHEN p.retry_seq IS NULL THEN p.pending_seq ELSE least(p.pending_seq, (
          SELECT h.seq FROM ${s}.events h WHERE h.record = p.record AND h.lane = 1 ORDER BY h.lane, h.seq LIMIT 1)) END AS seq
      FROM unnest(picked) WITH ORDINALITY p OFFSET 0
    ) c WHERE ev.seq = ANY (ARRAY[c.seq]) AND ev.lane IN (0, 1) RETURNING c.record, c.version, c.place, c.seq
  )
  SELECT array_agg(c.record), array_agg(c.version), array_agg(c.place), array_agg(c.seq) INTO names, versions, places, seqs FROM claimed c;
  IF only_seq IS NULL AND cardinality(picked) > coalesce(cardinality(names), 0) THEN
    -- The first event of a picked record is not due, or somebody has deleted the event by hand.
    UPDATE ${s}.records r SET ${version}, ${retries()}, pending_seq = (
      SELECT h.seq FROM ${s}.events h WHERE h.record = r.record AND h.seq >= r.pending_seq AND h.lane + 0 = 0 ORDER BY h.seq LIMIT 1)
    FROM unnest(picked) p WHERE ${joined("r", "p")} AND p.record <> ALL (coalesce(names, '{}'));
  END IF;
  RETURN QUERY WITH leased AS (
    UPDATE ${s}.records r SET ${version}, lease = token || ':' || c.place, lease_seq = c.seq, lease_end = NULL,
      blocked_until = until, wait_from = NULL, ${retries("r.retry_seq IS NOT NULL")}, ${pending("c.seq")}
    FROM unnest(names, versions, places, seqs) c (record, version, place, seq) WHERE ${joined("r", "c")}
    RETURNING r.snapshot, r.sequence, r.lease, c.place, c.seq
  )
  SELECT e.id, e.record, e.source, e.topic, e."timestamp", e.notification, e.traceparent, ${epoch("e.received_at")},
    ${epoch("e.claimed_at")}, e.attempts::text, e.outages::text,
    coalesce(greatest(0, floor(extract(epoch FROM moment - e.first_outage_at) * 1000)), 0)::bigint::text,
    e.replayed::text, l.snapshot, l.sequence::text, l.lease, e.seq::text
  FROM leased l JOIN ${s}.events e ON e.seq = ANY (ARRAY[l.seq]) ORDER BY l.place;
END`,
    ),

    // If `patience` is NULL, the function reports a locked record and does not wait for it. A wait could let the leases
    // of the other records expire.
    define(
      "renew_leases(ids text[], records text[], leases text[], lease_ms double precision, patience text)",
      "TABLE (place text, locked boolean)",
      `
DECLARE
  until timestamptz;
  g record;
  r ${s}.records;
BEGIN
  PERFORM set_config('lock_timeout', coalesce(patience, '0'), true);
  FOR g IN SELECT * FROM unnest(ids, records, leases) WITH ORDINALITY AS t (id, record, lease, place)
    ORDER BY t.record COLLATE "C", t.place
  LOOP
    IF patience IS NULL THEN
      SELECT rec.* INTO r ${newest(schema, "g.record", "FOR UPDATE SKIP LOCKED")};
      IF NOT FOUND THEN
        SELECT rec.* INTO r ${newest(schema, "g.record", "")};
        IF r.lease = g.lease THEN RETURN QUERY SELECT g.place::text, true; END IF;
        CONTINUE;
      END IF;
    ELSE
      SELECT rec.* INTO r ${newest(schema, "g.record")};
    END IF;
    CONTINUE WHEN r.lease IS DISTINCT FROM g.lease;
    until := clock_timestamp() + greatest(lease_ms, 1) * interval '1 millisecond';
    UPDATE ${s}.events e SET ready_at = until, lane = 3 WHERE e.seq = r.lease_seq AND e.id = g.id;
    CONTINUE WHEN NOT FOUND;
    UPDATE ${s}.records t SET ${version}, blocked_until = until, wait_from = NULL, lease_end = NULL, ${retries("r.retry_seq IS NOT NULL")}
    WHERE t.record = r.record AND t.version = r.version;
    RETURN QUERY SELECT g.place::text, false;
  END LOOP;
END`,
    ),

    // Locks the records in order of name, so that two calls do not deadlock. A call contains each record only once. An
    // event is `unsure` if an earlier call got no answer and may have settled the event.
    define(
      `settle_events(event_ids text[], records text[], leases text[], outcomes text[], types text[], snapshots text[], changes boolean[],
  waits double precision[], counts boolean[], whys text[], entries text[], unsures boolean[], patience text)`,
      "TABLE (settled boolean, made_due boolean)",
      `
DECLARE
  moment timestamptz;
  versions bigint[];
  seqs bigint[];
  untils timestamptz[];
  places bigint[];
  empty text[];
  made boolean;
  name text;
BEGIN
  PERFORM set_config('lock_timeout', patience, true);
  SELECT array_agg(l.version ORDER BY g.place), array_agg(l.lease_seq ORDER BY g.place), array_agg(l.blocked_until ORDER BY g.place)
  INTO versions, seqs, untils
  FROM (SELECT * FROM unnest(records, leases) WITH ORDINALITY AS u (record, lease, place) ORDER BY u.record COLLATE "C") g
  LEFT JOIN LATERAL (SELECT rec.version, rec.lease, rec.lease_seq, rec.blocked_until ${newest(schema, "g.record")}) l ON l.lease = g.lease;
  moment := clock_timestamp();
  UPDATE ${s}.events ev SET
    state = CASE WHEN g.outcome <> 'released' THEN g.outcome WHEN ev.attempts = 1 AND ev.outages = 0 THEN 'pending' ELSE 'retrying' END,
    lane = CASE g.outcome WHEN 'released' THEN (ev.attempts > 1 OR ev.outages > 0)::integer
      WHEN 'retrying' THEN CASE WHEN g.counted AND g.wait > 0 THEN 2 ELSE 1 END END,
    ready_at = CASE g.outcome WHEN 'released' THEN ev.due_at WHEN 'retrying' THEN CASE WHEN g.counted THEN g.later ELSE moment END END,
    due_at = CASE WHEN g.outcome <> 'retrying' THEN ev.due_at WHEN g.counted THEN g.later ELSE moment END,
    due_from = CASE WHEN g.outcome = 'retrying' AND g.counted AND g.wait > 0 THEN moment END,
    attempts = CASE WHEN g.outcome = 'released' OR g.waits THEN ev.attempts - 1 ELSE ev.attempts END,
    outages = CASE WHEN g.outcome <> 'retrying' THEN ev.outages WHEN g.counted THEN 0 ELSE ev.outages + 1 END,
    first_outage_at = CASE WHEN g.waits THEN coalesce(ev.first_outage_at, moment) WHEN g.outcome <> 'retrying' THEN ev.first_outage_at END,
    ended_at = CASE WHEN g.outcome IN ('done', 'parked') THEN moment ELSE ev.ended_at END,
    type = coalesce(g.type, ev.type), reason = CASE WHEN g.outcome = 'released' THEN ev.reason ELSE g.why END, settled_by = g.lease,
    history = CASE WHEN g.outcome = 'released' THEN ev.history ELSE ${history(`(left(g.entry, -1) || ',"at":' || ${epoch("ev.claimed_at")}
      || coalesce(',"worker":' || ev.worker, '') || '}')`)} END
  FROM (
    SELECT u.*, u.outcome = 'retrying' AND NOT u.counted AS waits, moment + u.wait * interval '1 millisecond' AS later
    FROM unnest(event_ids, leases, outcomes, types, waits, counts, whys, entries, seqs)
      AS u (id, lease, outcome, type, wait, counted, why, entry, seq)
  ) g WHERE ev.seq = ANY (ARRAY[g.seq]) AND ev.id || '' = g.id;
  WITH ended AS (
    UPDATE ${s}.records r SET ${version}, lease = NULL, lease_seq = NULL, lease_end = NULL,
      blocked_until = CASE WHEN g.waits THEN g.later END,
      wait_from = CASE WHEN g.waits THEN moment END,
      wait_until = CASE WHEN g.waits THEN g.later ELSE r.wait_until END,
      pending_seq = CASE WHEN e.lane = 0 THEN least(r.pending_seq, e.seq) ELSE r.pending_seq END,
      ${retries("(e.lane = 1 OR r.retry_seq IS NOT NULL)")},
      snapshot = coalesce(g.snapshot, r.snapshot),
      sequence = r.sequence + (g.snapshot IS NOT NULL AND g.changed IS TRUE)::integer,
      seen_at = CASE WHEN g.snapshot IS NULL THEN r.seen_at ELSE moment END
    FROM (
      SELECT u.*, u.outcome = 'retrying' AND NOT u.counted AS waits, moment + u.wait * interval '1 millisecond' AS later
      FROM unnest(records, leases, outcomes, snapshots, changes, waits, counts, versions, seqs, untils) WITH ORDINALITY
        AS u (record, lease, outcome, snapshot, changed, wait, counted, version, seq, until, place)
    ) g JOIN ${s}.events e ON e.seq = ANY (ARRAY[g.seq]) AND e.settled_by = g.lease
    WHERE ${joined("r", "g")}
    RETURNING g.place, r.record, r.snapshot IS NULL AND e.lane IS NULL AND r.pending_seq IS NULL AS is_empty,
      -- Other processes sleep until this lease ends. Notify them if an event is due before that.
      -- Without a retry, no event has lane 1. PostgreSQL finds the waiting events by the index of lanes 1 and 2.
      CASE WHEN g.waits THEN g.later WHEN r.pending_seq IS NOT NULL OR r.retry_seq IS NOT NULL THEN moment ELSE (
        SELECT min(h.ready_at) FROM ${s}.events h WHERE h.record = r.record AND h.lane IN (1, 2)) END < g.until AS made_due
  )
  SELECT array_agg(d.place), array_agg(d.record ORDER BY d.record) FILTER (WHERE d.is_empty), coalesce(bool_or(d.made_due), false)
  INTO places, empty, made FROM ended d;
  FOREACH name IN ARRAY coalesce(empty, '{}') LOOP PERFORM ${s}.forget_record(name); END LOOP;
  RETURN QUERY SELECT coalesce(g.place = ANY (places), false)
      OR coalesce(g.unsure, false) AND EXISTS (SELECT FROM ${s}.events ev WHERE ev.id = g.id AND ev.settled_by = g.lease), made
    FROM unnest(event_ids, leases, unsures) WITH ORDINALITY AS g (id, lease, unsure, place) ORDER BY g.place;
END`,
    ),

    // Deletes an unused record, unless its row in `refs` is locked. The lock shows that another call uses the record.
    define(
      "forget_record(name text)",
      "void",
      `
DECLARE
  r ${s}.records;
BEGIN
  SELECT rec.* INTO r ${newest(schema, "name")};
  IF NOT FOUND OR r.snapshot IS NOT NULL OR r.pending_seq IS NOT NULL OR r.lease_seq IS NOT NULL
    OR EXISTS (SELECT FROM ${s}.events h WHERE h.record = name AND h.lane IN (1, 2) ORDER BY h.lane) THEN RETURN; END IF;
  PERFORM FROM ${s}.refs k WHERE k.record = name FOR UPDATE SKIP LOCKED;
  IF FOUND THEN
    DELETE FROM ${s}.records t WHERE t.record = r.record AND t.version = r.version;
    DELETE FROM ${s}.refs k WHERE k.record = name;
  END IF;
END`,
      false,
    ),
  ].join("");
}
