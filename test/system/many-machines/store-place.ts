import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { redisStore } from "../../../src/stores/redis/index.ts";
import type { EventStore } from "../../../src/stores/event-store.ts";

/** Where a store is: all that a process has to know to open it. */
export interface StorePlace {
  readonly kind: "postgres" | "redis";
  readonly url: string;
  /** Of the schema, or the keys' prefix. */
  readonly name: string;
}

// Only what wakes can be quick: to look by itself, a store waits longer than any test.
const POLL = 600_000;

export function openStore({ kind, url, name }: StorePlace): EventStore {
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  if (kind === "redis") return redisStore({ url, prefix: name, logger });
  // Its transactions are not used here.
  return postgresStore({ connectionString: url, schema: name, pollInterval: POLL }) as unknown as EventStore;
}
