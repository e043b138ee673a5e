// The app's tables and the events, in PostgreSQL or in one SQLite file.
import { DatabaseSync } from "node:sqlite";
import pg from "pg";
import { postgresStore } from "stayhook/postgres";
import { sqliteStore } from "stayhook/sqlite";
import type { EventStore } from "stayhook/store";
import { databaseUrl, eventsDb } from "./settings.ts";

type Row = Readonly<Record<string, unknown>>;

/** What the app needs of a database. The parameters of a statement are $1, $2 and so on. */
export interface Database {
  query(sql: string, values?: readonly (string | number)[]): Promise<Row[]>;
  close(): Promise<void>;
}

export const store: EventStore = databaseUrl
  ? postgresStore({ connectionString: databaseUrl })
  : sqliteStore(eventsDb);
export const db: Database = databaseUrl ? openPostgres(databaseUrl) : openSqlite(eventsDb);

const tables = [
  // `leaving` is 1 from the beginning of the request to leave until everything of the account is deleted.
  "CREATE TABLE IF NOT EXISTS accounts (account text PRIMARY KEY, token text NOT NULL, leaving integer NOT NULL)",
  `CREATE TABLE IF NOT EXISTS stays (
    account text NOT NULL, booking text NOT NULL, listing text NOT NULL,
    check_in text NOT NULL, check_out text NOT NULL, PRIMARY KEY (account, booking))`,
];
for (const table of tables) await db.query(table);

function openPostgres(connectionString: string): Database {
  const pool = new pg.Pool({ connectionString, max: 5 });
  // A connection that breaks while nobody uses it would otherwise end the process.
  pool.on("error", (error) => console.error(error.message));
  return {
    query: async (sql, values = []) => (await pool.query<Row>(sql, [...values])).rows,
    close: () => pool.end(),
  };
}

function openSqlite(file: string): Database {
  const connection = new DatabaseSync(file);
  connection.exec("PRAGMA busy_timeout = 5000");
  return {
    query: async (sql, values = []) =>
      connection.prepare(sql).all(Object.fromEntries(values.map((value, index) => [`$${index + 1}`, value]))),
    close: async () => connection.close(),
  };
}
