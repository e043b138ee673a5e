// The place where each store of the endurance run keeps its events.
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import mysql from "mysql2/promise";
import pg from "pg";
import { mysqlStore } from "stayhook/mysql";
import { postgresStore } from "stayhook/postgres";
import { redisStore } from "stayhook/redis";
import { sqliteStore } from "stayhook/sqlite";
import type { EventStore } from "stayhook/store";
import { mysqlUrl } from "../test/support/mysql-server.ts";
import { postgresUrl } from "../test/support/postgres-server.ts";
import { deleteKeys, redisUrl } from "../test/support/redis-server.ts";

export type StoreName = "sqlite" | "postgres" | "redis" | "mysql";

/** An empty place for events. It can be sent to another process. */
export interface Place {
  readonly store: StoreName;
  /** A path or a URL. */
  readonly at: string;
  /** The name of the schema, key prefix or database. It keeps the run apart from other data on the server. */
  readonly name: string;
}

export function openStore({ store, at, name }: Place): EventStore<never> {
  const stores = {
    sqlite: () => sqliteStore(at),
    postgres: () => postgresStore({ connectionString: at, schema: name }),
    redis: () => redisStore({ url: at, prefix: name, logger: () => {} }),
    mysql: () => mysqlStore({ url: at, pollInterval: 100 }),
  };
  return stores[store]() as unknown as EventStore<never>;
}

/** Returns the size of the store's files in bytes, if it has its own files. */
export function bytesOf({ store, at }: Place): number | undefined {
  if (store !== "sqlite") return undefined;
  return [at, `${at}-wal`].reduce(
    (sum, path) => sum + (statSync(path, { throwIfNoEntry: false })?.size ?? 0),
    0,
  );
}

/** Makes a place. Returns `undefined` if the machine has no server for the store. */
export async function makePlace(
  store: StoreName,
): Promise<(Place & { remove(): Promise<void> }) | undefined> {
  const name = `soak_${randomBytes(4).toString("hex")}`;
  if (store === "sqlite") {
    const folder = mkdtempSync(join(tmpdir(), "stayhook-soak-"));
    const remove = async () => rmSync(folder, { recursive: true, force: true });
    return { store, name, at: join(folder, "events.db"), remove };
  }
  const url = await { postgres: postgresUrl, redis: redisUrl, mysql: mysqlUrl }[store]();
  if (url === undefined) return undefined;
  if (store === "redis") return { store, name, at: url, remove: () => deleteKeys(url, `{${name}`) };
  if (store === "postgres") {
    const remove = async () => {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      await client.query(`DROP SCHEMA IF EXISTS ${name} CASCADE`);
      await client.end();
    };
    return { store, name, at: url, remove };
  }
  const run = async (sql: string) => {
    const connection = await mysql.createConnection({ uri: url });
    await connection.query(sql);
    await connection.end();
  };
  await run(`CREATE DATABASE ${name}`);
  const at = new URL(url);
  at.pathname = `/${name}`;
  return { store, name, at: at.href, remove: () => run(`DROP DATABASE ${name}`) };
}
