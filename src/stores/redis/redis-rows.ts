import type { Restriction } from "../beginnings.ts";
import type { RowFilter } from "../event-filter.ts";
import type { EventOrigin, EventState, FailureReason } from "../event-states.ts";
import type { EventRow } from "../memory/memory-rows.ts";
import { type Addition, HISTORY_LENGTH, lastFailureOf, type Settlement, stateOfNew } from "../outcomes.ts";
import type { Slice } from "../slices.ts";
import type { RecordSnapshot, Snapshot } from "../snapshot.ts";
import { escapedStart, fromText, toText } from "../sql/sql-rows.ts";
import type { Claimed } from "../store-steps.ts";
import type { AttemptEntry, ClaimedEvent, StoredEvent } from "../stored-event.ts";

/** The maximum number of events that one script reads. While a script runs, Redis runs no other command. */
export const PAGE = 200;
/** Stands for `Infinity`, which JSON cannot hold. */
export const MOST = 1e12;

/** Redis may answer a number as text, because of an option of a user's client. */
export type Num = number | string;

/**
 * An event as the Lua function `row` answers it: id, names and values of the hash, notification, and the due time of a
 * stored event. Instead of that time, a claim has the record's snapshot, when the event was due before, and the ledger.
 */
export type RowReply = readonly [
  string,
  readonly string[],
  string | null,
  string | null,
  Num?,
  (string | null)?,
];
/** Where a script must go on that has not seen all due records. */
export type Place = readonly [record: string, dueAt: string] | null | undefined;
/** The time, the claims, the next due time, ids whose event is gone, and where to go on. A due time of -1 is not known. */
export type ClaimReply = readonly [Num, readonly RowReply[], (Num | null)?, (readonly string[])?, Place?];

/** An entry of the history: time of the claim, duration, outcome, reason, error, changes. */
type PackedEntry = readonly [
  number,
  number,
  AttemptEntry["outcome"],
  (FailureReason | null)?,
  (string | null)?,
  AttemptEntry["changes"]?,
];

/** Returns the name of a record in the keys. An event without a ref has a record of its own. */
export function recordName({ ref, eventId }: Pick<ClaimedEvent, "ref" | "eventId">): string {
  return ref === null ? `e${toText(eventId)}` : `r${toText(ref)}`;
}

/** An addition, as the Lua function `add` takes it. */
export function toAdd(addition: Addition) {
  const { event, dueIn, dueAt, replace, token } = addition;
  return { ...toNew(event), state: stateOfNew(addition), wait: dueIn, at: dueAt, replace, token };
}

/** A settlement, as the Lua function `settle` takes it. */
export function toSettle({ claim, change, delay, record, ledger, remove, additions }: Settlement<never>) {
  const { state, dueIn, attempts, outages, firstOutageAt, failures, refusals, replayed, type, event } =
    change;
  const own = event && toNew(event);
  return {
    ...toHeld(claim),
    state,
    wait: dueIn ?? undefined,
    at: change.dueAt,
    reason: change.reason ?? "",
    fields: [
      ...packHistory(change.history),
      ...["attempts", attempts],
      ...(outages + claim.outages === 0 ? [] : ["outages", outages, "outage_at", firstOutageAt ?? ""]),
      ...(failures === claim.failures ? [] : ["failures", failures]),
      ...(refusals === claim.refusals ? [] : ["refusals", refusals]),
      ...(replayed === claim.replayed ? [] : ["replayed", replayed ? 1 : ""]),
      ...(type === undefined ? [] : ["type", packText(type)]),
      ...(own?.fields ?? []),
    ],
    own,
    drops: change.dropsText,
    delay,
    snapshot: record && packSnapshot(record.snapshot),
    changed: record?.changed,
    // An empty text deletes the ledger, because a missing one keeps it.
    ledger: ledger === null ? "" : ledger && toText(ledger),
    remove: remove === "timers" ? remove : remove?.map(toText),
    additions: additions.map(toAdd),
  };
}

/** The beginnings of a claim, as the Lua function `takes_of` takes them. A ref may be stored as it is, or escaped. */
export function toRestriction({ except, only }: Restriction): Restriction | undefined {
  const stored = (texts: readonly string[] | undefined) =>
    texts?.flatMap((text) => (toText(text) === text ? [text, escapedStart(text)] : escapedStart(text)));
  return except === undefined && only === undefined
    ? undefined
    : { except: stored(except), only: stored(only) };
}

/** A claim whose lease may be held, as the scripts take it. */
export function toHeld(claim: ClaimedEvent) {
  return { record: recordName(claim), id: toText(claim.eventId), lease: claim.lease };
}

/** A new event, as the script `write` takes it. */
export function toInsert({ event, ...row }: EventRow) {
  const { fields, ...rest } = toNew(event);
  return {
    ...rest,
    ...{ state: row.state, due: row.dueAt, reason: row.reason ?? "" },
    ...{ received: row.receivedAt, firstDue: row.firstDueAt },
    ended: row.dueAt === undefined ? row.endedAt : undefined,
    fields: [
      ...[...fields, ...packHistory(row.history), "attempts", row.attempts, "type", packText(row.type)],
      ...["failures", row.failures, "refusals", row.refusals],
    ],
  };
}

function toNew(event: Addition["event"]) {
  const { eventId, source, topic, timestamp, traceparent, notification } = event;
  const trace = packText(traceparent);
  return {
    record: recordName(event),
    id: toText(eventId),
    source,
    time: timestamp,
    notification: notification === null ? undefined : toText(notification),
    fields: ["source", source, "topic", packText(topic), "time", timestamp, "trace", trace],
  };
}

export function toClaimed(reply: RowReply): Claimed {
  const fields = toMap(reply[1]);
  const history = unpackHistory(fields);
  const claimedAt = numberIn(fields, "claimed");
  const outageAt = fields.get("outage_at");
  const record = reply[3] === null ? undefined : toRecordSnapshot("", reply[3]);
  const claim: ClaimedEvent = {
    ...toNewEvent(reply, fields),
    receivedAt: numberIn(fields, "received"),
    claimedAt,
    dueAt: new Date(Number(reply[4] ?? claimedAt)),
    firstDueAt: new Date(numberIn(fields, "first_due")),
    attempts: numberIn(fields, "attempts"),
    outages: numberIn(fields, "outages"),
    outageFor: outageAt ? Math.max(0, claimedAt - Number(outageAt)) : 0,
    failures: numberIn(fields, "failures"),
    refusals: numberIn(fields, "refusals"),
    lastFailure: lastFailureOf(history),
    replayed: fields.get("replayed") === "1",
    previous: record?.snapshot,
    sequence: record?.sequence ?? 0,
    ledger: reply[5] ? fromText(reply[5]) : undefined,
    lease: fields.get("lease")!,
  };
  return {
    claim,
    row: { history, worker: workerIn(fields, numberIn(fields, "h")) },
  };
}

export function toStoredEvent(reply: RowReply): StoredEvent {
  const fields = toMap(reply[1]);
  const state = fields.get("state") as EventState;
  const due = Number(reply[3] ?? Number.POSITIVE_INFINITY);
  return {
    ...toNewEvent(reply, fields),
    state,
    attempts: numberIn(fields, "attempts"),
    failures: numberIn(fields, "failures"),
    refusals: numberIn(fields, "refusals"),
    receivedAt: new Date(numberIn(fields, "received")),
    dueAt: Number.isFinite(due) ? new Date(due) : null,
    firstDueAt: new Date(numberIn(fields, "first_due")),
    doneAt: state === "done" ? new Date(numberIn(fields, "ended")) : null,
    type: unpackText(fields.get("type") ?? ""),
    reason: (fields.get("reason") || null) as StoredEvent["reason"],
    history: unpackHistory(fields),
  };
}

/** Reads a value of the hash `:snapshots`: `<sequence>:<seenAt>:<snapshot as JSON>`. Also takes the value of `:ledgers`. */
export function toRecordSnapshot(ref: string, packed: string, ledger?: string | null): RecordSnapshot {
  const first = packed.indexOf(":");
  const second = packed.indexOf(":", first + 1);
  return {
    ref,
    snapshot: JSON.parse(packed.slice(second + 1)) as Snapshot,
    sequence: Number(packed.slice(0, first)),
    seenAt: new Date(Number(packed.slice(first + 1, second))),
    ...(ledger && { ledger: fromText(ledger) }),
  };
}

/** Returns JSON with sorted fields, so that equal snapshots have equal texts. JSON escapes lone surrogates. */
export function packSnapshot({ status, fields, known }: Snapshot): string {
  const sorted = Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify({ status, known, fields: Object.fromEntries(sorted) });
}

function toNewEvent([id, , notification]: RowReply, fields: ReadonlyMap<string, string>) {
  const record = fields.get("record")!;
  return {
    eventId: fromText(id),
    ref: record.startsWith("r") ? fromText(record.slice(1)) : null,
    source: fields.get("source") as EventOrigin,
    topic: unpackText(fields.get("topic")!),
    timestamp: fields.get("time")!,
    notification: notification && fromText(notification),
    traceparent: unpackText(fields.get("trace")!),
  };
}

/** Returns the fields of a history, and their values. */
function packHistory(history: readonly AttemptEntry[]) {
  const entries = history.flatMap(({ at, duration, outcome, reason, error, changes, worker }, index) => {
    const rest = [reason, error, changes];
    const used = rest.findLastIndex((value) => value !== undefined) + 1;
    const entry = JSON.stringify([at.getTime(), duration, outcome, ...rest.slice(0, used)]);
    return [`h${index}`, entry, `w${index}`, toText(worker ?? "")];
  });
  return [...entries, "h", history.length];
}

/** Reads the last entries. Lost entries may have made the history too long. */
function unpackHistory(fields: ReadonlyMap<string, string>): AttemptEntry[] {
  const count = numberIn(fields, "h");
  const first = Math.max(0, count - HISTORY_LENGTH);
  return Array.from({ length: count - first }, (_, index) => {
    const [at, duration, outcome, reason, error, changes] = JSON.parse(
      fields.get(`h${first + index}`)!,
    ) as PackedEntry;
    const worker = workerIn(fields, first + index);
    return {
      at: new Date(at),
      duration,
      outcome,
      ...(reason != null && { reason }),
      ...(error != null && { error }),
      ...(changes !== undefined && { changes }),
      ...(worker !== undefined && { worker }),
    };
  });
}

/** Returns the worker of an entry of the history, or of the current attempt. */
function workerIn(fields: ReadonlyMap<string, string>, index: number): string | undefined {
  const worker = fields.get(`w${index}`);
  return worker ? fromText(worker) : undefined;
}

/** Packs a text that may be `null`, which becomes an empty text. */
function packText(text: string | null): string {
  return text === null ? "" : `=${toText(text)}`;
}

export function unpackText(packed: string): string | null {
  return packed === "" ? null : fromText(packed.slice(1));
}

function toMap(list: readonly string[]): Map<string, string> {
  const map = new Map<string, string>();
  for (let index = 0; index < list.length; index += 2) map.set(list[index]!, list[index + 1]!);
  return map;
}

function numberIn(fields: ReadonlyMap<string, string>, name: string): number {
  return Number(fields.get(name) || 0);
}

/** The input of the Lua function `look`. */
export function toLook(filter: RowFilter, { before, limit }: Slice) {
  const { eventId, ref, state, type, receivedAfter, receivedBefore, ...rest } = filter;
  const texts = Object.entries({ eventId, ref, type }).map(([name, text]) => [name, text && toText(text)]);
  const packed = {
    ...rest,
    ...{ state, receivedAfter: receivedAfter?.getTime(), receivedBefore: receivedBefore?.getTime() },
    ...Object.fromEntries(texts),
  };
  return { filter: packed, before, size: PAGE, limit: Math.min(limit, PAGE) };
}

/** A number that JSON can hold instead of `Infinity`. */
export function bounded<T extends { readonly age: number; readonly limit: number }>(options: T): T {
  return { ...options, age: Math.min(options.age, MOST), limit: Math.min(options.limit, MOST) };
}

export function toNumber(reply: unknown): number | undefined {
  return reply === null ? undefined : Number(reply);
}
