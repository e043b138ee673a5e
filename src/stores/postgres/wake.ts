// Not the globals: what other processes do goes by no fake clock.
import { clearInterval, setInterval } from "node:timers";
import { Subscribers } from "../subscribers.ts";
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
  readonly #subscribers = new Subscribers();
  #listener: Listener | undefined;
  #poll: NodeJS.Timeout | undefined;
  #notifying = false;
  #again = false;

  constructor(connections: Connections, options: WakeOptions) {
    this.#connections = connections;
    this.#options = options;
  }

  subscribe(wake: () => void): () => void {
    const isFirst = this.#subscribers.isEmpty;
    const remove = this.#subscribers.add(wake);
    if (isFirst) this.#start();
    return () => {
      if (remove() && this.#subscribers.isEmpty) this.#stop();
    };
  }

  /** After a commit of this process's own that made something due. */
  madeDue(): void {
    this.#subscribers.wake();
    // Beside the transaction that made it due: a NOTIFY in it would have all of the database's commits wait for its disk.
    if (this.#notifying) this.#again = true;
    else void this.#notify();
  }

  close(): void {
    this.#subscribers.clear();
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
      heard: () => this.#subscribers.wake(),
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
    this.#poll = polling
      ? setInterval(() => this.#subscribers.wake(), this.#options.pollInterval).unref()
      : undefined;
  }
}
