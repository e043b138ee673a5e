import type { EventState } from "../event-states.ts";
import { epoch, literal, newest, quote } from "./sql.ts";

/** How many done events are counted. Above this number, `counts()` gives PostgreSQL's estimate. */
const COUNTED = 100_000;

/** How long the server waits for the COMMIT once a record's row is locked, ms. A frozen process must not hold up the others. */
const COMMIT_WITHIN = 2000;

/** Columns, function and number of parameters of each call. */
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
  change: ["changed::text, resume::text, made_due::text", "change_events", 11],
  nextDue: ["wait::text", "next_due", 1],
  erase: ["gone::text", "erase_record", 1],
  learn: ["learned::text", "learn_snapshot", 2],
  setMeta: ["done::text", "set_meta", 3],
  prune: ["gone::text", "prune_events", 4],
  pruneRecords: ["gone::text", "prune_records", 2],
} as const;

/** All statements by name. Every column is text. */
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
    `(SELECT received_at FROM ${s}.events WHERE state = '${state}' AND state <> 'done'${more} ORDER BY -seq DESC LIMIT 1)`;
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
      SELECT floor(extract(epoch FROM clock_timestamp() - least(
        ${oldest("pending", " AND (lane = 0 OR ready_at <= clock_timestamp() OR due_from > clock_timestamp())")},
        ${oldest("retrying")}, ${oldest("processing", " AND ready_at <= clock_timestamp()")}
      )) * 1000)::text AS age`,
    newestReceived: `
      SELECT ${epoch(`greatest(
        (SELECT received_at FROM ${s}.events WHERE source = 'webhook' ORDER BY seq DESC LIMIT 1),
        (SELECT set_at FROM ${s}.meta WHERE key = $1))`)} AS at`,
    recordOf: `${snapshot} AND record = $1 ORDER BY version DESC LIMIT 1`,
    records: `${snapshot} AND record > $1 ORDER BY record LIMIT $2`,
    getMeta: `
      SELECT value, greatest(0, floor(extract(epoch FROM clock_timestamp() - set_at) * 1000))::text AS age FROM ${s}.meta WHERE key = $1`,
  };
}

export type Statements = ReturnType<typeof statements>;
