// Not the globals: what other processes do goes by no fake clock.
import { clearInterval, setInterval } from "node:timers";
import type { Connections } from "./connections.ts";
import { Listener } from "./listener.ts";

export interface WakeOptions {
  readonly channel: string;
  /** Whether to listen, or only to ask every so often. */
  readonly listen: boolean;
  /** ms */
  readonly pollInterval: number;
}

/**
 * Tells subscribers of this process, and the other processes on the schema, that something may be due: by NOTIFY, to
 * a connection of each one that listens. It is a hint and no more: until a listener has heard a call of its own
 * (behind PgBouncer in transaction mode it never does) it asks every so often. Holds no process open.
 */
export class Wake {
  readonly #connections: Connections;
  readonly #options: WakeOptions;
  readonly #subscriptions = new Set<{ readonly wake: () => void }>();
  #listener: Listener | undefined;
  #poll: NodeJS.Timeout | undefined;
  #notifying = false;
  #again = false;

  constructor(connections: Connections, options: WakeOptions) {
    this.#connections = connections;
    this.#options = options;
  }

  subscribe(wake: () => void): () => void {
    const subscription = { wake };
    this.#subscriptions.add(subscription);
    if (this.#subscriptions.size === 1) this.#start();
    return () => {
      if (this.#subscriptions.delete(subscription) && this.#subscriptions.size === 0) this.#stop();
    };
  }

  /** After a commit of this process's own that made something due. */
  madeDue(): void {
    this.#wake();
    // Beside the transaction that made it due: a NOTIFY in it would have all of the database's commits wait for its disk.
    if (this.#notifying) this.#again = true;
    else void this.#notify();
  }

  close(): void {
    this.#subscriptions.clear();
    this.#stop();
  }

  async #notify(): Promise<void> {
    this.#notifying = true;
    do {
      this.#again = false;
      try {
        await this.#connections.query("SELECT pg_notify($1, '')::text", [this.#options.channel]);
      } catch {
        // The others find it when they look for themselves.
      }
    } while (this.#again);
    this.#notifying = false;
  }

  #start(): void {
    this.#setPolling(true);
    if (!this.#options.listen) return;
    this.#listener = new Listener(this.#connections, this.#options.channel, {
      heard: () => this.#wake(),
      works: (works) => this.#setPolling(!works),
    });
  }

  #stop(): void {
    this.#listener?.stop();
    this.#listener = undefined;
    this.#setPolling(false);
  }

  #setPolling(polling: boolean): void {
    clearInterval(this.#poll);
    this.#poll = polling ? setInterval(() => this.#wake(), this.#options.pollInterval).unref() : undefined;
  }

  #wake(): void {
    for (const { wake } of [...this.#subscriptions]) {
      try {
        wake();
      } catch {
        // What was recorded is recorded, whatever the subscriber makes of it.
      }
    }
  }
}
