import { withTimeout } from "../async.ts";
import type { ClosableServer } from "./internals.ts";

/** How long a closed server may take to end its connections, ms. */
const LAST_REQUESTS = 1000;

/** Counts the requests that are in flight, and knows the servers from which they came. */
export class RequestsInFlight {
  readonly #servers = new Set<ClosableServer>();
  #open = 0;
  #settled: (() => void) | undefined;

  begin(): void {
    this.#open += 1;
  }

  end(): void {
    this.#open -= 1;
    if (this.#open === 0) this.#settled?.();
  }

  serves(server: ClosableServer): void {
    this.#servers.add(server);
  }

  /** Resolves when no request is in flight, and when each server that was closed has ended its connections. */
  async settled(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#settled = resolve;
      if (this.#open === 0) resolve();
    });
    // A closed server may have a connection that is about to send its request. That request must be recorded, too.
    const closed = [...this.#servers].filter(({ listening }) => !listening);
    await withTimeout(LAST_REQUESTS, Promise.all(closed.map(connectionsEnd)));
  }
}

function connectionsEnd(server: ClosableServer): Promise<void> {
  return new Promise((resolve) => {
    server.once("close", resolve);
    server.getConnections((error, count) => {
      if (error || count === 0) resolve();
    });
  });
}
