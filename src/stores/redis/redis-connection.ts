// Use imported timers: a test's fake timers replace the globals, and would stop the store.
import type { Socket } from "node:net";
import { clearTimeout, setTimeout } from "node:timers";
import { setTimeout as pause } from "node:timers/promises";
import type { Cluster, Redis, RedisOptions } from "ioredis";
import { StayhookError } from "../../errors.ts";
import { NoAnswerError } from "../call-errors.ts";
import { loadDriver } from "../load-driver.ts";
import { failed, hasCode, isNotPrimary, isReply, type NamedServer, notReachable } from "./redis-errors.ts";
import { type ScriptName, scripts } from "./redis-scripts.ts";

/** A client of `ioredis` that you created. */
export type RedisClient = Redis | Cluster;

/** The time between two attempts to connect, ms. */
const AGAIN = 100;
/**
 * Stops ioredis from delaying a command, and from resending a command that Redis may already have run. The store
 * connects again itself, because a timer of ioredis would keep the process alive.
 */
const ONE_LIFE = {
  lazyConnect: true,
  retryStrategy: () => null,
  enableOfflineQueue: false,
  autoResubscribe: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: null,
  maxLoadingRetryTime: 200,
  keepAlive: 10_000,
} as const satisfies RedisOptions;

type Signal = "ready" | "close" | "end";

/** Runs scripts, each within {@link timeout} ms. */
export class Connection implements NamedServer {
  readonly name: string;
  readonly secrets: readonly string[];
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
  /** The first error that Redis sent before the connection was ready. Later errors say less about the reason. */
  #refusal: Error | undefined;
  #isClosed = false;
  /** Called at each signal of the client. The client has one listener a signal, even if many calls wait. */
  readonly #listeners = new Set<(signal: Signal) => void>();
  readonly #detachers: (() => void)[] = [];
  #other: RedisClient | undefined;

  constructor(server: string | RedisClient, keys: string, timeout: number) {
    this.#keys = keys;
    this.timeout = timeout;
    if (typeof server === "string") {
      const parsed = server.startsWith("/") ? undefined : new URL(server);
      this.#url = server;
      this.name = parsed?.host ?? server;
      this.secrets = parsed ? passwordsIn(parsed) : [];
    } else {
      this.#client = server;
      this.#listenTo(server);
      this.name = "the given client";
      const { password, redisOptions } = server.options as RedisOptions & { redisOptions?: RedisOptions };
      this.secrets = [password, redisOptions?.password].filter((secret) => typeof secret === "string");
    }
  }

  /**
   * @param answerWithin - the longest wait for the answer, ms. {@link timeout} is the most
   * @param inside - stands behind the prefix of the keys. Default: nothing
   * @throws NotSentError if the command was not sent
   * @throws NoAnswerError if no answer came. Redis may have run the script
   * @throws StayhookError if the script failed
   */
  run(name: ScriptName, args: readonly string[], answerWithin?: number, inside = ""): Promise<unknown> {
    return this.ask((client) => this.#evaluate(client, name, [this.#keys + inside, ...args]), answerWithin);
  }

  /** Sends commands, and waits for the answer as {@link run} does. */
  async ask<T>(
    send: (client: RedisClient) => Promise<T>,
    answerWithin = Number.POSITIVE_INFINITY,
  ): Promise<T> {
    const start = performance.now();
    const client = await this.ready();
    const until = start + Math.min(this.timeout, answerWithin);
    try {
      return await this.#inTime(client, { start, until }, send(client));
    } catch (error) {
      if (isNotPrimary(error)) this.#movedAway();
      throw failed(this, error);
    }
  }

  /**
   * Resolves to the client when its connection is ready.
   *
   * @throws NotSentError if the connection is not ready within {@link timeout} ms, or if Redis refuses it
   */
  async ready(): Promise<RedisClient> {
    const start = performance.now();
    const client = await this.#open();
    while (!isReady(client)) {
      if (this.#isClosed) throw new StayhookError("The store is closed.");
      if (client.status === "wait" || client.status === "end") this.#connect(client);
      const signal = await this.#nextSignal(start + this.timeout);
      const left = start + this.timeout - performance.now();
      if (signal === "ready") continue;
      if (left <= 0 || this.#refusal !== undefined) {
        this.#gaveUp(client, start);
        throw notReachable(this, this.timeout, this.#refusal ?? this.#lastError);
      }
      await pause(Math.min(AGAIN, left));
    }
    return client;
  }

  /** Creates a second client for messages. The caller connects and ends it. */
  async another(): Promise<RedisClient> {
    this.#other = this.#url === undefined ? duplicateOf(this.#client!) : await this.#create(ONE_LIFE);
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
    const client = await this.#create({ ...ONE_LIFE, connectTimeout: this.timeout });
    if (this.#client !== undefined) return this.#client;
    this.#client = client;
    quiet(client);
    this.#listenTo(client);
    client.on("error", (error) => {
      this.#lastError = error;
      if (isReply(error)) this.#refusal ??= error;
      // After a refused SELECT, ioredis would continue in database 0, which may belong to another app.
      if (isRefusedDatabase(error)) end(client);
    });
    return client;
  }

  async #create(options: typeof ONE_LIFE & Pick<RedisOptions, "connectTimeout">): Promise<Redis> {
    const RedisClass = await loadRedis();
    return new RedisClass(this.#url!, options);
  }

  #listenTo(client: RedisClient): void {
    for (const signal of ["ready", "close", "end"] as const satisfies Signal[]) {
      const tell = (): void => {
        if (signal === "ready") {
          this.connections += 1;
          this.#refusal = this.#lastError = undefined;
        }
        // A client of the user connects again by itself.
        if (signal === "close") this.#connectedAt = performance.now();
        for (const listener of [...this.#listeners]) listener(signal);
      };
      client.on(signal, tell);
      this.#detachers.push(() => client.off(signal, tell));
    }
  }

  #connect(client: RedisClient): void {
    if (this.#url === undefined && client.status === "end")
      throw notReachable(this, this.timeout, new Error("the client was closed"));
    this.#connectedAt = performance.now();
    this.#refusal = undefined;
    client.connect().catch((error) => {
      // The `error` event of the store's own client says more.
      if (this.#url === undefined) this.#lastError = error;
    });
  }

  /** Resolves to `undefined` if the client sends no signal before `until`. The timer keeps the process alive. */
  #nextSignal(until: number): Promise<Signal | undefined> {
    return new Promise((resolve) => {
      const stop = (signal?: Signal): void => {
        // The signal `end` or `ready` follows.
        if (signal === "close") return;
        clearTimeout(timer);
        this.#listeners.delete(stop);
        resolve(signal);
      };
      const timer = setTimeout(() => stop(), Math.max(0, until - performance.now()));
      this.#listeners.add(stop);
    });
  }

  /** @param args - the key, and then the arguments */
  async #evaluate(client: RedisClient, name: ScriptName, args: readonly string[]): Promise<unknown> {
    const { sha, text } = scripts[name];
    try {
      return await client.evalsha(sha, 1, ...args);
    } catch (error) {
      if (!hasCode(error, "NOSCRIPT")) throw error;
      // Redis does not have the script, for example after a restart. Send the script's text.
      return await client.eval(text, 1, ...args);
    }
  }

  /** Rejects after the timeout, or if the connection is lost. The timer keeps the process alive during the call. */
  #inTime<T>(
    client: RedisClient,
    { start, until }: { readonly start: number; readonly until: number },
    answer: Promise<T>,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        clearTimeout(timer);
        this.#listeners.delete(lost);
      };
      const late = (): void => {
        stop();
        const within = Math.round(until - start);
        reject(new NoAnswerError(`redisStore (${this.name}): Redis did not answer within ${within} ms`));
        this.#gaveUp(client, start);
      };
      // Reject as soon as the connection is lost. Otherwise a user's client could send the command a second time, and
      // the store would not notice.
      const lost = (signal: Signal): void => {
        if (signal === "ready") return;
        stop();
        const lost = "the call failed: the connection was lost before the answer came";
        reject(new NoAnswerError(`redisStore (${this.name}): ${lost}`));
      };
      const timer = setTimeout(late, Math.max(0, until - performance.now()));
      this.#listeners.add(lost);
      answer.finally(stop).then(resolve, reject);
    });
  }

  /**
   * Ends a connection that is as old as a call that got no answer. A younger connection may still answer. A client of the
   * user connects again by itself. A cluster's nodes have the options of the user.
   */
  #gaveUp(client: RedisClient, start: number): void {
    if (this.#connectedAt > start) return;
    if (this.#url !== undefined) end(client);
    else streamOf(client)?.destroy?.();
  }

  /** Ends all connections after a failover, because new connections resolve the name of the server again. */
  #movedAway(): void {
    // The option `reconnectOnError` of a user's client decides whether the client reconnects.
    if (this.#url === undefined) return;
    end(this.#client!);
    if (this.#other !== undefined) end(this.#other);
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
function streamOf(client: RedisClient): Partial<Pick<Socket, "writable" | "destroy" | "unref">> | undefined {
  return "stream" in client ? client.stream : undefined;
}

function duplicateOf(client: RedisClient): RedisClient {
  return isCluster(client)
    ? client.duplicate([], { lazyConnect: true, clusterRetryStrategy: () => null })
    : client.duplicate(ONE_LIFE);
}

/** Ignores `error` events, because failed calls report the error. The connection does not keep the process alive. */
function quiet(client: RedisClient): void {
  client.on("error", () => {});
  client.on("connect", () => streamOf(client)?.unref?.());
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
