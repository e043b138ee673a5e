// Opens a store on its own database, and deletes the database at the end.
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import mysql from "mysql2/promise";
import pg from "pg";
import { memoryStore } from "stayhook";
import { mysqlStore } from "stayhook/mysql";
import { postgresStore } from "stayhook/postgres";
import { redisStore } from "stayhook/redis";
import { sqliteStore } from "stayhook/sqlite";
import type { EventStore } from "stayhook/store";

export const storeNames = ["memory", "SQLite", "PostgreSQL", "Redis", "MySQL"] as const;
export type StoreName = (typeof storeNames)[number];

/** URLs of the servers. `main.ts` finds or starts the servers, and passes the URLs on in the environment. */
export interface Servers {
  readonly postgres: string;
  readonly redis: string;
  readonly mysql: string;
}

export const servers = (): Servers => JSON.parse(process.env.BENCH_SERVERS ?? "{}");

export interface OpenStore {
  readonly store: EventStore<never>;
  /** The name with which another process can open the same database. */
  readonly place: string;
  close(): Promise<void>;
}

/** @param place - the database of an open store. Default: a new database */
export async function openStore(name: StoreName, place?: string): Promise<OpenStore> {
  const isOwner = place === undefined;
  const { store, at, drop } = await openers[name](place);
  return {
    store: store as EventStore<never>,
    place: at,
    async close() {
      await store.close();
      if (isOwner) await drop();
    },
  };
}

type Opener = (place: string | undefined) => Promise<{
  readonly store: { close(): Promise<void> };
  readonly at: string;
  drop(): Promise<unknown> | unknown;
}>;

const newName = (): string => `stayhook_bench_${randomBytes(4).toString("hex")}`;

const openers: Readonly<Record<StoreName, Opener>> = {
  memory: async () => ({ store: memoryStore(), at: "", drop() {} }),

  // A commit is on disk before the answer, because `durability: "power-loss"` is the default.
  SQLite: async (at = mkdtempSync(join(tmpdir(), "stayhook-bench-"))) => ({
    store: sqliteStore(join(at, "events.db")),
    at,
    drop: () => rmSync(at, { recursive: true }),
  }),

  PostgreSQL: async (at = newName()) => {
    const connectionString = servers().postgres;
    const store = postgresStore({ connectionString, schema: at });
    await store.migrate();
    return { store, at, drop: () => withPostgres((client) => client.query(`DROP SCHEMA ${at} CASCADE`)) };
  },

  // The server belongs to the benchmark and ends with it, so no data has to be deleted.
  Redis: async (at = newName()) => ({
    store: redisStore({ url: servers().redis, prefix: at, logger: () => {} }),
    at,
    drop() {},
  }),

  MySQL: async (at) => {
    const admin = await mysql.createConnection(servers().mysql);
    const database = at ?? newName();
    await admin.query(`CREATE DATABASE IF NOT EXISTS ${database}`);
    await admin.end();
    const url = new URL(servers().mysql);
    url.pathname = `/${database}`;
    return { store: mysqlStore({ url: url.href }), at: database, drop: () => dropMysql(database) };
  },
};

export async function withPostgres<T>(use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: servers().postgres });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

async function dropMysql(database: string): Promise<void> {
  const admin = await mysql.createConnection(servers().mysql);
  await admin.query(`DROP DATABASE ${database}`);
  await admin.end();
}
