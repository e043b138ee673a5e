import type { ClientBase } from "pg";
import { type AddAnswer, HISTORY_LENGTH } from "../base-store.ts";
import type { EventState } from "../event-states.ts";
import type {
  AttemptEntry,
  ClaimedEvent,
  EventFilter,
  NewEvent,
  Outcome,
  RecordSnapshot,
  Snapshot,
  StoredEvent,
} from "../event-store.ts";

/**
 * The key in `meta` for the newest deleted webhook event. {@link toText} makes all other keys, and never this key.
 */
export const NEWEST_RECEIVED = "\\newestReceived";

/** The maximum number of done events that `counts()` counts. If there are more, it returns PostgreSQL's estimate. */
const COUNTED = 100_000;

/**
 * How long the server waits for COMMIT after it has locked a record, ms. The server then ends the transaction, so a
 * frozen client process cannot keep the lock.
 */
const COMMIT_WITHIN = 2000;

/** For each call: the columns of the result, the SQL function, and the number of its parameters. */
const CALLS = {
  add: ["answers, made_due::text", "add_events", 10],
  claim: ["*", "claim_events", 7],
  renew: ["place, locked::text", "renew_leases", 5],
  settle: ["settled::text, made_due::text", "settle_events", 13],
  settleAtLast: [
    `settled::text, made_due::text, set_config('idle_in_transaction_session_timeout', '${COMMIT_WITHIN}', true)`,
    "settle_events",
    13,
  ],
  giveBack: ["token", "give_back", 1],
  change: ["changed::text, resume::text, made_due::text", "change_events", 12],
  nextDue: ["wait::text", "next_due", 1],
  erase: ["gone::text", "erase_record", 1],
  learn: ["learned::text", "learn_snapshot", 2],
  setMeta: ["done::text", "set_meta", 3],
  prune: ["gone::text", "prune_events", 4],
  pruneRecords: ["gone::text", "prune_records", 2],
} as const;

/** Returns all SQL statements by name. Every column of a result is text. */
export function statements(schema: string) {
  const s = quote(schema);
  const calls = Object.entries(CALLS).map(([name, [columns, called, count]]) => {
    const parameters = Array.from({ length: count }, (_, index) => `$${index + 1}`).join(", ");
    return [name, `SELECT ${columns} FROM ${s}.${called}(${parameters})`];
  });
  const columns = `e.id, e.record, e.source, e.topic, e."timestamp", e.notification, e.traceparent, e.state, e.attempts::text, e.type,
      e.reason, '[' || array_to_string(e.history, ',') || ']' AS history,
      ${epoch("e.received_at")} AS received_at, ${epoch("e.ended_at")} AS ended_at,
      ${epoch("CASE WHEN e.state = 'processing' THEN e.ready_at WHEN e.lane IS NOT NULL THEN greatest(e.due_at, r.wait_until) END")} AS due_at`;
  const record = `LEFT JOIN LATERAL (SELECT rec.wait_until ${newest(schema, "e.record", "")}) r ON e.lane IS NOT NULL`;
  const snapshot = `
    SELECT record, snapshot, sequence::text, ${epoch("seen_at")} AS seen_at FROM ${s}.records WHERE snapshot IS NOT NULL`;
  const oldest = (state: EventState, more = "") =>
    `(SELECT seq, received_at FROM ${s}.events WHERE state = '${state}' AND state <> 'done'${more} ORDER BY -seq DESC LIMIT 1)`;
  return {
    ...(Object.fromEntries(calls) as Record<keyof typeof CALLS, string>),
    stateOfLease: `
      SELECT CASE WHEN r.lease = $2 AND r.lease_seq = e.seq THEN 'held' WHEN e.settled_by = $2 THEN 'settled' ELSE 'lost' END AS lease
      FROM ${s}.events e LEFT JOIN LATERAL (SELECT rec.lease, rec.lease_seq ${newest(schema, "e.record", "")}) r ON true WHERE e.id = $1`,
    get: `SELECT ${columns} FROM ${s}.events e ${record} WHERE e.id = $1`,
    list: `
      SELECT f.resume::text, ${columns} FROM ${s}.scan_events($1, $2, $3, $4, $5, $6, $7, $8, NULL, $9, $10) f
      LEFT JOIN LATERAL unnest(f.matches) u (seq) ON true LEFT JOIN ${s}.events e ON e.seq = u.seq ${record}
      ORDER BY e.seq DESC`,
    arrivalOf: `SELECT seq::text FROM ${s}.events WHERE id = $1`,
    counts: `
      SELECT state, count(*)::text AS events FROM ${s}.events WHERE state <> 'done' GROUP BY state
      UNION ALL
      SELECT 'done', CASE WHEN counted > ${COUNTED} THEN greatest(counted, (
        SELECT reltuples::bigint FROM pg_catalog.pg_class WHERE oid = to_regclass(${literal(`${s}.events_done`)})
      )) ELSE counted END::text
      FROM (SELECT count(*) AS counted FROM (SELECT FROM ${s}.events WHERE state = 'done' LIMIT ${COUNTED + 1}) AS few) AS done`,
    oldestWaiting: `
      SELECT floor(extract(epoch FROM clock_timestamp() - received_at) * 1000)::text AS age FROM (
        ${oldest("pending", " AND (lane = 0 OR ready_at <= clock_timestamp() OR due_from > clock_timestamp())")}
        UNION ALL ${oldest("retrying")} UNION ALL ${oldest("processing", " AND ready_at <= clock_timestamp()")}
      ) AS waiting ORDER BY seq LIMIT 1`,
    newestReceived: `
      SELECT ${epoch("received_at")} AS at FROM (
        (SELECT seq, received_at FROM ${s}.events WHERE source = 'webhook' ORDER BY seq DESC LIMIT 1)
        UNION ALL SELECT value::bigint, set_at FROM ${s}.meta WHERE key = $1
      ) AS newest ORDER BY seq DESC LIMIT 1`,
    recordOf: `${snapshot} AND record = $1 ORDER BY version DESC LIMIT 1`,
    records: `${snapshot} AND record > $1 ORDER BY record LIMIT $2`,
    getMeta: `
      SELECT value, greatest(0, floor(extract(epoch FROM clock_timestamp() - set_at) * 1000))::text AS age FROM ${s}.meta WHERE key = $1`,
  };
}

export type Statements = ReturnType<typeof statements>;

/**
 * Matches NUL and lone surrogates, which PostgreSQL cannot store. Also matches a leading backslash, because an
 * escaped text begins with one.
 */
const ESCAPED = /^\\|\0|\p{Cs}/u;
const LONE = "\\event ";

/** Escapes a text that {@link ESCAPED} matches. */
export function toText(text: string): string {
  return ESCAPED.test(text) ? `\\${JSON.stringify(text)}` : text;
}

export function fromText(text: string): string {
  return text.startsWith("\\") ? (JSON.parse(text.slice(1)) as string) : text;
}

export function optional(text: string | null | undefined): string | null {
  return text === null || text === undefined ? null : toText(text);
}

/**
 * Returns the key of an event's record. An event without a `ref` has a key of its own, which begins with `LONE`.
 * {@link toText} never returns a text that begins with `LONE`.
 */
export function toRecord({ ref, eventId }: Pick<NewEvent, "ref" | "eventId">): string {
  return ref === null ? `${LONE}${toText(eventId)}` : toText(ref);
}

/** Returns JSON with sorted fields, so that equal snapshots have equal texts. JSON escapes NUL and lone surrogates. */
export function toSnapshotText({ status, fields }: Snapshot): string {
  const sorted = Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify({ status, fields: Object.fromEntries(sorted) });
}

export function toClaim(row: Row): ClaimedEvent {
  return {
    ...toNewEvent(row),
    receivedAt: Number(row.received_at),
    claimedAt: Number(row.claimed_at),
    attempts: Number(row.attempts),
    outages: Number(row.outages),
    outageFor: Number(row.outage_for),
    replayed: row.replayed === "true",
    previous: typeof row.snapshot === "string" ? (JSON.parse(row.snapshot) as Snapshot) : undefined,
    sequence: Number(row.sequence),
    lease: row.lease as string,
  };
}

type EntryJson = Omit<AttemptEntry, "at"> & { readonly at: number };

export function toStoredEvent(row: Row): StoredEvent {
  const state = row.state as EventState;
  const history = (JSON.parse(row.history as string) as EntryJson[]).map(
    ({ at, duration, outcome, ...rest }): AttemptEntry => ({ at: new Date(at), duration, outcome, ...rest }),
  );
  return {
    ...toNewEvent(row),
    state,
    attempts: Number(row.attempts),
    receivedAt: new Date(Number(row.received_at)),
    dueAt: toDate(row.due_at),
    doneAt: state === "done" ? toDate(row.ended_at) : null,
    type: maybe(row.type),
    lastError: history.at(-1)?.error ?? null,
    reason: (row.reason ?? null) as StoredEvent["reason"],
    history,
  };
}

export function toRecordSnapshot(row: Row): RecordSnapshot {
  return {
    ref: fromText(row.record as string),
    snapshot: JSON.parse(row.snapshot as string) as Snapshot,
    sequence: Number(row.sequence),
    seenAt: new Date(Number(row.seen_at)),
  };
}

export function toDate(time: string | null | undefined): Date | null {
  return time === null || time === undefined ? null : new Date(Number(time));
}

function toNewEvent(row: Row): NewEvent & { readonly traceparent: string | null } {
  const record = row.record as string;
  return {
    eventId: fromText(row.id as string),
    ref: record.startsWith(LONE) ? null : fromText(record),
    source: row.source as NewEvent["source"],
    topic: maybe(row.topic),
    timestamp: fromText(row.timestamp as string),
    notification: maybe(row.notification),
    traceparent: maybe(row.traceparent),
  };
}

function maybe(text: string | null | undefined): string | null {
  return text === null || text === undefined ? null : fromText(text);
}

/** A row of a result. All columns are text, because a user's pool may parse other types differently. */
export type Row = Readonly<Record<string, string | null>>;

/** One item of a batched statement: an event to add, or an event to settle. */
export interface Part {
  /** The record whose row the part locks. */
  readonly record: string;
  /** The approximate length of the part's texts, in characters. */
  readonly length: number;
}

export interface Addition extends Part {
  readonly event: NewEvent;
  /** The wait until the event is due, ms. */
  readonly dueIn: number | undefined;
}

/** Copies the event, because the caller may change it before the statement is sent. */
export function toAddition(event: NewEvent, dueIn: number | undefined): Addition {
  return { event: { ...event }, dueIn, record: toRecord(event), length: event.notification?.length ?? 0 };
}

/** The parameters of `add_events`. */
export function addValues(additions: readonly Addition[], patience: string, notify: boolean): unknown[] {
  const events = additions.map(({ event }) => event);
  const columns = [
    events.map(({ eventId }) => toText(eventId)),
    additions.map(({ record }) => record),
    events.map(({ source }) => (source === "webhook" ? null : source)),
    events.map(({ topic }) => optional(topic)),
    events.map(({ timestamp }) => toText(timestamp)),
    events.map(({ notification }) => optional(notification)),
    events.map(({ traceparent }) => optional(traceparent)),
    additions.map(({ dueIn }) => dueIn ?? null),
  ];
  return [...columns.map(orNull), patience, notify];
}

/** Returns one NULL for a column that has only NULLs, because a list of NULLs costs more than one NULL. */
function orNull(column: readonly unknown[]): readonly unknown[] | null {
  return column.some((value) => value !== null) ? column : null;
}

/** Reads the answers of `add_events`, which returns NULL if all events are new. */
export function toAnswers(rows: readonly Row[], count: number): AddAnswer[] {
  return (rows[0]?.answers?.split(",") as AddAnswer[] | undefined) ?? Array<AddAnswer>(count).fill("added");
}

export function filterValues(filter: EventFilter): unknown[] {
  const { eventId, ref, state, type, reason, source, receivedAfter, receivedBefore } = filter;
  const texts = [
    optional(eventId),
    optional(ref),
    state ?? null,
    optional(type),
    reason ?? null,
    source ?? null,
  ];
  return [...texts, receivedAfter?.getTime() ?? null, receivedBefore?.getTime() ?? null];
}

/** An event to settle. `values` are the parameters of `settle_events`, in their order. */
export interface Ending extends Part {
  readonly values: readonly unknown[];
}

/** @param unsure - `true` if an earlier call of `settle` got no answer and may have ended the event */
export function toEnding(claim: ClaimedEvent, outcome: Outcome<ClientBase>, unsure: boolean): Ending {
  const { type, reason, entry, in: wait, counted, record } = { ...NOTHING, ...outcome };
  const kept = claim.ref === null ? undefined : record;
  const snapshot = kept ? toSnapshotText(kept.snapshot) : null;
  const text = entry && JSON.stringify({ ...entry, outcome: outcome.state });
  const key = toRecord(claim);
  const values = [
    ...[toText(claim.eventId), key, claim.lease, outcome.state, optional(type)],
    ...[snapshot, kept?.changed || null],
    ...[wait, counted, outcome.state === "done" ? null : (reason ?? null), text ?? null, unsure || null],
  ];
  return { values, record: key, length: (text?.length ?? 0) + (snapshot?.length ?? 0) };
}

/** Returns the parameters of `settle_events`: one list per item of `values`, and the lock timeout. */
export function settleValues(endings: readonly Ending[], patience: string): unknown[] {
  const columns = endings[0]!.values.map((_, column) => orNull(endings.map(({ values }) => values[column])));
  return [...columns, patience];
}

/** Defaults of the fields that an outcome may leave out. */
const NOTHING: {
  readonly type?: string | undefined;
  readonly reason?: string | undefined;
  readonly entry?: Extract<Outcome, { readonly entry: unknown }>["entry"] | undefined;
  readonly record?: Extract<Outcome, { readonly state: "done" }>["record"];
  readonly in: number;
  readonly counted: boolean;
} = { in: 0, counted: true };

/** Returns a name as a quoted SQL identifier. */
export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/**
 * Settings of each function. PostgreSQL may keep a plan that it made while the tables were empty. So the settings
 * force PostgreSQL to use the index that fits the ORDER BY. A statement waits 5 s at most for a lock.
 *
 * Two expressions in the statements prevent other slow plans. `lane + 0` in a condition prevents the use of a partial
 * index. `= ANY (ARRAY[…])` in a join prevents a read of the whole index.
 */
const SETTINGS = `
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan SET lock_timeout = '5s'`;

/** @param settings - `false` if only other functions call this function. The settings of the callers then apply */
export function definer(schema: string) {
  return (signature: string, returns: string, body: string, settings = true): string => `
CREATE FUNCTION ${quote(schema)}.${signature} RETURNS ${returns} LANGUAGE plpgsql${settings ? SETTINGS : ""} AS $stayhook$
#variable_conflict use_column
${body.trim()}
$stayhook$;
`;
}

/** Returns SQL that converts a time to epoch ms, as text. A user's pool may parse other types differently. */
export function epoch(time: string): string {
  return `floor(extract(epoch FROM ${time}) * 1000)::bigint::text`;
}

/** Returns the FROM clause that selects the current row of a record. Locks the row, unless `lock` is empty. */
export function newest(schema: string, record: string, lock = "FOR UPDATE"): string {
  return `FROM ${quote(schema)}.records rec WHERE rec.record = ${record} ORDER BY rec.version DESC LIMIT 1 ${lock}`;
}

/** Returns the condition that joins `records`, with the alias `a`, to a list of records and versions. */
export function joined(a: string, list: string): string {
  return `${a}.record = ANY (ARRAY[${list}.record]) AND ${a}.version = ${list}.version`;
}

/** SQL fragments for an UPDATE. The row of `records` has the alias `r`. */
export function parts(schema: string) {
  const s = quote(schema);
  return {
    version: `version = nextval('${s}.record_version')`,
    /** Sets `retry_at` and `retry_seq` to the event in lane 1 that became due first. */
    retries: (only = "true") => `(retry_at, retry_seq) = (
      SELECT h.ready_at, h.seq FROM ${s}.events h WHERE h.record = r.record AND h.lane = 1 AND ${only}
      ORDER BY h.ready_at, h.seq LIMIT 1)`,
    /** If `pending_seq` equals `gone`, sets `pending_seq` to the next event in lane 0. */
    pending: (
      gone: string,
    ) => `pending_seq = CASE WHEN r.pending_seq IS DISTINCT FROM ${gone} THEN r.pending_seq ELSE (
      SELECT h.seq FROM ${s}.events h WHERE h.record = r.record AND h.seq > ${gone} AND h.lane + 0 = 0 ORDER BY h.seq LIMIT 1) END`,
    history: (entry: string) =>
      `(history || ${entry})[greatest(1, cardinality(history) + 2 - ${HISTORY_LENGTH}):]`,
  };
}

/** The maximum length of a name, in bytes. PostgreSQL cuts longer names. */
export const NAME_BYTES = 63;

/** Returns the NOTIFY channel of a schema, cut to `NAME_BYTES`. NOTIFY rejects longer names, and LISTEN cuts them. */
export function channelOf(schema: string): string {
  let name = `stayhook ${schema}`;
  while (Buffer.byteLength(name) > NAME_BYTES) name = [...name].slice(0, -1).join("");
  return name;
}
