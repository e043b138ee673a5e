import type { Pool, PoolConnection, RowDataPacket } from "mysql2/promise";
import * as z from "zod";
import { MAX_TIMER } from "../../async.ts";
import { StayhookError } from "../../errors.ts";
import { check, integerFrom, optionsObject } from "../../options.ts";
import type { EventStore } from "../event-store.ts";
import { sqlStore } from "../sql/sql-store.ts";
import { endIdleAfter, LONGEST_IDLE, mysqlDialect, mysqlDriver } from "./mysql-driver.ts";

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
  const { url, pool } = Object(options) as MysqlStoreOptions;
  const both = { path: [], message: "give a url or a pool, not both" };
  const before = url !== undefined && pool !== undefined ? [both] : [];
  const checked = check(() => schema(pool !== undefined), options, { before });
  const { pollInterval, maxConnections, commandTimeout } = checked;
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
  const { from } = check(migrationSchema, options);
  if (from === 1) return "";
  const version = "INSERT INTO stayhook_meta (name, value, set_at) VALUES ('schema', '1', 0)";
  return [...mysqlDialect.schema, version].map((statement) => `${statement};\n`).join("\n");
}

const whole = (byDefault: number) =>
  integerFrom(1, MAX_TIMER, "must be a whole number, 1 or more").default(byDefault);

function schema(hasPool: boolean) {
  const isUrl = (url: unknown) => typeof url === "string" && /^mysql:\/\/./i.test(url) && URL.canParse(url);
  const url = z.custom<string>(isUrl, {
    error: "must be a URL such as mysql://user@host/database, or give a pool",
  });
  const pool = z.custom<Pool>((given) => typeof Object(given).getConnection === "function", {
    error: "must be a pool of mysql2/promise",
  });
  return optionsObject({
    url: hasPool ? z.unknown().optional() : url,
    pool: pool.optional(),
    pollInterval: whole(1000),
    maxConnections: whole(5),
    commandTimeout: whole(10_000),
  });
}

const migrationSchema = () =>
  optionsObject({
    from: z.literal([0, 1], { error: "must be 0, for an empty database, or 1" }).default(0),
  });

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
    // The listener gets a connection with callbacks. The error is ignored: MySQL 8 lacks the variable of `endIdleAfter`.
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
