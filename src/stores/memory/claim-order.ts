import { type EventRow, hasOpen, type RecordRow, type Wait } from "./memory-rows.ts";

/** Orders the records that can be claimed now, and knows when the next record can be claimed. */
export class ClaimOrder {
  /** Records with claimable pending events, ordered by the arrival of the first of these events. */
  readonly #pending = new IndexedHeap<RecordRow>();
  /** `#pending` in reverse order. This heap slows `add`, so it is created at the first claim with order `newest`. */
  #newest: IndexedHeap<RecordRow> | undefined;
  /** Records with a retry that can be claimed, ordered by the time at which the retry became ready. */
  readonly #retries = new IndexedHeap<RecordRow>();
  /** Records with events that are not ready yet, ordered by the time at which the next of these events is ready. */
  readonly #later = new IndexedHeap<RecordRow>();
  /** All records with a pending, retrying or processing event. */
  readonly #records = new Set<RecordRow>();
  #now = Number.NEGATIVE_INFINITY;

  /** Sets the clock to `now`. Records whose wait has ended can then be claimed. Call `pass` before other methods. */
  pass(now: number): void {
    const wentBack = now < this.#now;
    this.#now = now;
    if (wentBack) this.#endWaitsFrom(now);
    while (this.#later.firstTime <= now) this.refresh(this.#later.first!);
  }

  /** Returns the next event to claim: the oldest ready event of the record that comes first in `order`. */
  next(order: "oldest" | "newest" | "retries"): EventRow | undefined {
    const pending = order === "newest" ? this.#byNewest().first : this.#pending.first;
    const retries = this.#retries.first;
    const record = order === "retries" ? (retries ?? pending) : (pending ?? retries);
    if (record === undefined) return undefined;
    const isReady = (row: EventRow) => this.isReady(row, record);
    const [first, tried] = [record.pending.find(isReady), record.tried.find(isReady)];
    return first === undefined || (tried !== undefined && tried.arrival < first.arrival) ? tried : first;
  }

  /** When the next event can be claimed, epoch ms. It is `Infinity` if all events are done or parked. */
  get nextReady(): number {
    return this.#pending.size + this.#retries.size > 0 ? this.#now : this.#later.firstTime;
  }

  isReady(row: EventRow, record: RecordRow): boolean {
    return this.#readyAt(row, record) <= this.#now;
  }

  /** Updates the record's position after a change of its events, lease or wait. */
  refresh(record: RecordRow): void {
    const freeAt = this.#freeAt(record);
    let later = Number.POSITIVE_INFINITY;
    let pending: EventRow | undefined;
    let retry: EventRow | undefined;
    for (const row of record.pending) {
      const at = Math.max(freeAt, endOf(row.wait));
      if (at > this.#now) later = Math.min(later, at);
      else pending = row;
      // A record may have thousands of events. So stop as soon as no later event can be ready sooner.
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

  /** Updates the record's position after an event without `dueIn` was added. Faster than {@link refresh}. */
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

  /** When the record's lease and wait have both ended, epoch ms. */
  #freeAt({ lease, wait }: RecordRow): number {
    return Math.max(lease?.row.leaseEnd ?? Number.NEGATIVE_INFINITY, endOf(wait));
  }

  /** Ends the waits that began after `now`, because the clock was set back. */
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

/** A priority queue ordered by time. Moving or removing an item takes O(log n). Reading the first item takes O(1). */
export class IndexedHeap<T> implements Iterable<T> {
  readonly #heap: Entry<T>[] = [];
  readonly #entries = new Map<T, Entry<T>>();

  get size(): number {
    return this.#heap.length;
  }

  /** The item with the smallest time. If times are equal, the item with the smallest rank is first. */
  get first(): T | undefined {
    return this.#heap[0]?.item;
  }

  /** The time of {@link first}. It is `Infinity` if the heap is empty. */
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
