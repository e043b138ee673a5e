// Use imported timers: a test's fake timers replace the globals, and would stop the polling.
import { clearTimeout, setTimeout } from "node:timers";
import type { Client } from "pg";
import { detached } from "../../async-context.ts";
import type { SqlNotifier } from "../sql/driver.ts";
import type { Connections } from "./postgres-pool.ts";
import { Statement } from "./postgres-statements.ts";

/** How often the listener checks its connection, ms. A check also wakes the subscribers, in case a message is lost. */
const CHECK = 10_000;
/** The minimum time between two messages, ms. PostgreSQL commits transactions with NOTIFY one after the other. */
const PAUSE = 25;
/** The waits before the listener connects again, ms. The last wait repeats. Jitter shortens a wait by up to half. */
const AGAIN = [100, 500, 2000, 5000] as const;

const NOTIFY = new Statement("SELECT pg_notify($1, $2)::text");

export interface NotifierOptions {
  readonly channel: string;
  /** Whether to use LISTEN. If `false`, the notifier only polls. */
  readonly listen: boolean;
  /** The time between two polls, ms. */
  readonly pollInterval: number;
}

/** The part of the driver that the notifier uses. */
interface Driver {
  readonly connections: Connections;
  /** ms. */
  readonly commandTimeout: number;
  query(failing: string, statement: Statement, values: readonly unknown[]): Promise<unknown>;
}

/**
 * When an event may be due, wakes all processes that use the schema. Each process listens for NOTIFY on a separate
 * connection. The notifier polls until that connection has received a message of its own. Behind PgBouncer in
 * transaction mode, no message arrives, so the polling continues. The notifier does not keep the process alive.
 */
export class Notifier implements SqlNotifier {
  readonly #driver: Driver;
  readonly #options: NotifierOptions;
  /** The payload of this process's messages, which need not wake the process itself. */
  readonly #own = crypto.randomUUID();
  #notifiedAt = Number.NEGATIVE_INFINITY;
  #isNotifying = false;

  constructor(driver: Driver, options: NotifierOptions) {
    this.#driver = driver;
    this.#options = options;
  }

  notify(): void {
    if (this.#isNotifying) return;
    this.#isNotifying = true;
    const wait = this.#notifiedAt + PAUSE - performance.now();
    const send = (): void => {
      this.#isNotifying = false;
      this.#notifiedAt = performance.now();
      // Ignore an error: the other processes find the event at their next poll or check.
      this.#send().catch(() => {});
    };
    if (wait > 0) setTimeout(send, wait).unref();
    else send();
  }

  listen(wake: () => void): () => void {
    const stop = new AbortController();
    void this.#poll(wake, stop.signal);
    return () => stop.abort();
  }

  async #send(): Promise<void> {
    const values = [this.#options.channel, this.#own];
    // One message tells of the calls of several requests.
    await detached(() => this.#driver.query("other processes could not be notified", NOTIFY, values));
  }

  /** Wakes the subscribers at each poll, or at each message while LISTEN works. */
  async #poll(wake: () => void, signal: AbortSignal): Promise<void> {
    let isHearing = false;
    const hears = (is: boolean): void => {
      isHearing = is;
    };
    if (this.#options.listen) void this.#keepListening(wake, hears, signal);
    while (!signal.aborted) {
      await pause(this.#options.pollInterval, signal);
      if (!isHearing && !signal.aborted) wake();
    }
  }

  async #keepListening(wake: () => void, hears: (is: boolean) => void, signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; failures += 1) {
      // A call of the store needs the connection more than the notifier, which can poll.
      await pause(this.#driver.connections.crowdedUntil - performance.now(), signal);
      try {
        const connected = await this.#listen(wake, hears, signal);
        if (connected) failures = 0;
      } catch {
        // The connection failed. Try again after the pause.
      }
      hears(false);
      await pause((AGAIN[failures] ?? AGAIN.at(-1)!) * (0.5 + Math.random() / 2), signal);
    }
  }

  /** Listens on a new connection. Returns when that connection has ended. */
  async #listen(wake: () => void, hears: (is: boolean) => void, signal: AbortSignal): Promise<boolean> {
    const { connections, commandTimeout } = this.#driver;
    const { diedAt } = connections.lender;
    const { channel } = this.#options;
    const client = await connections.createClient();
    if (signal.aborted) return false;
    const end = new AbortController();
    const ended = (): void => end.abort();
    signal.addEventListener("abort", ended);
    end.signal.addEventListener("abort", () => destroy(client));
    client.once("end", ended).on("error", ended);
    connections.onCrowded = ended;
    let isHeard = false;
    client.on("notification", (message) => {
      if (message.channel !== channel) return;
      // The first message of its own shows that messages arrive. Earlier messages are lost, so wake the subscribers.
      if (message.payload !== this.#own || !isHeard) wake();
      isHeard = true;
      hears(true);
    });
    const within = async (doing: Promise<unknown>): Promise<void> => {
      const timer = setTimeout(ended, commandTimeout).unref();
      await doing.finally(() => clearTimeout(timer));
    };
    try {
      unref(client);
      await within(client.connect());
      // Call `unref` again, because TLS has replaced the socket.
      unref(client);
      await within(client.query(`LISTEN "${channel.replaceAll('"', '""')}"`));
      await this.#send();
      for (;;) {
        await pause(CHECK, end.signal);
        // After a failover, the old server may still answer, but no NOTIFY arrives there.
        if (end.signal.aborted || diedAt !== connections.lender.diedAt) return true;
        await within(client.query("SELECT 1"));
        if (!isHeard) await this.#send();
        wake();
      }
    } finally {
      signal.removeEventListener("abort", ended);
      connections.onCrowded = undefined;
      ended();
    }
  }
}

/** Resolves after `ms`, or when `signal` aborts. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted || ms <= 0) return resolve();
    const timer = setTimeout(end, ms).unref();
    function end(): void {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    }
    signal.addEventListener("abort", end);
  });
}

interface Wired {
  readonly connection?: { readonly stream?: { destroy?(error: Error): void } };
}

/** Ends the connection at once. Pending queries reject. `client.end()` would wait for a connection attempt. */
function destroy(client: Client): void {
  (client as Wired).connection?.stream?.destroy?.(new Error("the store closed the connection"));
}

function unref(client: Client): void {
  (client as { unref?(): void }).unref?.();
}
