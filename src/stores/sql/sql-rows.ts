import { decodeUtf8, encodeUtf8 } from "../../utf8.ts";
import type { EventOrigin, EventState, FailureReason } from "../event-states.ts";
import { type Addition, lastFailureOf } from "../outcomes.ts";
import type { RecordSnapshot, Snapshot } from "../snapshot.ts";
import type { Claimed } from "../store-steps.ts";
import type { AttemptEntry, RecordName, StoredEvent } from "../stored-event.ts";
import type { SqlRow, SqlValue } from "./driver.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
/** Only escaped texts and the keys of events without a record begin with this character. */
export const ESCAPE = "\u001b";
export const NO_REF = `${ESCAPE}event:`;

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/**
 * Returns the 16 bytes of a UUID. For any other id, returns one or two zero bytes and the id's text. Two zero bytes
 * avoid a result of 16 bytes, which `fromId` would read as a UUID.
 */
export function toId(eventId: string): Uint8Array {
  if (!UUID.test(eventId)) {
    const text = encodeUtf8(`\0${toText(eventId)}`);
    return text.length === 16 ? encodeUtf8(`\0\0${toText(eventId)}`) : text;
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

export function fromId(value: unknown): string {
  const id = value instanceof ArrayBuffer ? new Uint8Array(value) : (value as Uint8Array);
  if (id.length !== 16) return fromText(decodeUtf8(id).replace(/^\0{1,2}/, ""));
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

/** Returns how the {@link toText} of an escaped text begins, if the text begins like this. */
export function escapedStart(text: string): string {
  return ESCAPE + JSON.stringify(text).slice(0, -1);
}

export function toTextOrNull(text: string | null | undefined): string | null {
  return text === null || text === undefined ? null : toText(text);
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

/** Returns what `toRecord` made the key of a record from. */
export function toName(key: string): RecordName {
  const ref = toRef(key);
  return { ref, eventId: ref === null ? fromText(key.slice(NO_REF.length)) : "" };
}

/** Returns the range of the ids of an account, as {@link toId} makes them: from the first id, up to the second. */
export function idRange(account: string): [Uint8Array, Uint8Array] {
  return [encodeUtf8(`\0${account}/`), encodeUtf8(`\0${account}0`)];
}

/** Returns the ranges of keys that the records of an account have: from each first key, up to the second. */
export function keyRanges(account: string): (readonly [string, string])[] {
  // "0" follows "/". A text is escaped as JSON, so its quote comes first.
  return ["", NO_REF, `${ESCAPE}"`].map((start) => [`${start}${account}/`, `${start}${account}0`]);
}

/**
 * Converts a value that the database returned as a number, a bigint or text.
 *
 * @throws Error if a row does not have the column: a loop that reads it could go on forever
 */
export function number(value: unknown): number {
  if (value === undefined) throw new Error(WRONG_FORM);
  return Number(value);
}

export function numberOrNull(value: unknown): number | null {
  return value === null ? null : number(value);
}

/** Converts a value that the database returned as text or bytes. Throws as {@link number}. */
export function text(value: unknown): string {
  if (typeof value === "string") return value;
  if (value === undefined) throw new Error(WRONG_FORM);
  return decodeUtf8(value as Uint8Array);
}

const WRONG_FORM = "a row of the database lacks a column, or its rows are no objects";

function escaped(value: unknown): string | null {
  return value === null || value === undefined ? null : fromText(text(value));
}

/** Returns a history as JSON. `JSON.stringify` escapes lone surrogates, as `toText` does. */
export function toHistory(history: readonly AttemptEntry[]): string | null {
  return history.length === 0
    ? null
    : JSON.stringify(history.map(({ at, ...entry }) => ({ at: at.getTime(), ...entry })));
}

export function historyOf({ history }: SqlRow): readonly AttemptEntry[] {
  if (history === null || history === undefined) return [];
  const entries = JSON.parse(text(history)) as (Omit<AttemptEntry, "at"> & { readonly at: number })[];
  return entries.map(({ at, ...entry }) => ({ at: new Date(at), ...entry }));
}

export function workerOf({ worker }: SqlRow): string | undefined {
  return escaped(worker) ?? undefined;
}

export function toSnapshot({ status, fields, known }: Snapshot): string {
  return JSON.stringify({ status, fields, known });
}

type Content = Omit<Addition["event"], "eventId" | "ref">;
/** The columns of an event's row that hold the event itself, but not its id and its record. All are text. */
export const CONTENT_COLUMNS = Object.keys({
  source: true,
  topic: true,
  timestamp: true,
  notification: true,
  traceparent: true,
} satisfies Record<keyof Content, true>) as readonly (keyof Content)[];
export const CONTENT = CONTENT_COLUMNS.join(", ");

/** Returns the values of {@link CONTENT_COLUMNS}. */
export function contentOf(event: Content): SqlValue[] {
  return CONTENT_COLUMNS.map((column) => toTextOrNull(event[column]));
}

function eventOf(row: SqlRow): Addition["event"] {
  return {
    eventId: fromId(row.id),
    ref: toRef(row.ref),
    source: text(row.source) as EventOrigin,
    topic: escaped(row.topic),
    timestamp: escaped(row.timestamp)!,
    notification: escaped(row.notification),
    traceparent: escaped(row.traceparent),
  };
}

/**
 * Returns the claim of an event.
 *
 * @param row - the event before the claim
 * @param record - the row of the event's record
 */
export function claimOf(
  row: SqlRow,
  record: SqlRow,
  {
    lease,
    now,
    worker,
  }: { readonly lease: string; readonly now: number; readonly worker: string | undefined },
): Claimed {
  const history = historyOf(row);
  const firstOutageAt = numberOrNull(row.first_outage_at);
  const hasSnapshot = record.snapshot !== null && record.snapshot !== undefined;
  const claim = {
    ...eventOf(row),
    receivedAt: number(row.received_at),
    claimedAt: now,
    dueAt: new Date(number(row.due_at)),
    firstDueAt: new Date(number(row.first_due_at)),
    attempts: number(row.attempts) + 1,
    outages: number(row.outages),
    outageFor: firstOutageAt === null ? 0 : Math.max(0, now - firstOutageAt),
    failures: number(row.failures),
    refusals: number(row.refusals),
    lastFailure: lastFailureOf(history),
    replayed: number(row.replayed) === 1,
    previous: hasSnapshot ? snapshotOf(record) : undefined,
    sequence: hasSnapshot ? number(record.sequence) : 0,
    ledger: ledgerIn(record),
    lease,
  };
  return { claim, row: { history, worker } };
}

export function storedEventOf(row: SqlRow): StoredEvent {
  const state = text(row.state) as EventState;
  const dueAt = numberOrNull(row.due_at);
  return {
    ...eventOf(row),
    state,
    attempts: number(row.attempts),
    failures: number(row.failures),
    refusals: number(row.refusals),
    receivedAt: new Date(number(row.received_at)),
    dueAt: dueAt === null ? null : new Date(dueAt),
    firstDueAt: new Date(number(row.first_due_at)),
    doneAt: state === "done" ? new Date(number(row.done_at)) : null,
    type: escaped(row.type),
    reason: escaped(row.reason) as FailureReason | "discarded" | null,
    history: historyOf(row),
  };
}

/** Returns the ledger of a record's row. */
export function ledgerIn(row: SqlRow): string | undefined {
  return escaped(row.ledger) ?? undefined;
}

export function recordSnapshotOf(row: SqlRow): RecordSnapshot {
  const ledger = ledgerIn(row);
  return {
    ref: toRef(row.ref)!,
    snapshot: snapshotOf(row),
    sequence: number(row.sequence),
    seenAt: new Date(number(row.seen_at)),
    ...(ledger !== undefined && { ledger }),
  };
}

export function snapshotOf(row: SqlRow): Snapshot {
  return JSON.parse(text(row.snapshot)) as Snapshot;
}
