import { DatabaseSync } from "node:sqlite";
import mysql from "mysql2/promise";
import pg from "pg";
import type { EventStore } from "../../../src/stores/event-store.ts";
import type { WorkerPlace } from "./stores.ts";

/** The store of a place, in another process, with the statements that its callbacks run. */
export interface OpenedPlace {
  readonly store: EventStore<unknown>;
  /** Runs a statement outside the store's transactions. */
  run(sql: string): Promise<unknown>;
  /** Runs a statement in a write of `event.atomically`. */
  write(tx: unknown, sql: string): undefined | Promise<unknown>;
  end(): Promise<void>;
}

/** Awaits `point` before and after the COMMIT of a transaction with writes. */
export type Point = (name: "before the commit" | "after the commit") => void | Promise<void>;

/** Opens the database that `Kind.create` made in another process. */
export async function openPlace({ name, url, schema }: WorkerPlace, point?: Point): Promise<OpenedPlace> {
  switch (name) {
    case "SQLite": {
      const { sqliteStore } = await import("../../../src/stores/sqlite/index.ts");
      const db = new DatabaseSync(url, { timeout: 20_000 });
      const exec = db.exec.bind(db);
      let hasWritten = false;
      db.exec = (sql) => {
        const isWatched = sql === "COMMIT" && hasWritten;
        if (isWatched) void point?.("before the commit");
        exec(sql);
        if (isWatched) void point?.("after the commit");
        if (sql === "COMMIT") hasWritten = false;
      };
      return {
        store: sqliteStore(db, { durability: "process-crash" }) as EventStore<unknown>,
        run: async (sql) => exec(sql),
        write(_, sql) {
          hasWritten = true;
          exec(sql);
        },
        end: async () => db.close(),
      };
    }
    case "PostgreSQL": {
      const { postgresStore } = await import("../../../src/stores/postgres/index.ts");
      const pool = new pg.Pool({ connectionString: url, allowExitOnIdle: true, max: 4 });
      if (point) pool.on("connect", (client) => watchCommits(client, point));
      const store = point
        ? postgresStore({ pool, schema })
        : postgresStore({ connectionString: url, schema });
      return {
        store: store as EventStore<unknown>,
        run: (sql) => pool.query(sql),
        write: (tx, sql) => (tx as pg.ClientBase).query(sql),
        end: () => pool.end(),
      };
    }
    case "MySQL": {
      const { mysqlStore } = await import("../../../src/stores/mysql/index.ts");
      const pool = mysql.createPool({ uri: url, connectionLimit: 6 });
      const get = pool.getConnection.bind(pool);
      pool.getConnection = async () => {
        const connection = await get();
        if (point) watchCommits(connection, point);
        return connection;
      };
      const store = mysqlStore({ ...(point ? { pool } : { url }), pollInterval: 100 });
      return {
        store: store as EventStore<unknown>,
        run: (sql) => pool.query(sql),
        write: (tx, sql) => (tx as mysql.PoolConnection).query(sql),
        end: () => pool.end(),
      };
    }
    case "Redis": {
      const { redisStore } = await import("../../../src/stores/redis/index.ts");
      const store = redisStore({ url, prefix: schema, logger: () => {} });
      const none = () => Promise.reject(new Error("no SQL"));
      return { store: store as EventStore<unknown>, run: none, write: none, end: async () => {} };
    }
    default:
      throw new Error(`no such store: ${name}`);
  }
}

/** Awaits `point` at each COMMIT of a transaction in which the user wrote to the table `handled`. */
function watchCommits(client: object, point: Point): void {
  const watched = client as { query(...args: unknown[]): Promise<unknown>; isWatched?: boolean };
  if (watched.isWatched) return;
  watched.isWatched = true;
  const query = watched.query.bind(client);
  let hasWritten = false;
  watched.query = async (...args) => {
    const [first] = args as [string | { readonly text?: string; readonly sql?: string }];
    const sql = (typeof first === "string" ? first : (first.text ?? first.sql ?? "")).trim();
    if (/INTO handled/.test(sql)) hasWritten = true;
    const isWatched = hasWritten && /^COMMIT\b/i.test(sql);
    if (isWatched) await point("before the commit");
    const result = await query(...args);
    if (isWatched) await point("after the commit");
    if (/^(COMMIT|ROLLBACK)\b(?! TO)/i.test(sql)) hasWritten = false;
    return result;
  };
}
