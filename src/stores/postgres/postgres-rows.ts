import type { ClientBase } from "pg";
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
import type { Row } from "./connections.ts";
import type { Part } from "./groups.ts";

/** Texts that PostgreSQL cannot hold, and texts that begin like an escaped one. */
const ESCAPED = /^\\|\0|\p{Cs}/u;
const LONE = "\\event ";

/** Escapes NUL and lone surrogates, which PostgreSQL's UTF-8 cannot hold. Leaves other texts as they are. */
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
 * The key of the row that locks an event: its record's `ref`, or a key of its own if it has no record. No text of
 * {@link toText} begins as such a key does.
 */
export function toRecord({ ref, eventId }: Pick<NewEvent, "ref" | "eventId">): string {
  return ref === null ? `${LONE}${toText(eventId)}` : toText(ref);
}

/** JSON whose text is the same for equal snapshots. JSON escapes NUL and lone surrogates itself. */
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

export type Answer = "added" | "duplicate" | "conflict";

/** An event to add. */
export interface Addition extends Part {
  readonly event: NewEvent;
  /** ms */
  readonly dueIn: number | undefined;
}

/** Copies the event, because the caller may change it before it is sent. */
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

/** A column without values is one NULL, which costs less than a list of them. */
function orNull(column: readonly unknown[]): readonly unknown[] | null {
  return column.some((value) => value !== null) ? column : null;
}

/** The answers of `add_events`, which are left out where all events are new. */
export function toAnswers(rows: readonly Row[], count: number): Answer[] {
  return (rows[0]?.answers?.split(",") as Answer[] | undefined) ?? Array<Answer>(count).fill("added");
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

/** The end of an event to record. Its values are in the order of the parameters of `settle_events`. */
export interface Ending extends Part {
  readonly values: readonly unknown[];
}

/** @param unsure - the end may have been recorded before */
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

/** A list for each parameter, and the patience. */
export function settleValues(endings: readonly Ending[], patience: string): unknown[] {
  const columns = endings[0]!.values.map((_, column) => orNull(endings.map(({ values }) => values[column])));
  return [...columns, patience];
}

/** The values of fields that an outcome may leave out. */
const NOTHING: {
  readonly type?: string | undefined;
  readonly reason?: string | undefined;
  readonly entry?: Extract<Outcome, { readonly entry: unknown }>["entry"] | undefined;
  readonly record?: Extract<Outcome, { readonly state: "done" }>["record"];
  readonly in: number;
  readonly counted: boolean;
} = { in: 0, counted: true };
