import type { EventStore } from "../../../src/stores/event-store.ts";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { redisStore } from "../../../src/stores/redis/index.ts";

/** Where a store is: all that a process has to know to open it. */
export interface StorePlace {
  readonly kind: "postgres" | "redis" | "mysql";
  readonly url: string;
  /** Of the schema or the database, or the keys' prefix. */
  readonly name: string;
}

// Only what wakes can be quick: to look by itself, a store waits longer than any test.
const POLL = 600_000;

export function openStore({ kind, url, name }: StorePlace): EventStore {
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  if (kind === "redis") return redisStore({ url, prefix: name, logger });
  // Their transactions are not used here.
  if (kind === "mysql") {
    const database = new URL(url);
    database.pathname = `/${name}`;
    return mysqlStore({ url: database.href, pollInterval: 100 }) as unknown as EventStore;
  }
  return postgresStore({ connectionString: url, schema: name, pollInterval: POLL }) as unknown as EventStore;
}
