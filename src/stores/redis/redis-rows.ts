import type { Claimed } from "../base-store.ts";
import type { EventOrigin, EventState, FailureReason } from "../event-states.ts";
import type { AttemptEntry, ClaimedEvent, RecordSnapshot, Snapshot, StoredEvent } from "../event-store.ts";
import { type Addition, endedAtOf, HISTORY_LENGTH, type Settlement } from "../outcomes.ts";
import { fromText, toText } from "../sql/sql-rows.ts";

/**
 * An event as the Lua function `row` answers it: id, names and values of the hash, notification, history, and the due
 * time of a stored event or the snapshot of a claim.
 */
export type RowReply = readonly [string, readonly string[], string | null, string | null, string | null];
/** An entry of the history: time of the claim, duration, outcome, reason, error, worker. */
type PackedEntry = readonly [
  number,
  number,
  AttemptEntry["outcome"],
  FailureReason | null,
  string | null,
  string | null,
];

/** Returns the name of a record in the keys. An event without a ref has a record of its own. */
export function recordOf({ ref, eventId }: Pick<ClaimedEvent, "ref" | "eventId">): string {
  return ref === null ? `e${toText(eventId)}` : `r${toText(ref)}`;
}

/** The arguments of the Lua function `add`. */
export function addArgs({ event, dueIn, replace }: Addition): string[] {
  return [
    recordOf(event),
    toText(event.eventId),
    String(dueIn),
    replace ?? "",
    event.source,
    packText(event.topic),
    event.timestamp,
    packText(event.traceparent),
    packText(event.notification),
  ];
}

/** The arguments of one settlement in the script `settle`. */
export function settleArgs({
  claim,
  change,
  delay,
  record,
  remove = [],
  additions,
}: Settlement<never>): string[] {
  const { dueIn, attempts, outages, firstOutageAt, replayed, type, event } = change;
  const fields = {
    ...{ attempts, outages, outage_at: firstOutageAt ?? "", replayed: replayed ? 1 : "" },
    ...(type !== undefined && { type: packText(type) }),
    ...(event && fieldsOf(event)),
  };
  const args = [
    ...[
      recordOf(claim),
      toText(claim.eventId),
      claim.lease,
      change.state,
      String(dueIn ?? ""),
      change.reason ?? "",
    ],
    ...[packHistory(change.history), String(delay ?? "")],
    ...[record ? packSnapshot(record.snapshot) : "", record?.changed ? "1" : ""],
    ...[event ? "1" : "", event?.source ?? "", packText(event?.notification ?? null)],
    ...packFields(fields),
    ...removeArgs(remove),
    ...[String(additions.length), ...additions.flatMap(addArgs)],
  ];
  return [String(args.length), ...args];
}

/** The arguments of the Lua function `remove`. */
export function removeArgs(what: readonly string[] | "timers"): string[] {
  return what === "timers" ? [what] : [String(what.length), ...(what as readonly string[]).map(toText)];
}

/** The arguments of one event in the script `restore`. */
export function restoreArgs(event: StoredEvent): string[] {
  const { state, dueAt, receivedAt, reason, history, attempts, type, source, notification } = event;
  const ended = state === "done" || state === "parked" ? String(endedAtOf(event).getTime()) : "";
  return [
    ...[recordOf(event), toText(event.eventId), state, String(dueAt?.getTime() ?? ""), ended, reason ?? ""],
    ...[packHistory(history), packText(notification), source, String(receivedAt.getTime())],
    ...packFields({ ...fieldsOf(event), attempts, type: packText(type) }),
  ];
}

function fieldsOf({ source, topic, timestamp, traceparent }: Addition["event"]) {
  return { source, topic: packText(topic), time: timestamp, trace: packText(traceparent) };
}

function packFields(fields: Readonly<Record<string, string | number>>): string[] {
  const list = Object.entries(fields).flatMap(([name, value]) => [name, String(value)]);
  return [String(list.length), ...list];
}

export function toClaimed(reply: RowReply): Claimed {
  const fields = toMap(reply[1]);
  const claimedAt = numberIn(fields, "claimed");
  const outageAt = fields.get("outage_at");
  const record = reply[4] === null ? undefined : toRecordSnapshot("", reply[4]);
  const claim: ClaimedEvent = {
    ...toNewEvent(reply, fields),
    receivedAt: numberIn(fields, "received"),
    claimedAt,
    attempts: numberIn(fields, "attempts"),
    outages: numberIn(fields, "outages"),
    outageFor: outageAt ? Math.max(0, claimedAt - Number(outageAt)) : 0,
    replayed: fields.get("replayed") === "1",
    previous: record?.snapshot,
    sequence: record?.sequence ?? 0,
    lease: fields.get("lease")!,
  };
  const worker = (JSON.parse(fields.get("worker")!) as string | null) ?? undefined;
  return { claim, row: { history: unpackHistory(reply[3]), worker } };
}

export function toStoredEvent(reply: RowReply): StoredEvent {
  const fields = toMap(reply[1]);
  const state = fields.get("state") as EventState;
  const due = Number(reply[4] ?? Number.POSITIVE_INFINITY);
  return {
    ...toNewEvent(reply, fields),
    state,
    attempts: numberIn(fields, "attempts"),
    receivedAt: new Date(numberIn(fields, "received")),
    dueAt: Number.isFinite(due) ? new Date(due) : null,
    doneAt: state === "done" ? new Date(numberIn(fields, "ended")) : null,
    type: unpackText(fields.get("type") ?? ""),
    reason: (fields.get("reason") || null) as StoredEvent["reason"],
    history: unpackHistory(reply[3]),
  };
}

/** Reads a value of the hash `:snapshots`: `<sequence>:<seenAt>:<snapshot as JSON>`. */
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

/** Returns JSON with sorted fields, so that equal snapshots have equal texts. JSON escapes lone surrogates. */
export function packSnapshot({ status, fields }: Snapshot): string {
  const sorted = Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify({ status, fields: Object.fromEntries(sorted) });
}

function toNewEvent([id, , notification]: RowReply, fields: ReadonlyMap<string, string>) {
  const record = fields.get("record")!;
  return {
    eventId: fromText(id),
    ref: record.startsWith("r") ? fromText(record.slice(1)) : null,
    source: fields.get("source") as EventOrigin,
    topic: unpackText(fields.get("topic")!),
    timestamp: fields.get("time")!,
    notification: unpackText(notification ?? ""),
    traceparent: unpackText(fields.get("trace")!),
  };
}

function packHistory(history: readonly AttemptEntry[]): string {
  return history
    .map(({ at, duration, outcome, reason = null, error = null, worker = null }) => {
      const entry: PackedEntry = [at.getTime(), duration, outcome, reason, error, worker];
      return `${JSON.stringify(entry)}\n`;
    })
    .join("");
}

/** Reads the last entries. The script `claim` may have appended more than a history keeps. */
function unpackHistory(packed: string | null): AttemptEntry[] {
  if (packed === null) return [];
  return packed
    .split("\n")
    .slice(0, -1)
    .slice(-HISTORY_LENGTH)
    .map((line) => {
      const [at, duration, outcome, reason, error, worker] = JSON.parse(line) as PackedEntry;
      return {
        at: new Date(at),
        duration,
        outcome,
        ...(reason !== null && { reason }),
        ...(error !== null && { error }),
        ...(worker !== null && { worker }),
      };
    });
}

/** Packs a text that may be `null`, which becomes an empty text. */
export function packText(text: string | null): string {
  return text === null ? "" : `=${toText(text)}`;
}

function unpackText(packed: string): string | null {
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
