import type {
  ClaimedEvent,
  EventState,
  FailureReason,
  NewEvent,
  RecordStatus,
  StoredEvent,
} from "../event-store.ts";

/** The hash of an event, as HGETALL lists it. */
type Fields = readonly string[];
/** What the script `claim` gives of each event: id, fields, notification, `sequence:seenAt:status`, token. */
export type ClaimReply = readonly [string, Fields, string | null, string | null, string];
/** What `get` and `list` give: id, fields, notification, until when its record waits. */
export type RowReply = readonly [string, Fields, string | null, string | null];

export function toClaim([id, list, notification, status, lease]: ClaimReply, now: number): ClaimedEvent {
  const fields = toMap(list);
  const outageAt = fields.get("outage_at");
  const record = status === null ? undefined : toRecordStatus("", status);
  return {
    ...toNewEvent(id, fields, notification),
    receivedAt: numberIn(fields, "received"),
    attempts: numberIn(fields, "attempts"),
    outages: numberIn(fields, "outages"),
    outageFor: outageAt === undefined ? 0 : Math.max(0, now - Number(outageAt)),
    replayed: fields.has("replayed"),
    previousStatus: record?.status,
    sequence: record?.sequence ?? 0,
    lease,
  };
}

export function toStoredEvent([id, list, notification, wait]: RowReply): StoredEvent {
  const fields = toMap(list);
  const state = fields.get("state") as EventState;
  return {
    ...toNewEvent(id, fields, notification),
    state,
    attempts: numberIn(fields, "attempts"),
    receivedAt: new Date(numberIn(fields, "received")),
    dueAt: dueAt(state, fields, Number(wait)),
    doneAt: state === "done" ? new Date(numberIn(fields, "ended")) : null,
    type: fields.get("type") ?? null,
    lastError: fields.get("error") ?? null,
    reason: (fields.get("reason") as FailureReason | undefined) ?? null,
  };
}

function dueAt(state: EventState, fields: ReadonlyMap<string, string>, wait: number): Date | null {
  if (state === "done" || state === "parked") return null;
  if (state === "processing") return new Date(numberIn(fields, "lease_end"));
  return new Date(Math.max(numberIn(fields, "due"), wait));
}

/** Of `sequence:seenAt:status`, where the status may hold anything. */
export function toRecordStatus(ref: string, packed: string): RecordStatus {
  const first = packed.indexOf(":");
  const second = packed.indexOf(":", first + 1);
  return {
    ref,
    status: packed.slice(second + 1),
    sequence: Number(packed.slice(0, first)),
    seenAt: new Date(Number(packed.slice(first + 1, second))),
  };
}

function toNewEvent(
  eventId: string,
  fields: ReadonlyMap<string, string>,
  notification: string | null,
): NewEvent {
  return {
    eventId,
    ref: fields.get("ref") ?? null,
    source: fields.get("source") as NewEvent["source"],
    topic: fields.get("topic") ?? null,
    timestamp: fields.get("time") ?? "",
    notification,
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
