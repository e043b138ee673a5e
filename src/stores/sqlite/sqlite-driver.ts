import { type FSWatcher, statSync, utimesSync, watch } from "node:fs";
import type { DatabaseSync, StatementSync } from "node:sqlite";
// Not the globals: a test's fake timers must not stop messages of other processes.
import { clearInterval, setInterval } from "node:timers";
import { setTimeout as sleep } from "node:timers/promises";
import { StayhookError } from "../../errors.ts";
import {
  runSync,
  type SqlDriver,
  type SqlNotifier,
  type SqlResult,
  type SqlStatement,
  type SqlSteps,
  type SqlWrites,
} from "../sql/driver.ts";
import { GroupCommit, isBusy, isSqliteError } from "./group-commit.ts";
import { runWrites, type Writes } from "./user-writes.ts";

/** ms until a busy file is read again. */
const READ_AGAIN = 5;
/** How often the identity of the file is checked, ms. */
const CHECK = 1000;

/** An open database with the store's tables. */
export interface Opened {
  readonly db: DatabaseSync;
  /** Whether the store closes the database. */
  readonly own: boolean;
  /** The name in messages. */
  readonly name: string;
  /** The database's file; `undefined` where it is in memory. */
  readonly file: string | undefined;
}

export class SqliteDriver implements SqlDriver {
  readonly transactional = true;
  readonly notifier: Notifier;
  readonly #opened: Opened;
  readonly #busyTimeout: number;
  readonly #execute: (step: SqlStatement | SqlWrites) => SqlResult;
  readonly #commits: GroupCommit;
  readonly #checkFile: () => void;

  constructor(opened: Opened, busyTimeout: number) {
    const { db, file } = opened;
    this.#opened = opened;
    this.#busyTimeout = busyTimeout;
    this.#execute = executeOn(db);
    this.notifier = new Notifier(db, file);
    this.#checkFile = file === undefined ? () => {} : fileCheck(file);
    this.#commits = new GroupCommit(db, busyTimeout, this.#checkFile);
  }

  get busy(): boolean {
    return !this.#commits.isIdle;
  }

  async transaction<T>(steps: () => SqlSteps<T>, failing: string): Promise<T> {
    try {
      return await this.#commits.run(() => runSync(steps(), this.#execute));
    } catch (error) {
      throw this.#errorOf(failing, error);
    }
  }

  async read<T>(steps: () => SqlSteps<T>, failing: string): Promise<T> {
    const deadline = performance.now() + this.#busyTimeout;
    for (;;) {
      try {
        // `health()` and the command line must not read a deleted file that is still open.
        this.#checkFile();
        return runSync(steps(), this.#execute);
      } catch (error) {
        if (!isBusy(error) || performance.now() >= deadline) throw this.#errorOf(failing, error);
        await sleep(READ_AGAIN);
        if (!this.#opened.db.isOpen) throw new StayhookError("The store is closed.");
      }
    }
  }

  async close(): Promise<void> {
    this.notifier.close();
    await this.#commits.idle();
    const { db, own } = this.#opened;
    try {
      db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    } catch {
      // The write-ahead log has all that was committed. The next process that opens the file reads it.
    }
    if (own) db.close();
  }

  /** Errors of the user's own writes go on as they are. */
  #errorOf(failing: string, error: unknown): unknown {
    return isSqliteError(error) || error instanceof FileGone
      ? storeError(this.#opened.name, failing, error)
      : error;
  }
}

/** Runs a step on the database. Keeps the prepared statements. */
export function executeOn(db: DatabaseSync): (step: SqlStatement | SqlWrites) => SqlResult {
  const prepared = new Map<string, StatementSync>();
  return (step) => {
    if ("writes" in step) {
      runWrites(db, step.writes as unknown as Writes);
      return { rows: [], changes: 0 };
    }
    const { sql, params, query } = step;
    let statement = prepared.get(sql);
    if (statement === undefined) {
      statement = db.prepare(sql);
      prepared.set(sql, statement);
    }
    if (query) return { rows: statement.all(...params), changes: 0 };
    const { changes, lastInsertRowid } = statement.run(...params);
    return { rows: [], changes: Number(changes), insertId: Number(lastInsertRowid) };
  };
}

/** Whether the open file was deleted or replaced at its path. */
class FileGone extends Error {}

/**
 * Checks once a second that `path` still leads to the open file. A deleted or replaced file still takes writes, which
 * would then be lost.
 *
 * @returns a function that throws after the file was deleted or replaced
 */
function fileCheck(path: string): () => void {
  const opened = identityOf(path);
  let checked = performance.now();
  let gone: FileGone | undefined;
  return () => {
    const now = performance.now();
    if (gone === undefined && now - checked >= CHECK) {
      checked = now;
      const found = identityOf(path);
      if (found !== opened) {
        gone = new FileGone(
          `the file was ${found === undefined ? "deleted or moved" : "replaced by another one"} while it was open; restart the process`,
        );
      }
    }
    if (gone !== undefined) throw gone;
  };
}

function identityOf(path: string): string | undefined {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stat && `${stat.dev}:${stat.ino}`;
}

/** How often the notifier looks for a commit of which the file system sent no event, ms. */
const NET = 1000;

/**
 * Tells the other processes on the file that something may be due. A process that has committed sets the file's time,
 * and the others watch the file. A watcher of the write-ahead log would wake before the commit is visible. The notifier
 * does not keep the process alive.
 */
export class Notifier implements SqlNotifier {
  readonly #file: string | undefined;
  readonly #version: StatementSync;
  #seen: unknown;
  #wake: (() => void) | undefined;
  #watcher: FSWatcher | undefined;
  #net: NodeJS.Timeout | undefined;

  /** @param file - `undefined` for a database in memory, which no other process has */
  constructor(db: DatabaseSync, file: string | undefined) {
    this.#file = file;
    // `data_version` changes with each commit of another connection.
    this.#version = db.prepare("PRAGMA data_version");
  }

  notify(): void {
    if (this.#file === undefined) return;
    try {
      const now = new Date();
      utimesSync(this.#file, now, now);
    } catch {
      // This process is not the file's owner: the others find the commit within a second.
    }
  }

  listen(wake: () => void): () => void {
    this.#wake = wake;
    if (this.#file !== undefined && this.#net === undefined) {
      this.#hasChanged();
      this.#net = setInterval(() => this.#look(), NET).unref();
      try {
        this.#watcher = watch(this.#file, { persistent: false }, () => this.#look());
        this.#watcher.on("error", () => this.#watcher?.close());
      } catch {
        // The system has no watchers left, or the file system has none: the interval remains.
      }
    }
    return () => this.close();
  }

  close(): void {
    clearInterval(this.#net);
    this.#net = undefined;
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #look(): void {
    if (this.#hasChanged()) this.#wake?.();
  }

  #hasChanged(): boolean {
    try {
      const version = this.#version.get()?.data_version;
      const changed = version !== this.#seen;
      this.#seen = version;
      return changed;
    } catch {
      // The file is locked, or the user has closed the connection. The next look finds the commit.
      return false;
    }
  }
}

/** Makes an error that names the database. */
export function storeError(name: string, what: string, cause: unknown): StayhookError {
  if (cause instanceof StayhookError && cause.cause !== undefined) return cause;
  return new StayhookError(`sqliteStore (${name}): ${what}: ${reasonOf(cause)}`, { cause });
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  return isSqliteError(cause) && cause.errstr !== undefined && cause.message !== cause.errstr
    ? `${cause.message} (${cause.errstr})`
    : cause.message;
}
