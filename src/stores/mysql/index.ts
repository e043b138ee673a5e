import type { Pool, PoolConnection } from "mysql2/promise";
import * as z from "zod";
import { MAX_TIMER } from "../../async.ts";
import { check, integerFrom, oneOf, optionsObject, timerFrom } from "../../options.ts";
import type { EventStore } from "../event-store.ts";
import { loadDriver } from "../load-driver.ts";
import { endPool } from "../server-pool.ts";
import { checkVersions, type MigrationOptions, migrationScript } from "../sql/migration-sql.ts";
import type { Tables } from "../sql/sql-schema.ts";
import { mysqlDialect } from "./mysql-dialect.ts";
import { MysqlDriver } from "./mysql-driver.ts";
import { sessionSettings } from "./mysql-session.ts";
import { MysqlStore as Store } from "./mysql-store.ts";

export type { MigrationOptions } from "../sql/migration-sql.ts";

/** Options of {@link mysqlStore}. Either `url` or `pool` is required. */
export interface MysqlStoreOptions {
  /** The URL of the database, `mysql://user:password@host:3306/database`. The store creates its own pool. */
  readonly url?: string | undefined;
  /** Your own pool of `mysql2/promise`. `store.close()` leaves the pool open. */
  readonly pool?: Pool | undefined;
  /**
   * The time between two polls for events of other processes: ms, or a text such as `"1s"`. Default 1000. MySQL has no
   * notifications.
   */
  readonly pollInterval?: number | string | undefined;
  /** The maximum number of connections in the store's own pool. Default 5. */
  readonly maxConnections?: number | undefined;
  /** How long a statement, or the wait for a connection, may take: ms, or a text such as `"10s"`. Default 10,000. */
  readonly commandTimeout?: number | string | undefined;
  /**
   * Whether the first call creates and upgrades the tables. Default `true`. With `false`, calls reject if the tables are
   * missing or too old. Then run the SQL of {@link migrationSql}.
   */
  readonly migrate?: boolean | undefined;
}

/** The store that {@link mysqlStore} returns. `event.atomically` gives your function a connection of `mysql2`. */
export interface MysqlStore extends EventStore<PoolConnection> {
  /** The store calls the functions passed to `event.atomically` in the transaction that ends the event. */
  readonly transactional: true;
}

/**
 * Keeps events in MariaDB (10.6 or newer) or MySQL (8.4 or newer), for many machines. Any number of processes can
 * share the work on one database. Two processes never handle the same booking or listing at once. Needs the package
 * `mysql2`. The first call connects and creates the three tables.
 *
 * @throws InvalidArgumentError if an option is invalid
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
  const both = { path: [], message: "mysqlStore takes a `url` or a `pool`, not both" };
  const before = url !== undefined && pool !== undefined ? [both] : [];
  const checked = check(() => schema(pool !== undefined), options, { before });
  const { pollInterval, maxConnections, commandTimeout, migrate } = checked;
  let opening: Promise<Pool> | undefined;
  const open = (): Promise<Pool> => {
    if (pool !== undefined) return Promise.resolve(pool);
    // Reset `opening` after a failure, so that the next call loads the driver again.
    opening ??= ownPool(url as string, maxConnections, commandTimeout).catch((error) => {
      opening = undefined;
      throw error;
    });
    return opening;
  };
  const connections = pool?.pool.config.connectionLimit ?? maxConnections;
  const slowAtOnce = Math.max(1, connections - 2);
  const driver = new MysqlDriver({
    pool: open,
    isOwn: pool === undefined,
    waitsAtOnce: slowAtOnce,
    commandTimeout,
    pollInterval,
    close: async () => {
      const own = await opening?.catch(() => undefined);
      if (own !== undefined) await endPool(own, () => connectionsOf(own));
    },
  });
  return new Store(driver, tables, { writesAtOnce: slowAtOnce, migrates: migrate });
}

/**
 * Returns the SQL that creates the tables, or upgrades them from one schema version to another. The store then needs no
 * right to create anything. The SQL is empty if the tables are up to date.
 *
 * @throws InvalidArgumentError if an option is invalid
 *
 * @example
 * ```ts
 * import { migrationSql } from "stayhook/mysql";
 *
 * console.log(migrationSql({ from: 3 }));
 * ```
 */
export function migrationSql(options: MigrationOptions = {}): string {
  const { from, to } = checkVersions(mysqlDialect, options);
  return migrationScript(mysqlDialect, from, to);
}

const tables: Tables = {
  dialect: mysqlDialect,
  place: "the database",
  elsewhere: "give the store another database, or drop its tables that begin with stayhook_",
  migrationCall: (from, to) => `migrationSql({ from: ${from}, to: ${to} })`,
};

function schema(hasPool: boolean) {
  const isUrl = (url: unknown) => typeof url === "string" && /^mysql:\/\/./i.test(url) && URL.canParse(url);
  const url = z.custom<string>(isUrl, {
    error: "must be a URL such as mysql://user@host/database, unless you pass a pool",
  });
  // A pool of `mysql2` itself has callbacks, and a method that returns one with promises.
  const isPool = (given: unknown): boolean => {
    const { getConnection, on, pool } = Object(given) as Partial<Pool>;
    return typeof getConnection === "function" && typeof on === "function" && pool !== undefined;
  };
  const pool = z.custom<Pool>(isPool, {
    error: "must be a pool from mysql2/promise. For a pool from mysql2, pass pool.promise()",
  });
  return optionsObject(
    {
      url: hasPool ? z.unknown().optional() : url,
      pool: pool.optional(),
      pollInterval: timerFrom(1000),
      maxConnections: integerFrom(1, MAX_TIMER, "must be a whole number, 1 or more").default(5),
      commandTimeout: timerFrom(10_000),
      migrate: oneOf(true, false).default(true),
    },
    { notObject: "mysqlStore takes an object with a url or a pool" },
  );
}

/** Returns the connections of a pool, as far as `mysql2` shows them. */
function connectionsOf(pool: Pool): { destroy(): void }[] {
  const { _allConnections: all } = pool.pool as unknown as {
    readonly _allConnections?: { toArray?(): { destroy(): void }[] };
  };
  return all?.toArray?.() ?? [];
}

async function ownPool(uri: string, connectionLimit: number, commandTimeout: number): Promise<Pool> {
  const { createPool } = await loadDriver(
    "mysqlStore",
    "mysql2",
    "createPool",
    () => import("mysql2/promise"),
  );
  const pool = createPool({ uri, connectionLimit, connectTimeout: commandTimeout, charset: "utf8mb4" });
  pool.on("connection", (connection) => {
    // This connection has the callback API. Ignore an error: a proxy may refuse to set a variable.
    const { query } = connection as unknown as { query(sql: string, done: () => void): void };
    for (const sql of sessionSettings(commandTimeout)) query.call(connection, sql, () => {});
  });
  return pool;
}
