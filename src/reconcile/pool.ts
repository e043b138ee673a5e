/** Runs so many tasks at once. The first that throws ends it: what comes later is refused with its error. */
export class Pool {
  readonly #size: number;
  readonly #running = new Set<Promise<void>>();
  #failure: { readonly error: unknown } | undefined;

  constructor(size: number) {
    this.#size = size;
  }

  /** Resolves when the task has begun. @throws what an earlier task has thrown */
  async run(task: () => Promise<void>): Promise<void> {
    while (this.#running.size >= this.#size) await Promise.race(this.#running);
    if (this.#failure) throw this.#failure.error;
    const running = task()
      .catch((error) => {
        this.#failure ??= { error };
      })
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Resolves when all have ended. @throws what a task has thrown */
  async idle(): Promise<void> {
    await Promise.all(this.#running);
    if (this.#failure) throw this.#failure.error;
  }
}
