// Not the globals: what a server does goes by no fake clock.
import { clearTimeout, setTimeout } from "node:timers";
import type { Client } from "pg";
import type { Connections } from "./connections.ts";

/** How often a connection that listens is asked whether it lives, and all is looked at, whatever was heard, ms. */
const SAFETY = 10_000;
/** Waits before connecting again, ms; jittered. */
const AGAIN = [100, 500, 2000, 5000] as const;

export interface Heard {
  /** Something may be due. */
  heard(): void;
  /** Whether calls come through. */
  works(works: boolean): void;
}

/** A connection that listens, and is made anew when it is lost, until it is stopped. */
export class Listener {
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
    // It may still be connecting, when a farewell would wait for the connection.
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
        // It may be a moment before the server is there again.
      }
      if (this.#stopped) return;
      this.#tell.works(false);
      const wait = AGAIN[failures] ?? AGAIN.at(-1)!;
      this.#ended = false;
      await this.#pause(wait * (0.5 + Math.random() / 2));
    }
  }

  /** Ends when the connection does. */
  async #listen(connected: () => void): Promise<void> {
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
        // For what came while nobody listened.
        this.#tell.heard();
      } else if (payload === "" || payload === undefined) this.#tell.heard();
    });
    const callItself = () => this.#connections.query("SELECT pg_notify($1, $2)::text", [this.#channel, test]);
    try {
      unref(client);
      await this.#inTime(client, client.connect());
      // Once more: TLS has another socket.
      unref(client);
      if (this.#stopped) return;
      await this.#inTime(client, client.query(`LISTEN "${this.#channel.replaceAll('"', '""')}"`));
      connected();
      await callItself();
      while (!this.#stopped) {
        await this.#pause(SAFETY);
        if (this.#stopped || this.#ended) return;
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
    const timer = setTimeout(() => destroy(client), this.#connections.callTimeout).unref();
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

/** At once, and so that who waits for it is told, whatever it is doing. */
function destroy(client: Client): void {
  (client as Wired).connection?.stream?.destroy?.(new Error("the connection is given up"));
}

function unref(client: Client): void {
  (client as { unref?(): void }).unref?.();
}
