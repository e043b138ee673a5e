import { IndexedHeap } from "./indexed-heap.ts";
import { type EventRow, hasOpen, type RecordRow, type Wait } from "./rows.ts";

/** Which records can be claimed now, in which order, and when the next one can. */
export class Schedule {
  /** Records with a pending event that can be claimed, by the arrival of the first one. */
  readonly #pending = new IndexedHeap<RecordRow>();
  /** The same by arrival from the greatest down, from the first claim with order `newest` on: it would slow down the intake. */
  #newest: IndexedHeap<RecordRow> | undefined;
  /** Records with a retry that can be claimed, by the time at which it became ready. */
  readonly #retries = new IndexedHeap<RecordRow>();
  /** Records with events that can be claimed later, by the time of the first one. */
  readonly #later = new IndexedHeap<RecordRow>();
  /** All records with open events. */
  readonly #records = new Set<RecordRow>();
  #now = Number.NEGATIVE_INFINITY;

  /** Brings the order up to the store's time. Call it before anything else is asked or changed. */
  pass(now: number): void {
    const wentBack = now < this.#now;
    this.#now = now;
    if (wentBack) this.#endWaitsFrom(now);
    while (this.#later.firstTime <= now) this.refresh(this.#later.first!);
  }

  /** The event to claim next, if any can be: the oldest ready one of the record that goes first. */
  next(order: "oldest" | "newest" | "retries"): EventRow | undefined {
    const pending = order === "newest" ? this.#byNewest().first : this.#pending.first;
    const retries = this.#retries.first;
    const record = order === "retries" ? (retries ?? pending) : (pending ?? retries);
    if (record === undefined) return undefined;
    const isReady = (row: EventRow) => this.isReady(row, record);
    const [first, tried] = [record.pending.find(isReady), record.tried.find(isReady)];
    return first === undefined || (tried !== undefined && tried.arrival < first.arrival) ? tried : first;
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
    const freeAt = this.#freeAt(record);
    let later = Number.POSITIVE_INFINITY;
    let pending: EventRow | undefined;
    let retry: EventRow | undefined;
    for (const row of record.pending) {
      const at = Math.max(freeAt, endOf(row.wait));
      if (at > this.#now) later = Math.min(later, at);
      else pending = row;
      // No event behind this one changes anything: a record may have thousands.
      if (at <= this.#now || at === freeAt) break;
    }
    for (const row of record.tried) {
      const at = this.#readyAt(row, record);
      if (at > this.#now) later = Math.min(later, at);
      else if (retry === undefined || ownTime(row) < ownTime(retry)) retry = row;
    }
    if (pending === undefined) {
      this.#pending.delete(record);
      this.#newest?.delete(record);
    } else {
      this.#pending.set(record, pending.arrival, 0);
      this.#newest?.set(record, -pending.arrival, 0);
    }
    if (retry === undefined) this.#retries.delete(record);
    else this.#retries.set(record, becameReadyAt(retry, record), retry.arrival);
    if (later === Number.POSITIVE_INFINITY) this.#later.delete(record);
    else this.#later.set(record, later, 0);
    if (hasOpen(record)) this.#records.add(record);
    else this.#records.delete(record);
  }

  /** As {@link refresh}, after an event without a wait was added to the record. */
  refreshAdded(record: RecordRow): void {
    if (!this.#pending.has(record)) this.refresh(record);
  }

  #byNewest(): IndexedHeap<RecordRow> {
    if (this.#newest === undefined) {
      this.#newest = new IndexedHeap();
      for (const record of this.#pending) this.#newest.set(record, -this.#pending.timeOf(record)!, 0);
    }
    return this.#newest;
  }

  #readyAt(row: EventRow, record: RecordRow): number {
    return Math.max(this.#freeAt(record), row.state === "processing" ? row.leaseEnd : endOf(row.wait));
  }

  /** When the record is neither leased nor waiting any more. */
  #freeAt({ lease, wait }: RecordRow): number {
    return Math.max(lease?.row.leaseEnd ?? Number.NEGATIVE_INFINITY, endOf(wait));
  }

  /** A wait is over when the clock is earlier than when it began. */
  #endWaitsFrom(now: number): void {
    for (const record of this.#records) {
      for (const each of [record, ...record.pending, ...record.tried]) {
        if (each.wait !== undefined && each.wait.from > now) each.wait = undefined;
      }
      this.refresh(record);
    }
  }
}

function endOf(wait: Wait | undefined): number {
  return wait?.until ?? Number.NEGATIVE_INFINITY;
}

function ownTime(row: EventRow): number {
  return row.state === "processing" ? row.leaseEnd : row.dueAt;
}

function becameReadyAt(row: EventRow, record: RecordRow): number {
  return Math.max(ownTime(row), record.lease?.row.leaseEnd ?? 0, record.wait?.until ?? 0);
}
