// Not the globals: what a server does goes by no fake clock.
import { clearTimeout, setTimeout } from "node:timers";
import type { Client, Pool, PoolClient } from "pg";
import { StayhookError } from "../../errors.ts";
import { lostConnection } from "./errors.ts";

/** A row as all our statements give it: text, so that it does not depend on how a pool was told to read types. */
export type Row = Readonly<Record<string, string | null>>;

/** One connection, for the time of one job. */
export interface Session {
  readonly client: PoolClient;
  /** Rejects when it takes longer than a call may, or than `timeout` ms. */
  query(text: string, values?: readonly unknown[], timeout?: number): Promise<Row[]>;
}

export interface ConnectionOptions {
  readonly connectionString: string | undefined;
  readonly pool: Pool | undefined;
  readonly maxConnections: number;
  /** ms */
  readonly callTimeout: number;
}

/** What a job failed with, and has cleaned up after: its connection can be lent again. */
export class Undone extends Error {}

/** Where sessions come from: a pool of our own, made when it is first needed, or the user's. */
export class Connections {
  readonly #options: ConnectionOptions;
  readonly #jobs = new Set<Promise<unknown>>();
  #pool: Promise<Pool> | undefined;
  #closed = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    // An idle connection that was cut must not end the process, where its owner has forgotten to say so.
    if (options.pool?.listenerCount("error") === 0) options.pool.on("error", ignore);
  }

  get callTimeout(): number {
    return this.#options.callTimeout;
  }

  /**
   * Lends a session to `job`. Rejects when none is to be had within the time of a call. A connection that was lost, or
   * that somebody waits for in vain, is closed and not lent again.
   */
  use<T>(job: (session: Session) => Promise<T>): Promise<T> {
    const running = this.#run(job).finally(() => this.#jobs.delete(running));
    this.#jobs.add(running);
    return running;
  }

  async #run<T>(job: (session: Session) => Promise<T>): Promise<T> {
    const client = await this.#connect();
    // Without a listener, a connection that ends while it is lent would end the process.
    client.on("error", ignore);
    let broken: boolean | Error = true;
    try {
      const result = await job(this.#session(client));
      broken = false;
      return result;
    } catch (error) {
      broken = !(error instanceof Undone) && lostConnection(error);
      throw error instanceof Undone ? error.cause : error;
    } finally {
      client.release(broken);
      client.off("error", ignore);
    }
  }

  query(text: string, values?: readonly unknown[]): Promise<Row[]> {
    return this.use((session) => session.query(text, values));
  }

  /** A connection beside the pool, set up as those in it are; not connected yet. */
  async createClient(): Promise<Client> {
    const pool = (await this.#thePool()) as Pool & { readonly Client: new (options: unknown) => Client };
    return new pool.Client(pool.options);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#jobs);
    if (!this.#options.pool) await (await this.#pool?.catch(() => undefined))?.end();
  }

  #session(client: PoolClient): Session {
    return {
      client,
      query: async (text, values, timeout = this.callTimeout) => {
        const config = { text, query_timeout: timeout, ...(values && { values: [...values] }) };
        const result = await client.query(config);
        // Of several statements there are several results; what they give is of no interest.
        return Array.isArray(result) ? [] : (result.rows as Row[]);
      },
    };
  }

  async #connect(): Promise<PoolClient> {
    const pool = await this.#thePool();
    const connecting = pool.connect();
    let timer: NodeJS.Timeout | undefined;
    let late = false;
    const timeout = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        late = true;
        reject(new Error(`no connection within ${this.callTimeout} ms`));
      }, this.callTimeout);
    });
    connecting.then(
      (client) => late && client.release(),
      () => {},
    );
    try {
      return await Promise.race([connecting, timeout]);
    } finally {
      clearTimeout(timer);
    }
  }

  #thePool(): Promise<Pool> {
    if (this.#closed) throw new StayhookError("The store is closed.");
    this.#pool ??= this.#options.pool ? Promise.resolve(this.#options.pool) : this.#createPool();
    return this.#pool;
  }

  async #createPool(): Promise<Pool> {
    const { connectionString, maxConnections, callTimeout } = this.#options;
    const pg = await loadPg();
    const pool = new pg.Pool({
      connectionString,
      max: maxConnections,
      connectionTimeoutMillis: callTimeout,
      query_timeout: callTimeout,
      application_name: "stayhook",
      keepAlive: true,
      // Idle connections hold no process open.
      allowExitOnIdle: true,
    });
    // An idle connection that was cut: there will be another.
    pool.on("error", ignore);
    return pool;
  }
}

async function loadPg(): Promise<typeof import("pg")> {
  try {
    const loaded = await import("pg");
    // CommonJS: what Node does not find in it by reading is on the default export.
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
