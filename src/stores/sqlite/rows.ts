import type { ClaimedEvent, EventState, FailureReason, RecordStatus, StoredEvent } from "../event-store.ts";

/** A UUID's bytes, or any other id as it is. */
export type Id = Uint8Array | string;
/** A record's `ref`, or the bytes of an event that has none. */
export type Lock = Uint8Array | string;

/** A row of `stayhook_events`, as statements that end in `RETURNING *` or `SELECT *` give it. Times are epoch ms. */
export interface EventRow {
  readonly seq: number;
  readonly id: Id;
  readonly lock: Lock;
  readonly state: EventState;
  readonly ready_at: number | null;
  readonly due_at: number;
  readonly received_at: number;
  readonly attempts: number;
  readonly outages: number;
  readonly first_outage_at: number | null;
  readonly replayed: number;
  readonly ended_at: number | null;
  readonly type: string | null;
  readonly reason: FailureReason | null;
  readonly last_error: string | null;
  readonly source: "webhook" | "reconcile";
  readonly topic: string | null;
  readonly timestamp: string;
  readonly notification: string | null;
}

/** A row of `stayhook_statuses`. */
export interface StatusRow {
  readonly ref: string;
  readonly status: string;
  readonly sequence: number;
  readonly seen_at: number;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export function toId(eventId: string): Id {
  return UUID.test(eventId) ? Buffer.from(eventId.replaceAll("-", ""), "hex") : eventId;
}

function fromId(id: Id): string {
  if (typeof id === "string") return id;
  const hex = Buffer.from(id.buffer, id.byteOffset, id.byteLength).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** SQLite never takes text and bytes for equal: no `ref` can be the lock of an event without one. */
export function toLock(ref: string | null, id: Id): Lock {
  if (ref !== null) return ref;
  return typeof id === "string" ? Buffer.from(`the event with the id ${id}`) : id;
}

export function toRef(lock: Lock): string | null {
  return typeof lock === "string" ? lock : null;
}

export function toClaim(
  row: EventRow,
  status: StatusRow | undefined,
  lease: string,
  now: number,
): ClaimedEvent {
  return {
    ...toNewEvent(row),
    receivedAt: row.received_at,
    attempts: row.attempts,
    outages: row.outages,
    outageFor: row.first_outage_at === null ? 0 : Math.max(0, now - row.first_outage_at),
    replayed: row.replayed === 1,
    previousStatus: status?.status,
    sequence: status?.sequence ?? 0,
    lease,
  };
}

/** `wait_end`: until when the event's record waits. */
export function toStoredEvent(row: EventRow & { readonly wait_end: number | null }): StoredEvent {
  const { state, ready_at } = row;
  const dueAt =
    ready_at === null || state === "processing" ? ready_at : Math.max(ready_at, row.wait_end ?? 0);
  return {
    ...toNewEvent(row),
    state,
    attempts: row.attempts,
    receivedAt: new Date(row.received_at),
    dueAt: dueAt === null ? null : new Date(dueAt),
    doneAt: state === "done" ? new Date(row.ended_at!) : null,
    type: row.type,
    lastError: row.last_error,
    reason: row.reason,
  };
}

export function toRecordStatus({ ref, status, sequence, seen_at }: StatusRow): RecordStatus {
  return { ref, status, sequence, seenAt: new Date(seen_at) };
}

function toNewEvent({ id, lock, source, topic, timestamp, notification }: EventRow) {
  return { eventId: fromId(id), ref: toRef(lock), source, topic, timestamp, notification };
}
