import { StayhookError } from "../errors.ts";

/** Runs one work at a time. A call joins a running work of its kind, and waits for the end of one of another kind. */
export class OneAtATime<T> {
  #current: { readonly kind: string; readonly stop: AbortController; readonly made: Promise<T> } | undefined;
  #closed = false;

  get isIdle(): boolean {
    return this.#current === undefined;
  }

  /**
   * @param signal - aborts the signal of the work if it begins now. A call that joins a work must not stop it
   * @throws StayhookError after `close`
   */
  async run(
    kind: string,
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    while (this.#current && this.#current.kind !== kind) await Promise.allSettled([this.#current.made]);
    if (this.#closed) throw closedError();
    if (this.#current) return this.#current.made;
    const stop = new AbortController();
    const abort = (): void => stop.abort();
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) abort();
    const made = work(stop.signal).finally(() => {
      this.#current = undefined;
      signal?.removeEventListener("abort", abort);
    });
    this.#current = { kind, stop, made };
    return made;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#current?.stop.abort();
    await Promise.allSettled([this.#current?.made]);
  }
}

export function closedError(): StayhookError {
  return new StayhookError("The reconciler is closed. Make another reconciler.");
}
