import type { Client, Pool, PoolClient } from "pg";
import { StayhookError } from "../../errors.ts";
import { loadDriver } from "../load-driver.ts";
import { dating, endPool, Lender } from "../server-pool.ts";
import { clientsOf, isFull, isRefusedStart, notOpened } from "./postgres-errors.ts";

/** How long the notifier does without a connection of its own if the server allows no more, ms. */
const CROWDED = 60_000;
/** How long a connection of the own pool may then be idle, ms. */
const CROWDED_IDLE = 1000;

export interface PoolOptions {
  readonly connectionString: string | undefined;
  readonly pool: Pool | undefined;
  readonly maxConnections: number;
  /** The timeout of a statement, and of the wait for a connection, ms. */
  readonly commandTimeout: number;
}

/** The connections of the user's pool, or of the store's own, which it creates at the first use. */
export class Connections {
  /** Until then, the notifier leaves its connection to others, because the server allows no more. By the monotonic clock. */
  crowdedUntil = Number.NEGATIVE_INFINITY;
  /** Called when the server allows no more connections. The notifier then ends its own. */
  onCrowded: (() => void) | undefined;
  readonly lender: Lender<PoolClient>;
  readonly #options: PoolOptions;
  #pool: Promise<Pool> | undefined;
  /** Whether the own pool sends parameters when a connection starts. PgBouncer and RDS Proxy refuse some. */
  #sendsParameters = true;
  /** The first connection without parameters. It resolves to the error if there was one. */
  #bare: Promise<unknown> | undefined;
  #isClosed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.lender = new Lender({
      connect: () => this.#connect(),
      identityOf: (client) => client,
      end: (client) => client.release(true),
      isFull,
      explain: async (error) => notOpened(error, await this.#thePool(), options.pool === undefined),
      makeRoom: () => this.#makeRoom(),
    });
    if (options.pool) dating(options.pool, "connect");
    // Without a listener for `error`, the loss of an idle connection would crash the process.
    if (options.pool?.listenerCount("error") === 0) options.pool.on("error", ignore);
  }

  /** How long the server lets a statement run, ms. It is `undefined` if the store has not told it. */
  get statementLimit(): number | undefined {
    return this.#options.pool || !this.#sendsParameters ? undefined : this.#options.commandTimeout;
  }

  /** Makes a client that has the pool's settings but does not belong to the pool. The caller connects it. */
  async createClient(): Promise<Client> {
    const pool = (await this.#thePool()) as Pool & { readonly Client: new (options: unknown) => Client };
    // A proxy would refuse the time limit of the own pool. The notifier has its own.
    return new pool.Client(
      this.#options.pool ? pool.options : { ...pool.options, statement_timeout: undefined },
    );
  }

  async close(): Promise<void> {
    const pool = this.#options.pool ? undefined : await this.#pool?.catch(() => undefined);
    if (pool === undefined) return;
    await endPool(pool, () => clientsOf(pool).map(({ connection }) => connection?.stream));
  }

  /** Lets no call open the pool again. */
  refuse(): void {
    this.#isClosed = true;
  }

  async #connect(): Promise<PoolClient> {
    const sent = this.#sendsParameters;
    const pool = await this.#thePool();
    try {
      return await pool.connect();
    } catch (error) {
      if (this.#options.pool || !sent || !isRefusedStart(error)) throw error;
      const failed = await this.#withoutParameters();
      if (failed !== undefined) throw failed;
      return (await this.#thePool()).connect();
    }
  }

  /** Opens a pool without parameters, and keeps it if it connects. Returns the error if it does not. */
  #withoutParameters(): Promise<unknown> {
    if (!this.#sendsParameters) return Promise.resolve(undefined);
    this.#bare ??= this.#tryWithoutParameters().finally(() => {
      this.#bare = undefined;
    });
    return this.#bare;
  }

  async #tryWithoutParameters(): Promise<unknown> {
    const pool = await createPool(this.#options, false);
    try {
      (await pool.connect()).release();
    } catch (error) {
      void pool.end().catch(ignore);
      return error;
    }
    const before = await this.#pool;
    this.#sendsParameters = false;
    this.#pool = Promise.resolve(pool);
    void before?.end().catch(ignore);
    return undefined;
  }

  async #makeRoom(): Promise<void> {
    this.crowdedUntil = performance.now() + CROWDED;
    this.onCrowded?.();
    if (!this.#options.pool) (await this.#thePool()).options.idleTimeoutMillis = CROWDED_IDLE;
  }

  #thePool(): Promise<Pool> {
    if (this.#isClosed) throw new StayhookError("The store is closed.");
    this.#pool ??= this.#options.pool ? Promise.resolve(this.#options.pool) : createPool(this.#options, true);
    return this.#pool;
  }
}

function ignore(): void {}

const loadPg = (): Promise<typeof import("pg")> =>
  loadDriver("postgresStore", "pg", "Pool", () => import("pg"));

async function createPool(
  { connectionString, maxConnections, commandTimeout }: PoolOptions,
  sendsParameters: boolean,
): Promise<Pool> {
  const pg = await loadPg();
  const pool = new pg.Pool({
    connectionString,
    max: maxConnections,
    connectionTimeoutMillis: commandTimeout,
    query_timeout: commandTimeout,
    // The server ends a statement that nobody waits for any more.
    ...(sendsParameters && { statement_timeout: commandTimeout, application_name: "stayhook" }),
    keepAlive: true,
    // Idle connections do not keep the process alive.
    allowExitOnIdle: true,
  });
  // Ignore the loss of an idle connection. The pool replaces the connection.
  pool.on("error", ignore);
  return dating(pool, "connect");
}
