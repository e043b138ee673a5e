import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import mysql from "mysql2/promise";
import pg from "pg";
import { afterAll, describe, onTestFinished } from "vitest";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { memoryStore } from "../../../src/stores/memory/index.ts";
import { mysqlUrl } from "../../support/mysql-server.ts";
import { postgresUrl } from "../../support/postgres-server.ts";
import { deleteKeys, redisUrl } from "../../support/redis-server.ts";
import { handleOn } from "../contract/wrapped.ts";

/** Options that some tests pass to a store. */
export interface Opening {
  /** The server, such as a proxy. Default: the server that tests share. */
  readonly url?: string | undefined;
  readonly commandTimeout?: number | string;
  readonly pollInterval?: number | string;
  /** Whether all handles of this process share their connections, because a server allows about a hundred. */
  readonly shares?: boolean;
}

/** An empty database. It is deleted after the tests of the file. */
export interface Place {
  /** What another process needs to open the store: see worker.ts. */
  readonly place: WorkerPlace;
  /** Opens a handle, as each process does. The test must close it. */
  open(options?: Opening): EventStore<unknown>;
  /** Runs a statement of the user, beside the store. */
  sql(text: string): Promise<Record<string, unknown>[]>;
  /** Deletes all rows, so that another test can use the database. */
  empty?(): Promise<void>;
}

export interface WorkerPlace {
  readonly name: string;
  readonly url: string;
  /** The schema, or the prefix of keys. */
  readonly schema: string;
}

/** A store, as tests that run on every store see it. */
export interface Kind {
  readonly name: "memory" | "SQLite" | "PostgreSQL" | "MySQL" | "Redis";
  /** The URL of the server that tests share. It is `undefined` for a store without a server. */
  readonly url?: string | undefined;
  /** Whether `event.atomically` can be used. */
  readonly isTransactional: boolean;
  /** Runs a statement inside a write of `event.atomically`. */
  write?(tx: unknown, sql: string): void | Promise<void>;
  create(): Promise<Place>;
}

const unique = () => `stayhook_test_${randomBytes(6).toString("hex")}`;
const urls = { postgres: await postgresUrl(), mysql: await mysqlUrl(), redis: await redisUrl() };

/** Runs after all tests of a file, because concurrent tests have no hook of their own. */
const cleanUps: (() => unknown)[] = [];
afterAll(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

const memory: Kind = {
  name: "memory",
  isTransactional: false,
  async create() {
    const store = memoryStore();
    return {
      place: { name: "memory", url: "", schema: "" },
      open: () => handleOn(store),
      sql: () => Promise.reject(new Error("no SQL")),
    };
  },
};

const sqlite: Kind = {
  name: "SQLite",
  isTransactional: true,
  write: (tx, sql) => (tx as DatabaseSync).exec(sql),
  async create() {
    const directory = mkdtempSync(join(tmpdir(), "stayhook-every-"));
    const path = join(directory, "events.db");
    const { sqliteStore } = await import("../../../src/stores/sqlite/index.ts");
    const db = new DatabaseSync(path, { timeout: 20_000 });
    cleanUps.push(() => {
      db.close();
      rmSync(directory, { recursive: true, force: true });
    });
    return {
      place: { name: "SQLite", url: path, schema: "" },
      open: () => sqliteStore(path, { durability: "process-crash" }) as EventStore<unknown>,
      sql: async (text) => db.prepare(text).all() as Record<string, unknown>[],
    };
  },
};

const postgres: Kind = {
  name: "PostgreSQL",
  url: urls.postgres,
  isTransactional: true,
  write: async (tx, sql) => void (await (tx as pg.ClientBase).query(sql)),
  async create() {
    const { postgresStore } = await import("../../../src/stores/postgres/index.ts");
    const schema = unique();
    postgresPool ??= pooled();
    const pool = postgresPool;
    await pool.query(`CREATE SCHEMA ${schema}`);
    cleanUps.push(() => pool.query(`DROP SCHEMA ${schema} CASCADE`));
    const sql = async (text: string) => {
      const results: unknown = await pool.query(`SET search_path = ${schema}, public; ${text}`);
      return (results as pg.QueryResult[]).at(-1)!.rows;
    };
    return {
      place: { name: "PostgreSQL", url: withPath(urls.postgres!, schema), schema },
      open: ({ url = urls.postgres, shares, ...options } = {}) =>
        postgresStore({
          ...(shares ? { pool } : { connectionString: withPath(url!, schema) }),
          schema,
          ...options,
        }) as EventStore<unknown>,
      sql,
      async empty() {
        await sql("DELETE FROM events; DELETE FROM records; DELETE FROM meta WHERE name <> 'schema'");
      },
    };
  },
};

let postgresPool: pg.Pool | undefined;

function pooled(): pg.Pool {
  const pool = new pg.Pool({ connectionString: urls.postgres, max: 8 });
  cleanUps.push(() => pool.end());
  return pool;
}

/** Makes the statements of `event.atomically` find the tables of the user. */
function withPath(url: string, schema: string): string {
  const found = new URL(url);
  found.searchParams.set("options", `-c search_path=${schema},public`);
  return found.href;
}

const mysqlKind: Kind = {
  name: "MySQL",
  url: urls.mysql,
  isTransactional: true,
  write: async (tx, sql) => void (await (tx as mysql.PoolConnection).query(sql)),
  async create() {
    const { mysqlStore } = await import("../../../src/stores/mysql/index.ts");
    const name = unique();
    const connection = await mysql.createConnection({ uri: urls.mysql! });
    await connection.query(`CREATE DATABASE ${name}`);
    await connection.query(`USE ${name}`);
    cleanUps.push(async () => {
      await connection.query(`DROP DATABASE ${name}`);
      await connection.end();
    });
    const urlOf = (server: string) => Object.assign(new URL(server), { pathname: `/${name}` }).href;
    const sql = async (text: string) => {
      const [rows] = await connection.query(text);
      return Array.isArray(rows) ? (rows as Record<string, unknown>[]) : [];
    };
    return {
      place: { name: "MySQL", url: urlOf(urls.mysql!), schema: "" },
      open: ({ url = urls.mysql, shares, ...options } = {}) =>
        mysqlStore({
          ...{ url: urlOf(url!), pollInterval: 50, ...options },
          ...(shares && { maxConnections: 2 }),
        }) as EventStore<unknown>,
      sql,
      async empty() {
        if ((await sql("SHOW TABLES")).length === 0) return;
        for (const rows of ["events", "records", "meta WHERE name <> 'schema'"])
          await sql(`DELETE FROM stayhook_${rows}`);
      },
    };
  },
};

const redis: Kind = {
  name: "Redis",
  url: urls.redis,
  isTransactional: false,
  async create() {
    const { redisStore } = await import("../../../src/stores/redis/index.ts");
    redisPrefix ??= deletedPrefix();
    const prefix = `${redisPrefix}_${randomBytes(6).toString("hex")}`;
    return {
      place: { name: "Redis", url: urls.redis!, schema: prefix },
      open: ({ url = urls.redis, commandTimeout } = {}) =>
        redisStore({ url, prefix, logger: () => {}, commandTimeout }) as EventStore<unknown>,
      sql: () => Promise.reject(new Error("no SQL")),
    };
  },
};

let redisPrefix: string | undefined;

/** Deletes the keys of all places at once, because that takes a scan of all keys of the server. */
function deletedPrefix(): string {
  const prefix = unique();
  cleanUps.push(() => deleteKeys(urls.redis!, `{${prefix}`));
  return prefix;
}

const kinds: readonly Kind[] = [memory, sqlite, postgres, mysqlKind, redis];

/**
 * Declares tests for each store that `include` accepts. Skips a store whose server does not run. `STAYHOOK_STORES`, such
 * as `SQLite,MySQL`, declares them for these stores only.
 */
export function describeEvery(
  include: (kind: Kind) => boolean,
  declare: (kind: Kind) => void,
  { isConcurrent = false } = {},
): void {
  const suite = isConcurrent ? describe.concurrent : describe;
  const wanted = process.env.STAYHOOK_STORES?.toLowerCase().split(",");
  for (const kind of kinds.filter(include)) {
    if (wanted && !wanted.includes(kind.name.toLowerCase())) continue;
    const isMissing = kind.name in SERVERS && kind.url === undefined;
    (isMissing ? describe.skip : suite)(kind.name, () => declare(kind));
  }
}

const SERVERS = { PostgreSQL: true, MySQL: true, Redis: true };

/** Opens a handle that closes at the end of the test. */
export function opened(place: Place, options?: Opening): EventStore<unknown> {
  const store = place.open(options);
  onTestFinished(() => store.close());
  return store;
}
