// Use imported timers: a test's fake timers replace the globals, and would stop the store.
import { clearInterval, setInterval } from "node:timers";
import {
  type Connection,
  end,
  isCluster,
  type RedisClient,
  reconnectIn,
  streamOf,
} from "./redis-connection.ts";

/** The time between two pings, ms. A ping detects a connection that a router has dropped silently. */
const BEAT = 30_000;

export interface NotifierOptions {
  readonly channel: () => Promise<string>;
  /** Gets the handle of the store instance that published a message. */
  readonly heard: (handle: string) => void;
  /** Called after each connect, because messages may have been lost. */
  readonly wake: () => void;
}

/** Listens to other store instances on a separate connection. Does not keep the process alive. */
export class Notifier {
  readonly #connection: Connection;
  readonly #options: NotifierOptions;
  #client: RedisClient | undefined;
  #beat: NodeJS.Timeout | undefined;
  #isListening = false;
  #isClosed = false;
  #failures = 0;
  #isAlive = true;

  constructor(connection: Connection, options: NotifierOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  listen(): void {
    if (this.#isListening) return;
    this.#isListening = true;
    // Ignore an error: if `ioredis` is missing, the store's own calls reject.
    this.#listen().catch(() => {});
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#beat);
    if (this.#client !== undefined) end(this.#client);
  }

  async #listen(): Promise<void> {
    const client = await this.#connection.another(() => reconnectIn(this.#failures++));
    if (this.#isClosed) return;
    this.#client = client;
    client.on("message", (_: string, handle: string) => this.#options.heard(handle));
    client.on("ready", () => void this.#subscribe(client).catch(() => this.#giveUp(client)));
    client.connect().catch(() => {});
    this.#beat = setInterval(() => this.#check(client), BEAT).unref();
  }

  async #subscribe(client: RedisClient): Promise<void> {
    await client.subscribe(await this.#options.channel());
    this.#failures = 0;
    this.#options.wake();
  }

  /** Ends a connection, so that ioredis makes another one. */
  #giveUp(client: RedisClient): void {
    if (isCluster(client)) client.disconnect(true);
    else streamOf(client)?.destroy?.();
  }

  /** Ends a connection that has not answered since the last beat. */
  #check(client: RedisClient): void {
    // A Cluster replaces its connection silently, so messages may be lost. Wake the subscribers at each beat.
    if (isCluster(client)) this.#options.wake();
    else if (!this.#isAlive) this.#giveUp(client);
    this.#isAlive = false;
    client.ping().then(
      () => {
        this.#isAlive = true;
      },
      () => {},
    );
  }
}
