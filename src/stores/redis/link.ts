// Not the globals: a test's fake timers must not stop Redis.
import { setTimeout as pause } from "node:timers/promises";
import type { Cluster, Redis, RedisOptions } from "ioredis";
import { StayhookError } from "../../errors.ts";
import { isReply, notReachable, type Secrets } from "./errors.ts";
import { loadRedis, type RedisClient, Session } from "./session.ts";

/** ms until a connection that was refused is tried again, while a call waits for it. */
const AGAIN = 100;
/** What ioredis must not do by itself: send again what may have been done, keep for later what was given up. */
const ONE_LIFE = {
  lazyConnect: true,
  retryStrategy: () => null,
  enableOfflineQueue: false,
  autoResubscribe: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: null,
  maxLoadingRetryTime: 200,
  keepAlive: 10_000,
} satisfies RedisOptions;

/** Where calls get a connection that is ready. */
export interface Link {
  /** How messages call it; holds no password. */
  readonly name: string;
  readonly secrets: Secrets;
  /**
   * Gives a connection that is ready, within `within` ms.
   *
   * @throws {@link NotSentError}
   */
  ready(within: number): Promise<Session>;
  /** The number of connections that were made for calls. */
  readonly life: number;
  /** Drops a session that did not answer in time. */
  gaveUpOn(session: Session): void;
  /** Drops all sessions after an answer of a server that is no primary now. The next ones resolve the name again. */
  movedAway(session: Session): void;
  /** Another connection, not connected yet, for one life of its own; the caller's to end. */
  another(): Promise<Session>;
  close(): void;
}

/** Connections by a URL: each client lives as long as its connection, and the next call makes another. */
export class UrlLink implements Link {
  readonly name: string;
  readonly secrets: Secrets;
  readonly #url: string;
  #Redis: typeof Redis | undefined;
  #session: Session | undefined;
  /** Until when it has to be ready, of `performance.now()`. */
  #readyBy = 0;
  #lastError: unknown;
  #closed = false;
  readonly #others = new Set<Session>();
  life = 0;

  constructor(url: string) {
    this.#url = url;
    const parsed = url.startsWith("/") ? undefined : new URL(url);
    this.name = parsed?.host ?? url;
    this.secrets = parsed ? passwordsIn(parsed) : [];
  }

  async ready(within: number): Promise<Session> {
    const until = performance.now() + within;
    this.#Redis ??= await loadRedis();
    for (;;) {
      if (this.#closed) throw new StayhookError("The store is closed.");
      const session = this.#current(this.#Redis, within);
      if (await session.becomesReady(until, { holdsProcess: true })) return session;
      // Waiting does not help against a wrong password.
      const refused = isReply(this.#lastError);
      if (refused) this.gaveUpOn(session);
      const left = until - performance.now();
      // Others may wait for it, who came later: it has a time of its own.
      if (refused || left <= 0) throw notReachable(this, within, this.#lastError);
      await pause(Math.min(AGAIN, left));
    }
  }

  gaveUpOn(session: Session): void {
    if (this.#session === session) this.#session = undefined;
    session.end();
  }

  movedAway(session: Session): void {
    this.gaveUpOn(session);
    for (const other of this.#others) other.end();
  }

  async another(): Promise<Session> {
    const RedisClass = await loadRedis();
    const session = quiet(new RedisClass(this.#url, ONE_LIFE));
    this.#others.add(session);
    session.client.on("end", () => this.#others.delete(session));
    return session;
  }

  close(): void {
    this.#closed = true;
    this.#session?.end();
  }

  #current(RedisClass: typeof Redis, within: number): Session {
    const session = this.#session;
    if (session !== undefined && !session.isReady && performance.now() >= this.#readyBy) {
      this.gaveUpOn(session);
    }
    this.#session ??= this.#open(RedisClass, within);
    return this.#session;
  }

  #open(RedisClass: typeof Redis, within: number): Session {
    this.#readyBy = performance.now() + within;
    this.life += 1;
    const session = quiet(new RedisClass(this.#url, { ...ONE_LIFE, connectTimeout: within }));
    const { client } = session;
    let refusal: Error | undefined;
    client.on("error", (error) => {
      if (isReply(error)) refusal ??= error;
      // What the end of a refused connection brings along says less.
      this.#lastError = refusal ?? error;
      // ioredis would go on in database 0, which may be another app's.
      if (isRefusedDatabase(error)) session.end();
    });
    client.on("ready", () => {
      this.#lastError = undefined;
    });
    client.on("end", () => {
      if (this.#session === session) this.#session = undefined;
    });
    client.connect().catch(() => {});
    return session;
  }
}

/** The user's own client, which stays as it is, and open. */
export class ClientLink implements Link {
  readonly name = "the given client";
  readonly life = 0;
  readonly secrets: Secrets;
  readonly #session: Session;

  constructor(client: RedisClient) {
    this.#session = new Session(client);
    const { password, redisOptions } = client.options as RedisOptions & { redisOptions?: RedisOptions };
    this.secrets = [password, redisOptions?.password].filter((secret) => typeof secret === "string");
  }

  async ready(within: number): Promise<Session> {
    const { client, isReady } = this.#session;
    if (isReady) return this.#session;
    // Who has ended it does not want it to be opened again.
    if (client.status === "end") throw notReachable(this, within, new Error("it was closed"));
    let lastError: unknown;
    if (client.status === "wait") {
      client.connect().catch((error) => {
        lastError = error;
      });
    }
    const until = performance.now() + within;
    if (await this.#session.becomesReady(until, { holdsProcess: true })) return this.#session;
    throw notReachable(this, within, lastError);
  }

  gaveUpOn(): void {
    // Its owner has other uses for it.
  }

  movedAway(): void {
    // The owner's client decides by its own `reconnectOnError`.
  }

  async another(): Promise<Session> {
    const { client } = this.#session;
    if (!isCluster(client)) return quiet(client.duplicate(ONE_LIFE));
    return quiet(client.duplicate([], { lazyConnect: true, clusterRetryStrategy: () => null }));
  }

  close(): void {
    this.#session.detach();
  }
}

export function isCluster(client: RedisClient): client is Cluster {
  return client.isCluster;
}

/** Its errors are told by the calls that fail of them; its socket holds no process open. (A call that waits does, by its timer.) */
function quiet(client: Redis | Cluster): Session {
  client.on("error", () => {});
  client.on("connect", () => {
    if ("stream" in client) (client.stream as { unref?(): void } | undefined)?.unref?.();
  });
  return new Session(client);
}

/** Whether it is the answer to the SELECT that ioredis sends for a URL's database. */
function isRefusedDatabase(error: unknown): boolean {
  return (
    isReply(error) && (error as { readonly command?: { readonly name?: string } }).command?.name === "select"
  );
}

function passwordsIn({ password, searchParams }: URL): string[] {
  return [password, decodeURIComponent(password), searchParams.get("password") ?? ""];
}
