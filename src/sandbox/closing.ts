/**
 * Tells what waits or is under way that the sandbox closes. Not an AbortSignal: Node warns of one that many
 * listen to.
 */
export interface Closing {
  readonly closed: boolean;
  /** @returns a function that ends the subscription */
  onClose(listener: () => void): () => void;
  close(): void;
}

export function createClosing(): Closing {
  const listeners = new Set<() => void>();
  let closed = false;
  return {
    get closed() {
      return closed;
    },
    onClose(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close() {
      closed = true;
      for (const listener of listeners) listener();
    },
  };
}

/** Resolves after so many ms, or at once when the sandbox closes. */
export function wait(ms: number, closing: Closing): Promise<void> {
  if (ms === 0 || closing.closed) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      forget();
      resolve();
    };
    const timer = setTimeout(end, ms);
    const forget = closing.onClose(end);
  });
}
