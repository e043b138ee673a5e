import type {
  ClaimedEvent,
  EventState,
  FailureReason,
  NewEvent,
  RecordStatus,
  StoredEvent,
} from "../event-store.ts";
import type { Row } from "./connections.ts";
import { fromText, toRef } from "./text.ts";

export function toClaim(row: Row): ClaimedEvent {
  return {
    ...toNewEvent(row),
    receivedAt: Number(row.received_at),
    attempts: Number(row.attempts),
    outages: Number(row.outages),
    outageFor: Number(row.outage_for),
    replayed: row.replayed === "true",
    previousStatus: maybe(row.status) ?? undefined,
    sequence: Number(row.sequence),
    lease: row.lease as string,
  };
}

export function toStoredEvent(row: Row): StoredEvent {
  const state = row.state as EventState;
  return {
    ...toNewEvent(row),
    state,
    attempts: Number(row.attempts),
    receivedAt: new Date(Number(row.received_at)),
    dueAt: toDate(row.due_at),
    doneAt: state === "done" ? toDate(row.ended_at) : null,
    type: maybe(row.type),
    lastError: maybe(row.last_error),
    reason: (row.reason ?? null) as FailureReason | null,
  };
}

export function toRecordStatus(row: Row): RecordStatus {
  return {
    ref: fromText(row.record as string),
    status: fromText(row.status as string),
    sequence: Number(row.sequence),
    seenAt: new Date(Number(row.seen_at)),
  };
}

function toNewEvent(row: Row): NewEvent {
  return {
    eventId: fromText(row.id as string),
    ref: toRef(row.record as string),
    source: row.source as NewEvent["source"],
    topic: maybe(row.topic),
    timestamp: fromText(row.timestamp as string),
    notification: maybe(row.notification),
  };
}

function maybe(text: string | null | undefined): string | null {
  return text === null || text === undefined ? null : fromText(text);
}

function toDate(time: string | null | undefined): Date | null {
  return time === null || time === undefined ? null : new Date(Number(time));
}
