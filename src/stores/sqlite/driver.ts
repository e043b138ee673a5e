import { statSync } from "node:fs";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { StayhookError } from "../../errors.ts";
import {
  runSync,
  type SqlDriver,
  type SqlResult,
  type SqlStatement,
  type SqlSteps,
  type SqlWrites,
} from "../sql/driver.ts";
import { isBusy, isSqliteError, storeError } from "./errors.ts";
import { GroupCommit } from "./group-commit.ts";
import { Notifier } from "./notifier.ts";
import { runWrites, type Writes } from "./user-writes.ts";

/** ms until a busy file is read again. */
const READ_AGAIN = 5;
/** How often the identity of the file is checked, ms. */
const CHECK = 1000;

/** An open database with the store's tables. */
export interface Opened {
  readonly db: DatabaseSync;
  /** Ours to close. */
  readonly own: boolean;
  /** How messages call it. */
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
        // Health and the command line read, and must not show a file that nobody will find.
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

/** The path leads to another file than the open one, or to none. */
class FileGone extends Error {}

/**
 * Checks once a second that `path` still leads to the open file. A deleted or replaced file still takes writes, but
 * nobody will find them.
 *
 * @returns a function that throws from then on where it does not
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
