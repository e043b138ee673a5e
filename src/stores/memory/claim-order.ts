import { type EventRow, hasOpen, type RecordRow, type Wait } from "./memory-rows.ts";

/** Orders the records that can be claimed now, and knows when the next one can be claimed. */
export class ClaimOrder {
  /** Records with a pending event that can be claimed, by the arrival of the first one. */
  readonly #pending = new IndexedHeap<RecordRow>();
  /** The same records, the newest first. Made by the first claim with order `newest`, because it slows down `add`. */
  #newest: IndexedHeap<RecordRow> | undefined;
  /** Records with a retry that can be claimed, by the time at which it became ready. */
  readonly #retries = new IndexedHeap<RecordRow>();
  /** Records with events that can be claimed later, by the time of the first one. */
  readonly #later = new IndexedHeap<RecordRow>();
  /** All records with open events. */
  readonly #records = new Set<RecordRow>();
  #now = Number.NEGATIVE_INFINITY;

  /** Sets the clock to the store's time: records whose wait has ended can be claimed. Call it before any other method. */
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

  /** Updates the record's place after a change of its events, lease or wait. */
  refresh(record: RecordRow): void {
    const freeAt = this.#freeAt(record);
    let later = Number.POSITIVE_INFINITY;
    let pending: EventRow | undefined;
    let retry: EventRow | undefined;
    for (const row of record.pending) {
      const at = Math.max(freeAt, endOf(row.wait));
      if (at > this.#now) later = Math.min(later, at);
      else pending = row;
      // Stop here: later events change nothing, and a record may have thousands.
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

  /** Does the same as {@link refresh}, after an event without a wait was added to the record. */
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

interface Entry<T> {
  readonly item: T;
  time: number;
  /** Orders items that have the same time. */
  rank: number;
  index: number;
}

/** A priority queue by time in which an item can be moved or removed: O(log n) each, O(1) to look at the first. */
export class IndexedHeap<T> implements Iterable<T> {
  readonly #heap: Entry<T>[] = [];
  readonly #entries = new Map<T, Entry<T>>();

  get size(): number {
    return this.#heap.length;
  }

  /** The item with the smallest time, the smallest rank among equal times. */
  get first(): T | undefined {
    return this.#heap[0]?.item;
  }

  /** Time of {@link first}; `Infinity` where there is none. */
  get firstTime(): number {
    return this.#heap[0]?.time ?? Number.POSITIVE_INFINITY;
  }

  [Symbol.iterator](): Iterator<T> {
    return this.#entries.keys();
  }

  timeOf(item: T): number | undefined {
    return this.#entries.get(item)?.time;
  }

  has(item: T): boolean {
    return this.#entries.has(item);
  }

  /** Adds the item, or moves it to another time. */
  set(item: T, time: number, rank: number): void {
    let entry = this.#entries.get(item);
    if (entry === undefined) {
      entry = { item, time, rank, index: this.#heap.length };
      this.#entries.set(item, entry);
      this.#heap.push(entry);
    } else {
      entry.time = time;
      entry.rank = rank;
    }
    this.#settle(entry);
  }

  delete(item: T): void {
    const entry = this.#entries.get(item);
    if (entry === undefined) return;
    this.#entries.delete(item);
    const last = this.#heap.pop()!;
    if (last === entry) return;
    this.#put(last, entry.index);
    this.#settle(last);
  }

  #settle(entry: Entry<T>): void {
    this.#up(entry);
    this.#down(entry);
  }

  #up(entry: Entry<T>): void {
    while (entry.index > 0) {
      const parent = this.#heap[(entry.index - 1) >> 1]!;
      if (!isBefore(entry, parent)) return;
      this.#swap(entry, parent);
    }
  }

  #down(entry: Entry<T>): void {
    for (;;) {
      const left = this.#heap[2 * entry.index + 1];
      if (left === undefined) return;
      const right = this.#heap[2 * entry.index + 2];
      const child = right !== undefined && isBefore(right, left) ? right : left;
      if (!isBefore(child, entry)) return;
      this.#swap(entry, child);
    }
  }

  #swap(a: Entry<T>, b: Entry<T>): void {
    const index = a.index;
    this.#put(a, b.index);
    this.#put(b, index);
  }

  #put(entry: Entry<T>, index: number): void {
    entry.index = index;
    this.#heap[index] = entry;
  }
}

function isBefore<T>(a: Entry<T>, b: Entry<T>): boolean {
  return a.time < b.time || (a.time === b.time && a.rank < b.rank);
}
