import { HISTORY_LENGTH } from "../base-store.ts";
import type { EventOrigin, EventState, FailureReason } from "../event-states.ts";
import type {
  AttemptEntry,
  ClaimedEvent,
  NewEvent,
  RecordSnapshot,
  Snapshot,
  StoredEvent,
} from "../event-store.ts";
import type { SqlRow } from "./driver.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
/** Only escaped texts and the keys of events without a record begin with this character. */
const ESCAPE = "\u001b";
const NO_REF = `${ESCAPE}event:`;

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * Returns the 16 bytes of a UUID. For any other id, returns one or two zero bytes and the id's text. Two zero bytes
 * avoid a result of 16 bytes, which `fromId` would read as a UUID.
 */
export function toId(eventId: string): Uint8Array {
  if (!UUID.test(eventId)) {
    const text = encoder.encode(`\0${toText(eventId)}`);
    return text.length === 16 ? encoder.encode(`\0\0${toText(eventId)}`) : text;
  }
  const id = new Uint8Array(16);
  for (let index = 0, at = 0; index < 16; index++, at += 2) {
    if (at === 8 || at === 13 || at === 18 || at === 23) at += 1;
    id[index] = (digit(eventId, at) << 4) | digit(eventId, at + 1);
  }
  return id;
}

function digit(hex: string, at: number): number {
  const code = hex.charCodeAt(at);
  return code < 58 ? code - 48 : code - 87;
}

function fromId(value: unknown): string {
  const id = value instanceof ArrayBuffer ? new Uint8Array(value) : (value as Uint8Array);
  if (id.length !== 16) return fromText(decoder.decode(id).replace(/^\0{1,2}/, ""));
  let uuid = "";
  for (let index = 0; index < 16; index++) {
    if (index === 4 || index === 6 || index === 8 || index === 10) uuid += "-";
    uuid += HEX[id[index]!];
  }
  return uuid;
}

/** Escapes text that some databases cannot store unchanged, such as a lone surrogate or a NUL. */
export function toText(text: string): string {
  return text.isWellFormed() && !text.includes("\0") && !text.startsWith(ESCAPE)
    ? text
    : ESCAPE + JSON.stringify(text);
}

export function fromText(text: string): string {
  return text.startsWith(ESCAPE) ? (JSON.parse(text.slice(ESCAPE.length)) as string) : text;
}

/** Returns the key of an event's record. An event without a record has its own key, which differs from every `ref`. */
export function toRecord(ref: string | null, eventId: string): string {
  return ref === null ? NO_REF + toText(eventId) : toText(ref);
}

export function toRef(record: unknown): string | null {
  const key = text(record);
  return key.startsWith(NO_REF) ? null : fromText(key);
}

/** Converts a value that the database returned as a number, a bigint or text. */
export function number(value: unknown): number {
  return Number(value);
}

export function numberOrNull(value: unknown): number | null {
  return value === null || value === undefined ? null : Number(value);
}

export function text(value: unknown): string {
  return typeof value === "string" ? value : decoder.decode(value as Uint8Array);
}

function textOrNull(value: unknown): string | null {
  return value === null || value === undefined ? null : text(value);
}

/** An entry of the history, as stored in JSON. */
export type StoredEntry = Omit<AttemptEntry, "at"> & { readonly at: number };

/** Returns the history with one more entry, as JSON. `JSON.stringify` escapes lone surrogates, as `toText` does. */
export function historyWith(row: SqlRow, entry: StoredEntry): string {
  return JSON.stringify([...historyOf(row), entry].slice(-HISTORY_LENGTH));
}

function historyOf(row: SqlRow): readonly StoredEntry[] {
  return row.history === null || row.history === undefined
    ? []
    : (JSON.parse(text(row.history)) as StoredEntry[]);
}

function newEventOf(row: SqlRow): NewEvent & { readonly traceparent: string | null } {
  return {
    eventId: fromId(row.id),
    ref: toRef(row.record),
    source: text(row.source) as EventOrigin,
    topic: textOrNull(row.topic),
    timestamp: text(row.timestamp),
    notification: textOrNull(row.notification),
    traceparent: textOrNull(row.traceparent),
  };
}

/** Returns the claim of an event. `row` is the event before the claim. */
export function claimOf(
  row: SqlRow,
  record: SqlRow | undefined,
  { lease, now }: { readonly lease: string; readonly now: number },
): ClaimedEvent {
  const firstOutage = numberOrNull(row.first_outage_at);
  return {
    ...newEventOf(row),
    receivedAt: number(row.received_at),
    claimedAt: now,
    attempts: number(row.attempts) + 1,
    outages: number(row.outages),
    outageFor: firstOutage === null ? 0 : Math.max(0, now - firstOutage),
    replayed: number(row.replayed) === 1,
    previous: record === undefined ? undefined : snapshotOf(record),
    sequence: record === undefined ? 0 : number(record.sequence),
    lease,
  };
}

/** @param row - the row of an event. `row.wait_end` is when the wait of the event's record ends */
export function storedEventOf(row: SqlRow): StoredEvent {
  const state = text(row.state) as EventState;
  const history = historyOf(row).map((entry) => ({ ...entry, at: new Date(entry.at) }));
  const type = textOrNull(row.type);
  return {
    ...newEventOf(row),
    state,
    attempts: number(row.attempts),
    receivedAt: new Date(number(row.received_at)),
    dueAt: dueAtOf(state, row),
    doneAt: state === "done" ? new Date(number(row.ended_at)) : null,
    type: type === null ? null : fromText(type),
    lastError: history.at(-1)?.error ?? null,
    reason: textOrNull(row.reason) as FailureReason | "discarded" | null,
    history,
  };
}

function dueAtOf(state: EventState, row: SqlRow): Date | null {
  if (state === "done" || state === "parked") return null;
  if (state === "processing") return new Date(number(row.ready_at));
  return new Date(Math.max(number(row.due_at), numberOrNull(row.wait_end) ?? 0));
}

export function recordOf(row: SqlRow): RecordSnapshot {
  return {
    ref: toRef(row.record)!,
    snapshot: snapshotOf(row),
    sequence: number(row.sequence),
    seenAt: new Date(number(row.seen_at)),
  };
}

export function snapshotOf(row: SqlRow): Snapshot {
  return JSON.parse(text(row.snapshot)) as Snapshot;
}
