import type { ClaimedEvent, EventState, FailureReason, NewEvent, StoredEvent } from "../event-store.ts";
import { IndexedHeap } from "./indexed-heap.ts";

/** A row of the events table. All times are epoch ms. */
export interface EventRow {
  readonly event: NewEvent;
  /** Rises with each event that is added. */
  readonly arrival: number;
  readonly receivedAt: number;
  state: EventState;
  attempts: number;
  outages: number;
  firstOutageAt: number | undefined;
  replayed: boolean;
  /** While it is pending, retrying or processing. */
  record: RecordRow | undefined;
  /** Kept while it is processed, so that an event given back has its old place. */
  dueAt: number;
  /** Of the last lease; also after it ended. */
  leaseEnd: number;
  /** When it was done or parked. */
  endedAt: number;
  type: string | null;
  lastError: string | null;
  reason: FailureReason | null;
}

/** A row of the records table: a lock, the events that wait for it, and the last handled status. */
export interface RecordRow {
  /** `null`: the lock of one event without a record. */
  readonly ref: string | null;
  status: string | undefined;
  sequence: number;
  /** When an event of it was last done with a status. */
  seenAt: number;
  /** None of its events can be claimed before. */
  waitEnd: number;
  /** Who may work on it: until `row.leaseEnd`, and after it until somebody else takes it. */
  lease: { readonly token: string; readonly row: EventRow } | undefined;
  /** Never tried; by the time at which they became due. */
  readonly pending: IndexedHeap<EventRow>;
  /** Tried before; by the time at which they are due, those in process by the end of their lease. */
  readonly retries: IndexedHeap<EventRow>;
}

export function newEventRow(event: NewEvent, arrival: number, now: number): EventRow {
  const { eventId, ref, source, topic, timestamp, notification } = event;
  return {
    event: { eventId, ref, source, topic, timestamp, notification },
    arrival,
    receivedAt: now,
    state: "pending",
    attempts: 0,
    outages: 0,
    firstOutageAt: undefined,
    replayed: false,
    record: undefined,
    dueAt: now,
    leaseEnd: 0,
    endedAt: 0,
    type: null,
    lastError: null,
    reason: null,
  };
}

export function newRecordRow(ref: string | null): RecordRow {
  return {
    ref,
    status: undefined,
    sequence: 0,
    seenAt: 0,
    waitEnd: 0,
    lease: undefined,
    pending: new IndexedHeap(),
    retries: new IndexedHeap(),
  };
}

export function toClaim(row: EventRow, record: RecordRow, lease: string, now: number): ClaimedEvent {
  return {
    ...row.event,
    receivedAt: row.receivedAt,
    attempts: row.attempts,
    outages: row.outages,
    outageFor: row.firstOutageAt === undefined ? 0 : now - row.firstOutageAt,
    replayed: row.replayed,
    previousStatus: record.status,
    sequence: record.sequence,
    lease,
  };
}

export function toStoredEvent(row: EventRow): StoredEvent {
  const { state } = row;
  const waitEnd = row.record?.waitEnd ?? 0;
  const waits = state === "pending" || state === "retrying";
  return {
    ...row.event,
    state,
    attempts: row.attempts,
    receivedAt: new Date(row.receivedAt),
    dueAt: waits
      ? new Date(Math.max(row.dueAt, waitEnd))
      : state === "processing"
        ? new Date(row.leaseEnd)
        : null,
    doneAt: state === "done" ? new Date(row.endedAt) : null,
    type: row.type,
    lastError: row.lastError,
    reason: row.reason,
  };
}
