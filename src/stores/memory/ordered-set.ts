/** The place of an item in its set, kept in the item itself: a `Map` from items to places takes twice the time. */
export interface Linked<T> {
  /** The set that it is in. */
  set: object | undefined;
  previous: T | undefined;
  next: T | undefined;
}

/** A set in order of arrival. An item is in one set at a time. */
export class OrderedSet<T extends Linked<T>> implements Iterable<T> {
  #first: T | undefined;
  #last: T | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get first(): T | undefined {
    return this.#first;
  }

  /** Puts the item last, wherever it was. */
  add(item: T): void {
    this.delete(item);
    item.set = this;
    item.previous = this.#last;
    if (this.#last === undefined) this.#first = item;
    else this.#last.next = item;
    this.#last = item;
    this.#size += 1;
  }

  delete(item: T): void {
    if (item.set !== this) return;
    const { previous, next } = item;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    item.set = item.previous = item.next = undefined;
    this.#size -= 1;
  }

  /** From first to last. The item that is being visited may be deleted meanwhile. */
  *[Symbol.iterator](): Iterator<T> {
    let next: T | undefined;
    for (let item = this.#first; item !== undefined; item = next) {
      next = item.next;
      yield item;
    }
  }
}
