import { accountOf } from "../../account.ts";
import type { RowFilter } from "../event-filter.ts";
import type { EventState, FailureReason } from "../event-states.ts";
import {
  type Addition,
  additionOf,
  copyOfSnapshot,
  dueTime,
  endedAtOf,
  lastFailureOf,
  stateOfNew,
} from "../outcomes.ts";
import type { RecordSnapshot, Snapshot } from "../snapshot.ts";
import type { AttemptEntry, ClaimedEvent, RecordName, StoredEvent } from "../stored-event.ts";
import type { HeapItem } from "./due-heap.ts";

/** A row of the events table. All times are epoch ms. */
export interface EventRow {
  event: Addition["event"];
  /** The position of the event in the order of arrival. A later event has a higher number. */
  readonly arrival: number;
  readonly record: RecordRow;
  receivedAt: number;
  /** Read-only, because `MemoryTables` counts the events of each state: its `setState` changes it. */
  readonly state: EventState;
  /** When the event can next be claimed. During an attempt: the end of its lease. `undefined` if done or parked. */
  dueAt: number | undefined;
  /** When the event was due for the first time, or was replayed. */
  firstDueAt: number;
  attempts: number;
  outages: number;
  firstOutageAt: number | null;
  failures: number;
  refusals: number;
  replayed: boolean;
  claimedAt: number;
  worker: string | undefined;
  /** The token of the event's last lease. */
  lease: string | undefined;
  /** When the event became done or parked. */
  endedAt: number;
  type: string | null;
  reason: FailureReason | "discarded" | null;
  history: readonly AttemptEntry[];
}

/** A row of the records table. It is in the heap of due records: until its lease ends, or until its events are due. */
export interface RecordRow extends HeapItem {
  /** The `ref`, or a key of its own for an event without a record. */
  readonly key: string;
  readonly ref: string | null;
  /** All events of the record, in order of arrival. */
  readonly events: Set<EventRow>;
  /** The events that are neither done nor parked, because a record may have hundreds of done ones. */
  readonly open: Set<EventRow>;
  /** The current lease, which may have ended. */
  lease: { row: EventRow; end: number; duration: number } | undefined;
  snapshot: Snapshot | undefined;
  sequence: number;
  seenAt: number;
  ledger: string | undefined;
}

export function newRecordRow(key: string, ref: string | null): RecordRow {
  return {
    key,
    ref,
    events: new Set(),
    open: new Set(),
    lease: undefined,
    snapshot: undefined,
    sequence: 0,
    seenAt: 0,
    ledger: undefined,
    index: -1,
    time: 0,
    rank: 0,
  };
}

export function newEventRow(addition: Addition, record: RecordRow, arrival: number, now: number): EventRow {
  const dueAt = dueTime(addition, now);
  return {
    event: addition.event,
    arrival,
    record,
    receivedAt: now,
    state: stateOfNew(addition),
    dueAt,
    firstDueAt: dueAt,
    attempts: 0,
    outages: 0,
    firstOutageAt: null,
    failures: 0,
    refusals: 0,
    replayed: false,
    claimedAt: 0,
    worker: undefined,
    lease: undefined,
    endedAt: 0,
    type: null,
    reason: null,
    history: [],
  };
}

/** Drops the notification of a done event. Its id must stay, but its text, which a stranger may have sent, need not. */
export function dropText(row: EventRow): void {
  row.event = { ...row.event, notification: null };
}

export function restoredRow(stored: StoredEvent, record: RecordRow, arrival: number): EventRow {
  const { state, attempts, type, reason, dueAt, receivedAt, history } = stored;
  // Another store may not list these fields.
  const { failures = 0, refusals = 0, firstDueAt = dueAt ?? receivedAt } = stored as Partial<StoredEvent>;
  return {
    ...newEventRow(additionOf(stored), record, arrival, receivedAt.getTime()),
    state,
    attempts,
    failures,
    refusals,
    type,
    reason,
    dueAt: dueAt?.getTime(),
    firstDueAt: firstDueAt.getTime(),
    endedAt: endedAtOf(stored).getTime(),
    history: copyOfHistory(history),
  };
}

/** Whether the event has a due time. A done or parked event has none. */
export function isOpen(row: EventRow): row is EventRow & { dueAt: number } {
  return row.dueAt !== undefined;
}

/** Whether the event waits: it is pending or retrying, it is scheduled and due, or its lease has ended. */
export function isWaiting(row: EventRow, now: number): boolean {
  if (row.state === "pending" || row.state === "retrying") return true;
  return isOpen(row) && row.dueAt <= now;
}

export function isMatch(row: EventRow, filter: RowFilter): boolean {
  const { eventId, timestamps, account, ref, state, type, reason, source, receivedAfter, receivedBefore } =
    filter;
  return (
    (eventId === undefined || row.event.eventId === eventId) &&
    (timestamps === undefined || timestamps.includes(row.event.timestamp)) &&
    (account === undefined || accountOf(row.event) === account) &&
    (ref === undefined || row.event.ref === ref) &&
    (state === undefined || row.state === state) &&
    (type === undefined || row.type === type) &&
    (reason === undefined || row.reason === reason) &&
    (source === undefined || row.event.source === source) &&
    (receivedAfter === undefined || row.receivedAt >= receivedAfter.getTime()) &&
    (receivedBefore === undefined || row.receivedAt < receivedBefore.getTime())
  );
}

/** @param dueAt - when the event was due before the claim */
export function toClaim(row: EventRow, lease: string, dueAt: number): ClaimedEvent {
  const { record, claimedAt, firstOutageAt } = row;
  return {
    ...row.event,
    receivedAt: row.receivedAt,
    claimedAt,
    dueAt: new Date(dueAt),
    firstDueAt: new Date(row.firstDueAt),
    attempts: row.attempts,
    outages: row.outages,
    outageFor: firstOutageAt === null ? 0 : Math.max(0, claimedAt - firstOutageAt),
    failures: row.failures,
    refusals: row.refusals,
    lastFailure: lastFailureOf(row.history),
    replayed: row.replayed,
    previous: record.snapshot && copyOfSnapshot(record.snapshot),
    sequence: record.sequence,
    ledger: record.ledger,
    lease,
  };
}

export function toStoredEvent(row: EventRow): StoredEvent {
  const { state, dueAt } = row;
  return {
    ...row.event,
    state,
    attempts: row.attempts,
    failures: row.failures,
    refusals: row.refusals,
    receivedAt: new Date(row.receivedAt),
    dueAt: dueAt === undefined ? null : new Date(dueAt),
    firstDueAt: new Date(row.firstDueAt),
    doneAt: state === "done" ? new Date(row.endedAt) : null,
    type: row.type,
    reason: row.reason,
    history: copyOfHistory(row.history),
  };
}

/** Clones only the changes, which few entries have: `structuredClone` takes ten times as long, and a list copies many entries. */
function copyOfHistory(history: readonly AttemptEntry[]): AttemptEntry[] {
  return history.map((entry) => ({
    ...entry,
    at: new Date(entry.at),
    ...(entry.changes && { changes: structuredClone(entry.changes) }),
  }));
}

export function toRecordSnapshot({ ref, snapshot, sequence, seenAt, ledger }: RecordRow): RecordSnapshot {
  return {
    ...{ ref: ref!, snapshot: copyOfSnapshot(snapshot!), sequence, seenAt: new Date(seenAt) },
    ...(ledger !== undefined && { ledger }),
  };
}

export function toName({ ref, key }: RecordRow): RecordName {
  return { ref, eventId: key.slice(1) };
}

/** Returns the record's open event that is due first. If two due times are equal: the event that arrived first. */
export function firstOf({ open }: RecordRow): (EventRow & { dueAt: number }) | undefined {
  let first: (EventRow & { dueAt: number }) | undefined;
  for (const row of open) if (isOpen(row) && (first === undefined || isBefore(row, first))) first = row;
  return first;
}

function isBefore(a: EventRow & { dueAt: number }, b: EventRow & { dueAt: number }): boolean {
  return a.dueAt < b.dueAt || (a.dueAt === b.dueAt && a.arrival < b.arrival);
}

export function delayUntil({ open }: RecordRow, at: number): void {
  for (const row of open) {
    if (row.state === "pending" || row.state === "retrying") row.dueAt = Math.max(row.dueAt!, at);
  }
}

export function remember(record: RecordRow, snapshot: Snapshot, changed: boolean, now: number): void {
  if (changed || record.snapshot === undefined) record.sequence += 1;
  record.snapshot = copyOfSnapshot(snapshot);
  record.seenAt = now;
}

/** A timer that has fired is kept as long as its record's snapshot, so that a callback does not set it again. */
export function isFiredTimer({ state, event, record }: EventRow): boolean {
  return state === "done" && event.source === "timer" && record.snapshot !== undefined;
}

/** The end of a lease while the transaction of its writes commits. As the lock of a database, it lets no claim in. */
export const LOCKED = Number.POSITIVE_INFINITY;

export function isLocked({ lease }: RecordRow): boolean {
  return lease?.end === LOCKED;
}
