// The callbacks that a store wakes when an event may be due.

export class Subscribers {
  // The set contains objects, not functions, because the same function may subscribe twice.
  readonly #subscriptions = new Set<{ readonly wake: () => void }>();

  get isEmpty(): boolean {
    return this.#subscriptions.size === 0;
  }

  /** @returns a function that ends the subscription. From the second call on, that function returns `false` */
  add(wake: () => void): () => boolean {
    const subscription = { wake };
    this.#subscriptions.add(subscription);
    return () => this.#subscriptions.delete(subscription);
  }

  wake(): void {
    for (const { wake } of [...this.#subscriptions]) {
      try {
        wake();
      } catch {
        // Ignore an error of `wake`. The store has already written the change, so the store's method must not reject.
      }
    }
  }

  clear(): void {
    this.#subscriptions.clear();
  }
}
