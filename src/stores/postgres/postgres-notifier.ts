// Use imported timers: a test's fake timers replace the globals, and would stop the polling.
import { clearTimeout, setTimeout } from "node:timers";
import type { Client } from "pg";
import { detached } from "../../async-context.ts";
import type { SqlNotifier } from "../sql/driver.ts";
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
interface Connections {
  /** How often the driver has lost its connections because the server failed over. */
  readonly failovers: number;
  /** Until then, the server allows no more connections. By the monotonic clock. */
  readonly crowdedUntil: number;
  /** Called when the server allows no more connections. */
  onCrowded: (() => void) | undefined;
  /** ms. */
  readonly commandTimeout: number;
  /** Makes a client that is not connected yet. */
  createClient(): Promise<Client>;
  query(failing: string, statement: Statement, values: readonly unknown[]): Promise<unknown>;
}

/**
 * When an event may be due, wakes all processes that use the schema. Each process listens for NOTIFY on a separate
 * connection. The notifier polls until that connection has received a message of its own. Behind PgBouncer in
 * transaction mode, no message arrives, so the polling continues. The notifier does not keep the process alive.
 */
export class Notifier implements SqlNotifier {
  readonly #driver: Connections;
  readonly #options: NotifierOptions;
  /** The payload of this process's messages, which need not wake the process itself. */
  readonly #own = crypto.randomUUID();
  #notifiedAt = Number.NEGATIVE_INFINITY;
  #isNotifying = false;

  constructor(driver: Connections, options: NotifierOptions) {
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
      await pause(this.#driver.crowdedUntil - performance.now(), signal);
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
    const { failovers, commandTimeout } = this.#driver;
    const { channel } = this.#options;
    const client = await this.#driver.createClient();
    if (signal.aborted) return false;
    const end = new AbortController();
    const ended = (): void => end.abort();
    signal.addEventListener("abort", ended);
    end.signal.addEventListener("abort", () => destroy(client));
    client.once("end", ended).on("error", ended);
    this.#driver.onCrowded = ended;
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
        if (end.signal.aborted || failovers !== this.#driver.failovers) return true;
        await within(client.query("SELECT 1"));
        if (!isHeard) await this.#send();
        wake();
      }
    } finally {
      signal.removeEventListener("abort", ended);
      this.#driver.onCrowded = undefined;
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
