import type { Pool } from "pg";
import * as z from "zod";
import { MAX_TIMER } from "../../async.ts";
import { check, integerFrom, oneOf, option, optionsObject, timerFrom } from "../../options.ts";
import { checkVersions, migrationScript, type SchemaMigrationOptions } from "../sql/migration-sql.ts";
import { channelOf, dialectIn, inSchema, NAME_BYTES } from "./postgres-dialect.ts";
import { PostgresDriver } from "./postgres-driver.ts";
import { PgStore, type PostgresStore } from "./postgres-store.ts";

export type { SchemaMigrationOptions as MigrationOptions } from "../sql/migration-sql.ts";

export type { PostgresStore, TransactionStore } from "./postgres-store.ts";

const SCHEMA = "stayhook";
/** Matches a schema name. None of the allowed characters needs escaping. */
const NAME = /^[\p{L}_][\p{L}\p{N}_-]*$/u;
/** Matches a connection string of `pg`: a URL, or the path of a socket. */
const DATABASE = /^\s*(postgres(ql)?:\/\/|socket:|\/)/i;

/** Options of {@link postgresStore}. Either `connectionString` or `pool` is required. */
export interface PostgresStoreOptions {
  /** The URL of the database, `postgresql://user:password@host:5432/database`. The store creates its own pool. */
  readonly connectionString?: string | undefined;
  /** Your own `Pool` of `pg`. `store.close()` leaves the pool open. */
  readonly pool?: Pool | undefined;
  /** The PostgreSQL schema for the tables. The store creates the schema if it does not exist. Default `stayhook`. */
  readonly schema?: string | undefined;
  /**
   * How the store notices that another process has made an event due. `notify` (default): the store uses LISTEN on an
   * extra connection, and polls until the first NOTIFY arrives. Behind PgBouncer in transaction mode, no NOTIFY
   * arrives, so the store keeps polling. `poll`: the store only polls.
   */
  readonly wake?: "notify" | "poll" | undefined;
  /** How often the store polls: ms, or a text such as `"1s"`. Default 1000. */
  readonly pollInterval?: number | string | undefined;
  /**
   * The maximum number of connections in the store's own pool. LISTEN uses an extra connection. With 1, the store only
   * polls. Default 5.
   */
  readonly maxConnections?: number | undefined;
  /** How long a command, or the wait for a connection, may take: ms, or a text such as `"10s"`. Default 10,000. */
  readonly commandTimeout?: number | string | undefined;
  /**
   * Whether the first call creates and upgrades the tables. Default `true`. With `false`, calls reject if the tables are
   * missing or too old. Then run the SQL of {@link migrationSql}, or call {@link PostgresStore.migrate} in your
   * deployment.
   */
  readonly migrate?: boolean | undefined;
}

/**
 * Keeps events in PostgreSQL 13 or newer. Processes on many machines can use one schema and share the work. Two
 * processes never handle the same booking or listing at the same time. Needs the package `pg`. The first call of a
 * method connects to the database and creates the schema.
 *
 * @throws InvalidArgumentError if an option is invalid
 *
 * @example
 * ```ts
 * import { postgresStore } from "stayhook/postgres";
 *
 * const store = postgresStore({ connectionString: process.env.DATABASE_URL });
 * const webhooks = createWebhookHandler({ client, store, on });
 * ```
 */
export function postgresStore(options: PostgresStoreOptions): PostgresStore {
  const { connectionString, pool } = Object(options) as PostgresStoreOptions;
  const both = { path: [], message: "postgresStore takes a `connectionString` or a `pool`, not both" };
  const before = connectionString !== undefined && pool !== undefined ? [both] : [];
  const checked = check(() => storeSchema(pool !== undefined), options, { before });
  const { schema, wake, pollInterval, maxConnections, commandTimeout, migrate } = checked;
  const channel = channelOf(schema);
  const most = pool?.options.max ?? maxConnections;
  const driver = new PostgresDriver({
    connectionString,
    pool,
    maxConnections,
    commandTimeout,
    inSchema: inSchema(schema),
    migrationLock: `stayhook ${schema}`,
    channel,
    // A server of one connection refuses the one for LISTEN, or gives it no other.
    listen: wake === "notify" && most > 1,
    pollInterval,
  });
  return new PgStore(driver, {
    schema,
    channel,
    migrates: migrate,
    writesAtOnce: Math.max(1, most - 2),
  });
}

/**
 * Returns the SQL that creates the schema and its tables, or upgrades them from one schema version to another. Run the
 * SQL in one transaction. The store then needs no right to create anything. The SQL is empty if the tables are up to
 * date.
 *
 * @throws InvalidArgumentError if an option is invalid
 *
 * @example
 * ```ts
 * import { migrationSql } from "stayhook/postgres";
 *
 * console.log(migrationSql({ schema: "stayhook", from: 3 }));
 * ```
 */
export function migrationSql(options: SchemaMigrationOptions = {}): string {
  const { schema: given, ...versions } = Object(options) as SchemaMigrationOptions;
  const { schema } = check(() => optionsObject({ schema: schemaName() }), { schema: given });
  const dialect = dialectIn(schema);
  const { from, to } = checkVersions(dialect, versions);
  return inSchema(schema)(migrationScript(dialect, from, to));
}

function storeSchema(hasPool: boolean) {
  const connectionString = z.custom<string>((url) => typeof url === "string" && DATABASE.test(url), {
    error: "must be a URL such as postgresql://user@host/database, unless you pass a pool",
  });
  const isPool = (pool: unknown) => {
    const { connect, options } = Object(pool) as Partial<Pool>;
    return typeof connect === "function" && options !== undefined;
  };
  const shape = {
    connectionString: hasPool ? z.unknown().optional() : connectionString,
    pool: z
      .custom<Pool>(isPool, { error: "must be a Pool from the package pg" })
      .refine((pool) => (pool.options as { binary?: boolean }).binary !== true, {
        error: "must not have the option binary, because the store reads values as text",
      })
      .optional(),
    schema: schemaName(),
    wake: oneOf("notify", "poll").default("notify"),
    pollInterval: timerFrom(1000),
    maxConnections: integerFrom(1, MAX_TIMER, "must be a whole number, 1 or more").default(5),
    commandTimeout: timerFrom(10_000),
    migrate: oneOf(true, false).default(true),
  };
  return optionsObject(shape, {
    notObject: "postgresStore takes an object with a connectionString or a pool",
  });
}

function schemaName() {
  return option<string>((name) => {
    if (typeof name !== "string" || !NAME.test(name))
      return "may contain only letters, digits, _ and -, and must begin with a letter or _";
    if (name.startsWith("pg_")) return "must not begin with pg_, which PostgreSQL reserves";
    return new TextEncoder().encode(name).length > NAME_BYTES
      ? `must not be longer than ${NAME_BYTES} bytes`
      : undefined;
  }).default(SCHEMA);
}
