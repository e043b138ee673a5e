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
