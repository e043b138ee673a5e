interface Node<T> {
  readonly item: T;
  previous: Node<T> | undefined;
  next: Node<T> | undefined;
}

/**
 * A set in order of arrival whose first item is found in O(1) however many went before it. (The first key of
 * a `Map` is not: V8 steps over each deleted one, 20 µs at 100,000 entries.)
 */
export class OrderedSet<T> implements Iterable<T> {
  readonly #nodes = new Map<T, Node<T>>();
  #first: Node<T> | undefined;
  #last: Node<T> | undefined;

  get size(): number {
    return this.#nodes.size;
  }

  get first(): T | undefined {
    return this.#first?.item;
  }

  /** Puts the item last, wherever it was. */
  add(item: T): void {
    this.delete(item);
    const node: Node<T> = { item, previous: this.#last, next: undefined };
    if (this.#last === undefined) this.#first = node;
    else this.#last.next = node;
    this.#last = node;
    this.#nodes.set(item, node);
  }

  delete(item: T): void {
    const node = this.#nodes.get(item);
    if (node === undefined) return;
    this.#nodes.delete(item);
    if (node.previous === undefined) this.#first = node.next;
    else node.previous.next = node.next;
    if (node.next === undefined) this.#last = node.previous;
    else node.next.previous = node.previous;
  }

  /** From first to last. The item that is being visited may be deleted meanwhile. */
  *[Symbol.iterator](): Iterator<T> {
    for (let node = this.#first; node !== undefined; node = node.next) yield node.item;
  }
}
