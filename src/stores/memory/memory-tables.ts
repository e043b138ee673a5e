// The tables of the memory store: its rows, the order in which they are due, and the clock.

import { accountOf } from "../../account.ts";
import { clockOffset } from "../../clock.ts";
import { takesOf } from "../beginnings.ts";
import type { RowFilter } from "../event-filter.ts";
import { type EventState, noEvents } from "../event-states.ts";
import { lostHistory } from "../outcomes.ts";
import type { ClaimOptions, PruneOptions, PruneSnapshotsOptions } from "../store-options.ts";
import type { ClaimedEvent } from "../stored-event.ts";
import { DueHeap } from "./due-heap.ts";
import {
  type EventRow,
  firstOf,
  isFiredTimer,
  isMatch,
  isWaiting,
  newRecordRow,
  type RecordRow,
} from "./memory-rows.ts";

/** The maximum number of done events that the store keeps to recognize repeated deliveries. */
const MOST_DONE = 100_000;

export class MemoryTables {
  /** All events by id, in order of arrival. */
  readonly events = new Map<string, EventRow>();
  /** The events of each account, in order of arrival. */
  readonly accounts = new Map<string, Set<EventRow>>();
  /** The records that have an event, a snapshot or a ledger, by key. */
  readonly records = new Map<string, RecordRow>();
  /** The records with a lease or a due time. */
  readonly due = new DueHeap<RecordRow>();
  /** How many events are in each state. {@link insert}, {@link setState} and {@link forget} keep it. */
  readonly counts: Record<EventState, number> = { ...noEvents };
  /** The done events, in the order in which they became done. Timers are in a set of their own. */
  readonly done = new Set<EventRow>();
  /** The timers that have fired. They do not count toward {@link MOST_DONE}, because their record's snapshot keeps them. */
  readonly doneTimers = new Set<EventRow>();
  /** When the newest notification arrived. */
  lastReceivedAt: number | undefined;
  #arrivals = 0;
  #clockOffset = clockOffset();
  readonly #loadedAt: number | undefined;

  /** @param loadedAt - the time of loaded rows, by the clock of their store. Default: the clock runs */
  constructor(loadedAt?: number) {
    this.#loadedAt = loadedAt;
  }

  insert(row: EventRow): void {
    this.events.set(row.event.eventId, row);
    this.counts[row.state] += 1;
    row.record.events.add(row);
    const account = accountOf(row.event);
    if (account !== undefined) this.accounts.set(account, (this.accounts.get(account) ?? new Set()).add(row));
    if (hasDueTime(row.state)) row.record.open.add(row);
    this.noteReceived(row);
    if (row.state === "done") this.becameDone(row);
    this.becomeDue(row);
  }

  setState(row: EventRow, state: EventState): void {
    this.counts[row.state] -= 1;
    (row as { state: EventState }).state = state;
    this.counts[state] += 1;
    if (hasDueTime(state)) row.record.open.add(row);
    else row.record.open.delete(row);
  }

  /** Resets the due time, the counts and the reason to those of a new event. The event keeps its history and its type. */
  beginAnew(row: EventRow, state: "pending" | "scheduled", dueAt: number): void {
    this.setState(row, state);
    row.dueAt = dueAt;
    row.firstDueAt = dueAt;
    row.attempts = 0;
    row.outages = 0;
    row.firstOutageAt = null;
    row.failures = 0;
    row.refusals = 0;
    row.reason = null;
  }

  noteReceived({ event, receivedAt }: EventRow): void {
    if (event.source === "webhook") this.lastReceivedAt = Math.max(this.lastReceivedAt ?? 0, receivedAt);
  }

  nextArrival(): number {
    this.#arrivals += 1;
    return this.#arrivals;
  }

  /** Returns the event's record. */
  recordFor(ref: string | null, eventId: string): RecordRow {
    const key = recordKeyOf(ref, eventId);
    let record = this.records.get(key);
    if (record === undefined) {
      record = newRecordRow(key, ref);
      this.records.set(key, record);
    }
    return record;
  }

  /** Returns the claim's row, or `undefined` if the claim's lease is lost. */
  held({ eventId, lease }: ClaimedEvent): EventRow | undefined {
    const row = this.events.get(eventId);
    return row !== undefined && row.record.lease?.row === row && row.lease === lease ? row : undefined;
  }

  /** Makes the record due when the event is due, or earlier. A lease keeps its time. */
  becomeDue({ record, dueAt }: EventRow): void {
    if (dueAt === undefined || record.lease !== undefined) return;
    this.due.set(record, record.index === -1 ? dueAt : Math.min(record.time, dueAt));
  }

  /** Makes the record due when its lease ends. Without a lease: when its first event is due, but not before `from`. */
  refresh(record: RecordRow, from = Number.NEGATIVE_INFINITY): void {
    const due = record.lease?.end ?? firstOf(record)?.dueAt;
    this.due.set(record, due === undefined ? undefined : Math.max(due, from));
    const isKept = record.snapshot !== undefined || record.ledger !== undefined;
    if (record.events.size === 0 && !isKept && record.lease === undefined) this.records.delete(record.key);
  }

  becameDone(row: EventRow): void {
    if (row.event.source === "timer") {
      this.doneTimers.add(row);
      return;
    }
    this.done.add(row);
    if (this.done.size <= MOST_DONE || this.#loadedAt !== undefined) return;
    const [oldest] = this.done;
    this.forget(oldest!);
    this.refresh(oldest!.record);
  }

  notDone(row: EventRow): void {
    this.done.delete(row);
    this.doneTimers.delete(row);
  }

  forget(row: EventRow): void {
    this.events.delete(row.event.eventId);
    this.counts[row.state] -= 1;
    this.notDone(row);
    row.record.events.delete(row);
    const account = accountOf(row.event);
    const others = account === undefined ? undefined : this.accounts.get(account);
    if (others?.delete(row) && others.size === 0) this.accounts.delete(account!);
    row.record.open.delete(row);
  }

  /** Returns the events that match `filter`, the newest first. */
  matching(filter: RowFilter, before = Number.POSITIVE_INFINITY): EventRow[] {
    const { eventId, ref, account } = filter;
    let rows: Iterable<EventRow | undefined> = this.events.values();
    if (eventId !== undefined) rows = [this.events.get(eventId)];
    else if (ref !== undefined) rows = this.records.get(ref)?.events ?? [];
    else if (account !== undefined) rows = this.accounts.get(account) ?? [];
    return [...rows]
      .filter((row) => row !== undefined)
      .filter((row) => row.arrival < before && isMatch(row, filter))
      .reverse();
  }

  /** Returns the events that `prune` deletes, the one that ended first first. */
  prunable({ state, reason, age, limit }: PruneOptions): EventRow[] {
    const until = this.now() - age;
    return (state === "done" ? [...this.done, ...this.doneTimers] : this.matching({ state, reason }))
      .filter((row) => row.endedAt <= until && !isFiredTimer(row))
      .sort((a, b) => a.endedAt - b.endedAt)
      .slice(0, limit);
  }

  /** Returns the records whose snapshot `pruneSnapshots` deletes, the one that was seen first first. */
  prunableSnapshots({ age, limit }: PruneSnapshotsOptions): RecordRow[] {
    const until = this.now() - age;
    return [...this.records.values()]
      .filter(({ snapshot, ledger }) => snapshot !== undefined && ledger === undefined)
      .filter(({ seenAt, index }) => seenAt <= until && index === -1)
      .sort((a, b) => a.seenAt - b.seenAt)
      .slice(0, limit);
  }

  now(): number {
    if (this.#loadedAt !== undefined) return this.#loadedAt;
    const moved = clockOffset() - this.#clockOffset;
    if (moved !== 0) this.#shiftLeases(moved);
    return Date.now() + this.#clockOffset;
  }

  /** Moves the ends of all leases: when a sandbox moves the clock, attempts that run keep their leases. */
  #shiftLeases(ms: number): void {
    this.#clockOffset += ms;
    for (const record of this.records.values()) {
      if (record.lease === undefined) continue;
      record.lease.end += ms;
      record.lease.row.dueAt! += ms;
      this.refresh(record);
    }
  }

  /** Yields the records that can be claimed. The caller leases each record before it asks for the next one. */
  *candidates(call: ClaimOptions, now: number): Iterable<RecordRow> {
    const { eventId, limit } = call;
    const takes = takesOf(call);
    if (eventId !== undefined) {
      const record = this.events.get(eventId)?.record;
      const isDue = record !== undefined && record.index !== -1 && record.time <= now;
      if (isDue && (takes === undefined || takes(nameOf(record)))) yield record;
    } else if (takes === undefined) {
      while (this.due.first !== undefined && this.due.first.time <= now) yield this.due.first;
    } else {
      for (let left = true; left; ) {
        const found = this.firstDue(takes, now, limit);
        left = found.length > 0;
        yield* found;
      }
    }
  }

  /** Returns the records that are due first, of those that a claim takes. */
  firstDue(takes: (key: string) => boolean, until: number, limit: number): RecordRow[] {
    return this.due.firstOf((record) => takes(nameOf(record)), until, limit);
  }

  /** If the record's lease has ended, gives its event a `lost` entry, and lets the event wait again. */
  expire(record: RecordRow, now: number): void {
    const { lease } = record;
    if (lease === undefined || lease.end > now) return;
    const { row, end } = lease;
    row.history = lostHistory(row, row.claimedAt, end);
    row.lease = undefined;
    this.setState(row, "retrying");
    record.lease = undefined;
    this.refresh(record);
  }

  remove(record: RecordRow, what: readonly string[] | "timers", now: number, kept?: EventRow): number {
    const rows = [...record.events].filter(
      ({ event, state }) =>
        (state !== "done" || event.source === "timer") &&
        (what === "timers" ? event.source === "timer" : what.includes(event.eventId)),
    );
    const removed = rows.filter(
      (row) => row !== kept && (row.state !== "processing" || record.lease!.end <= now),
    );
    for (const row of removed) {
      if (record.lease?.row === row) record.lease = undefined;
      this.forget(row);
    }
    this.refresh(record);
    return removed.length;
  }

  endLeaseAt(claim: ClaimedEvent, end = 0): void {
    const record = this.held(claim)?.record;
    if (record === undefined) return;
    record.lease!.end = end;
    this.refresh(record);
  }

  /** Returns since when the oldest waiting event waits. */
  oldestWaiting(now: number): number | undefined {
    let since = Number.POSITIVE_INFINITY;
    for (const row of this.events.values()) if (isWaiting(row, now)) since = Math.min(since, row.firstDueAt);
    return since === Number.POSITIVE_INFINITY ? undefined : since;
  }

  /** Makes no list: the backlog limit asks twice a second, while notifications wait for their answer. */
  scheduledDue(now: number): number {
    if (this.counts.scheduled === 0) return 0;
    let count = 0;
    for (const { state, dueAt } of this.events.values())
      if (state === "scheduled" && dueAt! <= now) count += 1;
    return count;
  }
}

/** Returns the key by which `except` and `only` of a claim know a record. */
function nameOf({ ref, key }: RecordRow): string {
  return ref ?? key.slice(1);
}

/** Returns the key of an event's record. An event without a `ref` has a record of its own, whose key is no `ref`. */
function recordKeyOf(ref: string | null, eventId: string): string {
  return ref ?? `\0${eventId}`;
}

function hasDueTime(state: EventState): boolean {
  return state !== "done" && state !== "parked";
}
