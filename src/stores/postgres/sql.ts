import { HISTORY_LENGTH } from "../base-store.ts";

/** A name as SQL takes it. */
export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/**
 * Settings of each function. PostgreSQL may keep a plan that it made when the tables were empty, so the settings force the
 * index that has the order. For the same reason, `lane + 0` hides partial indexes from conditions with an id or a `seq`:
 * these indexes were small when the plan was made. A join compares with `= ANY (ARRAY[…])`, which can look up each row in
 * the index, but cannot read the whole index. A statement waits 5 s at most for a lock.
 */
const SETTINGS = `
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan SET lock_timeout = '5s'`;

/** @param settings - `false` for a function that only functions call, which then have made the settings */
export function definer(schema: string) {
  return (signature: string, returns: string, body: string, settings = true): string => `
CREATE FUNCTION ${quote(schema)}.${signature} RETURNS ${returns} LANGUAGE plpgsql${settings ? SETTINGS : ""} AS $stayhook$
#variable_conflict use_column
${body.trim()}
$stayhook$;
`;
}

/** Epoch ms as text: a pool may read numbers and times in its own way. */
export function epoch(time: string): string {
  return `floor(extract(epoch FROM ${time}) * 1000)::bigint::text`;
}

/** The current row of a record, locked. */
export function newest(schema: string, record: string, lock = "FOR UPDATE"): string {
  return `FROM ${quote(schema)}.records rec WHERE rec.record = ${record} ORDER BY rec.version DESC LIMIT 1 ${lock}`;
}

/** Joins the row `a` of `records` with a list that has its record and version. */
export function joined(a: string, list: string): string {
  return `${a}.record = ANY (ARRAY[${list}.record]) AND ${a}.version = ${list}.version`;
}

/** SQL for parts of an UPDATE of the `records` row `r`. */
export function parts(schema: string) {
  const s = quote(schema);
  return {
    version: `version = nextval('${s}.record_version')`,
    /** The head of lane 1 anew. */
    retries: (only = "true") => `(retry_at, retry_seq) = (
      SELECT h.ready_at, h.seq FROM ${s}.events h WHERE h.record = r.record AND h.lane = 1 AND ${only}
      ORDER BY h.ready_at, h.seq LIMIT 1)`,
    /** The head of lane 0 after its event \`gone\` has left the lane: no event of the lane is older. */
    pending: (
      gone: string,
    ) => `pending_seq = CASE WHEN r.pending_seq IS DISTINCT FROM ${gone} THEN r.pending_seq ELSE (
      SELECT h.seq FROM ${s}.events h WHERE h.record = r.record AND h.seq > ${gone} AND h.lane + 0 = 0 ORDER BY h.seq LIMIT 1) END`,
    history: (entry: string) =>
      `(history || ${entry})[greatest(1, cardinality(history) + 2 - ${HISTORY_LENGTH}):]`,
  };
}
