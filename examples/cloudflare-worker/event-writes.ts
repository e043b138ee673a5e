// What changes the tables. Each function that is exported runs in one transaction.
import type { ClaimedEvent, EventStore, NewEvent, Outcome } from "stayhook";
import { type EventRow, type RecordRow, type Sql, toNewEvent } from "./event-tables.ts";

type Options<Method extends "claim" | "list" | "prune" | "pruneRecords" | "replayParked"> = NonNullable<
  Parameters<EventStore[Method]>[0]
>;

/** Whatever changes an event, its lease or its wait calls this: the record's times anew. */
function refresh(sql: Sql, record: string): void {
  sql`
    UPDATE records SET
      pending_at = (
        SELECT max(min(ready_at), lease_end, wait_end) FROM events
        WHERE events.record = records.record AND state = 'pending'),
      retry_at = (
        SELECT max(min(ready_at), lease_end, wait_end) FROM events
        WHERE events.record = records.record AND state IN ('retrying', 'processing'))
    WHERE record = ${record}`;
  sql`
    DELETE FROM records
    WHERE record = ${record} AND pending_at IS NULL AND retry_at IS NULL AND status IS NULL`;
}

export function add(sql: Sql, event: NewEvent): "added" | "duplicate" | "conflict" {
  const { eventId, ref, source, topic, timestamp, notification } = event;
  // An event without a ref has a record of its own.
  const record = ref ?? `event:${eventId}`;
  const now = Date.now();
  const added = sql`
    INSERT INTO events (id, record, ref, source, topic, timestamp, notification, state, ready_at, received_at)
    VALUES (${eventId}, ${record}, ${ref}, ${source}, ${topic}, ${timestamp}, ${notification},
      'pending', ${now}, ${now})
    ON CONFLICT (id) DO NOTHING RETURNING seq`;
  if (added.length === 0) {
    const [known] = sql<EventRow>`SELECT ref FROM events WHERE id = ${eventId}`;
    return known?.ref === ref ? "duplicate" : "conflict";
  }
  endWait(sql, record);
  return "added";
}

function endWait(sql: Sql, record: string): void {
  sql`INSERT INTO records (record) VALUES (${record}) ON CONFLICT DO UPDATE SET wait_end = 0`;
  refresh(sql, record);
}

export function claim(sql: Sql, options: Options<"claim">): ClaimedEvent[] {
  const { limit, leaseDuration, eventId, retriesFirst = false } = options;
  const now = Date.now();
  const next = () => {
    if (eventId !== undefined) return readyById(sql, eventId, now);
    if (retriesFirst) return firstRetry(sql, now) ?? firstPending(sql, now);
    return firstPending(sql, now) ?? firstRetry(sql, now);
  };
  const claims: ClaimedEvent[] = [];
  while (claims.length < limit) {
    const event = next();
    if (event === undefined) break;
    claims.push(lease(sql, event, now, leaseDuration));
  }
  return claims;
}

function firstPending(sql: Sql, now: number): EventRow | undefined {
  return sql<EventRow>`
    SELECT * FROM events WHERE state = 'pending' AND record = (
      SELECT record FROM records WHERE pending_at <= ${now} ORDER BY pending_at LIMIT 1)
    ORDER BY ready_at, seq LIMIT 1`[0];
}

function firstRetry(sql: Sql, now: number): EventRow | undefined {
  return sql<EventRow>`
    SELECT * FROM events WHERE state IN ('retrying', 'processing') AND record = (
      SELECT record FROM records WHERE retry_at <= ${now} ORDER BY retry_at LIMIT 1)
    ORDER BY ready_at, seq LIMIT 1`[0];
}

function readyById(sql: Sql, eventId: string, now: number): EventRow | undefined {
  return sql<EventRow>`
    SELECT events.* FROM events JOIN records USING (record)
    WHERE id = ${eventId} AND ready_at <= ${now} AND lease_end <= ${now} AND wait_end <= ${now}`[0];
}

function lease(sql: Sql, { seq, record }: EventRow, now: number, duration: number): ClaimedEvent {
  const token = crypto.randomUUID();
  const end = now + Math.max(1, Math.ceil(duration));
  const [leased] = sql<EventRow>`
    UPDATE events SET state = 'processing', attempts = attempts + 1, lease = ${token}, ready_at = ${end}
    WHERE seq = ${seq} RETURNING *` as [EventRow];
  const [handled] = sql<RecordRow>`
    UPDATE records SET lease = ${token}, lease_end = ${end} WHERE record = ${record} RETURNING *` as [
    RecordRow,
  ];
  refresh(sql, record);
  return {
    ...toNewEvent(leased),
    receivedAt: leased.received_at,
    attempts: leased.attempts,
    outages: leased.outages,
    outageFor: now - (leased.first_outage_at ?? now),
    replayed: leased.replayed === 1,
    previousStatus: handled.status ?? undefined,
    sequence: handled.sequence,
    lease: token,
  };
}

/** The claim's event, as long as its record has not been claimed again. */
function held(sql: Sql, { eventId, lease }: ClaimedEvent): EventRow | undefined {
  return sql<EventRow>`
    SELECT events.* FROM events JOIN records USING (record)
    WHERE id = ${eventId} AND events.lease = ${lease} AND records.lease = ${lease}`[0];
}

export function renew(sql: Sql, claims: readonly ClaimedEvent[], leaseDuration: number): ClaimedEvent[] {
  const end = Date.now() + Math.ceil(leaseDuration);
  return claims.filter((claim) => {
    const event = held(sql, claim);
    if (event === undefined) return false;
    sql`UPDATE events SET ready_at = ${end} WHERE seq = ${event.seq}`;
    sql`UPDATE records SET lease_end = ${end} WHERE record = ${event.record}`;
    refresh(sql, event.record);
    return true;
  });
}

export function settle(sql: Sql, claim: ClaimedEvent, outcome: Outcome): boolean {
  const event = held(sql, claim);
  if (event === undefined) return false;
  const { seq, record } = event;
  const now = Date.now();
  switch (outcome.state) {
    case "done":
      sql`
        UPDATE events SET state = 'done', ready_at = NULL, ended_at = ${now}, type = ${outcome.type}, reason = NULL
        WHERE seq = ${seq}`;
      if (outcome.status !== undefined)
        sql`
          UPDATE records SET seen_at = ${now}, sequence = sequence + (status IS NOT ${outcome.status}), status = ${outcome.status}
          WHERE record = ${record}`;
      break;
    case "parked":
      note(sql, seq, outcome);
      sql`UPDATE events SET state = 'parked', ready_at = NULL, ended_at = ${now} WHERE seq = ${seq}`;
      break;
    case "retrying":
      note(sql, seq, outcome);
      putOff(sql, event, outcome, now);
      break;
    case "released": {
      const untried = event.attempts === 1 && event.outages === 0;
      sql`
        UPDATE events SET state = ${untried ? "pending" : "retrying"}, attempts = attempts - 1,
          ready_at = ${untried ? event.received_at : now}
        WHERE seq = ${seq}`;
    }
  }
  sql`UPDATE records SET lease = NULL, lease_end = 0 WHERE record = ${record}`;
  refresh(sql, record);
  return true;
}

type Failure = Extract<Outcome, { readonly error: string }>;

function note(sql: Sql, seq: number, { reason, error, type }: Failure): void {
  sql`
    UPDATE events SET reason = ${reason}, last_error = ${error}, type = coalesce(${type ?? null}, type)
    WHERE seq = ${seq}`;
}

function putOff(
  sql: Sql,
  { seq, record }: EventRow,
  outcome: Extract<Outcome, { readonly state: "retrying" }>,
  now: number,
): void {
  const until = now + Math.ceil(outcome.in);
  if (outcome.counted) {
    sql`
      UPDATE events SET state = 'retrying', ready_at = ${until}, outages = 0, first_outage_at = NULL
      WHERE seq = ${seq}`;
    return;
  }
  sql`
    UPDATE events SET state = 'retrying', ready_at = ${now}, attempts = attempts - 1,
      outages = outages + 1, first_outage_at = coalesce(first_outage_at, ${now})
    WHERE seq = ${seq}`;
  sql`UPDATE records SET wait_end = ${until} WHERE record = ${record}`;
}

export function replay(sql: Sql, eventId: string): boolean {
  const now = Date.now();
  const [event] = sql<EventRow>`SELECT * FROM events WHERE id = ${eventId}`;
  if (event === undefined || event.state === "processing") return false;
  if (event.state === "retrying")
    sql`UPDATE events SET ready_at = min(ready_at, ${now}) WHERE seq = ${event.seq}`;
  else if (event.state !== "pending")
    sql`
      UPDATE events SET state = 'pending', ready_at = ${now}, ended_at = NULL, reason = NULL, replayed = 1,
        attempts = 0, outages = 0, first_outage_at = NULL
      WHERE seq = ${event.seq}`;
  endWait(sql, event.record);
  return true;
}

export function replayParked(sql: Sql, { reason, before }: Options<"replayParked"> = {}): number {
  const until = before?.getTime() ?? null;
  const wanted = reason ?? null;
  const events = sql<EventRow>`
    SELECT id FROM events
    WHERE state = 'parked' AND (${wanted} IS NULL OR reason = ${wanted})
      AND (${until} IS NULL OR received_at < ${until})`;
  for (const { id } of events) replay(sql, id);
  return events.length;
}

export function prune(sql: Sql, { state, reason, age, limit }: Options<"prune">): number {
  const wanted = reason ?? null;
  return sql`
    DELETE FROM events WHERE seq IN (
      SELECT seq FROM events
      WHERE state = ${state} AND ended_at <= ${Date.now() - age} AND (${wanted} IS NULL OR reason = ${wanted})
      ORDER BY ended_at LIMIT ${limit})
    RETURNING seq`.length;
}

export function pruneRecords(sql: Sql, { age, limit }: Options<"pruneRecords">): number {
  return sql`
    DELETE FROM records WHERE record IN (
      SELECT record FROM records
      WHERE seen_at <= ${Date.now() - age} AND pending_at IS NULL AND retry_at IS NULL
      ORDER BY seen_at LIMIT ${limit})
    RETURNING record`.length;
}
