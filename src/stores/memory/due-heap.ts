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

  /** Yields the items in their order, as long as the caller wants more. The heap must not change meanwhile. */
  *inOrder(): Generator<T> {
    const next: T[] = this.#items.slice(0, 1);
    while (next.length > 0) {
      const first = takeFirst(next);
      yield first;
      // An item comes before its children, so these are the only ones that can follow now.
      for (const child of this.#items.slice(2 * first.index + 1, 2 * first.index + 3)) insert(next, child);
    }
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

/** Adds an item to a heap that keeps no places. */
function insert<T extends HeapItem>(heap: T[], item: T): void {
  let at = heap.push(item) - 1;
  for (let parent = (at - 1) >> 1; at > 0 && isBefore(item, heap[parent]!); parent = (at - 1) >> 1) {
    heap[at] = heap[parent]!;
    at = parent;
  }
  heap[at] = item;
}

/** Removes the first item of a heap that keeps no places. */
function takeFirst<T extends HeapItem>(heap: T[]): T {
  const [first] = heap as [T];
  const last = heap.pop()!;
  if (heap.length === 0) return first;
  let at = 0;
  for (let child = 1; child < heap.length; child = 2 * at + 1) {
    if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1;
    if (!isBefore(heap[child]!, last)) break;
    heap[at] = heap[child]!;
    at = child;
  }
  heap[at] = last;
  return first;
}
