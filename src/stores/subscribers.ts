/** Who wants to hear that something may be due; for a store's `subscribe`. */
export class Subscribers {
  // Each in an object of its own: the same function may subscribe twice.
  readonly #subscriptions = new Set<{ readonly wake: () => void }>();

  get isEmpty(): boolean {
    return this.#subscriptions.size === 0;
  }

  /** @returns what takes it back; `true` where this did, and not a call before */
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
        // What was recorded is recorded, whatever the subscriber makes of it.
      }
    }
  }

  clear(): void {
    this.#subscriptions.clear();
  }
}
