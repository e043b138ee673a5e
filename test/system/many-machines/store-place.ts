import type { EventStore } from "../../../src/stores/event-store.ts";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { redisStore } from "../../../src/stores/redis/index.ts";

/** The arguments with which a process opens a store. */
export interface StorePlace {
  readonly kind: "postgres" | "redis" | "mysql";
  readonly url: string;
  /** The name of the schema or the database, or the prefix of the keys. */
  readonly name: string;
}

// Longer than any test, so that a test cannot pass by polling alone.
const POLL = 600_000;

export function openStore({ kind, url, name }: StorePlace): EventStore {
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  if (kind === "redis") return redisStore({ url, prefix: name, logger });
  // The tests here do not use the transactions of the store.
  if (kind === "mysql") {
    const database = new URL(url);
    database.pathname = `/${name}`;
    return mysqlStore({ url: database.href, pollInterval: 100 }) as unknown as EventStore;
  }
  return postgresStore({ connectionString: url, schema: name, pollInterval: POLL }) as unknown as EventStore;
}
