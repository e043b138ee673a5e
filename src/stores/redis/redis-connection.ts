// Use imported timers: a test's fake timers replace the globals, and would stop the store.
import type { Socket } from "node:net";
import { clearTimeout, setTimeout } from "node:timers";
import { setTimeout as pause } from "node:timers/promises";
import type { Cluster, Redis, RedisOptions } from "ioredis";
import { StayhookError } from "../../errors.ts";
import { loadDriver } from "../load-driver.ts";
import {
  failed,
  hasCode,
  isNotPrimary,
  isReply,
  isSoonOver,
  type NamedServer,
  noAnswer,
  notReachable,
} from "./redis-errors.ts";
import { type ScriptName, scripts } from "./redis-scripts.ts";

/** A client of `ioredis` that you created. */
export type RedisClient = Redis | Cluster;

/** The first and the longest wait between two attempts to connect, ms. */
const [FIRST_WAIT, LONGEST_WAIT] = [50, 2000];
/** The time between two tries of a call that Redis refuses while it is busy or loads its data, ms. */
const AGAIN = 50;

/** How long ioredis waits before it connects again. @param tries - the attempts that failed in a row */
export function reconnectIn(tries: number): number {
  return Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** Math.min(tries, 10));
}

/**
 * ioredis connects again, and sends again what got no answer. No harm comes of it: an `add` has a token, a second `settle`
 * changes nothing, and the store counts a claim that may have run twice as lost. New calls wait for the connection outside of
 * ioredis, because its queue would grow while the server is out of reach.
 */
const OPTIONS = {
  lazyConnect: true,
  retryStrategy: reconnectIn,
  // After a failover, a new connection resolves the name of the server again.
  reconnectOnError: isNotPrimary,
  enableOfflineQueue: false,
  autoResubscribe: false,
  maxRetriesPerRequest: null,
  maxLoadingRetryTime: 200,
  keepAlive: 10_000,
} as const satisfies RedisOptions;

/** Runs scripts, each within {@link timeout} ms. */
export class Connection implements NamedServer {
  readonly name: string;
  readonly secrets: readonly string[];
  readonly isTls: boolean;
  readonly timeout: number;
  readonly #keys: string;
  /** The URL for the store's own client. It is `undefined` if the user gave a client, which the store never closes. */
  readonly #url: string | undefined;
  #client: RedisClient | undefined;
  /** How many times the client has connected. If the number rises, Redis may have restarted. */
  connections = 0;
  /** No connection of the client is older than this, by `performance.now()`. */
  #connectedAt = 0;
  #lastError: unknown;
  #isClosed = false;
  /**
   * Resolves for all calls that wait when the connection is ready or has ended, or to the error with which Redis refuses it.
   */
  #next = Promise.withResolvers<unknown>();
  readonly #detachers: (() => void)[] = [];
  #other: RedisClient | undefined;

  constructor(server: string | RedisClient, keys: string, timeout: number) {
    this.#keys = keys;
    this.timeout = timeout;
    if (typeof server === "string") {
      const parsed = server.startsWith("/") ? undefined : new URL(server);
      this.#url = server;
      this.isTls = server.startsWith("rediss:");
      this.name = parsed?.host ?? server;
      this.secrets = parsed ? passwordsIn(parsed) : [];
    } else {
      this.#client = server;
      this.#listenTo(server);
      this.name = "the given client";
      const { password, tls, redisOptions } = server.options as RedisOptions & {
        redisOptions?: RedisOptions;
      };
      this.isTls = (tls ?? redisOptions?.tls) !== undefined;
      this.secrets = [password, redisOptions?.password].filter((secret) => typeof secret === "string");
    }
  }

  /** Whether the store reaches a cluster by a client that knows one node only. */
  get isPlain(): boolean {
    return this.#client === undefined || !isCluster(this.#client);
  }

  /** If {@link connections} is higher after a call that begins now, Redis may have run the call twice. */
  get nextConnection(): number {
    return this.connections + (this.#client !== undefined && isReady(this.#client) ? 0 : 1);
  }

  /**
   * @param answerWithin - the longest wait for the answer, ms. {@link timeout} is the most
   * @param inside - stands behind the prefix of the keys. Default: nothing
   * @throws NotSentError if the command was not sent
   * @throws NoAnswerError if no answer came. Redis may have run the script
   * @throws StayhookError if the script failed
   */
  run(name: ScriptName, args: readonly string[], answerWithin?: number, inside = ""): Promise<unknown> {
    return this.ask((client) => evaluate(client, name, [this.#keys + inside, ...args]), answerWithin);
  }

  /** Sends commands, and waits for the answer as {@link run} does. */
  async ask<T>(
    send: (client: RedisClient) => Promise<T>,
    answerWithin = Number.POSITIVE_INFINITY,
  ): Promise<T> {
    const start = performance.now();
    const within = Math.min(this.timeout, answerWithin);
    for (;;) {
      const client = this.#client;
      const ready = client !== undefined && isReady(client) ? client : await this.#ready(start);
      try {
        return await this.#inTime(ready, start, within, send(ready));
      } catch (error) {
        if (!isSoonOver(error) || performance.now() - start + AGAIN >= within) throw failed(this, error);
        await pause(AGAIN);
      }
    }
  }

  /**
   * Resolves to the client when its connection is ready.
   *
   * @throws NotSentError if the connection is not ready within {@link timeout} ms, or if Redis refuses it
   */
  async #ready(start: number): Promise<RedisClient> {
    const client = await this.#open();
    while (!isReady(client)) {
      if (this.#isClosed) throw new StayhookError("The store is closed.");
      if (client.status === "wait" || client.status === "end") this.#connect(client);
      const over = new AbortController();
      // The timer keeps the process alive.
      const late = pause(Math.max(0, start + this.timeout - performance.now()), undefined, over);
      const refusal = await Promise.race([this.#next.promise, late]).finally(() => over.abort());
      if (refusal !== undefined) throw notReachable(this, this.timeout, refusal);
      if (performance.now() - start < this.timeout || isReady(client)) continue;
      this.#gaveUp(client, start);
      throw notReachable(this, this.timeout, this.#lastError);
    }
    return client;
  }

  /**
   * Creates a second client for messages. The caller connects and ends it.
   *
   * @param retryStrategy - how long it waits before it connects again
   */
  async another(retryStrategy: () => number): Promise<RedisClient> {
    const options = { ...OPTIONS, retryStrategy };
    const given = this.#url === undefined ? this.#client! : undefined;
    if (given === undefined) this.#other = await this.#create(options);
    else if (isCluster(given))
      this.#other = given.duplicate([], { lazyConnect: true, clusterRetryStrategy: retryStrategy });
    else this.#other = given.duplicate(options);
    quiet(this.#other);
    return this.#other;
  }

  close(): void {
    this.#isClosed = true;
    for (const detach of this.#detachers) detach();
    if (this.#url !== undefined && this.#client !== undefined) end(this.#client);
  }

  async #open(): Promise<RedisClient> {
    if (this.#client !== undefined) return this.#client;
    const client = await this.#create({ ...OPTIONS, connectTimeout: this.timeout });
    if (this.#client !== undefined) return this.#client;
    this.#client = client;
    quiet(client);
    this.#listenTo(client);
    // After a refused SELECT, ioredis would continue in database 0, which may belong to another app.
    client.on("error", (error) => {
      if (isRefusedDatabase(error)) end(client);
    });
    return client;
  }

  async #create(options: RedisOptions): Promise<Redis> {
    const RedisClass = await loadRedis();
    // Some servers have no INFO, which the ready check of ioredis sends. Before ioredis 6, only this check waits for the answer
    // to SELECT.
    const enableReadyCheck = /\/[1-9]\d*$/.test(this.#url!.split("?")[0]!);
    return new RedisClass(this.#url!, { ...options, enableReadyCheck } as RedisOptions & {
      replyMapping?: never;
    });
  }

  #listenTo(client: RedisClient): void {
    const goOn = (refusal?: unknown): void => {
      this.#next.resolve(refusal);
      this.#next = Promise.withResolvers();
    };
    const listeners = {
      ready: () => {
        this.connections += 1;
        this.#lastError = undefined;
        goOn();
      },
      close: () => {
        this.#connectedAt = performance.now();
        // What ended this connection, such as a failover, concerns the one for messages, too.
        if (this.#other) streamOf(this.#other)?.destroy?.();
      },
      end: () => goOn(),
      error: (error: unknown) => {
        this.#lastError = error;
        // ioredis connects again after an error of the network.
        if (isReply(error)) goOn(error);
      },
    };
    for (const [signal, listener] of Object.entries(listeners)) {
      client.on(signal, listener);
      this.#detachers.push(() => client.off(signal, listener));
    }
  }

  #connect(client: RedisClient): void {
    if (this.#url === undefined && client.status === "end")
      throw notReachable(this, this.timeout, new Error("the client was closed"));
    this.#connectedAt = performance.now();
    client.connect().catch((error) => {
      // The `error` event of the store's own client says more.
      if (this.#url === undefined) this.#lastError = error;
    });
  }

  /** Rejects after some time. The timer keeps the process alive during the call. */
  #inTime<T>(client: RedisClient, start: number, within: number, answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const late = (): void => {
        reject(noAnswer(this, `did not answer within ${Math.round(within)} ms`));
        this.#gaveUp(client, start);
      };
      const timer = setTimeout(late, Math.max(0, start + within - performance.now()));
      answer.then(
        (value) => {
          clearTimeout(timer);
          resolve(value);
        },
        (error) => {
          clearTimeout(timer);
          reject(error);
        },
      );
    });
  }

  /**
   * Ends a connection that is as old as a call that got no answer, so that ioredis makes another one. A younger connection may
   * still answer. A cluster's nodes have the options of the user.
   */
  #gaveUp(client: RedisClient, start: number): void {
    if (this.#connectedAt <= start) streamOf(client)?.destroy?.();
  }
}

export function isCluster(client: RedisClient): client is Cluster {
  return client.isCluster;
}

/** Ends the connection, even if the server no longer answers. */
export function end(client: RedisClient): void {
  // If the client has ended, `disconnect()` would only start a timer that keeps the process alive for two seconds.
  if (client.status === "end" || client.status === "wait") return;
  client.disconnect();
  streamOf(client)?.destroy?.();
}

function isReady(client: RedisClient): boolean {
  // When the socket has just closed, the status is still `ready`.
  return client.status === "ready" && streamOf(client)?.writable !== false;
}

/** Returns the socket, or `undefined` for a Cluster, which has several connections. */
export function streamOf(
  client: RedisClient,
): Partial<Pick<Socket, "writable" | "destroy" | "unref">> | undefined {
  return "stream" in client ? client.stream : undefined;
}

/** @param args - the key, and then the arguments */
async function evaluate(client: RedisClient, name: ScriptName, args: readonly string[]): Promise<unknown> {
  const { sha, text } = scripts[name];
  try {
    return await client.evalsha(sha, 1, ...args);
  } catch (error) {
    if (!hasCode(error, "NOSCRIPT")) throw error;
    // Redis does not have the script, for example after a restart. Send the script's text.
    return await client.eval(text, 1, ...args);
  }
}

/** Ignores `error` events, because failed calls report the error. The connection does not keep the process alive. */
function quiet(client: RedisClient): void {
  client.on("error", () => {});
  client.on("connect", () => streamOf(client)?.unref?.());
  client.on("reconnecting", () =>
    (client as unknown as { reconnectTimeout?: NodeJS.Timeout | null }).reconnectTimeout?.unref(),
  );
}

/** Whether Redis refused the SELECT that ioredis sends for a URL's database. */
function isRefusedDatabase(error: unknown): boolean {
  return (
    isReply(error) && (error as { readonly command?: { readonly name?: string } }).command?.name === "select"
  );
}

function passwordsIn({ password, searchParams }: URL): string[] {
  return [password, decodeURIComponent(password), searchParams.get("password") ?? ""];
}

async function loadRedis(): Promise<typeof Redis> {
  return (await loadDriver("redisStore", "ioredis", "Redis", () => import("ioredis"))).Redis;
}
