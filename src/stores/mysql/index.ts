import type { Pool, PoolConnection, RowDataPacket } from "mysql2/promise";
import { MAX_TIMER } from "../../async.ts";
import { InvalidArgumentError, type Issue, StayhookError } from "../../errors.ts";
import { checkNoUnknown, unknownOptions } from "../../options.ts";
import type { EventStore } from "../event-store.ts";
import { sqlStore } from "../sql/sql-store.ts";
import { mysqlDialect } from "./mysql-dialect.ts";
import { endIdleAfter, LONGEST_IDLE, mysqlDriver } from "./mysql-driver.ts";

const OPTIONS = ["url", "pool", "pollInterval", "maxConnections", "commandTimeout"] as const;

/** Options of {@link mysqlStore}: `url` or `pool`, and the options that differ from their defaults. */
export interface MysqlStoreOptions {
  /** The URL of a database: `mysql://user:password@host:3306/database`. The store makes a pool of its own. */
  readonly url?: string | undefined;
  /** A pool of `mysql2/promise` that you have already. `close()` leaves it open. */
  readonly pool?: Pool | undefined;
  /** How often the store looks for other processes' events, ms. Default 1,000. MySQL has no notifications. */
  readonly pollInterval?: number | undefined;
  /** Connections of the store's own pool. Default 5. */
  readonly maxConnections?: number | undefined;
  /** How long a statement, or a wait for a connection, may take before the call rejects, ms. Default 10,000. */
  readonly commandTimeout?: number | undefined;
}

/** The store that {@link mysqlStore} makes. `event.atomically` gets a connection of `mysql2` in the transaction that ends the event. */
export interface MysqlStore extends EventStore<PoolConnection> {
  /** `event.atomically` writes in the transaction that ends the event. */
  readonly transactional: true;
}

/**
 * Keeps events in MariaDB (10.6 or newer) or MySQL (8, not tested), for many machines. Any number of processes on one database
 * share the work, and no two handle the same booking or listing at once. Needs the package `mysql2`. The store connects, and makes
 * its four tables, when it is first used.
 *
 * @throws InvalidArgumentError where an option cannot be used
 *
 * @example
 * ```ts
 * import { mysqlStore } from "stayhook/mysql";
 *
 * const store = mysqlStore({ url: process.env.DATABASE_URL });
 * const webhooks = createWebhookHandler({ client, store, on });
 * ```
 */
export function mysqlStore(options: MysqlStoreOptions): MysqlStore {
  const issues = [...optionIssues(options)];
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  const { url, pool, pollInterval = 1000, maxConnections = 5, commandTimeout = 10_000 } = options;
  let opening: Promise<Pool> | undefined;
  const open = (): Promise<Pool> => {
    // The next call tries again, because the server may be up then.
    opening ??= openPool(url, pool, maxConnections, commandTimeout).catch((error) => {
      opening = undefined;
      throw error;
    });
    return opening;
  };
  const driver = mysqlDriver({
    pool: open,
    endsIdle: pool === undefined,
    commandTimeout,
    pollInterval,
    close: async () => {
      if (!pool) await (await opening?.catch(() => undefined))?.end();
    },
  });
  return sqlStore(driver, mysqlDialect) as unknown as MysqlStore;
}

/**
 * Returns the SQL that makes the tables, for your own migrations. The store then needs no right to create tables.
 *
 * @param options.from - the schema version that the database has; default 0, an empty database
 * @throws InvalidArgumentError where `from` is no schema version
 */
export function migrationSql(
  options: {
    /** The version of the schema that the database has. Default 0: it is empty. */
    readonly from?: number | undefined;
  } = {},
): string {
  checkNoUnknown(options, ["from"]);
  const { from = 0 } = options;
  if (from !== 0 && from !== 1) {
    throw new InvalidArgumentError({ path: ["from"], message: "must be 0, for an empty database, or 1" });
  }
  if (from === 1) return "";
  const version = "INSERT INTO stayhook_meta (name, value, set_at) VALUES ('schema', '1', 0)";
  return [...mysqlDialect.schema, version].map((statement) => `${statement};\n`).join("\n");
}

async function openPool(
  url: string | undefined,
  given: Pool | undefined,
  connectionLimit: number,
  connectTimeout: number,
): Promise<Pool> {
  const pool = given ?? (await ownPool(url as string, connectionLimit, connectTimeout));
  try {
    await checkMode(pool);
    return pool;
  } catch (error) {
    if (!given) await pool.end();
    throw error;
  }
}

async function ownPool(uri: string, connectionLimit: number, connectTimeout: number): Promise<Pool> {
  const { createPool } = await import("mysql2/promise");
  const pool = createPool({ uri, connectionLimit, connectTimeout });
  pool.on("connection", (connection) => {
    // The event has a connection of mysql2's callback interface. MySQL 8 does not know the variable.
    const { query } = connection as unknown as { query(sql: string, done: () => void): void };
    query.call(connection, endIdleAfter(LONGEST_IDLE), () => {});
  });
  return pool;
}

/** Text that is too long would be cut without strict mode, and text could not be escaped without backslashes. */
async function checkMode(pool: Pool): Promise<void> {
  const [rows] = await pool.query<RowDataPacket[]>("SELECT @@SESSION.sql_mode AS mode");
  const mode = String(rows[0]?.mode);
  if (!/STRICT_(TRANS|ALL)_TABLES/.test(mode) || mode.includes("NO_BACKSLASH_ESCAPES")) {
    throw new StayhookError(
      `mysqlStore needs an sql_mode with STRICT_TRANS_TABLES and without NO_BACKSLASH_ESCAPES. The server's is ${mode}.`,
    );
  }
}

function* optionIssues(options: MysqlStoreOptions): Generator<Issue> {
  const unknown = unknownOptions(options ?? null, OPTIONS);
  yield* unknown;
  if (typeof options !== "object" || options === null) return;
  const { url, pool, pollInterval, maxConnections, commandTimeout } = options;
  if (url !== undefined && pool !== undefined) {
    yield { path: [], message: "give a url or a pool, not both" };
  } else if (pool !== undefined) {
    if (typeof (pool as Partial<Pool> | null)?.getConnection !== "function")
      yield { path: ["pool"], message: "must be a pool of mysql2/promise" };
  } else if (typeof url !== "string" || !/^mysql:\/\/./i.test(url) || !URL.canParse(url)) {
    yield { path: ["url"], message: "must be a URL such as mysql://user@host/database, or give a pool" };
  }
  for (const [name, value] of Object.entries({ pollInterval, maxConnections, commandTimeout })) {
    if (value === undefined) continue;
    if (!Number.isInteger(value) || value < 1 || value > MAX_TIMER)
      yield { path: [name], message: "must be a whole number, 1 or more" };
  }
}
