import type { Pool } from "pg";
import * as z from "zod";
import { MAX_TIMER } from "../../async.ts";
import { StayhookError } from "../../errors.ts";
import { check, integerFrom, oneOf, option, optionsObject } from "../../options.ts";
import { Connections, type Session } from "./postgres-connections.ts";
import { schemaSql } from "./postgres-schema.ts";
import { literal, NAME_BYTES, quote } from "./postgres-statements.ts";
import { PgStore, type PostgresStore } from "./postgres-store.ts";

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
  /** How often the store polls, ms. Default 1000. */
  readonly pollInterval?: number | undefined;
  /** The maximum number of connections in the store's own pool. LISTEN uses an extra connection. Default 5. */
  readonly maxConnections?: number | undefined;
  /** The timeout of a command, and of the wait for a connection, ms. After it, the call rejects. Default 10,000. */
  readonly commandTimeout?: number | undefined;
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
  const connections = new Connections({ connectionString, pool, maxConnections, commandTimeout });
  const most = pool?.options.max ?? maxConnections;
  return new PgStore(connections, {
    schema,
    migrate: (session) => migrate(session, schema),
    listen: wake === "notify",
    pollInterval,
    writesAtOnce: Math.max(1, most - 2),
  });
}

/** Options of {@link migrationSql}. */
export interface MigrationOptions {
  /** The PostgreSQL schema for the tables. Default `stayhook`. */
  readonly schema?: string | undefined;
  /** The existing schema's version, which its function `schema_version()` returns. Default 0: no schema exists. */
  readonly from?: number | undefined;
}

/**
 * Returns the SQL that creates the schema, or upgrades it from version `from`. Run the SQL in one transaction. The
 * store then needs no right to create anything. The SQL is empty if the schema is up to date.
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
  return sqlFrom(schema, from);
}

/** How long a migration may wait for its lock, and how long its SQL may then run, ms. */
const PATIENCE = 60_000;

/** Each step upgrades the schema by one version. Never change a released step. */
const steps: readonly ((schema: string) => string)[] = [schemaSql];

/** Returns the SQL that upgrades version `from` to the current version. The caller runs the SQL in a transaction. */
function sqlFrom(schema: string, from: number): string {
  if (from >= steps.length) return "";
  const s = quote(schema);
  const create = `
DO $stayhook$ BEGIN
  IF to_regnamespace(${literal(quote(schema))}) IS NULL THEN CREATE SCHEMA ${s}; END IF;
END $stayhook$;
`;
  const version = `
CREATE OR REPLACE FUNCTION ${s}.schema_version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT ${steps.length}';
`;
  return [from === 0 ? create : "", ...steps.slice(from).map((step) => step(schema)), version].join("");
}

/**
 * Upgrades the schema to the current version. A lock prevents two processes from upgrading at the same time. Does not
 * change a newer schema: newer versions of this package only add to the schema, so this version can use it.
 *
 * @throws StayhookError if stayhook 0.1 made the schema, or if the database's encoding is not UTF-8
 */
async function migrate(session: Session, schema: string): Promise<void> {
  if ((await versionOf(session, schema)) >= steps.length) return;
  await session.query("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
  try {
    const lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
    await session.query(lock, [`stayhook ${schema}`], PATIENCE);
    await assertUnicode(session);
    const version = await versionOf(session, schema);
    if (version < steps.length) await session.query(sqlFrom(schema, version), undefined, PATIENCE);
    await session.query("COMMIT");
  } catch (error) {
    await session.query("ROLLBACK").catch(() => {});
    throw error;
  }
}

async function versionOf(session: Session, schema: string): Promise<number> {
  const [row] = await session.query(
    `SELECT p.prosrc AS source, to_regclass($2)::text AS refs
     FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
     WHERE n.nspname = $1 AND p.proname = 'schema_version'`,
    [schema, `${quote(schema)}.refs`],
  );
  if (row === undefined) return 0;
  // The schema of stayhook 0.1 is also version 1, but has no table `refs`.
  if (row.refs !== null) return Number(/\d+/.exec(row.source ?? "")?.[0]);
  throw new StayhookError(
    `postgresStore: stayhook 0.1 made the schema ${schema}, and this version of stayhook cannot use it. Set the option schema to another name, or drop the schema ${schema} when you no longer need its events.`,
  );
}

/** Throws if the encoding of the database is not UTF-8. Other encodings cannot store every notification. */
async function assertUnicode(session: Session): Promise<void> {
  const [row] = await session.query("SELECT current_setting('server_encoding') AS encoding");
  if (row?.encoding === "UTF8") return;
  throw new StayhookError(
    `postgresStore: the database's encoding is ${row?.encoding}, which cannot hold every notification. Create a database WITH ENCODING 'UTF8'.`,
  );
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

const whole = (byDefault: number) =>
  integerFrom(1, MAX_TIMER, "must be a whole number, 1 or more").default(byDefault);

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
    pollInterval: whole(1000),
    maxConnections: whole(5),
    commandTimeout: whole(10_000),
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
