import { closeSync, existsSync, openSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { StayhookError } from "../../errors.ts";
import { runSync } from "../sql/driver.ts";
import { isMigrated, migrate } from "../sql/schema.ts";
import { sqliteDialect } from "../sql/sqlite-dialect.ts";
import { executeOn, type Opened } from "./driver.ts";
import { isBusy, storeError } from "./errors.ts";

const MEMORY = ":memory:";

export interface OpenOptions {
  readonly durability: "power-loss" | "process-crash";
  /** ms */
  readonly busyTimeout: number;
}

/** Opens the file, or takes the user's connection. Waits up to `busyTimeout` for other processes that open it, too. */
export function open(source: string | DatabaseSync, options: OpenOptions): Opened {
  const own = typeof source === "string";
  const name = own ? source : "the given DatabaseSync";
  let db: DatabaseSync | undefined;
  try {
    db = own ? openFile(source) : source;
    prepare(db, options);
    const file = String(db.prepare("PRAGMA database_list").get()?.file ?? "");
    return { db, own, name, file: file === "" ? undefined : file };
  } catch (error) {
    if (own) db?.close();
    throw storeError(name, "the database cannot be used", error);
  }
}

function openFile(path: string): DatabaseSync {
  if (path === MEMORY) return new DatabaseSync(path);
  const directory = dirname(resolve(path));
  if (!existsSync(directory)) {
    throw new StayhookError(`the directory ${directory} does not exist; create it first`);
  }
  createPrivately(path);
  if (!statSync(path).isFile()) throw new StayhookError("it is not a file");
  return new DatabaseSync(path);
}

/** For its owner alone: it holds guests' bookings. SQLite gives the files beside it the same mode. */
function createPrivately(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

function prepare(db: DatabaseSync, { durability, busyTimeout }: OpenOptions): void {
  const until = performance.now() + busyTimeout;
  db.exec("PRAGMA busy_timeout = 0");
  patiently(until, () => db.exec("PRAGMA journal_mode = WAL"));
  db.exec(`PRAGMA synchronous = ${durability === "power-loss" ? "FULL" : "NORMAL"}`);
  // 16 MB: the more is taken over at once, the fewer pages are written twice. More than that makes stalls longer.
  db.exec("PRAGMA wal_autocheckpoint = 4000");
  // What a burst made of the write-ahead log is given back to the disk.
  db.exec(`PRAGMA journal_size_limit = ${64 * 1024 * 1024}`);
  patiently(until, () => makeTables(db));
  patiently(until, () => assertWritable(db));
}

function makeTables(db: DatabaseSync): void {
  const execute = executeOn(db);
  // No other process need wait for a look.
  if (runSync(isMigrated(sqliteDialect), execute)) return;
  db.exec("BEGIN IMMEDIATE");
  try {
    runSync(migrate(sqliteDialect), execute);
    db.exec("COMMIT");
  } catch (error) {
    db.exec("ROLLBACK");
    throw error;
  }
}

/** Better now than at the first notification. (Where nothing may be written, BEGIN IMMEDIATE still works.) */
function assertWritable(db: DatabaseSync): void {
  db.exec("BEGIN IMMEDIATE");
  try {
    db.exec("UPDATE stayhook_meta SET value = value");
  } finally {
    db.exec("ROLLBACK");
  }
}

/** At the start there is nobody yet whom waiting would hold up. */
function patiently(until: number, run: () => void): void {
  for (;;) {
    try {
      run();
      return;
    } catch (error) {
      if (!isBusy(error) || performance.now() >= until) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
}
