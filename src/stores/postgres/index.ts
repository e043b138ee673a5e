import type { Pool } from "pg";
import { MAX_TIMER } from "../../async.ts";
import { InvalidArgumentError, type Issue } from "../../errors.ts";
import { checkNoUnknown, unknownOptions } from "../../options.ts";
import { Connections } from "./connections.ts";
import { PgStore, type PostgresStore } from "./postgres-store.ts";
import { NAME_BYTES, migrationSql as sqlOf } from "./schema.ts";

export type { PostgresStore, TransactionStore } from "./postgres-store.ts";

const SCHEMA = "stayhook";
const NAMES = [
  "connectionString",
  "pool",
  "schema",
  "wake",
  "pollInterval",
  "maxConnections",
  "commandTimeout",
];
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
  const issues = [...optionIssues(options)];
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  const { connectionString, pool, schema = SCHEMA, wake = "notify", pollInterval = 1000 } = options;
  const { maxConnections = 5, commandTimeout = 10_000 } = options;
  const connections = new Connections({ connectionString, pool, maxConnections, commandTimeout });
  const most = pool?.options.max ?? maxConnections;
  return new PgStore(connections, {
    schema,
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
  checkNoUnknown(options, ["schema", "from"]);
  const { schema = SCHEMA, from = 0 } = options;
  const issues: Issue[] = [...schemaIssues(schema)];
  if (!Number.isSafeInteger(from) || from < 0) {
    issues.push({ path: ["from"], message: "must be the version of a schema: a whole number, 0 or more" });
  }
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  return sqlOf(schema, from);
}

function* optionIssues(options: PostgresStoreOptions): Generator<Issue> {
  if (typeof options !== "object" || options === null) {
    yield { path: [], message: "postgresStore takes an object with a connectionString or a pool" };
    return;
  }
  const { connectionString, pool, schema, wake, pollInterval, maxConnections, commandTimeout } = options;
  yield* unknownOptions(options, NAMES);
  if (connectionString !== undefined && pool !== undefined) {
    yield { path: [], message: "give a connectionString or a pool, not both" };
  } else if (pool !== undefined) {
    if (typeof (pool as Partial<Pool> | null)?.connect !== "function" || pool.options === undefined)
      yield { path: ["pool"], message: "must be a Pool of pg" };
  } else if (typeof connectionString !== "string" || !DATABASE.test(connectionString)) {
    const message = "must be the URL of a database, such as postgresql://user@host/database; or give a pool";
    yield { path: ["connectionString"], message };
  }
  if (schema !== undefined) yield* schemaIssues(schema);
  if (wake !== undefined && wake !== "notify" && wake !== "poll")
    yield { path: ["wake"], message: 'must be "notify" or "poll"' };
  for (const [name, value] of Object.entries({ pollInterval, maxConnections, commandTimeout })) {
    if (value === undefined) continue;
    if (!Number.isInteger(value) || value < 1 || value > MAX_TIMER)
      yield { path: [name], message: "must be a whole number, 1 or more" };
  }
}

function* schemaIssues(schema: unknown): Generator<Issue> {
  const path = ["schema"];
  if (typeof schema !== "string" || !NAME.test(schema)) {
    yield { path, message: "must be a name of letters, digits, _ and -, not beginning with a digit or -" };
  } else if (schema.startsWith("pg_")) {
    yield { path, message: "must not begin with pg_, which is PostgreSQL's own" };
  } else if (new TextEncoder().encode(schema).length > NAME_BYTES) {
    yield { path, message: `must not be longer than ${NAME_BYTES} bytes` };
  }
}
