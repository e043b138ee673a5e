// Use imported timers: a test's fake timers replace the globals, and would stop the store.
import type { Socket } from "node:net";
import { clearTimeout, setImmediate, setTimeout } from "node:timers";
import { setTimeout as pause } from "node:timers/promises";
import type { Cluster, Redis, RedisOptions } from "ioredis";
import { StayhookError } from "../../errors.ts";

/** The time between two attempts to connect, ms. */
const AGAIN = 100;
/** Stops ioredis from delaying a command, and from resending a command that Redis may already have run. */
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

/** Provides connections to Redis. */
export interface Link {
  /** The name of the server for messages, without a password. */
  readonly name: string;
  /** Passwords. The store removes them from all messages, because the server may repeat them in an error. */
  readonly secrets: readonly string[];
  /**
   * Resolves to a session whose connection is ready.
   *
   * @throws NotSentError if no connection is ready within `within` ms
   */
  ready(within: number): Promise<Session>;
  /** The number of connections so far, without those of `another`. If the number rises, Redis may have restarted. */
  readonly life: number;
  /** Drops a session that did not answer in time. */
  gaveUpOn(session: Session): void;
  /** Drops all sessions after a failover. New sessions resolve the name of the server again. */
  movedAway(session: Session): void;
  /** Creates another session. The caller connects and ends it. */
  another(): Promise<Session>;
  close(): void;
}

/** Connects to a URL. When the connection of a client ends, the next call creates a new client. */
export class UrlLink implements Link {
  readonly name: string;
  readonly secrets: readonly string[];
  readonly #url: string;
  #Redis: typeof Redis | undefined;
  #session: Session | undefined;
  /** The deadline for the session to become ready, by `performance.now()`. */
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
      // If Redis rejects the connection, such as for a wrong password, another attempt would fail, too.
      const refused = isReply(this.#lastError);
      if (refused) this.gaveUpOn(session);
      const left = until - performance.now();
      // After a timeout, keep the session, because later calls may still wait for it.
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
      // Report the first error that Redis sent. Later errors say less about the reason.
      this.#lastError = refusal ?? error;
      // After a refused SELECT, ioredis would continue in database 0, which may belong to another app.
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
  readonly secrets: readonly string[];
  readonly #session: Session;

  constructor(client: RedisClient) {
    this.#session = new Session(client);
    const { password, redisOptions } = client.options as RedisOptions & { redisOptions?: RedisOptions };
    this.secrets = [password, redisOptions?.password].filter((secret) => typeof secret === "string");
  }

  get life(): number {
    return this.#session.connections;
  }

  async ready(within: number): Promise<Session> {
    const { client, isReady } = this.#session;
    if (isReady) return this.#session;
    // The user has closed the client, so do not connect it again.
    if (client.status === "end") throw notReachable(this, within, new Error("the client was closed"));
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
    // Keep the client open, because the user's app may use it for other things.
  }

  movedAway(): void {
    // Do nothing: the option `reconnectOnError` of the user's client decides whether the client reconnects.
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

/** Ignores `error` events, because failed calls report the error. The connection does not keep the process alive. */
function quiet(client: Redis | Cluster): Session {
  client.on("error", () => {});
  client.on("connect", () => {
    if ("stream" in client) (client.stream as { unref?(): void } | undefined)?.unref?.();
  });
  return new Session(client);
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

/** A client of `ioredis` that you created. */
export type RedisClient = Redis | Cluster;

/** @throws StayhookError if the optional peer dependency `ioredis` is not installed */
async function loadRedis(): Promise<typeof Redis> {
  try {
    const module = await import("ioredis");
    return module.Redis ?? (module.default as unknown as typeof module)?.Redis;
  } catch (cause) {
    const code = String((cause as NodeJS.ErrnoException | undefined)?.code);
    if (!code.endsWith("MODULE_NOT_FOUND")) throw cause;
    throw new StayhookError(
      "redisStore needs the package ioredis, which is not installed: npm install ioredis",
      { cause },
    );
  }
}

const SIGNALS = ["ready", "close", "end"] as const;
type Signal = (typeof SIGNALS)[number];

/** A client and its connection. A session adds one listener per signal to the client, even if many calls wait. */
export class Session {
  readonly client: RedisClient;
  readonly #waiting = new Set<(signal: Signal) => void>();
  readonly #detachers: (() => void)[] = [];
  #gathering = false;
  /** How many times the client has connected since the session was created. */
  connections = 0;

  constructor(client: RedisClient) {
    this.client = client;
    for (const signal of SIGNALS) {
      const tell = (): void => {
        if (signal === "ready") this.connections += 1;
        for (const each of [...this.#waiting]) each(signal);
      };
      client.on(signal, tell);
      this.#detachers.push(() => client.off(signal, tell));
    }
  }

  get isReady(): boolean {
    // When the socket has just closed, the status is still `ready`.
    return this.client.status === "ready" && this.#stream?.writable !== false;
  }

  /** The socket. It is `undefined` for a Cluster, which has several connections. */
  get #stream(): Partial<Pick<Socket, "writable" | "destroy" | "cork" | "uncork">> | undefined {
    return "stream" in this.client ? this.client.stream : undefined;
  }

  /**
   * Sends the commands of this event-loop iteration to the socket together. If no other call is in flight, sends the
   * command at once, so that an idle process claims sooner.
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

  /** Resolves to `true` when the client is ready, or to `false` when it ends or `performance.now()` reaches `until`. */
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

  /** Calls `lost` when the connection is lost. Returns a function that removes the callback. */
  onLost(lost: () => void): () => void {
    const hear = (signal: Signal): void => {
      if (signal !== "ready") lost();
    };
    this.#waiting.add(hear);
    return () => this.#waiting.delete(hear);
  }

  detach(): void {
    for (const detach of this.#detachers.splice(0)) detach();
  }

  /** Ends the connection for good, even if the server no longer answers. */
  end(): void {
    // If the client has ended, `disconnect()` would only start a timer that keeps the process alive for two seconds.
    if (this.client.status === "end") return;
    this.client.disconnect();
    this.#stream?.destroy?.();
  }
}

/** Explains Redis's error codes in the store's error messages. */
const MEANINGS: Readonly<Record<string, string>> = {
  OOM: "the memory is full (maxmemory), so Redis accepts no new events",
  MISCONF: "Redis cannot write to its disk, so it accepts no new events",
  READONLY: "this Redis server is a replica, but the store needs the primary",
  LOADING: "Redis is still loading its data",
  MASTERDOWN: "this Redis server is a replica that has lost its primary",
  NOREPLICAS: "Redis has fewer replicas than min-replicas-to-write",
  CLUSTERDOWN: "the Redis cluster is down",
  BUSY: "another client's script blocks Redis",
  NOAUTH: "Redis asks for a password",
  WRONGPASS: "Redis refuses the user name or the password",
  NOPERM: "the ACL of Redis does not allow this user to run the command",
  NOMETA:
    "the keys of this store are gone. If the cluster is moving the keys to another node, wait for the end of the move. If somebody deleted the keys, restart this process",
};

/** The error codes of a server that is not the primary, such as the old primary after a failover. */
const NOT_PRIMARY = ["READONLY", "MASTERDOWN", "LOADING"];

/** The call failed before its command was sent, so Redis did not run the command. */
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

/** Whether Redis sent this error. Other errors come from the connection. */
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

/** Copies the error without its command, which may contain a password or a guest's booking. */
function causeOf(cause: unknown, secrets: readonly string[]): ErrorOptions {
  if (!(cause instanceof Error)) return {};
  const copy = new Error(redact(cause.message, secrets));
  copy.name = cause.name;
  const { code } = cause as NodeJS.ErrnoException;
  if (typeof code === "string") Object.assign(copy, { code });
  return { cause: copy };
}

/** Removes secrets from a message. A server that does not know AUTH repeats the password in its error. */
function redact(message: string, secrets: readonly string[]): string {
  const told = message.replace(/,? with args beginning with:[\s\S]*/, "");
  return secrets.reduce((text, secret) => (secret === "" ? text : text.replaceAll(secret, "***")), told);
}

function codeOf({ message }: Error): string | undefined {
  // Inside a script, Redis 7.0 reports a missing permission without the code NOPERM.
  if (message.includes("user executing the script can't")) return "NOPERM";
  return /^(?:ERR Error running script.*?: )?-?([A-Z]{4,}|OOM|ERR)\b/.exec(message)?.[1];
}
