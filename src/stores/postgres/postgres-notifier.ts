// Use imported timers: a test's fake timers replace the globals, and would stop the polling.
import { clearInterval, clearTimeout, setInterval, setTimeout } from "node:timers";
import type { Client } from "pg";
import type { Subscribers } from "../base-store.ts";
import type { Connections } from "./postgres-connections.ts";

/**
 * How often the listener checks its connection, ms. A check also wakes the subscribers, in case a message is lost.
 */
const SAFETY = 10_000;
/** If nothing became due in the last `REST` ms, a transaction sends NOTIFY. Otherwise the notifier sends it later. */
const REST = 100;
/** The waits before the listener connects again, ms. The last wait repeats. Jitter shortens a wait by up to half. */
const AGAIN = [100, 500, 2000, 5000] as const;

export interface NotifierOptions {
  readonly channel: string;
  /** Whether to use LISTEN. If `false`, the notifier only polls. */
  readonly listen: boolean;
  /** The time between two polls, ms. */
  readonly pollInterval: number;
}

/**
 * When an event may be due, wakes all processes that use the schema. Each process listens for NOTIFY on a separate
 * connection. The notifier polls until that connection has received a test message. Behind PgBouncer in transaction
 * mode, no message arrives, so the polling continues. The notifier does not keep the process alive.
 */
export class Notifier {
  readonly #connections: Connections;
  readonly #options: NotifierOptions;
  readonly #subscribers: Subscribers;
  #listener: Listener | undefined;
  #poll: NodeJS.Timeout | undefined;
  #notifying = false;
  #again = false;
  #madeDueAt = Number.NEGATIVE_INFINITY;

  constructor(connections: Connections, subscribers: Subscribers, options: NotifierOptions) {
    this.#connections = connections;
    this.#subscribers = subscribers;
    this.#options = options;
  }

  /** Called for the first subscriber. */
  start(): void {
    this.#setPolling(true);
    if (!this.#options.listen) return;
    this.#listener = new Listener(this.#connections, this.#options.channel, {
      heard: () => this.#subscribers.wake(),
      works: (works) => this.#setPolling(!works),
    });
  }

  /** Called after the last subscriber has unsubscribed, and when the store closes. */
  stop(): void {
    this.#listener?.stop();
    this.#listener = undefined;
    this.#setPolling(false);
  }

  /**
   * Whether a transaction should send NOTIFY itself, which saves a round trip. Under load, a separate NOTIFY is faster,
   * because PostgreSQL commits transactions with NOTIFY one after the other.
   */
  get isAtRest(): boolean {
    return performance.now() - this.#madeDueAt >= REST;
  }

  /**
   * Wakes the subscribers and notifies the other processes. Call `madeDue` after a commit that made an event due.
   *
   * @param notified - `true` if the transaction has already notified the other processes
   */
  madeDue(notified = false): void {
    this.#madeDueAt = performance.now();
    this.#subscribers.wake();
    if (notified) return;
    if (this.#notifying) this.#again = true;
    else void this.#notify();
  }

  async #notify(): Promise<void> {
    this.#notifying = true;
    do {
      this.#again = false;
      try {
        await this.#connections.query("SELECT pg_notify($1, '')::text", [this.#options.channel]);
      } catch {
        // Ignore the error: the other processes find the event at their next poll or check.
      }
    } while (this.#again);
    this.#notifying = false;
  }

  #setPolling(polling: boolean): void {
    clearInterval(this.#poll);
    this.#poll = polling
      ? setInterval(() => this.#subscribers.wake(), this.#options.pollInterval).unref()
      : undefined;
  }
}

interface Heard {
  /** Called when an event may be due. */
  heard(): void;
  /** Called with `true` when the test message has arrived, and with `false` when the connection is lost. */
  works(works: boolean): void;
}

/** Keeps a connection with LISTEN, and replaces the connection when it is lost. */
class Listener {
  readonly #connections: Connections;
  readonly #channel: string;
  readonly #tell: Heard;
  #stopped = false;
  #client: Client | undefined;
  #ended = false;
  #rest: (() => void) | undefined;

  constructor(connections: Connections, channel: string, tell: Heard) {
    this.#connections = connections;
    this.#channel = channel;
    this.#tell = tell;
    void this.#run();
  }

  stop(): void {
    this.#stopped = true;
    // `client.end()` would wait for a connection attempt in progress. So destroy the socket.
    if (this.#client) destroy(this.#client);
    this.#rest?.();
  }

  async #run(): Promise<void> {
    for (let failures = 0; !this.#stopped; failures += 1) {
      try {
        await this.#listen(() => {
          failures = 0;
        });
      } catch {
        // The connection failed. Try again after the pause.
      }
      if (this.#stopped) return;
      this.#tell.works(false);
      const wait = AGAIN[failures] ?? AGAIN.at(-1)!;
      this.#ended = false;
      await this.#pause(wait * (0.5 + Math.random() / 2));
    }
  }

  /** Listens on a new connection. Returns when that connection has ended. */
  async #listen(connected: () => void): Promise<void> {
    const { failovers } = this.#connections;
    const client = await this.#connections.createClient();
    if (this.#stopped) return;
    this.#ended = false;
    client.once("end", () => {
      this.#ended = true;
      this.#rest?.();
    });
    client.on("error", () => destroy(client));
    this.#client = client;
    const test = `test ${crypto.randomUUID()}`;
    let works = false;
    client.on("notification", ({ channel, payload }) => {
      if (channel !== this.#channel || this.#stopped) return;
      if (payload === test && !works) {
        works = true;
        this.#tell.works(true);
        // Messages that were sent before LISTEN are lost. So wake the subscribers once.
        this.#tell.heard();
      } else if (payload === "" || payload === undefined) this.#tell.heard();
    });
    const callItself = () => this.#connections.query("SELECT pg_notify($1, $2)::text", [this.#channel, test]);
    try {
      unref(client);
      await this.#inTime(client, client.connect());
      // Call `unref` again, because TLS has replaced the socket.
      unref(client);
      if (this.#stopped) return;
      await this.#inTime(client, client.query(`LISTEN "${this.#channel.replaceAll('"', '""')}"`));
      connected();
      await callItself();
      while (!this.#stopped) {
        await this.#pause(SAFETY);
        // After a failover, the old server may still answer, but no NOTIFY arrives there.
        if (this.#stopped || this.#ended || failovers !== this.#connections.failovers) return;
        await this.#inTime(client, client.query("SELECT 1"));
        if (!works) await callItself();
        this.#tell.heard();
      }
    } finally {
      this.#client = undefined;
      destroy(client);
    }
  }

  async #inTime(client: Client, doing: Promise<unknown>): Promise<void> {
    const timer = setTimeout(() => destroy(client), this.#connections.commandTimeout).unref();
    try {
      await doing;
    } finally {
      clearTimeout(timer);
    }
  }

  async #pause(ms: number): Promise<void> {
    if (this.#stopped || this.#ended) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms).unref();
      this.#rest = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#rest = undefined;
  }
}

interface Wired {
  readonly connection?: { readonly stream?: { destroy?(error: Error): void } };
}

/** Ends the connection at once. Pending queries reject. */
function destroy(client: Client): void {
  (client as Wired).connection?.stream?.destroy?.(new Error("the store closed the connection"));
}

function unref(client: Client): void {
  (client as { unref?(): void }).unref?.();
}
