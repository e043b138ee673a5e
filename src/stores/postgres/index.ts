import type { ClientBase, Pool } from "pg";
import { InvalidArgumentError, type Issue } from "../../errors.ts";
import type { EventStore, NewEvent } from "../event-store.ts";
import { Connections } from "./connections.ts";
import { migrationSql as sqlOf } from "./schema.ts";
import { PgStore } from "./store.ts";

const SCHEMA = "stayhook";
/** A name that PostgreSQL does not cut off, and that needs no escaping anywhere. */
const NAME = /^[\p{L}_][\p{L}\p{N}_-]*$/u;
const LONGEST_NAME = 63;
/** What pg takes: a URL, or the path of a socket. */
const DATABASE = /^\s*(postgres(ql)?:\/\/|socket:|\/)/i;
const LONGEST_TIMER = 2 ** 31 - 1;

/** Options of {@link postgresStore}: `connectionString` or `pool`, and what else is to be different. */
export interface PostgresStoreOptions {
  /** Of a database: `postgresql://user:password@host:5432/database`. The store has a pool of its own then. */
  readonly connectionString?: string | undefined;
  /** A `Pool` of `pg` that you have already. `close()` leaves it open. */
  readonly pool?: Pool | undefined;
  /** The PostgreSQL schema that the tables are in; made when it is not there. Default `stayhook`. */
  readonly schema?: string | undefined;
  /**
   * How other processes' events are noticed. `notify` (default): by LISTEN on a connection beside the pool; as long as no
   * call comes through there (behind PgBouncer in transaction mode none does) it polls. `poll`: without that
   * connection, by looking every `pollInterval`.
   */
  readonly wake?: "notify" | "poll" | undefined;
  /** How often to look where nothing notifies, ms. Default 1000. */
  readonly pollInterval?: number | undefined;
  /** Connections of the store's own pool; there is one more for LISTEN. Default 5. */
  readonly maxConnections?: number | undefined;
  /** How long a statement, or waiting for a connection, may take before the call rejects, ms. Default 10,000. */
  readonly callTimeout?: number | undefined;
}

/** Takes events in as a part of the caller's own transaction. */
export interface TransactionStore {
  /** As {@link EventStore.add}; recorded when the caller commits, and not before. */
  add(event: NewEvent): Promise<"added" | "duplicate" | "conflict">;
}

/** What {@link postgresStore} makes. `event.atomically` gets a `pg` client in the transaction that ends the event. */
export interface PostgresStore extends EventStore<ClientBase> {
  readonly transactional: true;
  /**
   * A store whose `add` takes part in the transaction that is open on `client`. Until that ends, nothing else can be
   * recorded or handled of the same booking or listing. Keep it short: an attempt for it cannot renew its lease meanwhile,
   * and loses it after waiting for a third of `leaseDuration`, 5 s at most.
   */
  with(client: ClientBase): TransactionStore;
  /** Makes the schema, or brings it up to this version. The first call of any method does it, too. */
  migrate(): Promise<void>;
}

/**
 * Keeps events in PostgreSQL (13 or later), for many machines: any number of processes on one schema share the
 * work, and no two handle the same booking or listing at once. Needs the package `pg`. Connects, and makes its
 * schema, when it is first used.
 *
 * @throws {@link InvalidArgumentError} where an option cannot be used
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
  const { maxConnections = 5, callTimeout = 10_000 } = options;
  const connections = new Connections({ connectionString, pool, maxConnections, callTimeout });
  const most = pool?.options.max ?? maxConnections;
  return new PgStore(connections, {
    schema,
    listen: wake === "notify",
    pollInterval,
    writesAtOnce: Math.max(1, most - 2),
  });
}

/**
 * The SQL that makes the schema, for those who keep their migrations themselves: run it in one transaction, once. The
 * store then needs no right to create anything.
 *
 * @throws {@link InvalidArgumentError} where `schema` cannot be one
 *
 * @example
 * ```ts
 * import { migrationSql } from "stayhook/postgres";
 *
 * console.log(migrationSql());
 * ```
 */
export function migrationSql({ schema = SCHEMA }: { readonly schema?: string | undefined } = {}): string {
  const issues = [...schemaIssues(schema)];
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  return sqlOf(schema);
}

function* optionIssues(options: PostgresStoreOptions): Generator<Issue> {
  if (typeof options !== "object" || options === null) {
    yield { path: [], message: "postgresStore takes an object with a connectionString or a pool" };
    return;
  }
  const { connectionString, pool, schema, wake, pollInterval, maxConnections, callTimeout, ...rest } =
    options;
  // A misspelt schema would quietly be the default one, which may be another app's.
  for (const name of Object.keys(rest)) yield { path: [name], message: "is no option of postgresStore" };
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
  for (const [name, value] of Object.entries({ pollInterval, maxConnections, callTimeout })) {
    if (value === undefined) continue;
    if (!Number.isInteger(value) || value < 1 || value > LONGEST_TIMER)
      yield { path: [name], message: "must be a whole number, 1 or more" };
  }
}

function* schemaIssues(schema: unknown): Generator<Issue> {
  const path = ["schema"];
  if (typeof schema !== "string" || !NAME.test(schema)) {
    yield { path, message: "must be a name of letters, digits, _ and -, not beginning with a digit or -" };
  } else if (schema.startsWith("pg_")) {
    yield { path, message: "must not begin with pg_, which is PostgreSQL's own" };
  } else if (new TextEncoder().encode(schema).length > LONGEST_NAME) {
    yield { path, message: `must not be longer than ${LONGEST_NAME} bytes` };
  }
}
