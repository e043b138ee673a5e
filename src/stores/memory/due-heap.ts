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
