// The app's tables and the events, in PostgreSQL or in one SQLite file.
import { DatabaseSync } from "node:sqlite";
import pg from "pg";
import { postgresStore } from "stayhook/postgres";
import { type SqliteTransaction, sqliteStore } from "stayhook/sqlite";
import type { EventStore } from "stayhook/store";
import { databaseUrl, eventsDb } from "./settings.ts";

type Row = Readonly<Record<string, unknown>>;
type Values = readonly (string | number)[];
/** The transaction that a function passed to `event.atomically` gets. */
export type Transaction = pg.ClientBase | SqliteTransaction;
/** Runs a statement. Its parameters are $1, $2 and so on. In a transaction of SQLite, the rows are there at once. */
export type Query = (sql: string, values?: Values) => Row[] | Promise<Row[]>;

/** What the app needs of a database. */
export interface Database {
  query(sql: string, values?: Values): Promise<Row[]>;
  /** Runs `work` while no other `work` of the same name runs, with PostgreSQL in any process. */
  exclusively<T>(name: string, work: () => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

export const store: EventStore<Transaction> = databaseUrl
  ? postgresStore({ connectionString: databaseUrl })
  : sqliteStore(eventsDb);
export const db: Database = databaseUrl ? openPostgres(databaseUrl) : openSqlite(eventsDb);

/** Makes a function that runs statements in a transaction of `event.atomically`. */
export const queryIn =
  (tx: Transaction): Query =>
  (sql, values = []) =>
    "prepare" in tx
      ? tx.prepare(sql).all(named(values))
      : tx.query<Row>(sql, [...values]).then(({ rows }) => rows);

const tables = [
  // `leaving` is 1 from the beginning of the request to leave until everything of the account is deleted.
  "CREATE TABLE IF NOT EXISTS accounts (account text PRIMARY KEY, token text NOT NULL, leaving integer NOT NULL)",
  `CREATE TABLE IF NOT EXISTS stays (
    account text NOT NULL, booking text NOT NULL, listing text NOT NULL,
    check_in text NOT NULL, check_out text NOT NULL, PRIMARY KEY (account, booking))`,
];
// In PostgreSQL, two processes that create a table at once get an error in spite of IF NOT EXISTS.
await db.exclusively("the tables", async () => {
  for (const table of tables) await db.query(table);
});

function openPostgres(connectionString: string): Database {
  const pool = new pg.Pool({ connectionString, max: 5 });
  // A lock holds its connection while `work` uses the other pool. With one pool, five locks would wait for a sixth connection.
  const locks = new pg.Pool({ connectionString, max: 5 });
  // A connection that breaks while nobody uses it would otherwise end the process.
  for (const each of [pool, locks]) each.on("error", (error) => console.error(error.message));
  return {
    query: async (sql, values = []) => (await pool.query<Row>(sql, [...values])).rows,
    async exclusively(name, work) {
      const client = await locks.connect();
      let problem: Error | undefined;
      try {
        // The lock ends with the transaction, and so also with the process.
        await client.query("BEGIN");
        await client.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`vendor ${name}`]);
        return await work();
      } finally {
        await client.query("COMMIT").catch((error) => {
          problem = error;
        });
        client.release(problem);
      }
    },
    close: async () => {
      await Promise.all([pool.end(), locks.end()]);
    },
  };
}

/** One process uses the file, so a lock in its memory suffices. For several processes, use PostgreSQL. */
function openSqlite(file: string): Database {
  const connection = new DatabaseSync(file);
  connection.exec("PRAGMA busy_timeout = 5000");
  const last = new Map<string, Promise<unknown>>();
  return {
    query: async (sql, values = []) => connection.prepare(sql).all(named(values)),
    async exclusively(name, work) {
      const before = last.get(name);
      const result = (async () => {
        await before?.catch(() => {}); // the caller of that work has its error
        return work();
      })();
      last.set(name, result);
      try {
        return await result;
      } finally {
        if (last.get(name) === result) last.delete(name);
      }
    },
    close: async () => connection.close(),
  };
}

function named(values: Values): Record<string, string | number> {
  return Object.fromEntries(values.map((value, index) => [`$${index + 1}`, value]));
}
