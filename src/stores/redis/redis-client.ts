// Not the globals: a test's fake timers must not stop Redis.
import type { Socket } from "node:net";
import { clearTimeout, setImmediate, setTimeout } from "node:timers";
import { setTimeout as pause } from "node:timers/promises";
import type { Cluster, Redis, RedisOptions } from "ioredis";
import { StayhookError } from "../../errors.ts";

/** ms until a connection that was refused is tried again, while a call waits for it. */
const AGAIN = 100;
/** Prevents ioredis from sending a command again or later. Redis may have run it, or the caller may have timed out. */
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

/** Gives calls a connection that is ready. */
export interface Link {
  /** The name in messages. It has no password. */
  readonly name: string;
  /** Texts that no message may show, even if the server repeats them. */
  readonly secrets: readonly string[];
  /**
   * Gives a connection that is ready, within `within` ms.
   *
   * @throws NotSentError
   */
  ready(within: number): Promise<Session>;
  /** The number of connections that were made for calls. */
  readonly life: number;
  /** Drops a session that did not answer in time. */
  gaveUpOn(session: Session): void;
  /** Drops all sessions after a failover. The next sessions resolve the name again. */
  movedAway(session: Session): void;
  /** Makes another client, which is not connected yet. The caller ends it. */
  another(): Promise<Session>;
  close(): void;
}

/** Connections by a URL. A client ends with its connection, and the next call makes another one. */
export class UrlLink implements Link {
  readonly name: string;
  readonly secrets: readonly string[];
  readonly #url: string;
  #Redis: typeof Redis | undefined;
  #session: Session | undefined;
  /** When the session must be ready, by `performance.now()`. */
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
      // A wrong password stays wrong: do not wait.
      const refused = isReply(this.#lastError);
      if (refused) this.gaveUpOn(session);
      const left = until - performance.now();
      // Keep the session: calls that came later may still wait for it.
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
      // The errors that follow a refusal say less than the refusal.
      this.#lastError = refusal ?? error;
      // ioredis would continue in database 0, which may belong to another app.
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

/** The user's own client. The store neither changes nor closes it. */
export class ClientLink implements Link {
  readonly name = "the given client";
  readonly life = 0;
  readonly secrets: readonly string[];
  readonly #session: Session;

  constructor(client: RedisClient) {
    this.#session = new Session(client);
    const { password, redisOptions } = client.options as RedisOptions & { redisOptions?: RedisOptions };
    this.secrets = [password, redisOptions?.password].filter((secret) => typeof secret === "string");
  }

  async ready(within: number): Promise<Session> {
    const { client, isReady } = this.#session;
    if (isReady) return this.#session;
    // The user has closed it, so do not connect it again.
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
    // The user's app may use the client for other things.
  }

  movedAway(): void {
    // The client's own `reconnectOnError` decides.
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

/** Ignores the client's errors, which failed calls report. Lets the process end while the client is connected. */
function quiet(client: Redis | Cluster): Session {
  client.on("error", () => {});
  client.on("connect", () => {
    if ("stream" in client) (client.stream as { unref?(): void } | undefined)?.unref?.();
  });
  return new Session(client);
}

/** Whether the error answers the SELECT that ioredis sends for a URL's database. */
function isRefusedDatabase(error: unknown): boolean {
  return (
    isReply(error) && (error as { readonly command?: { readonly name?: string } }).command?.name === "select"
  );
}

function passwordsIn({ password, searchParams }: URL): string[] {
  return [password, decodeURIComponent(password), searchParams.get("password") ?? ""];
}

/** A client that the user made. */
export type RedisClient = Redis | Cluster;

type Module = typeof import("ioredis");

/**
 * Loads the optional peer dependency.
 *
 * @throws StayhookError where it is not installed
 */
async function loadRedis(): Promise<typeof Redis> {
  try {
    const module = (await import("ioredis")) as Module & { readonly default?: Module };
    return module.Redis ?? module.default?.Redis;
  } catch (cause) {
    const code = String((cause as NodeJS.ErrnoException | undefined)?.code);
    if (!code.endsWith("MODULE_NOT_FOUND")) throw cause;
    throw new StayhookError('redisStore needs the package "ioredis". Install it: npm install ioredis', {
      cause,
    });
  }
}

const SIGNALS = ["ready", "close", "end"] as const;
type Signal = (typeof SIGNALS)[number];

/** A client and its connection. It has one listener for each event, however many calls wait. */
export class Session {
  readonly client: RedisClient;
  readonly #waiting = new Set<(signal: Signal) => void>();
  readonly #detachers: (() => void)[] = [];
  #gathering = false;

  constructor(client: RedisClient) {
    this.client = client;
    for (const signal of SIGNALS) {
      const tell = (): void => {
        for (const each of [...this.#waiting]) each(signal);
      };
      client.on(signal, tell);
      this.#detachers.push(() => client.off(signal, tell));
    }
  }

  get isReady(): boolean {
    // The status is still `ready` when the socket has just closed.
    return this.client.status === "ready" && this.#stream?.writable !== false;
  }

  /** `undefined` for a Cluster, which has several connections. */
  get #stream(): Partial<Pick<Socket, "writable" | "destroy" | "cork" | "uncork">> | undefined {
    return "stream" in this.client ? this.client.stream : undefined;
  }

  /**
   * Sends the further commands of this turn of the event loop in one write. If no call waits for an answer, commands
   * are sent at once, so that a process that wakes up claims sooner.
   */
  gather(): void {
    const stream = this.#stream;
    if (this.#gathering || this.#waiting.size === 0 || !stream?.cork) return;
    this.#gathering = true;
    stream.cork();
    setImmediate(() => {
      this.#gathering = false;
      stream.uncork?.();
    });
  }

  /** Resolves to whether the client is ready before `until`, by `performance.now()`; to `false` once it has ended. */
  becomesReady(until: number, { holdsProcess }: { readonly holdsProcess: boolean }): Promise<boolean> {
    if (this.isReady || this.client.status === "end") return Promise.resolve(this.isReady);
    return new Promise((resolve) => {
      const stop = (ready: boolean): void => {
        clearTimeout(timer);
        this.#waiting.delete(hear);
        resolve(ready);
      };
      const hear = (signal: Signal): void => {
        if (signal !== "close") stop(signal === "ready");
      };
      const timer = setTimeout(() => stop(false), Math.max(0, until - performance.now()));
      if (!holdsProcess) timer.unref();
      this.#waiting.add(hear);
    });
  }

  /** Calls `lost` when the connection is lost. Returns a function that takes this back. */
  onLost(lost: () => void): () => void {
    const hear = (signal: Signal): void => {
      if (signal !== "ready") lost();
    };
    this.#waiting.add(hear);
    return () => this.#waiting.delete(hear);
  }

  /** Removes all listeners from the client. */
  detach(): void {
    for (const detach of this.#detachers.splice(0)) detach();
  }

  /** Ends the connection for good, even if the server no longer answers. */
  end(): void {
    // ioredis waits two seconds for the end of a client that has ended already.
    if (this.client.status === "end") return;
    this.client.disconnect();
    this.#stream?.destroy?.();
  }
}

/** The meaning of Redis's error codes for a store. */
const MEANINGS: Readonly<Record<string, string>> = {
  OOM: "its memory is full (maxmemory), so it takes no new events",
  MISCONF: "it cannot write to its disk, so it takes no new events",
  READONLY: "it is a replica, and a store needs the primary",
  LOADING: "it is still loading its data",
  MASTERDOWN: "it is a replica without its primary",
  NOREPLICAS: "it has fewer replicas than min-replicas-to-write",
  CLUSTERDOWN: "the cluster is down",
  BUSY: "another client's script blocks it",
  NOAUTH: "it asks for a password",
  WRONGPASS: "it refuses the user name or the password",
  NOPERM: "its ACL does not let this user do it",
  NOMETA:
    "the keys of this store are gone. A cluster that moves their slot does this until the move is over. If somebody deleted them, restart this process",
};

/** Answers of a server that is not the primary, such as the old primary after a failover. */
const NOT_PRIMARY = ["READONLY", "MASTERDOWN", "LOADING"];

/** Nothing was sent, so Redis did nothing. */
export class NotSentError extends StayhookError {}

function notReachable({ name, secrets }: Link, within: number, cause: unknown): NotSentError {
  const last = cause === undefined ? "" : `: ${describe(cause, secrets)}`;
  return new NotSentError(
    `redisStore (${name}): Redis could not be reached within ${within} ms${last}`,
    causeOf(cause, secrets),
  );
}

export function failed({ name, secrets }: Link, cause: unknown): StayhookError {
  if (cause instanceof StayhookError) return cause;
  return new StayhookError(
    `redisStore (${name}): the call failed: ${describe(cause, secrets)}`,
    causeOf(cause, secrets),
  );
}

/** Whether the server answered with this error. Others come from the connection. */
function isReply(error: unknown): error is Error {
  return error instanceof Error && error.name === "ReplyError";
}

export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && codeOf(error) === code;
}

export function isNotPrimary(error: unknown): boolean {
  return NOT_PRIMARY.some((code) => hasCode(error, code));
}

function describe(cause: unknown, secrets: readonly string[]): string {
  const message = redact(cause instanceof Error ? cause.message : String(cause), secrets);
  const meaning = cause instanceof Error && MEANINGS[codeOf(cause) ?? ""];
  return meaning ? `${meaning} (${message})` : message;
}

/** Copies the error without its command, which may hold a password or a guest's booking. */
function causeOf(cause: unknown, secrets: readonly string[]): ErrorOptions {
  if (!(cause instanceof Error)) return {};
  const copy = new Error(redact(cause.message, secrets));
  copy.name = cause.name;
  const { code } = cause as NodeJS.ErrnoException;
  if (typeof code === "string") Object.assign(copy, { code });
  return { cause: copy };
}

/** A server that does not know AUTH repeats the password in its error. */
function redact(message: string, secrets: readonly string[]): string {
  const told = message.replace(/,? with args beginning with:[\s\S]*/, "");
  return secrets.reduce((text, secret) => (secret === "" ? text : text.replaceAll(secret, "***")), told);
}

function codeOf({ message }: Error): string | undefined {
  // Redis 7.0 has no code for this error inside a script.
  if (message.includes("user executing the script can't")) return "NOPERM";
  return /^(?:ERR Error running script.*?: )?-?([A-Z]{4,}|OOM|ERR)\b/.exec(message)?.[1];
}
