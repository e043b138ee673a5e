import type { Pool } from "pg";
import * as z from "zod";
import { MAX_TIMER } from "../../async.ts";
import { StayhookError } from "../../errors.ts";
import { check, integerFrom, oneOf, option, optionsObject, timerFrom } from "../../options.ts";
import {
  channelOf,
  inSchema,
  NAME_BYTES,
  postgresDialect,
  quote,
  SCHEMA_VERSION,
} from "./postgres-dialect.ts";
import { PostgresDriver } from "./postgres-driver.ts";
import { Statement } from "./postgres-statements.ts";
import { PgStore, type PostgresStore, type Run } from "./postgres-store.ts";

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
  /** The maximum number of connections in the store's own pool. LISTEN uses an extra connection. Default 5. */
  readonly maxConnections?: number | undefined;
  /** How long a command, or the wait for a connection, may take: ms, or a text such as `"10s"`. Default 10,000. */
  readonly commandTimeout?: number | string | undefined;
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
  const { schema, wake, pollInterval, maxConnections, commandTimeout } = checked;
  const channel = channelOf(schema);
  const driver = new PostgresDriver({
    connectionString,
    pool,
    maxConnections,
    commandTimeout,
    inSchema: inSchema(schema),
    channel,
    listen: wake === "notify",
    pollInterval,
  });
  const most = pool?.options.max ?? maxConnections;
  return new PgStore(driver, {
    schema,
    channel,
    migrate: (run) => migrate(driver, schema, run),
    writesAtOnce: Math.max(1, most - 2),
  });
}

/** Options of {@link migrationSql}. */
export interface MigrationOptions {
  /** The PostgreSQL schema for the tables. Default `stayhook`. */
  readonly schema?: string | undefined;
  /** The version of the existing tables, which their table `meta` has under the name `schema`. Default 0: no tables. */
  readonly from?: number | undefined;
}

/**
 * Returns the SQL that creates the schema and its tables. Run the SQL in one transaction. The store then needs no right
 * to create anything. The SQL is empty if the tables are up to date.
 *
 * @throws InvalidArgumentError if an option is invalid
 *
 * @example
 * ```ts
 * import { migrationSql } from "stayhook/postgres";
 *
 * console.log(migrationSql());
 * ```
 */
export function migrationSql(options: MigrationOptions = {}): string {
  const { schema, from } = check(migrationSchema, options);
  return from >= SCHEMA_VERSION ? "" : createSql(schema);
}

/** How long the creation of the tables may take, with the wait for its lock, ms. */
const PATIENCE = 60_000;

function createSql(schema: string): string {
  // CREATE SCHEMA IF NOT EXISTS would need the right to create a schema, even if the schema exists.
  const create = `DO $stayhook$ BEGIN
  IF to_regnamespace('${quote(schema)}') IS NULL THEN CREATE SCHEMA ${quote(schema)}; END IF;
END $stayhook$`;
  return [create, ...postgresDialect.schema.map(inSchema(schema)), ""].join(";\n");
}

/**
 * Creates the tables, unless they exist. A lock prevents two processes from creating them at the same time. Newer
 * versions of this package only add to the tables, so this version can use them.
 *
 * @throws StayhookError if stayhook 0.1 or 0.2 made the schema, or if the database's encoding is not UTF-8
 */
async function migrate(driver: PostgresDriver, schema: string, given?: Run): Promise<void> {
  const failing = "the tables could not be created";
  const run = given ?? ((text, values) => driver.query(failing, new Statement(text), values));
  const found = async () => {
    const sql = `
      SELECT to_regproc($1) IS NOT NULL AS older, to_regclass($2) IS NOT NULL AS made, current_setting('server_encoding') AS encoding`;
    const named = (name: string) => `${quote(schema)}.${name}`;
    return (await run(sql, [named("schema_version"), named("meta")]))[0]!;
  };
  const { older, made, encoding } = await found();
  if (older === true) {
    throw new StayhookError(
      `postgresStore: an older version of stayhook made the schema ${schema}, and this version cannot use it. Set the option schema to another name, or drop the schema ${schema} when you no longer need its events.`,
    );
  }
  if (made === true) return;
  if (encoding !== "UTF8") {
    throw new StayhookError(
      `postgresStore: the database's encoding is ${encoding}, which cannot hold every notification. Create a database WITH ENCODING 'UTF8'.`,
    );
  }
  // PostgreSQL runs a script in one transaction.
  const lock = `SELECT pg_advisory_xact_lock(hashtextextended('stayhook ${schema}', 0))`;
  await driver.script(failing, `${lock};\n${createSql(schema)}`, PATIENCE).catch(async (error: unknown) => {
    // Another process may have created the tables while this process waited for the lock.
    if ((await found()).made !== true) throw error;
  });
}

const migrationSchema = () =>
  optionsObject({
    schema: schemaName(),
    from: integerFrom(
      0,
      Number.MAX_SAFE_INTEGER,
      "must be the version number of the existing schema, or 0 if no schema exists",
    ).default(0),
  });

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
    pool: z.custom<Pool>(isPool, { error: "must be a Pool from the package pg" }).optional(),
    schema: schemaName(),
    wake: oneOf("notify", "poll").default("notify"),
    pollInterval: timerFrom(1000),
    maxConnections: integerFrom(1, MAX_TIMER, "must be a whole number, 1 or more").default(5),
    commandTimeout: timerFrom(10_000),
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
