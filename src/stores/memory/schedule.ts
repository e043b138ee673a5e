import { IndexedHeap } from "./indexed-heap.ts";
import type { EventRow, RecordRow, Wait } from "./rows.ts";

/** Which records can be claimed now, in which order, and when the next one can. */
export class Schedule {
  /** Records with a pending event that can be claimed, by the arrival of the first one. */
  readonly #pending = new IndexedHeap<RecordRow>();
  /** Records with a retry that can be claimed, by the time at which it became ready. */
  readonly #retries = new IndexedHeap<RecordRow>();
  /** Records with events that can be claimed later, by the time of the first one. */
  readonly #later = new IndexedHeap<RecordRow>();
  /** All records with open events. */
  readonly #records = new Set<RecordRow>();
  #now = Number.NEGATIVE_INFINITY;
  /** When a wait begins that is over for now because the clock went back. */
  #backUntil = Number.POSITIVE_INFINITY;

  /** Brings the order up to the store's time. To be called before anything else is asked or changed. */
  pass(now: number): void {
    const isElsewhere = now < this.#now || now >= this.#backUntil;
    this.#now = now;
    if (isElsewhere) {
      this.#backUntil = Number.POSITIVE_INFINITY;
      for (const record of this.#records) this.refresh(record);
    }
    while (this.#later.firstTime <= now) this.refresh(this.#later.first!);
  }

  /** The record to claim next, if any can be. */
  next(order: "oldest" | "newest" | "retries"): RecordRow | undefined {
    if (order === "retries") return this.#retries.first ?? this.#pending.first;
    return (order === "oldest" ? this.#pending.first : this.#pending.findLast()) ?? this.#retries.first;
  }

  /** When the first event can be claimed; `Infinity` where none waits. */
  get nextReady(): number {
    return this.#pending.size + this.#retries.size > 0 ? this.#now : this.#later.firstTime;
  }

  isReady(row: EventRow, record: RecordRow): boolean {
    return this.#readyAt(row, record) <= this.#now;
  }

  /** Puts the record where its events, lease and wait now say. */
  refresh(record: RecordRow): void {
    let pending: EventRow | undefined;
    let retry: EventRow | undefined;
    let later = Number.POSITIVE_INFINITY;
    for (const row of record.open) {
      const at = this.#readyAt(row, record);
      if (at > this.#now) later = Math.min(later, at);
      else if (row.state === "pending") pending ??= row;
      else if (retry === undefined || ownTime(row) < ownTime(retry)) retry = row;
    }
    if (pending === undefined) this.#pending.delete(record);
    else this.#pending.set(record, pending.arrival, 0);
    if (retry === undefined) this.#retries.delete(record);
    else this.#retries.set(record, becameReadyAt(retry, record), retry.arrival);
    if (later === Number.POSITIVE_INFINITY) this.#later.delete(record);
    else this.#later.set(record, later, 0);
    if (record.open.length === 0) this.#records.delete(record);
    else this.#records.add(record);
  }

  /** As {@link refresh}, after an event without a wait was added to the record. */
  refreshAdded(record: RecordRow): void {
    // A record that was ready or is leased stays where it is. A long line of events is not looked through for each new one.
    const isLeased = record.lease !== undefined && record.lease.row.leaseEnd > this.#now;
    if (!isLeased && !this.#pending.has(record)) this.refresh(record);
  }

  #readyAt(row: EventRow, record: RecordRow): number {
    return Math.max(
      row.state === "processing" ? row.leaseEnd : this.#endOf(row.wait),
      record.lease?.row.leaseEnd ?? Number.NEGATIVE_INFINITY,
      this.#endOf(record.wait),
    );
  }

  #endOf(wait: Wait | undefined): number {
    if (wait === undefined) return Number.NEGATIVE_INFINITY;
    if (this.#now >= wait.from) return wait.until;
    this.#backUntil = Math.min(this.#backUntil, wait.from);
    return Number.NEGATIVE_INFINITY;
  }
}

function ownTime(row: EventRow): number {
  return row.state === "processing" ? row.leaseEnd : row.dueAt;
}

function becameReadyAt(row: EventRow, record: RecordRow): number {
  return Math.max(ownTime(row), record.lease?.row.leaseEnd ?? 0, record.wait?.until ?? 0);
}
