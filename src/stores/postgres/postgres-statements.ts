import { createHash } from "node:crypto";
import { prepared } from "../sql/driver.ts";
import type { Condition } from "../sql/sql-beginnings.ts";
import { CONTENT, CONTENT_COLUMNS } from "../sql/sql-rows.ts";
import { inSchema, NOW, postgresDialect } from "./postgres-dialect.ts";

/** How long PostgreSQL waits for the next step of a transaction that has locked records, ms. */
export const COMMIT_WITHIN = 2000;

/** A constant statement. PostgreSQL parses and plans it once for each connection. */
export class Statement {
  readonly text: string;
  readonly #name: string;
  #runs = 0;

  /** The name belongs to the text, because behind PgBouncer a connection may have the statements of other processes. */
  constructor(text: string) {
    this.text = text;
    this.#name = `stayhook_${createHash("sha256").update(text).digest("hex").slice(0, 32)}`;
  }

  /** Changes after 8, 64, 512 … runs, because PostgreSQL keeps a plan that it made for smaller tables. */
  nextName(): string {
    this.#runs += 1;
    return `${this.#name}_${Math.floor(Math.log2(this.#runs) / 3)}`;
  }
}

// The statements of the hot path. Each statement handles any number of events, and locks records before it changes
// anything else, in order of `ref`. Tables that a statement changes in a WITH clause look unchanged to its other parts.

/** Writes a part of a statement for each column of the event itself. */
const ofContent = (part: (column: string) => string) => CONTENT_COLUMNS.map(part).join(", ");
const CONTENT_TYPES = ofContent((column) => `"${column}" text`);
/** The new value of a column of the event itself. An event without `source` keeps what it has. */
const newContent = (
  column: string,
) => `${column} = CASE ${column === "notification" ? "WHEN h.drops THEN NULL" : ""}
        WHEN h.source IS NULL THEN e.${column} ELSE h.${column} END`;
const ADDITION = `id bytea, ref text, state text, due_in bigint, due_time bigint, lease text, ${CONTENT_TYPES}`;
const SETTLEMENT = `id bytea, ref text, lease text, state text, due_in bigint, due_time bigint, attempts integer, outages integer, first_outage_at bigint,
  failures integer, refusals integer, replayed smallint, type text, reason text, history text, drops boolean, ${CONTENT_TYPES}, delay bigint, snapshot text, changed boolean, ledger text,
  timers boolean, remove bytea[]`;

/** The time, and how long the statement waits for a lock. The settings end with the transaction. */
const clock = (patience: string) => `
  t AS MATERIALIZED (
    SELECT ${NOW} AS now, set_config('lock_timeout', coalesce(${patience}, current_setting('lock_timeout')), true))`;

/** Rows of a JSON parameter, in its order. The `LIMIT` tells the planner how many rows there are. */
const rowsOf = (json: string, count: string, columns: string, alias: string) =>
  `(SELECT * FROM json_to_recordset(${json}) AS j (n integer, ${columns}) LIMIT ${count}) AS ${alias}`;

/** When a row of a parameter is due. A row of an event that has ended has no `due_in`. */
const dueAt = (row: string) => `coalesce(${row}.due_time, t.now + ${row}.due_in)`;

/** The state of an event, without the index `events_open`: it has many dead entries of events that were processed. */
const stateOf = (event: string) => `${event}.state || ''`;

const NEW_SEQ = "nextval('stayhook_events_seq_seq')";
const INSERT_EVENTS = `INSERT INTO stayhook_events AS e (seq, id, ref, state, due_at, first_due_at, received_at, lease, ${CONTENT})`;

/**
 * Makes records due. During a lease, a due time below the lease's end tells `settle` that something was added
 * meanwhile.
 */
const becomeDue = (due: string) => `
  INSERT INTO stayhook_records AS r (ref, due_at) ${due}
  ON CONFLICT (ref) DO UPDATE SET due_at = least(r.due_at, excluded.due_at, r.lease_end - 1)
  WHERE r.due_at IS NULL OR excluded.due_at < r.due_at OR r.lease_end <= r.due_at`;

/** The first due time of a record's events. */
const firstDue = (ref: string, and = "") => `
  SELECT o.due_at FROM stayhook_events o WHERE o.ref = ${ref} AND o.due_at IS NOT NULL ${and}
  ORDER BY o.due_at, o.seq LIMIT 1`;

/** Returns the `n` of each added event. Parameters: the events, their number, the patience. */
const add = `
  WITH ${clock("$3")},
  given AS MATERIALIZED (
    SELECT g.*, ${NEW_SEQ} AS seq, t.now, ${dueAt("g")} AS due_at FROM t, ${rowsOf("$1", "$2", ADDITION, "g")}),
  added AS (
    ${INSERT_EVENTS}
    SELECT seq, id, ref, state, due_at, due_at, now, lease, ${CONTENT} FROM given ORDER BY id
    ON CONFLICT (id) DO NOTHING RETURNING e.id, e.ref, e.due_at),
  due AS (${becomeDue("SELECT ref, min(due_at) FROM added GROUP BY ref ORDER BY ref")})
  SELECT g.n FROM given g JOIN added a ON a.id = g.id`;

type Search = Pick<Condition, "and" | "due">;

/**
 * When the next claim can succeed after the one that takes `free`, if that one is not full. The first 100 rows show the
 * leased records whose due time an `add` or a replay has lowered.
 */
const nextDue = ({ and, due }: Search) => `
  CASE WHEN (SELECT count(*) FROM free) < $2 THEN least(
    (SELECT o.due_at FROM stayhook_records o WHERE o.due_at IS NOT NULL AND o.lease_end IS NULL AND o.ref <> ALL (ARRAY(SELECT ref FROM free))${and}
      ORDER BY ${due} LIMIT 1),
    (SELECT min(greatest(o.due_at, o.lease_end)) FROM (
      SELECT o.due_at, o.lease_end FROM stayhook_records o WHERE o.due_at IS NOT NULL AND o.ref <> ALL (ARRAY(SELECT ref FROM free))${and}
      ORDER BY ${due} LIMIT 100) AS o),
    (SELECT t.now + $3 FROM free LIMIT 1)) END AS next_due_at`;

/**
 * Leases records, in the transaction of {@link take}. Returns the time, and a row for each leased record. If the process
 * freezes, PostgreSQL ends the transaction. Parameters: the token of the claim, the limit, the lease's duration, the due
 * time at which the search begins, those of `and`: the condition of `except` and `only`.
 */
const lease = (which: (due: string) => string, { and, due }: Search = { and: "", due: "due_at" }) => `
  WITH t AS MATERIALIZED (SELECT ${NOW} AS now, set_config('idle_in_transaction_session_timeout', '${COMMIT_WITHIN}', true)),
  free AS MATERIALIZED (
    SELECT r.ref, r.due_at, r.lease_end FROM stayhook_records r
    WHERE ${due} <= (SELECT now FROM t) AND (r.lease_end IS NULL OR r.lease_end <= (SELECT now FROM t)) AND ${which(due)}${and}
    ORDER BY ${due} LIMIT $2 FOR UPDATE SKIP LOCKED),
  leased AS (
    UPDATE stayhook_records r
    SET lease = $1 || ':' || f.n, lease_end = t.now + $3, lease_duration = $3, due_at = t.now + $3
    FROM (SELECT *, row_number() OVER () AS n FROM free) f, t
    WHERE r.ref = f.ref AND r.ref = ANY (ARRAY(SELECT ref FROM free))
    RETURNING r.ref, r.lease, r.snapshot, r.sequence, r.ledger, f.due_at, f.lease_end AS lost_at)
  SELECT t.now, ${nextDue({ and, due })}, l.* FROM t LEFT JOIN leased l ON true`;

/**
 * Marks the first due event of each leased record. Runs after the statement that leased the records, because only a
 * younger snapshot shows what others have committed before the lease. Parameters: the records, their leases, the time,
 * the end of the leases, the worker.
 */
const take = (which: string) => `
  UPDATE stayhook_events e
  SET state = 'processing', attempts = e.attempts + 1, due_at = $4, claimed_at = $3, worker = $5, lease = f.lease
  FROM (
    SELECT g.lease, first.seq, first.due_at FROM unnest($1::text[], $2::text[]) AS g (ref, lease)
    JOIN stayhook_records r ON r.ref = g.ref AND r.lease = g.lease,
    LATERAL (
      SELECT o.seq, o.due_at FROM stayhook_events o WHERE o.ref = g.ref AND o.due_at <= $3::bigint AND ${which}
      ORDER BY o.due_at, o.seq LIMIT 1) AS first) AS f
  WHERE e.seq = f.seq AND e.due_at <= $3
  RETURNING e.id, e.ref, f.due_at, e.first_due_at, e.received_at, ${CONTENT}, e.attempts - 1 AS attempts, e.outages,
    e.first_outage_at, e.failures, e.refusals, e.replayed,
    e.history, e.lease`;

/** Parameters: the ids, the records, the leases, the lease's duration, the patience. Returns the leases that are held. */
const renew = `
  WITH ${clock("$5")},
  locked AS MATERIALIZED (
    -- The condition on the time is always true. It sets the timeout before the first lock.
    SELECT r.ref, r.lease, r.lease_end FROM stayhook_records r WHERE r.ref = ANY ($2::text[]) AND (SELECT now FROM t) > 0
    ORDER BY r.ref FOR UPDATE),
  given AS (
    SELECT g.* FROM unnest($1::bytea[], $2::text[], $3::text[]) AS g (id, ref, lease)
    JOIN locked l ON l.ref = g.ref AND l.lease = g.lease WHERE l.lease_end IS NOT NULL),
  renewed AS (
    UPDATE stayhook_events e SET due_at = t.now + $4 FROM given g, t
    WHERE e.id = g.id AND e.lease = g.lease RETURNING e.ref, e.lease, e.due_at)
  UPDATE stayhook_records r
  SET lease_end = e.due_at, lease_duration = $4, due_at = CASE WHEN r.due_at < r.lease_end THEN r.due_at ELSE e.due_at END
  FROM renewed e WHERE r.ref = e.ref
  RETURNING r.lease`;

/** The parts of \`settle\` that delay, remove and add other events. */
const FURTHER = {
  given: `
  more AS MATERIALIZED (
    SELECT m.*, ${NEW_SEQ} AS seq, t.now, ${dueAt("m")} AS due_at
    FROM t, ${rowsOf("$3", "$4", `${ADDITION}, replace text`, "m")}),`,
  changes: `
  delayed AS (
    UPDATE stayhook_events e SET due_at = h.now + h.delay FROM held h
    WHERE h.delay IS NOT NULL AND e.ref = h.ref AND e.due_at < h.now + h.delay AND ${stateOf("e")} IN ('pending', 'retrying')
      AND e.id <> h.id AND NOT EXISTS (SELECT FROM more m WHERE m.id = e.id)),
  removed AS (
    DELETE FROM stayhook_events e USING held h
    WHERE (h.timers OR h.remove IS NOT NULL) AND e.ref = h.ref AND (h.timers AND e.source = 'timer' OR e.id = ANY (h.remove))
      AND e.state <> 'processing' AND (e.state <> 'done' OR e.source = 'timer') RETURNING e.seq),
  added AS (
    ${INSERT_EVENTS}
    SELECT m.seq, m.id, m.ref, m.state, m.due_at, m.due_at, m.now, m.lease, ${ofContent((column) => `m.${column}`)}
    -- The count lets PostgreSQL delete the removed events first.
    FROM more m JOIN held h ON h.n = m.n WHERE (SELECT count(*) FROM removed) >= 0 ORDER BY m.id
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, due_at = excluded.due_at, first_due_at = excluded.first_due_at, received_at = excluded.received_at,
      ${ofContent((column) => `${column} = excluded.${column}`)}, attempts = 0, outages = 0, first_outage_at = NULL, failures = 0, refusals = 0,
      replayed = 0, reason = NULL, done_at = NULL,
      history = CASE WHEN excluded.source = 'timer' THEN NULL ELSE e.history END
    WHERE e.ref = excluded.ref AND e.state <> 'processing' AND EXISTS (
      SELECT FROM more m WHERE m.id = excluded.id AND (
        m.replace = 'moved' AND m.timestamp <> e.timestamp OR m.replace = 'ended' AND e.state IN ('done', 'parked')))
    RETURNING e.ref, e.due_at),
  due AS (${becomeDue(`
    SELECT ref, min(due_at) FROM added WHERE ref NOT IN (SELECT ref FROM held) GROUP BY ref ORDER BY ref`)}),`,
  due: `(SELECT min(a.due_at) FROM added a WHERE a.ref = h.ref),
        CASE WHEN h.delay IS NOT NULL THEN (
          SELECT min(CASE WHEN o.state = 'scheduled' THEN o.due_at ELSE greatest(o.due_at, h.now + h.delay) END)
          FROM stayhook_events o WHERE o.ref = h.ref AND o.due_at IS NOT NULL AND o.id <> h.id AND o.seq NOT IN (SELECT seq FROM removed))
        ELSE (${firstDue("h.ref", "AND o.id <> h.id AND o.seq NOT IN (SELECT seq FROM removed)")}) END`,
};

/**
 * Ends attempts. Returns a row for each attempt whose lease was held: its `n`, and whether its record is due again. The
 * planning of `further` takes a third of the time of the whole statement, so most groups do without. Parameters: the
 * settlements and their number, with `further` also the additions and their number, the patience.
 */
const settle = (further?: typeof FURTHER) => `
  WITH ${clock(further ? "$5" : "$3")},
  given AS MATERIALIZED (
    SELECT g.*, t.now, ${dueAt("g")} AS due_at FROM t, ${rowsOf("$1", "$2", SETTLEMENT, "g")}),${further?.given ?? ""}
  locked AS MATERIALIZED (
    SELECT r.ref, r.lease, r.lease_end, r.due_at, r.snapshot IS NOT NULL AS known, r.ledger IS NOT NULL AS ledgered
    FROM stayhook_records r
    WHERE r.ref = ANY (ARRAY(SELECT ref FROM given ${further ? "UNION SELECT ref FROM more" : ""})) ORDER BY r.ref FOR UPDATE),
  held AS (
    UPDATE stayhook_events e
    SET state = h.state, due_at = h.due_at, attempts = h.attempts, outages = h.outages, first_outage_at = h.first_outage_at,
      failures = h.failures, refusals = h.refusals, replayed = h.replayed, type = coalesce(h.type, e.type), reason = h.reason, history = h.history,
      done_at = CASE WHEN h.due_in IS NULL THEN h.now END,
      received_at = CASE WHEN h.source IS NULL THEN e.received_at ELSE h.now END,
      first_due_at = CASE WHEN h.source IS NULL THEN e.first_due_at ELSE coalesce(h.due_at, e.first_due_at) END,
      ${ofContent(newContent)}
    FROM (
      SELECT g.*, l.known, l.ledgered, CASE WHEN l.due_at < l.lease_end THEN l.due_at END AS meanwhile
      FROM given g JOIN locked l ON l.ref = g.ref AND l.lease = g.lease WHERE l.lease_end IS NOT NULL) h
    WHERE e.id = h.id AND e.lease = h.lease
    RETURNING h.*),${further?.changes ?? ""}
  -- The snapshot of this statement may be older than the lock. So \`meanwhile\` shows what was added during the lease.
  next AS MATERIALIZED (
    SELECT h.n, h.ref, h.now, h.snapshot, h.changed, h.ledger,
      h.snapshot IS NULL AND NOT h.known AND CASE WHEN h.ledger IS NULL THEN NOT h.ledgered ELSE h.ledger = '' END AS bare,
      least(h.due_at, h.meanwhile, ${further?.due ?? `(${firstDue("h.ref", "AND o.id <> h.id")})`}) AS due_at
    FROM held h),
  kept AS (
    UPDATE stayhook_records r
    SET lease_end = NULL, due_at = CASE WHEN n.due_at IS NOT NULL THEN greatest(n.due_at, n.now) END,
      ledger = CASE WHEN n.ledger IS NULL THEN r.ledger ELSE nullif(n.ledger, '') END,
      snapshot = coalesce(n.snapshot, r.snapshot), seen_at = CASE WHEN n.snapshot IS NULL THEN r.seen_at ELSE n.now END,
      sequence = r.sequence + CASE WHEN n.snapshot IS NOT NULL AND (n.changed OR r.snapshot IS NULL) THEN 1 ELSE 0 END
    FROM next n WHERE r.ref = n.ref AND NOT (n.bare AND n.due_at IS NULL)),
  gone AS (DELETE FROM stayhook_records r USING next n WHERE r.ref = n.ref AND n.bare AND n.due_at IS NULL)
  SELECT n, due_at IS NOT NULL AS more FROM next`;

/**
 * Makes a proxy send a query to the primary: pgpool-II sends others to a standby, which may be behind. No statement of the
 * store waits for this lock but a `DELETE`.
 */
const FROM_PRIMARY = "FOR KEY SHARE";

/** The lease of a claim: `held`, or `settled` if it ended the attempt. No row if the lease was lost. */
const stateOfLease = `
  SELECT CASE WHEN e.state = 'processing' THEN 'held' ELSE 'settled' END AS lease
  FROM stayhook_events e WHERE e.id = $1 AND e.lease = $2 ${FROM_PRIMARY}`;

/** The records that {@link lease} takes: those that are due since a time, or the record of an event. */
const WHICH = {
  lease: (due: string) => `${due} >= $4`,
  leaseOf: () =>
    "r.ref = (SELECT ref FROM stayhook_events o WHERE o.id = $4 AND o.due_at <= (SELECT now FROM t))",
};

const statements = {
  add,
  lease: lease(WHICH.lease),
  leaseOf: lease(WHICH.leaseOf),
  take: take("true"),
  takeOne: take("o.id = $6"),
  renew,
  settle: settle(),
  settleFurther: settle(FURTHER),
  stateOfLease,
  lock: "SELECT FROM stayhook_records WHERE ref = ANY ($1::text[]) ORDER BY ref FOR UPDATE",
  postpone: `
    WITH t AS MATERIALIZED (SELECT ${NOW} AS now)
    UPDATE stayhook_records r SET due_at = t.now + $2::bigint FROM t
    WHERE r.ref = ANY ($1::text[]) AND r.due_at <= t.now AND (r.lease_end IS NULL OR r.lease_end <= t.now)`,
  known: `SELECT id, ref, lease FROM stayhook_events WHERE id = ANY ($1::bytea[]) ${FROM_PRIMARY}`,
  lost: `
    SELECT seq, claimed_at, due_at, worker, history FROM stayhook_events e
    WHERE ref = ANY ($1::text[]) AND due_at IS NOT NULL AND ${stateOf("e")} = 'processing'`,
  expire: `
    UPDATE stayhook_events e SET state = 'retrying', lease = NULL, history = g.history
    FROM unnest($1::bigint[], $2::text[]) AS g (seq, history) WHERE e.seq = g.seq AND ${stateOf("e")} = 'processing'`,
  /** Ends leases of records that have no due event. The due time of such a record was too early. */
  unlease: `
    WITH locked AS MATERIALIZED (
      SELECT r.ref FROM stayhook_records r WHERE r.ref = ANY ($1::text[]) ORDER BY r.ref FOR UPDATE)
    UPDATE stayhook_records r
    SET lease_end = NULL, due_at = least((${firstDue("r.ref")}), CASE WHEN r.due_at < r.lease_end THEN r.due_at END)
    FROM locked l WHERE r.ref = l.ref AND r.lease = ANY ($2::text[]) AND r.lease_end IS NOT NULL`,
  drop: `
    DELETE FROM stayhook_records
    WHERE ref = ANY ($1::text[]) AND due_at IS NULL AND lease_end IS NULL AND snapshot IS NULL AND ledger IS NULL`,
  lastReceived: `
    SELECT max(received_at) AS at FROM (
      SELECT received_at FROM stayhook_events WHERE source = 'webhook' ORDER BY seq DESC LIMIT 1000) AS newest`,
} as const;

/** The statements of the hot path, for the tables of a schema. */
export type HotStatements = Readonly<Record<keyof typeof statements, Statement>>;

export function hotStatements(schema: string): HotStatements {
  const qualified = inSchema(schema);
  const entries = Object.entries(statements).map(([name, sql]) => [name, new Statement(qualified(sql))]);
  return Object.fromEntries(entries) as HotStatements;
}

/** Returns the statement that leases only the records that a condition lets pass. Its parameters begin with `$5`. */
export function restrictedLease(
  schema: string,
  name: keyof typeof WHICH,
  { and, due }: Condition,
): Statement {
  return new Statement(inSchema(schema)(lease(WHICH[name], { and: prepared(postgresDialect, and, 4), due })));
}
