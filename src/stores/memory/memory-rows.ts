import { HISTORY_LENGTH } from "../base-store.ts";
import type { EventState, FailureReason } from "../event-states.ts";
import type {
  AttemptEntry,
  ClaimedEvent,
  Entry,
  EventFilter,
  NewEvent,
  Outcome,
  RecordSnapshot,
  Snapshot,
  StoredEvent,
} from "../event-store.ts";

/** The links of an item in its {@link OrderedSet}. A separate `Map` of links would make the set twice as slow. */
export interface Linked<T> {
  /** The set that contains the item. */
  set: object | undefined;
  previous: T | undefined;
  next: T | undefined;
}

/** A set in order of insertion. An item can be in only one set at a time. */
export class OrderedSet<T extends Linked<T>> implements Iterable<T> {
  #first: T | undefined;
  #last: T | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get first(): T | undefined {
    return this.#first;
  }

  /** Adds the item at the end. If the set contains the item already, moves it to the end. */
  add(item: T): void {
    this.delete(item);
    item.set = this;
    item.previous = this.#last;
    if (this.#last === undefined) this.#first = item;
    else this.#last.next = item;
    this.#last = item;
    this.#size += 1;
  }

  delete(item: T): void {
    if (item.set !== this) return;
    const { previous, next } = item;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    item.set = item.previous = item.next = undefined;
    this.#size -= 1;
  }

  /** Visits the items from first to last. The caller may delete the item that it visits. */
  *[Symbol.iterator](): Iterator<T> {
    let next: T | undefined;
    for (let item = this.#first; item !== undefined; item = next) {
      next = item.next;
      yield item;
    }
  }
}

/** The start and end of a wait, epoch ms. The wait ends early if the clock is set back to a time before `from`. */
export interface Wait {
  readonly from: number;
  readonly until: number;
}

/** A row of the events table. All times are epoch ms. */
export interface EventRow extends Linked<EventRow> {
  readonly event: NewEvent & { readonly traceparent: string | null };
  /** The position of the event in the order of arrival. A later event has a higher number. */
  readonly arrival: number;
  readonly receivedAt: number;
  state: EventState;
  attempts: number;
  outages: number;
  firstOutageAt: number | undefined;
  replayed: boolean;
  dueAt: number;
  /** The event's own wait, which ends at `dueAt`. A wait of the whole record is in {@link RecordRow}. */
  wait: Wait | undefined;
  claimedAt: number;
  leaseEnd: number;
  worker: string | undefined;
  /** When the event became done or parked. */
  endedAt: number;
  type: string | null;
  reason: FailureReason | "discarded" | null;
  history: readonly AttemptEntry[];
}

/** A row of the records table: the record's lock, its unfinished events and its snapshot. */
export interface RecordRow extends Linked<RecordRow> {
  /** The record's `ref`. It is `null` for an event without a record. The row is then only the event's lock. */
  readonly ref: string | null;
  snapshot: Snapshot | undefined;
  sequence: number;
  seenAt: number;
  /** None of the record's events can be claimed during this wait. */
  wait: Wait | undefined;
  /** The record's lease. It stays valid until another claim replaces it, which is possible from `row.leaseEnd` on. */
  lease: { readonly token: string; readonly row: EventRow } | undefined;
  /** The pending events, in order of arrival. */
  readonly pending: EventRow[];
  /** The retrying and processing events, in order of arrival. */
  readonly tried: EventRow[];
}

const NONE: readonly never[] = [];
const UNLINKED = { set: undefined, previous: undefined, next: undefined };

export function newEventRow(
  event: NewEvent,
  arrival: number,
  now: number,
  dueIn: number | undefined,
): EventRow {
  const { eventId, ref, source, topic, timestamp, notification, traceparent = null } = event;
  const dueAt = now + (dueIn ?? 0);
  return {
    event: { eventId, ref, source, topic, timestamp, notification, traceparent },
    arrival,
    receivedAt: now,
    state: "pending",
    attempts: 0,
    outages: 0,
    firstOutageAt: undefined,
    replayed: false,
    dueAt,
    wait: dueIn === undefined ? undefined : { from: now, until: dueAt },
    claimedAt: 0,
    leaseEnd: 0,
    worker: undefined,
    endedAt: 0,
    type: null,
    reason: null,
    history: NONE,
    ...UNLINKED,
  };
}

export function newRecordRow(ref: string | null): RecordRow {
  return {
    ref,
    snapshot: undefined,
    sequence: 0,
    seenAt: 0,
    wait: undefined,
    lease: undefined,
    pending: [],
    tried: [],
    ...UNLINKED,
  };
}

/** Whether any event of the record is pending, retrying or processing. */
export function hasOpen({ pending, tried }: RecordRow): boolean {
  return pending.length + tried.length > 0;
}

/** Puts the event into the record's list for the event's state. Removes a done or parked event from all lists. */
export function place(row: EventRow, record: RecordRow): void {
  for (const rows of [record.pending, record.tried]) {
    const index = rows.indexOf(row);
    if (index !== -1) rows.splice(index, 1);
  }
  if (row.state === "done" || row.state === "parked") return;
  const rows = row.state === "pending" ? record.pending : record.tried;
  const before = rows.findLastIndex(({ arrival }) => arrival < row.arrival);
  rows.splice(before + 1, 0, row);
}

/** Writes the last attempt into the event's history. */
export function note(
  row: EventRow,
  outcome: AttemptEntry["outcome"],
  { duration, reason, error }: Entry,
): void {
  const entry: AttemptEntry = {
    at: new Date(row.claimedAt),
    duration,
    outcome,
    ...(reason !== undefined && { reason }),
    ...(error !== undefined && { error }),
    ...(row.worker !== undefined && { worker: row.worker }),
  };
  row.history = [...row.history, entry].slice(-HISTORY_LENGTH);
}

export function isMatch(row: EventRow, filter: EventFilter): boolean {
  const { eventId, ref, state, type, reason, source, receivedAfter, receivedBefore } = filter;
  return (
    (eventId === undefined || row.event.eventId === eventId) &&
    (ref === undefined || row.event.ref === ref) &&
    (state === undefined || row.state === state) &&
    (type === undefined || row.type === type) &&
    (reason === undefined || row.reason === reason) &&
    (source === undefined || row.event.source === source) &&
    (receivedAfter === undefined || row.receivedAt >= receivedAfter.getTime()) &&
    (receivedBefore === undefined || row.receivedAt < receivedBefore.getTime())
  );
}

/** Copies a snapshot that a caller passes or gets, because the caller may change it. */
export function copyOf({ status, fields }: Snapshot): Snapshot {
  return { status, fields: { ...fields } };
}

export function isOpen({ state }: EventRow): boolean {
  return state === "pending" || state === "retrying" || state === "processing";
}

/** Begins the wait after a failure. In an outage, the whole record waits. Otherwise, only the event waits. */
export function postpone(
  row: EventRow,
  record: RecordRow,
  outcome: Extract<Outcome, { readonly state: "retrying" }>,
  now: number,
): void {
  const wait = { from: now, until: now + outcome.in };
  if (outcome.counted) {
    row.outages = 0;
    row.firstOutageAt = undefined;
    row.dueAt = wait.until;
    row.wait = wait;
  } else {
    row.attempts -= 1;
    row.outages += 1;
    row.firstOutageAt ??= now;
    row.dueAt = now;
    record.wait = wait;
  }
}

/** Replays an event that was done or parked. */
export function beginAnew(row: EventRow, now: number): void {
  row.attempts = 0;
  row.outages = 0;
  row.firstOutageAt = undefined;
  row.reason = null;
  row.replayed = true;
  row.dueAt = now;
}

export function toRecordSnapshot({ ref, snapshot, sequence, seenAt }: RecordRow): RecordSnapshot {
  return { ref: ref!, snapshot: copyOf(snapshot!), sequence, seenAt: new Date(seenAt) };
}

export function toClaim(row: EventRow, record: RecordRow, lease: string): ClaimedEvent {
  const { claimedAt } = row;
  return {
    ...row.event,
    receivedAt: row.receivedAt,
    claimedAt,
    attempts: row.attempts,
    outages: row.outages,
    outageFor: row.firstOutageAt === undefined ? 0 : Math.max(0, claimedAt - row.firstOutageAt),
    replayed: row.replayed,
    previous: record.snapshot && copyOf(record.snapshot),
    sequence: record.sequence,
    lease,
  };
}

/** @param record - the event's record, or `undefined` if the event is done or parked */
export function toStoredEvent(row: EventRow, record: RecordRow | undefined): StoredEvent {
  const { state, history } = row;
  const isWaiting = state === "pending" || state === "retrying";
  const dueAt = state === "processing" ? row.leaseEnd : Math.max(row.dueAt, record?.wait?.until ?? 0);
  return {
    ...row.event,
    state,
    attempts: row.attempts,
    receivedAt: new Date(row.receivedAt),
    dueAt: isWaiting || state === "processing" ? new Date(dueAt) : null,
    doneAt: state === "done" ? new Date(row.endedAt) : null,
    type: row.type,
    lastError: history.at(-1)?.error ?? null,
    reason: row.reason,
    history: history.map(({ at, ...entry }) => ({ at: new Date(at), ...entry })),
  };
}
