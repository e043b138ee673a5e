import { HISTORY_LENGTH } from "../base-store.ts";
import type { EventOrigin, EventState, FailureReason } from "../event-states.ts";
import type {
  AttemptEntry,
  ClaimedEvent,
  NewEvent,
  Outcome,
  RecordSnapshot,
  Snapshot,
  StoredEvent,
} from "../event-store.ts";

/** The names and values of an event's hash, as HGETALL lists them. */
type Fields = readonly string[];
/** An event in the answer of `claim`: id, fields from before the claim, notification, packed snapshot, lease. */
export type ClaimReply = readonly [string, Fields, string | null, string | null, string];
/** An event in the answer of `get` and `list`: id, fields, notification, and the end of its record's wait. */
export type RowReply = readonly [string, Fields, string | null, string | null];
/** An entry of the history: time of the claim, duration, outcome, reason, error. */
type PackedEntry = [number, number, AttemptEntry["outcome"], (FailureReason | null)?, string?];

export function toClaim([id, list, notification, packed, lease]: ClaimReply, now: number): ClaimedEvent {
  const fields = toMap(list);
  const outageAt = fields.get("outage_at");
  const record = packed === null ? undefined : toRecordSnapshot("", packed);
  return {
    ...toNewEvent(id, fields, notification),
    receivedAt: numberIn(fields, "received"),
    claimedAt: now,
    attempts: numberIn(fields, "attempts") + 1,
    outages: numberIn(fields, "outages"),
    outageFor: outageAt === undefined ? 0 : Math.max(0, now - Number(outageAt)),
    replayed: fields.has("replayed"),
    previous: record?.snapshot,
    sequence: record?.sequence ?? 0,
    lease,
  };
}

export function toStoredEvent([id, list, notification, wait]: RowReply): StoredEvent {
  const fields = toMap(list);
  const state = fields.get("state") as EventState;
  const history = historyIn(fields);
  return {
    ...toNewEvent(id, fields, notification),
    state,
    attempts: numberIn(fields, "attempts"),
    receivedAt: new Date(numberIn(fields, "received")),
    dueAt: dueAt(state, fields, Number(wait)),
    doneAt: state === "done" ? new Date(numberIn(fields, "ended")) : null,
    type: fields.get("type") ?? null,
    lastError: history.at(-1)?.error ?? null,
    reason: (fields.get("reason") as StoredEvent["reason"] | undefined) ?? null,
    history,
  };
}

function dueAt(state: EventState, fields: ReadonlyMap<string, string>, wait: number): Date | null {
  if (state === "done" || state === "parked") return null;
  if (state === "processing") return new Date(numberIn(fields, "lease_end"));
  return new Date(Math.max(numberIn(fields, fields.has("due") ? "due" : "received"), wait));
}

function historyIn(fields: ReadonlyMap<string, string>): AttemptEntry[] {
  const count = numberIn(fields, "h");
  const first = Math.max(0, count - HISTORY_LENGTH);
  return Array.from({ length: count - first }, (_, index) => {
    const packed = JSON.parse(fields.get(`h${first + index}`)!) as PackedEntry;
    const [at, duration, outcome, reason, error] = packed;
    const worker = fields.get(`w${first + index}`);
    return {
      at: new Date(at),
      duration,
      outcome,
      ...(reason != null && { reason }),
      ...(error !== undefined && { error }),
      ...(worker !== undefined && { worker }),
    };
  });
}

/** Returns the JSON of a {@link PackedEntry} without `[` and the first item. The script adds both. */
export function packEntry({ state, entry }: Exclude<Outcome, { state: "released" }>): string {
  const { duration, reason, error } = entry;
  const parts: unknown[] = [duration, state];
  if (reason !== undefined || error !== undefined) parts.push(reason ?? null);
  if (error !== undefined) parts.push(error);
  return JSON.stringify(parts).slice(1);
}

/** Returns JSON with sorted fields, so that equal snapshots have equal texts. JSON escapes lone surrogates. */
export function packSnapshot({ status, fields }: Snapshot): string {
  const sorted = Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify({ status, fields: Object.fromEntries(sorted) });
}

/** Reads a value of the hash `:records`: `<sequence>:<seenAt>:<snapshot as JSON>`. */
export function toRecordSnapshot(ref: string, packed: string): RecordSnapshot {
  const first = packed.indexOf(":");
  const second = packed.indexOf(":", first + 1);
  return {
    ref,
    snapshot: JSON.parse(packed.slice(second + 1)) as Snapshot,
    sequence: Number(packed.slice(0, first)),
    seenAt: new Date(Number(packed.slice(first + 1, second))),
  };
}

function toNewEvent(
  eventId: string,
  fields: ReadonlyMap<string, string>,
  notification: string | null,
): NewEvent & Pick<StoredEvent, "traceparent"> {
  return {
    eventId,
    ref: fields.get("ref") ?? null,
    source: (fields.get("source") ?? "webhook") as EventOrigin,
    topic: fields.get("topic") ?? null,
    timestamp: fields.get("time") ?? "",
    notification,
    traceparent: fields.get("traceparent") ?? null,
  };
}

function toMap(list: Fields): Map<string, string> {
  const map = new Map<string, string>();
  for (let index = 0; index < list.length; index += 2) map.set(list[index]!, list[index + 1]!);
  return map;
}

function numberIn(fields: ReadonlyMap<string, string>, name: string): number {
  return Number(fields.get(name) ?? 0);
}
