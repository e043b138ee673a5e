import { IndexedHeap } from "./indexed-heap.ts";
import { OrderedSet } from "./ordered-set.ts";
import { type EventRow, newRecordRow, type RecordRow } from "./rows.ts";

/**
 * The records table, and which record is ready when: two heaps, one by the time at which a record's first
 * pending event can be claimed, one by that of its first retry. A leased record stands in both at the end of
 * its lease, a waiting one at the end of its wait; so nothing has to happen when either passes.
 */
export class Schedule {
  readonly #records = new Map<string, RecordRow>();
  readonly #byPending = new IndexedHeap<RecordRow>();
  readonly #byRetry = new IndexedHeap<RecordRow>();
  /** Records with a status, the one not handled for longest first. */
  readonly #seen = new OrderedSet<RecordRow>();

  /** Epoch ms; `Infinity` where no event waits. */
  get nextReady(): number {
    return Math.min(this.#byPending.firstTime, this.#byRetry.firstTime);
  }

  /** Where events of `ref` wait, or their last status is known. */
  record(ref: string): RecordRow | undefined {
    return this.#records.get(ref);
  }

  /** Puts the event in line where its state and times now say. */
  place(row: EventRow): void {
    const record = this.#attach(row);
    if (row.state === "pending") {
      record.retries.delete(row);
      record.pending.set(row, row.dueAt, row.arrival);
    } else {
      record.pending.delete(row);
      record.retries.set(row, row.state === "processing" ? row.leaseEnd : row.dueAt, row.arrival);
    }
    this.#refresh(record);
  }

  /** The same, and its record waits no longer. */
  placeNow(row: EventRow): void {
    this.#attach(row).waitEnd = 0;
    this.place(row);
  }

  /** Takes the event out of the line: it is done or parked. */
  remove(row: EventRow): void {
    const { record } = row;
    if (record === undefined) return;
    row.record = undefined;
    record.pending.delete(row);
    record.retries.delete(row);
    this.#refresh(record);
    if (!this.hasWaiting(record) && record.status === undefined && record.ref !== null) {
      this.#records.delete(record.ref);
    }
  }

  /** Whether any event of the record is pending, retrying or processing. */
  hasWaiting(record: RecordRow): boolean {
    return record.pending.size + record.retries.size > 0;
  }

  /** The event that is to be claimed next, if any can be. */
  next(now: number, retriesFirst: boolean): EventRow | undefined {
    return retriesFirst
      ? (this.#nextRetry(now) ?? this.#nextPending(now))
      : (this.#nextPending(now) ?? this.#nextRetry(now));
  }

  isReady(row: EventRow, now: number): boolean {
    const { record } = row;
    if (record === undefined || freeFrom(record) > now) return false;
    return (row.state === "processing" ? row.leaseEnd : row.dueAt) <= now;
  }

  handled(record: RecordRow, status: string, now: number): void {
    if (record.ref === null) return;
    if (record.status !== status) record.sequence += 1;
    record.status = status;
    record.seenAt = now;
    this.#seen.add(record);
  }

  /** Forgets statuses last seen at `until` or before, of records without waiting events. */
  forgetStatuses(until: number, limit: number): number {
    let forgotten = 0;
    for (const record of this.#seen) {
      if (forgotten >= limit || record.seenAt > until) break;
      if (this.hasWaiting(record)) continue;
      this.#seen.delete(record);
      this.#records.delete(record.ref!);
      forgotten += 1;
    }
    return forgotten;
  }

  statuses(): Iterable<RecordRow> {
    return this.#seen;
  }

  #nextPending(now: number): EventRow | undefined {
    return this.#byPending.firstTime <= now ? this.#byPending.first?.pending.first : undefined;
  }

  #nextRetry(now: number): EventRow | undefined {
    return this.#byRetry.firstTime <= now ? this.#byRetry.first?.retries.first : undefined;
  }

  #attach(row: EventRow): RecordRow {
    const { ref } = row.event;
    row.record ??= (ref === null ? undefined : this.#records.get(ref)) ?? newRecordRow(ref);
    if (ref !== null) this.#records.set(ref, row.record);
    return row.record;
  }

  #refresh(record: RecordRow): void {
    const from = freeFrom(record);
    refreshIn(this.#byPending, record, record.pending, from);
    refreshIn(this.#byRetry, record, record.retries, from);
  }
}

function refreshIn(
  heap: IndexedHeap<RecordRow>,
  record: RecordRow,
  line: IndexedHeap<EventRow>,
  freeFrom: number,
): void {
  const first = line.first;
  if (first === undefined) heap.delete(record);
  else heap.set(record, Math.max(line.firstTime, freeFrom), first.arrival);
}

/** When the record is neither leased nor waiting any more. */
function freeFrom(record: RecordRow): number {
  return Math.max(record.waitEnd, record.lease?.row.leaseEnd ?? 0);
}
