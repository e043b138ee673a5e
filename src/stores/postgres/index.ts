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
/** A name that needs no escaping anywhere. */
const NAME = /^[\p{L}_][\p{L}\p{N}_-]*$/u;
/** A connection string of pg: a URL, or the path of a socket. */
const DATABASE = /^\s*(postgres(ql)?:\/\/|socket:|\/)/i;

/** Options of {@link postgresStore}. It needs `connectionString` or `pool`. */
export interface PostgresStoreOptions {
  /** The URL of a database: `postgresql://user:password@host:5432/database`. The store then makes a pool of its own. */
  readonly connectionString?: string | undefined;
  /** A `Pool` of `pg` that you have already. `close()` leaves it open. */
  readonly pool?: Pool | undefined;
  /** The PostgreSQL schema of the tables. The store makes it if there is none. Default `stayhook`. */
  readonly schema?: string | undefined;
  /**
   * How the store notices other processes' events. `notify` (default): by LISTEN on one more connection. The store polls
   * until a NOTIFY arrives there: none does behind PgBouncer in transaction mode. `poll`: the store only polls.
   */
  readonly wake?: "notify" | "poll" | undefined;
  /** How often the store polls, ms. Default 1000. */
  readonly pollInterval?: number | undefined;
  /** Connections of the store's own pool. LISTEN takes one more. Default 5. */
  readonly maxConnections?: number | undefined;
  /** How long one command, or the wait for a connection, may take before the call rejects, ms. Default 10,000. */
  readonly commandTimeout?: number | undefined;
}

/**
 * Keeps events in PostgreSQL 13 or newer, for many machines. Any number of processes on one schema share the work, and
 * no two handle the same booking or listing at once. Needs the package `pg`. The first call connects and makes the
 * schema.
 *
 * @throws InvalidArgumentError if an option cannot be used
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
  const both = { path: [], message: "give a connectionString or a pool, not both" };
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
  /** Default `stayhook`. */
  readonly schema?: string | undefined;
  /** The version of the existing schema: the result of its function `schema_version()`. Default: no schema exists. */
  readonly from?: number | undefined;
}

/**
 * Returns the SQL that makes the schema, or upgrades an older version of it, for your own migrations. Run the SQL once, in
 * one transaction. The store then needs no right to create anything. The SQL is empty if the schema is up to date.
 *
 * @throws InvalidArgumentError for a bad option
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

/** How long making the tables may take, ms. */
const PATIENCE = 60_000;

/** The steps from each version of the schema to the next. Never change a released step. */
const steps: readonly ((schema: string) => string)[] = [schemaSql];

/** Returns the SQL of the steps from version `from` to this one. The caller runs it in a transaction. */
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
 * Upgrades the schema to this version, once even if many processes start at the same time. Leaves a newer version as it
 * is, because newer packages only add to the schema.
 *
 * @throws StayhookError for a schema of stayhook 0.1, or a database that is not in UTF-8
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
  // 0.1 called its schema version 1, too.
  if (row.refs !== null) return Number(/\d+/.exec(row.source ?? "")?.[0]);
  throw new StayhookError(
    `postgresStore: stayhook 0.1 made the schema ${schema}, and this version cannot use it. Give another schema, or drop this one when none of its events is needed any more.`,
  );
}

/** Another encoding may be unable to hold a notification. The handler could then never answer 200 to it. */
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
      "must be the version of a schema: a whole number, 0 or more",
    ).default(0),
  });

const whole = (byDefault: number) =>
  integerFrom(1, MAX_TIMER, "must be a whole number, 1 or more").default(byDefault);

function storeSchema(hasPool: boolean) {
  const connectionString = z.custom<string>((url) => typeof url === "string" && DATABASE.test(url), {
    error: "must be the URL of a database, such as postgresql://user@host/database; or give a pool",
  });
  const isPool = (pool: unknown) => {
    const { connect, options } = Object(pool) as Partial<Pool>;
    return typeof connect === "function" && options !== undefined;
  };
  const shape = {
    connectionString: hasPool ? z.unknown().optional() : connectionString,
    pool: z.custom<Pool>(isPool, { error: "must be a Pool of pg" }).optional(),
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
      return "must be a name of letters, digits, _ and -, not beginning with a digit or -";
    if (name.startsWith("pg_")) return "must not begin with pg_, which is PostgreSQL's own";
    return new TextEncoder().encode(name).length > NAME_BYTES
      ? `must not be longer than ${NAME_BYTES} bytes`
      : undefined;
  }).default(SCHEMA);
}
