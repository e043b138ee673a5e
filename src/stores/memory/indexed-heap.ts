interface Entry<T> {
  readonly item: T;
  time: number;
  /** Decides between equal times. */
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
