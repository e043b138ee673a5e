import type { EventState } from "../event-store.ts";
import { epoch } from "./functions.ts";
import { literal, quote } from "./tables.ts";

/** Of what is done, so many are counted; beyond, PostgreSQL's own estimate has to do. */
const COUNTED = 100_000;

/** How long the server waits for the COMMIT once a record's row is locked, ms: who is frozen there holds up the others. */
const COMMIT_WITHIN = 2000;

/** What is called with how many parameters, and what it gives. */
const CALLS = {
  add: ["answer, made_due::text", "add_events", 8],
  claim: ["*", "claim_events", 4],
  renew: ["place, locked::text", "renew_leases", 5],
  settle: ["settled::text, made_due::text", "settle_event", 11],
  replay: ["replayed::text, made_due::text", "replay_event", 1],
  replayParked: ["found::text, replayed::text, last_seq, made_due::text", "replay_parked", 4],
  prune: ["gone::text", "prune_events", 4],
  pruneRecords: ["gone::text", "prune_records", 2],
  settleAtLast: [
    `settled::text, made_due::text, set_config('idle_in_transaction_session_timeout', '${COMMIT_WITHIN}', true)`,
    "settle_event",
    11,
  ],
} as const;

/** Each statement by what it does. Every column is text. */
export function statements(schema: string) {
  const s = quote(schema);
  const calls = Object.entries(CALLS).map(([name, [columns, called, count]]) => {
    const parameters = Array.from({ length: count }, (_, index) => `$${index + 1}`).join(", ");
    return [name, `SELECT ${columns} FROM ${s}.${called}(${parameters})`];
  });
  const event = `
    SELECT e.id, e.record, e.source, e.topic, e."timestamp", e.notification, e.state, e.attempts::text, e.type, e.last_error,
      e.reason, ${epoch("e.received_at")} AS received_at, ${epoch("e.ended_at")} AS ended_at,
      ${epoch("CASE WHEN e.state = 'processing' THEN e.ready_at WHEN e.ready_at IS NOT NULL THEN greatest(e.ready_at, r.wait_until) END")} AS due_at
    FROM ${s}.events e LEFT JOIN ${s}.records r ON r.record = e.record`;
  const record = `
    SELECT record, status, sequence::text, ${epoch("seen_at")} AS seen_at FROM ${s}.records WHERE status IS NOT NULL`;
  const oldest = (state: EventState, more = "") =>
    `(SELECT received_at FROM ${s}.events WHERE state = '${state}' AND state <> 'done'${more} ORDER BY -seq DESC LIMIT 1)`;
  return {
    ...(Object.fromEntries(calls) as Record<keyof typeof CALLS, string>),
    stateOfLease: `
      SELECT CASE WHEN r.lease::text = $2 AND r.lease_seq = e.seq THEN 'held' WHEN e.settled_by::text = $2 THEN 'settled' ELSE 'lost' END AS lease
      FROM ${s}.events e LEFT JOIN ${s}.records r ON r.record = e.record WHERE e.id = $1`,
    get: `${event} WHERE e.id = $1`,
    list(state: EventState | undefined) {
      const before = `CASE WHEN $1::text IS NULL THEN 9223372036854775807 ELSE (SELECT seq FROM ${s}.events WHERE id = $1) END`;
      if (state === undefined || state === "done") {
        const which = state === undefined ? "" : "AND e.state = 'done'";
        return `${event} WHERE e.seq < ${before} ${which} ORDER BY e.seq DESC LIMIT $2`;
      }
      return `${event} WHERE e.state = ${literal(state)} AND e.state <> 'done' AND -e.seq > -(${before}) ORDER BY -e.seq LIMIT $2`;
    },
    counts: `
      SELECT state, count(*)::text AS events FROM ${s}.events WHERE state <> 'done' GROUP BY state
      UNION ALL
      SELECT 'done', CASE WHEN counted > ${COUNTED} THEN greatest(counted, (
        SELECT reltuples::bigint FROM pg_catalog.pg_class WHERE oid = to_regclass(${literal(`${s}.events_done`)})
      )) ELSE counted END::text
      FROM (SELECT count(*) AS counted FROM (SELECT FROM ${s}.events WHERE state = 'done' LIMIT ${COUNTED + 1}) AS few) AS done`,
    nextDue: `
      SELECT (extract(epoch FROM least(
        (SELECT pending_at FROM ${s}.records WHERE pending_at IS NOT NULL ORDER BY pending_at LIMIT 1),
        (SELECT retry_at FROM ${s}.records WHERE retry_at IS NOT NULL ORDER BY retry_at LIMIT 1)
      ) - clock_timestamp()) * 1000)::text AS wait`,
    oldestWaiting: `
      SELECT floor(extract(epoch FROM clock_timestamp() - least(
        ${oldest("pending")}, ${oldest("retrying")}, ${oldest("processing", " AND ready_at <= clock_timestamp()")}
      )) * 1000)::text AS age`,
    statusOf: `${record} AND record = $1`,
    statusesAfter: `${record} AND record > $1 ORDER BY record LIMIT $2`,
  };
}

export type Statements = ReturnType<typeof statements>;
