import { closeSync, existsSync, openSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { StayhookError } from "../../errors.ts";
import { check, durationFrom, oneOf, optionsObject } from "../../options.ts";
import type { EventStore, SynchronousTransaction } from "../event-store.ts";
import { runSync } from "../sql/driver.ts";
import { checkVersions, type MigrationOptions, migrationScript } from "../sql/migration-sql.ts";
import { isUsable, migrate, versionOf } from "../sql/sql-schema.ts";
import { SqlStore } from "../sql/sql-store.ts";
import { assertFolderMounted } from "./mounted-alone.ts";
import { assertPlain, plainStatement } from "./plain-statement.ts";
import { sqliteDialect } from "./sqlite-dialect.ts";
import { executeOn, type Opened, SqliteDriver } from "./sqlite-driver.ts";
import { isBusy, storeError } from "./sqlite-errors.ts";
import { sqliteTables } from "./sqlite-schema.ts";

export type { MigrationOptions } from "../sql/migration-sql.ts";

/** Options of {@link sqliteStore}. */
export interface SqliteStoreOptions {
  /**
   * How durable a recorded event is.
   *
   * - `"power-loss"` (default): an event survives a crash of the process or the machine, and a power cut. SQLite waits
   *   for the disk at each commit (`synchronous = FULL`).
   * - `"process-crash"`: an event survives a crash of the process, even `kill -9`. A crash of the machine or a power
   *   cut may lose the latest events, but does not damage the file (`synchronous = NORMAL`).
   */
  readonly durability?: "power-loss" | "process-crash" | undefined;
  /**
   * How long a call waits for a locked file: ms, or a text such as `"5s"`. Default 5000. `sqliteStore()` blocks the
   * event loop during this wait. The methods of the store do not block the event loop.
   */
  readonly busyTimeout?: number | string | undefined;
  /**
   * Whether `sqliteStore()` creates and upgrades its tables. Default `true`. With `false`, it throws if they are missing
   * or too old. Then run the SQL of {@link migrationSql} yourself.
   */
  readonly migrate?: boolean | undefined;
}

/** The argument of a function passed to `event.atomically`: the database, in the transaction that ends the event. */
export interface SqliteTransaction extends DatabaseSync, SynchronousTransaction {}

/**
 * Keeps events in an SQLite file, for one machine. Several processes can share the file. The store needs only Node
 * (`node:sqlite`). With `event.atomically`, you can write to your own tables in the file, in the transaction that
 * ends the event. Use one SQLite library for a file in a process, so open this file with no other, such as better-sqlite3.
 *
 * The store creates the file with mode 600. The directory must exist on a disk of this machine, not on a network share.
 *
 * @param database - the file's path, or a `DatabaseSync` of your own, which `close()` leaves open. `":memory:"` loses
 *   all events when the process ends. The store sets `journal_mode = WAL`, `synchronous`, `wal_autocheckpoint`,
 *   `journal_size_limit`, `temp_store = MEMORY` and `busy_timeout = 0`. Because of `busy_timeout = 0`, your own statements on the connection
 *   fail at once while another process writes.
 * @throws InvalidArgumentError if an argument is invalid
 * @throws StayhookError if the database cannot be used: its directory is missing, or the file is read-only,
 *   corrupt, not a database, or mounted without its folder
 *
 * @example
 * ```ts
 * import { sqliteStore } from "stayhook/sqlite";
 *
 * const webhooks = createWebhookHandler({ client, store: sqliteStore("events.db"), on });
 * ```
 */
export function sqliteStore(
  database: string | DatabaseSync,
  options: SqliteStoreOptions = {},
): EventStore<SqliteTransaction> {
  const problem = problemWithDatabase(database);
  const before = problem === undefined ? [] : [{ path: ["database"], message: problem }];
  const checked = check(schema, options, { before });
  const opened = open(database, checked);
  return new SqlStore(new SqliteDriver(opened, checked.busyTimeout), sqliteTables, { isReady: true });
}

/**
 * Returns the SQL that creates the tables, or upgrades them from one schema version to another. Run it in one
 * transaction. The SQL is empty if the tables are up to date.
 *
 * @throws InvalidArgumentError if an option is invalid
 *
 * @example
 * ```ts
 * import { migrationSql } from "stayhook/sqlite";
 *
 * database.exec(`BEGIN IMMEDIATE; ${migrationSql({ from: 3 })} COMMIT`);
 * ```
 */
export function migrationSql(options: MigrationOptions = {}): string {
  const { from, to } = checkVersions(sqliteDialect, options);
  return migrationScript(sqliteDialect, from, to);
}

const schema = () =>
  optionsObject({
    durability: oneOf("power-loss", "process-crash").default("power-loss"),
    busyTimeout: durationFrom(0, Number.MAX_VALUE, "must be a number of ms, 0 or more").default(5000),
    migrate: oneOf(true, false).default(true),
  });

function problemWithDatabase(database: unknown): string | undefined {
  if (typeof database === "string") {
    if (database === "" || database.includes("\0")) return "must be the path of a file";
    return problemWithPath(database);
  }
  if (database instanceof DatabaseSync) return undefined;
  const isOther = typeof Object(database).prepare === "function";
  return isOther
    ? "is a database of another package, such as better-sqlite3. Pass the path of a file that only sqliteStore and node:sqlite open in this process, or a DatabaseSync of node:sqlite: two SQLite libraries on one file in a process lose events. Write to your own tables in event.atomically, or keep them in another process or file"
    : "must be the path of a file, or a DatabaseSync of node:sqlite";
}

function problemWithPath(path: string): string | undefined {
  // SQLite would read a path that begins with `file:` as a URI, whose query can set options.
  const [scheme] = /^(?:file|sqlite3?):/i.exec(path) ?? [];
  if (scheme !== undefined) return `must be a path, not a URL; remove \`${scheme}\``;
  // Such a path would make a new, empty database beside the right one.
  return /\s$/.test(path)
    ? "ends in white space. If it is from an env file, save that file with LF line ends, not CRLF"
    : undefined;
}

const MEMORY = ":memory:";

interface OpenOptions {
  readonly durability: "power-loss" | "process-crash";
  readonly busyTimeout: number;
  readonly migrate: boolean;
}

/** Opens the file, or takes the user's connection. Waits up to `busyTimeout` while other processes lock the file. */
function open(source: string | DatabaseSync, options: OpenOptions): Opened {
  const own = typeof source === "string";
  const name = own ? source : "the given DatabaseSync";
  let db: DatabaseSync | undefined;
  try {
    db = own ? openFile(source, options) : source;
    assertPlain(db);
    const file = String(plainStatement(db, "PRAGMA database_list").get()?.file ?? "") || undefined;
    if (file !== undefined) assertFolderMounted(file);
    prepare(db, options);
    return { db, own, name, file };
  } catch (error) {
    if (own) db?.close();
    throw storeError(
      name,
      "the database cannot be used",
      error,
      own && source !== MEMORY ? source : undefined,
    );
  }
}

function openFile(path: string, { migrate: migrates }: OpenOptions): DatabaseSync {
  if (path === MEMORY) return new DatabaseSync(path);
  const directory = dirname(resolve(path));
  if (!existsSync(directory)) {
    throw new StayhookError(`the directory ${directory} does not exist. Create the directory first`);
  }
  // Throw before an empty file is created.
  if (!migrates && !existsSync(path)) isUsable(sqliteTables, 0, migrates);
  createPrivately(path);
  if (!statSync(path).isFile()) throw new StayhookError("the path is a directory or device, not a file");
  return new DatabaseSync(path);
}

/**
 * Creates the file so that only its owner can read it, because it holds bookings of guests. SQLite gives the
 * write-ahead log the same mode.
 */
function createPrivately(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

function prepare(db: DatabaseSync, { durability, busyTimeout, migrate: migrates }: OpenOptions): void {
  const until = performance.now() + busyTimeout;
  db.exec("PRAGMA busy_timeout = 0");
  patiently(until, () => db.exec("PRAGMA journal_mode = WAL"));
  db.exec(`PRAGMA synchronous = ${durability === "power-loss" ? "FULL" : "NORMAL"}`);
  // With 4000 pages, checkpoints write fewer pages in total than with 1000. Above 4000, one checkpoint takes too long.
  db.exec("PRAGMA wal_autocheckpoint = 4000");
  // Truncate the write-ahead log after it has grown beyond this size.
  db.exec(`PRAGMA journal_size_limit = ${64 * 1024 * 1024}`);
  patiently(until, () => keepInMemory(db));
  patiently(until, () => makeTables(db, migrates));
  patiently(until, () => assertWritable(db));
}

/** Large statements need a temporary file, for which a container with a read-only root has no folder. */
function keepInMemory(db: DatabaseSync): void {
  // The pragma would delete the user's temporary tables.
  if (plainStatement(db, "SELECT 1 FROM sqlite_temp_schema LIMIT 1").get() === undefined)
    db.exec("PRAGMA temp_store = MEMORY");
}

function makeTables(db: DatabaseSync, migrates: boolean): void {
  const execute = executeOn(db);
  // Check with a read first, because a write transaction would block other processes.
  if (isUsable(sqliteTables, runSync(versionOf(sqliteTables), execute), migrates)) return;
  db.exec("BEGIN IMMEDIATE");
  try {
    runSync(migrate(sqliteTables), execute);
    db.exec("COMMIT");
  } catch (error) {
    db.exec("ROLLBACK");
    throw error;
  }
}

/** Throws if the file is read-only. Needs an `UPDATE`, because `BEGIN IMMEDIATE` succeeds on a read-only file. */
function assertWritable(db: DatabaseSync): void {
  db.exec("BEGIN IMMEDIATE");
  try {
    db.exec("UPDATE stayhook_meta SET value = value");
  } finally {
    db.exec("ROLLBACK");
  }
}

/** Retries `run` while the file is busy. Blocks the process, which has no other work when it opens the store. */
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
