/** An item of {@link DueHeap}. */
export interface HeapItem {
  /** The item's place in the heap. It is -1 outside of a heap. */
  index: number;
  /** When the item is due, epoch ms. */
  time: number;
  /** Orders items that are due at the same time: the item that got its time first comes first. */
  rank: number;
}

/** A priority queue ordered by time. Moving or removing an item takes O(log n). Reading the first item takes O(1). */
export class DueHeap<T extends HeapItem> {
  readonly #items: T[] = [];
  #ranks = 0;

  /** The item that is due first. */
  get first(): T | undefined {
    return this.#items[0];
  }

  /** Returns the first items that `takes` and that are due by a time, in their order. */
  firstOf(takes: (item: T) => boolean, until: number, limit: number): T[] {
    let found: T[] = [];
    /** If there are enough items: the last one of them. */
    let last: T | undefined;
    const places = [0];
    for (let place = places.pop(); place !== undefined; place = places.pop()) {
      const item = this.#items[place];
      // The items below an item come after it.
      if (item === undefined || item.time > until || (last && !isBefore(item, last))) continue;
      if (takes(item)) found.push(item);
      if (found.length > 2 * limit) {
        found = found.sort(order).slice(0, limit);
        last = found.at(-1);
      }
      places.push(2 * place + 2, 2 * place + 1);
    }
    return found.sort(order).slice(0, limit);
  }

  /** Adds the item, moves it to another time, or removes it if `time` is `undefined`. */
  set(item: T, time: number | undefined): void {
    if (time === undefined) {
      this.#delete(item);
      return;
    }
    if (item.index === -1 || item.time !== time) item.rank = this.#ranks++;
    item.time = time;
    if (item.index === -1) this.#put(item, this.#items.length);
    this.#up(item);
    this.#down(item);
  }

  #delete(item: T): void {
    if (item.index === -1) return;
    const last = this.#items.pop()!;
    if (last !== item) {
      this.#put(last, item.index);
      this.#up(last);
      this.#down(last);
    }
    item.index = -1;
  }

  #up(item: T): void {
    while (item.index > 0) {
      const parent = this.#items[(item.index - 1) >> 1]!;
      if (!isBefore(item, parent)) return;
      this.#swap(item, parent);
    }
  }

  #down(item: T): void {
    for (;;) {
      const left = this.#items[2 * item.index + 1];
      if (left === undefined) return;
      const right = this.#items[2 * item.index + 2];
      const child = right !== undefined && isBefore(right, left) ? right : left;
      if (!isBefore(child, item)) return;
      this.#swap(item, child);
    }
  }

  #swap(a: T, b: T): void {
    const { index } = a;
    this.#put(a, b.index);
    this.#put(b, index);
  }

  #put(item: T, index: number): void {
    this.#items[index] = item;
    item.index = index;
  }
}

function isBefore(a: HeapItem, b: HeapItem): boolean {
  return a.time < b.time || (a.time === b.time && a.rank < b.rank);
}

function order(a: HeapItem, b: HeapItem): number {
  return isBefore(a, b) ? -1 : 1;
}
