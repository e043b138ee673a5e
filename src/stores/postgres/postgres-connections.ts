import type { Client, Pool, PoolClient } from "pg";
import { InvalidArgumentError, StayhookError } from "../../errors.ts";
import { connectWithin } from "../server-pool.ts";
import type { Row } from "./postgres-statements.ts";

/** A connection that is lent to one job. */
export interface Session {
  readonly client: PoolClient;
  /** Runs a statement. Rejects if it takes longer than `timeout` ms. Default `commandTimeout`. */
  query(text: string, values?: readonly unknown[], timeout?: number): Promise<Row[]>;
  /** Whether the connection has ended. */
  isLost(): boolean;
}

export interface ConnectionOptions {
  readonly connectionString: string | undefined;
  readonly pool: Pool | undefined;
  readonly maxConnections: number;
  /** The timeout of a statement, and of the wait for a connection, ms. */
  readonly commandTimeout: number;
}

/** A job throws this error after it has rolled back, so the connection is reusable. `cause` is the job's failure. */
export class Undone extends Error {}

/** Lends sessions from the user's pool, or from its own pool, which it creates at the first use. */
export class Connections {
  readonly #options: ConnectionOptions;
  readonly #jobs = new Set<Promise<unknown>>();
  /** The value of `#failovers` when the client was first lent. */
  readonly #since = new WeakMap<PoolClient, number>();
  #failovers = 0;
  #pool: Promise<Pool> | undefined;
  #closed = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    // Without a listener for `error`, the loss of an idle connection would crash the process.
    if (options.pool?.listenerCount("error") === 0) options.pool.on("error", ignore);
  }

  get commandTimeout(): number {
    return this.#options.commandTimeout;
  }

  /** The number of errors from a read-only server. The store reuses no connection from before the last such error. */
  get failovers(): number {
    return this.#failovers;
  }

  /**
   * Lends a session to `job`. Rejects if no session is free within `commandTimeout`. A lost connection is closed and
   * not lent again.
   */
  use<T>(job: (session: Session) => Promise<T>): Promise<T> {
    const running = this.#run(job).finally(() => this.#jobs.delete(running));
    this.#jobs.add(running);
    return running;
  }

  async #run<T>(job: (session: Session) => Promise<T>): Promise<T> {
    const client = await this.#current();
    let lost = false;
    const onLost = (): void => {
      lost = true;
    };
    // Without a listener for `error`, the loss of a lent connection would crash the process.
    client.on("error", onLost).on("end", onLost);
    let broken: boolean | Error = true;
    try {
      const result = await job(this.#session(client, () => lost));
      broken = false;
      return result;
    } catch (error) {
      broken = !(error instanceof Undone) && lostConnection(error);
      const failure = error instanceof Undone ? error.cause : error;
      if (isReadOnly(failure)) this.#failovers += 1;
      throw failure;
    } finally {
      client.release(broken);
      client.off("error", onLost).off("end", onLost);
    }
  }

  /** Returns a client that connected after the last failover. An older client may be connected to the old primary. */
  async #current(): Promise<PoolClient> {
    for (;;) {
      const client = await this.#connect();
      const since = this.#since.get(client) ?? this.#failovers;
      this.#since.set(client, since);
      if (since === this.#failovers) return client;
      client.release(true);
    }
  }

  query(text: string, values?: readonly unknown[]): Promise<Row[]> {
    return this.use((session) => session.query(text, values));
  }

  /** Makes a client that has the pool's settings but does not belong to the pool. The caller connects it. */
  async createClient(): Promise<Client> {
    const pool = (await this.#thePool()) as Pool & { readonly Client: new (options: unknown) => Client };
    return new pool.Client(pool.options);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#jobs);
    if (!this.#options.pool) await (await this.#pool?.catch(() => undefined))?.end();
  }

  #session(client: PoolClient, isLost: () => boolean): Session {
    return {
      client,
      isLost,
      query: async (text, values, timeout = this.commandTimeout) => {
        const config = { text, query_timeout: timeout, ...(values && { values: [...values] }) };
        const result = await client.query(config);
        // `pg` returns an array if the text has several statements. No caller needs those rows.
        return Array.isArray(result) ? [] : (result.rows as Row[]);
      },
    };
  }

  async #connect(): Promise<PoolClient> {
    const pool = await this.#thePool();
    return connectWithin(this.commandTimeout, pool.connect());
  }

  #thePool(): Promise<Pool> {
    if (this.#closed) throw new StayhookError("The store is closed.");
    this.#pool ??= this.#options.pool ? Promise.resolve(this.#options.pool) : this.#createPool();
    return this.#pool;
  }

  async #createPool(): Promise<Pool> {
    const { connectionString, maxConnections, commandTimeout } = this.#options;
    const pg = await loadPg();
    const pool = new pg.Pool({
      connectionString,
      max: maxConnections,
      connectionTimeoutMillis: commandTimeout,
      query_timeout: commandTimeout,
      application_name: "stayhook",
      keepAlive: true,
      // Idle connections do not keep the process alive.
      allowExitOnIdle: true,
    });
    // Ignore the loss of an idle connection. The pool replaces the connection.
    pool.on("error", ignore);
    return pool;
  }
}

async function loadPg(): Promise<typeof import("pg")> {
  try {
    const loaded = await import("pg");
    // pg is CommonJS: exports that Node cannot detect are on the default export.
    return "Pool" in loaded ? loaded : (loaded as { readonly default: typeof import("pg") }).default;
  } catch (cause) {
    const missing = String((cause as { readonly code?: unknown }).code).includes("MODULE_NOT_FOUND");
    if (!missing) throw cause;
    throw new StayhookError("postgresStore needs the package pg, which is not installed: npm install pg", {
      cause,
    });
  }
}

function ignore(): void {}

/** SQLSTATE: a lock was not available in time, because another transaction holds it. */
export const LOCKED = "55P03";
/** SQLSTATE: the queue of NOTIFY is full, because a session does not read its messages. */
export const NOTIFY_FULL = "54000";
/** SQLSTATE: the server is read-only, such as the old primary after a failover. */
const READ_ONLY = "25006";
/** Matches the SQLSTATE of a server that is stopping, starting or read-only, or that has ended the session. */
const SERVER_GONE = /^(08|57P0|25P0[34]|25006)/;

/** The SQLSTATE of an error that PostgreSQL sent. It is `undefined` for other errors, such as a lost connection. */
export function sqlState(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error) || !("severity" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

export function isReadOnly(error: unknown): boolean {
  return sqlState(error) === READ_ONLY;
}

/** Whether PostgreSQL reported that this session cannot be used any more. */
export function serverGone(error: unknown): boolean {
  return SERVER_GONE.test(sqlState(error) ?? "");
}

/** Whether `pg` timed out. `pg` gives this error no code. The statement may still run. */
export function hasTimedOut(error: unknown): boolean {
  return error instanceof Error && error.message === "Query read timeout";
}

/** Whether the connection may be unusable. If so, it is unknown whether PostgreSQL has run the command. */
export function lostConnection(error: unknown): boolean {
  return sqlState(error) === undefined || serverGone(error);
}

/** Returns an error that names the failed action. Hides the connection string, which may contain a password. */
export function storeError(doing: string, cause: unknown): unknown {
  if (cause instanceof StayhookError) return cause;
  const error = cause as { readonly code?: unknown; readonly message?: unknown } | null | undefined;
  // Leave out Node's error, because it contains the whole connection string.
  if (error?.code === "ERR_INVALID_URL") {
    return new InvalidArgumentError({
      path: ["connectionString"],
      message: "must be a URL such as postgresql://user@host/database",
    });
  }
  return new StayhookError(`postgresStore: ${doing}: ${reasonOf(cause)}`, { cause });
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  // If a host has several addresses, the error has an empty message and contains one error per address.
  if (cause.message === "" && cause instanceof AggregateError) return cause.errors.map(reasonOf).join(", ");
  return cause.message === "" && "code" in cause ? String(cause.code) : cause.message;
}
