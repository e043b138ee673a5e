// Opens the file of a store with a second SQLite library in the same process: better-sqlite3, alone and under Kysely.

import { mkdtempSync, openSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setImmediate as turn } from "node:timers/promises";
import { Kysely, type SqliteDatabase, SqliteDialect, sql } from "kysely";
import { sqliteStore } from "stayhook/sqlite";
import { afterAll, afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { eventOf } from "../../stores/event.ts";
import { eventually } from "../../support/eventually.ts";

/** better-sqlite3 has no types of its own. */
type Database = SqliteDatabase & { exec(sql: string): void; pragma(text: string): void };
const BetterSqlite3: new (path: string) => Database = createRequire(import.meta.url)("better-sqlite3");

const directory = mkdtempSync(join(tmpdir(), "stayhook-second-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

let files = 0;
function newPath(): string {
  files += 1;
  return join(directory, `${files}.db`);
}

const told: (Error & { readonly code?: string })[] = [];
const tell = (warning: Error) => void told.push(warning);
beforeEach(() => {
  told.length = 0;
  process.on("warning", tell);
});
afterEach(() => void process.off("warning", tell));
const warnings = () => told.filter(({ code }) => code === "STAYHOOK_SECOND_SQLITE");

/** Opens a store, and closes it after the test. */
function opened(path: string) {
  const store = sqliteStore(path);
  onTestFinished(() => store.close());
  return store;
}

function betterSqlite3(path: string): Database {
  const database = new BetterSqlite3(path);
  onTestFinished(() => database.close());
  return database;
}

test("better-sqlite3 on another file, and further connections of node:sqlite, cause no warning", async () => {
  const path = newPath();
  const other = betterSqlite3(newPath());
  other.pragma("journal_mode = WAL");
  other.exec("CREATE TABLE stays (code)");
  const first = opened(path);
  await first.add(eventOf());
  const own = new DatabaseSync(path);
  onTestFinished(() => own.close());
  own.exec("CREATE TABLE stays (code); INSERT INTO stays VALUES ('HX3K9')");
  // A look at the file is no library. It must stay open: POSIX would drop the locks of SQLite.
  openSync(`${path}-shm`, "r");
  // A store looks when it opens.
  opened(path);
  await turn();
  expect(warnings()).toEqual([]);
});

test("better-sqlite3 that had the file open before the store causes one warning for two stores", async () => {
  const path = newPath();
  const other = betterSqlite3(path);
  other.exec("PRAGMA journal_mode = WAL; CREATE TABLE stays (code)");
  opened(path);
  opened(path);
  await turn();
  expect(warnings().map(({ message }) => message)).toEqual([
    expect.stringMatching(
      `^A second SQLite library in this process \\(/.*better-sqlite3.*\\) has ${path} open.* event\\.atomically.* another process or on another file\\.$`,
    ),
  ]);
});

test("Kysely on better-sqlite3 that opens the file later causes a warning at the next calls", async () => {
  const path = newPath();
  const store = opened(path);
  await store.add(eventOf());
  await turn();
  expect(warnings()).toEqual([]);
  const kysely = new Kysely({ dialect: new SqliteDialect({ database: betterSqlite3(path) }) });
  await sql`CREATE TABLE stays (code)`.execute(kysely);
  await store.counts();
  await eventually(() => expect(warnings()).toHaveLength(1));
});
