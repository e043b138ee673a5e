// Opens handles of one database, whose statements wait at the gates of a session.
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Redis } from "ioredis";
import mysql from "mysql2/promise";
import pg from "pg";
import type { EventStore } from "../../../src/stores/event-store.ts";
import type { SqlDriver } from "../../../src/stores/sql/driver.ts";
import { mysqlUrl } from "../../support/mysql-server.ts";
import { postgresUrl } from "../../support/postgres-server.ts";
import { redisUrl } from "../../support/redis-server.ts";
import type { Session } from "./session.ts";

export type StoreName = "PostgreSQL" | "MariaDB" | "Redis" | "SQLite";

/** A handle of the database. Its statements wait while it has a session. */
export interface Handle {
  readonly store: EventStore<unknown>;
  session: Session | undefined;
  /** Whether a statement of the session waits for a lock. */
  isWaiting(): Promise<boolean>;
  /** Opens the store anew, on the same connections. */
  reopen(): Promise<void>;
}

export interface Place {
  readonly handles: readonly Handle[];
  /** The name of the statement that makes a claim. */
  readonly claims: string;
  /** A handle without gates. */
  readonly plain: EventStore<unknown>;
  /** A write of `event.atomically`. `undefined` if the store runs none here. */
  readonly write?: ((tx: unknown) => Promise<void>) | undefined;
  /** How often the write was committed. */
  written(): Promise<number>;
  empty(): Promise<void>;
  /** Keeps all rows, so that `load` brings them back. It is `undefined` if to begin anew costs little. */
  save?(): Promise<void>;
  load?(): Promise<void>;
  remove(): Promise<void>;
}

/** @param source - the directory with the sources of stayhook to test */
export async function openPlace(name: StoreName, source: string): Promise<Place | undefined> {
  return { PostgreSQL: postgres, MariaDB: mariadb, Redis: redis, SQLite: sqlite }[name](source);
}

const newName = () => `stayhook_orders_${randomBytes(5).toString("hex")}`;
const NIGHTS = "CREATE TABLE nights (name VARCHAR(40))";
/** Statements that have no effect on other sessions, or none of their own. */
const UNGATED =
  /^\s*(BEGIN|START TRANSACTION|SET |SAVEPOINT|RELEASE|ROLLBACK|LISTEN|UNLISTEN|SELECT (pg_notify|set_config)|SELECT [^;]{0,80}AS now$)/i;

/** Returns SQL that replaces the rows of tables by those of others. */
function copied(tables: readonly string[], toAndFrom: (table: string) => [to: string, from: string]): string {
  return tables
    .map(toAndFrom)
    .map(([to, from]) => `DELETE FROM ${to}; INSERT INTO ${to} SELECT * FROM ${from}`)
    .join("; ");
}

/** Reads of the state of the clock, transactions and savepoints pass. All other statements wait at the gate. */
async function gated<T>(session: Session | undefined, sql: string, run: () => Promise<T>): Promise<T> {
  return session === undefined || UNGATED.test(sql) ? run() : session.gate(nameOf(sql), run);
}

function nameOf(sql: string): string {
  const text = sql
    .replaceAll(/\s+/g, " ")
    .replaceAll(/"stayhook_orders_\w+"\./g, "")
    .trim();
  const known = [
    [/ leased AS \(/, "lease"],
    [/^UPDATE events e SET state = 'processing'/, "take"],
    [/ kept AS \(/, "settle"],
    [/ renewed AS \(/, "renew"],
    [/ released AS \(/, "give back"],
    [/^WITH .* added AS \(/, "add"],
    [/^SELECT CASE WHEN .* AS lease/, "state of the lease"],
  ] as const;
  return known.find(([pattern]) => pattern.test(text))?.[1] ?? text.slice(0, 90);
}

/** A handle whose connections may have to stay open for a statement that arrives late. */
abstract class ServerHandle implements Handle {
  store!: EventStore<unknown>;
  session: Session | undefined;
  abstract isWaiting(): Promise<boolean>;
  abstract reopen(): Promise<void>;
}

async function postgres(source: string): Promise<Place | undefined> {
  const connectionString = await postgresUrl();
  if (connectionString === undefined) return undefined;
  const { postgresStore } = await import(join(source, "src/stores/postgres/index.ts"));
  const schema = newName();
  const quick = new URL(connectionString);
  quick.searchParams.set("options", `-c synchronous_commit=off -c search_path=${schema},public`);
  const admin = new pg.Pool({ connectionString: quick.href, max: 5 });
  const { hotStatements } = await import(join(source, "src/stores/postgres/postgres-statements.ts"));
  const open = (pool: pg.Pool): EventStore<unknown> => postgresStore({ pool, schema, wake: "poll" });

  class PgHandle extends ServerHandle {
    readonly pool = new pg.Pool({ connectionString: quick.href, max: 4 });
    readonly #running = new Set<number>();

    constructor() {
      super();
      const connect = this.pool.connect.bind(this.pool);
      this.pool.connect = (async () => this.#watched(await connect())) as typeof this.pool.connect;
    }

    #watched(client: pg.PoolClient): pg.PoolClient {
      const watched = client as pg.PoolClient & { isWatched?: boolean; processID?: number; late?: number };
      if (watched.isWatched) return client;
      watched.isWatched = true;
      const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
      watched.query = (async (...args: unknown[]) => {
        const [first] = args as [string | { readonly text: string }];
        const sql = typeof first === "string" ? first : first.text;
        const isOf = this.session;
        if (isOf !== undefined && !UNGATED.test(sql)) watched.late = (watched.late ?? 0) + 1;
        return gated(isOf, sql, async () => {
          const pid = watched.processID!;
          this.#running.add(pid);
          try {
            return await query(...args);
          } finally {
            this.#running.delete(pid);
            if (isOf !== undefined) watched.late = (watched.late ?? 1) - 1;
            if (watched.late === 0 && ended) end();
          }
        });
      }) as typeof client.query;
      // The store closes a connection whose answer was lost. The server still gets the statement.
      let ended = false;
      let release = client.release.bind(client);
      const end = () => release(true);
      Object.defineProperty(client, "release", {
        configurable: true,
        get: () => (isBroken?: boolean) => {
          if (isBroken && (watched.late ?? 0) > 0) ended = true;
          else release(isBroken);
        },
        // pg sets the function anew each time that it lends the client.
        set: (to: typeof release) => {
          release = to.bind(client);
        },
      });
      return client;
    }

    async isWaiting(): Promise<boolean> {
      if (this.#running.size === 0) return false;
      const sql = "SELECT FROM pg_stat_activity WHERE pid = ANY ($1) AND wait_event_type = 'Lock'";
      return (await admin.query(sql, [[...this.#running]])).rowCount! > 0;
    }

    async reopen(): Promise<void> {
      this.store = open(this.pool);
      await this.store.nextDue();
    }
  }

  const handles = [new PgHandle(), new PgHandle(), new PgHandle()];
  const plain = open(admin);
  let loads = 0;
  await plain.nextDue();
  const tables = ["events", "records", "meta"];
  const saved = tables.map((table) => `CREATE TABLE saved_${table} AS SELECT * FROM ${table}`);
  await admin.query(`SET search_path = ${schema}; ${[NIGHTS, ...saved].join("; ")}`);
  for (const handle of handles) await handle.reopen();
  return {
    handles,
    plain,
    // Up to 0.3, a claim was two commits.
    claims: "giveBack" in hotStatements(schema) ? "take" : "COMMIT",
    write: async (tx) => void (await (tx as pg.ClientBase).query("INSERT INTO nights VALUES ('a')")),
    written: async () => (await admin.query("SELECT FROM nights")).rowCount!,
    empty: async () =>
      void (await admin.query(
        "DELETE FROM events; DELETE FROM records; DELETE FROM nights; DELETE FROM meta WHERE name <> 'schema'",
      )),
    save: async () => void (await admin.query(copied(tables, (table) => [`saved_${table}`, table]))),
    async load() {
      // Each order leaves dead rows, which every later scan would read.
      if (++loads % 20 === 0) await admin.query("VACUUM events, records, meta, nights");
      await admin.query(`DELETE FROM nights; ${copied(tables, (table) => [table, `saved_${table}`])}`);
    },
    async remove() {
      for (const { pool } of handles) await pool.end();
      await admin.query(`DROP SCHEMA ${schema} CASCADE`);
      await admin.end();
    },
  };
}

async function mariadb(source: string): Promise<Place | undefined> {
  const uri = await mysqlUrl();
  if (uri === undefined) return undefined;
  const { mysqlStore } = await import(join(source, "src/stores/mysql/index.ts"));
  const name = newName();
  const admin = mysql.createPool({ uri, connectionLimit: 3, multipleStatements: true });
  await admin.query(`CREATE DATABASE ${name}`);
  const url = Object.assign(new URL(uri), { pathname: `/${name}` }).href;
  const open = (pool: mysql.Pool): EventStore<unknown> => mysqlStore({ pool, pollInterval: "1h" });

  class MysqlHandle extends ServerHandle {
    readonly pool = mysql.createPool({ uri: url, connectionLimit: 4 });
    #since = 0;

    constructor() {
      super();
      const get = this.pool.getConnection.bind(this.pool);
      this.pool.getConnection = async () => this.#watched(await get());
    }

    /** A pool makes a new object for each loan. */
    #watched(connection: mysql.PoolConnection): mysql.PoolConnection {
      const query = connection.query.bind(connection) as (...args: unknown[]) => Promise<unknown>;
      const destroy = connection.destroy.bind(connection);
      let late = 0;
      let isDestroyed = false;
      connection.query = (async (...args: unknown[]) => {
        const [first] = args as [string | { readonly sql: string }];
        const sql = typeof first === "string" ? first : first.sql;
        const isOf = this.session;
        const counts = isOf !== undefined && !UNGATED.test(sql);
        if (counts) late += 1;
        return gated(isOf, sql, async () => {
          this.#since = performance.now();
          try {
            return await query(...args);
          } finally {
            if (counts) late -= 1;
            if (late === 0 && isDestroyed) destroy();
          }
        });
      }) as typeof connection.query;
      connection.destroy = () => {
        isDestroyed = true;
        if (late === 0) destroy();
      };
      return connection;
    }

    /** InnoDB's table of transactions is refreshed too seldom. A statement takes a few ms if it does not wait. */
    async isWaiting(): Promise<boolean> {
      return performance.now() - this.#since > 15;
    }

    async reopen(): Promise<void> {
      this.store = open(this.pool);
      await this.store.nextDue();
    }
  }

  const handles = [new MysqlHandle(), new MysqlHandle(), new MysqlHandle()];
  const own = mysql.createPool({ uri: url, connectionLimit: 5, multipleStatements: true });
  const plain = open(own);
  await plain.nextDue();
  const tables = ["events", "records", "meta"];
  const saved = tables.map((table) => `CREATE TABLE saved_${table} AS SELECT * FROM stayhook_${table}`);
  await own.query([NIGHTS, ...saved].join("; "));
  for (const handle of handles) await handle.reopen();
  return {
    handles,
    plain,
    claims: "COMMIT",
    write: async (tx) => void (await (tx as mysql.PoolConnection).query("INSERT INTO nights VALUES ('a')")),
    written: async () => ((await own.query("SELECT * FROM nights"))[0] as unknown[]).length,
    empty: async () =>
      void (await own.query(
        "START TRANSACTION; DELETE FROM stayhook_events; DELETE FROM stayhook_records; DELETE FROM nights; DELETE FROM stayhook_meta WHERE name <> 'schema'; COMMIT",
      )),
    save: async () =>
      void (await own.query(copied(tables, (table) => [`saved_${table}`, `stayhook_${table}`]))),
    load: async () =>
      void (await own.query(
        `START TRANSACTION; DELETE FROM nights; ${copied(tables, (table) => [`stayhook_${table}`, `saved_${table}`])}; COMMIT`,
      )),
    async remove() {
      for (const { pool } of handles) await pool.end();
      await own.end();
      await admin.query(`DROP DATABASE ${name}`);
      await admin.end();
    },
  };
}

async function redis(source: string): Promise<Place | undefined> {
  const url = await redisUrl();
  if (url === undefined) return undefined;
  const { redisStore } = await import(join(source, "src/stores/redis/index.ts"));
  const { scripts } = await import(join(source, "src/stores/redis/redis-scripts.ts"));
  const names = new Map(
    Object.entries(scripts as Record<string, { readonly sha: string }>).map(([name, { sha }]) => [sha, name]),
  );
  const prefix = newName();
  const admin = new Redis(url);

  class RedisHandle extends ServerHandle {
    readonly client = new Redis(url!, { lazyConnect: true }).setMaxListeners(0);

    constructor() {
      super();
      const evalsha = this.client.evalsha.bind(this.client) as (...args: unknown[]) => Promise<unknown>;
      this.client.evalsha = ((sha: string, ...args: unknown[]) =>
        gated(this.session, names.get(sha) ?? sha, () =>
          evalsha(sha, ...args),
        )) as typeof this.client.evalsha;
    }

    async isWaiting(): Promise<boolean> {
      return false;
    }

    async reopen(): Promise<void> {
      this.store = redisStore({ client: this.client, prefix, logger: () => {} });
      await this.store.nextDue();
    }
  }

  const handles = [new RedisHandle(), new RedisHandle(), new RedisHandle()];
  for (const handle of handles) await handle.reopen();
  const plain: EventStore<unknown> = redisStore({ client: admin, prefix, logger: () => {} });
  await plain.nextDue();
  const deleteKeys = async () => {
    const keys = await admin.keys(`{${prefix}}:*`);
    if (keys.length > 0) await admin.del(keys);
  };
  return {
    handles,
    plain,
    claims: "claim",
    written: async () => 0,
    async empty() {
      await deleteKeys();
      await admin.hset(`{${prefix}}:meta`, "schema", 3);
    },
    async remove() {
      await deleteKeys();
      for (const { client } of handles) client.disconnect();
      admin.disconnect();
    },
  };
}

/** SQLite runs each transaction in one go. A call's reads and transactions are its steps. */
async function sqlite(source: string): Promise<Place> {
  const { SqlStore } = await import(join(source, "src/stores/sql/sql-store.ts"));
  const { sqliteDialect } = await import(join(source, "src/stores/sqlite/sqlite-dialect.ts"));
  // An older source takes the dialect itself.
  const tables = { ...sqliteDialect, dialect: sqliteDialect, place: "the file" };
  const { SqliteDriver } = await import(join(source, "src/stores/sqlite/sqlite-driver.ts"));
  const db = new DatabaseSync(":memory:");
  const newDriver = (): SqlDriver =>
    new SqliteDriver({ db, own: false, name: "orders", file: undefined }, 5000);

  class SqliteHandle extends ServerHandle {
    async isWaiting(): Promise<boolean> {
      return false;
    }

    async reopen(): Promise<void> {
      const driver = newDriver();
      const inGates: SqlDriver = {
        transactional: true,
        transaction: (steps, failing) =>
          gated(this.session, "a transaction", () => driver.transaction(steps, failing)),
        read: (steps, failing) => gated(this.session, "a read", () => driver.read!(steps, failing)),
        close: () => driver.close(),
      };
      this.store = new SqlStore(inGates, tables);
      await this.store.nextDue();
    }
  }

  const handles = [new SqliteHandle(), new SqliteHandle(), new SqliteHandle()];
  for (const handle of handles) await handle.reopen();
  const plain: EventStore<unknown> = new SqlStore(newDriver(), tables);
  return {
    handles,
    plain,
    claims: "a transaction",
    written: async () => 0,
    empty: async () =>
      db.exec(
        "DELETE FROM stayhook_events; DELETE FROM stayhook_records; DELETE FROM stayhook_meta WHERE name <> 'schema'",
      ),
    remove: async () => db.close(),
  };
}
