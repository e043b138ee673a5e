import type { DatabaseSync, StatementSync } from "node:sqlite";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { StayhookError } from "../../errors.ts";
import {
  runSync,
  type SqlDriver,
  type SqlResult,
  type SqlStatement,
  type SqlSteps,
  type SqlWrites,
  type TransactionOptions,
} from "../sql/driver.ts";
import { abandon, FileGuard } from "./file-guard.ts";
import { GroupCommit } from "./group-commit.ts";
import { plainStatement } from "./plain-statement.ts";
import { SecondLibrary } from "./second-library.ts";
import { isBusy, storeError } from "./sqlite-errors.ts";
import { Notifier } from "./sqlite-notifier.ts";
import { runWrites, WritesFailed } from "./user-writes.ts";

/** The wait before the driver reads a busy file again, ms. */
const READ_AGAIN = 5;

/** An open database with the store's tables. */
export interface Opened {
  readonly db: DatabaseSync;
  /** Whether the store opened the database, and therefore closes it. */
  readonly own: boolean;
  /** The name of the database in error messages. */
  readonly name: string;
  /** The database's file. It is `undefined` for a database in memory. */
  readonly file: string | undefined;
}

export class SqliteDriver implements SqlDriver {
  readonly transactional = true;
  readonly notifier: Notifier;
  readonly #opened: Opened;
  readonly #busyTimeout: number;
  readonly #execute: (step: SqlStatement | SqlWrites) => SqlResult;
  readonly #commits: GroupCommit;
  readonly #guard: FileGuard | undefined;
  readonly #second: SecondLibrary | undefined;

  constructor(opened: Opened, busyTimeout: number) {
    const { db, file } = opened;
    this.#opened = opened;
    this.#busyTimeout = busyTimeout;
    this.#execute = executeOn(db);
    this.notifier = new Notifier(db, file);
    this.#guard = file === undefined ? undefined : new FileGuard(db, file);
    this.#second = file === undefined ? undefined : new SecondLibrary(file);
    this.#commits = new GroupCommit(db, busyTimeout, this.#guard);
  }

  async transaction<T>(
    steps: () => SqlSteps<T>,
    failing: string,
    { mayBeLost }: TransactionOptions = {},
  ): Promise<T> {
    this.#second?.soon();
    try {
      return await this.#commits.run(() => runSync(steps(), this.#execute), mayBeLost);
    } catch (error) {
      throw error instanceof WritesFailed ? error.error : this.#errorOf(failing, error);
    }
  }

  async read<T>(steps: () => SqlSteps<T>, failing: string): Promise<T> {
    this.#second?.soon();
    const deadline = performance.now() + this.#busyTimeout;
    for (;;) {
      try {
        // `health()` and the command line must not read a deleted file that is still open.
        this.#guard?.beforeRead();
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
    // A claim that has just read begins its transaction in this turn.
    await turn();
    await this.#commits.idle();
    const { db, own } = this.#opened;
    if (this.#isGone()) {
      // Both a checkpoint and SQLite's own close would write the old log into the file that somebody put there.
      if (own) abandon(db);
      return;
    }
    try {
      db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    } catch {
      // Ignore the error. No commit is lost: the next process that opens the file reads the write-ahead log.
    }
    if (own) db.close();
  }

  #isGone(): boolean {
    this.#guard?.lookNow();
    return this.#guard?.isGone ?? false;
  }

  #errorOf(failing: string, error: unknown): StayhookError {
    return storeError(this.#opened.name, failing, error, this.#opened.file);
  }
}

/** Returns a function that runs a step on the database. The function reuses prepared statements. */
export function executeOn(db: DatabaseSync): (step: SqlStatement | SqlWrites) => SqlResult {
  const prepared = new Map<string, StatementSync>();
  return (step) => {
    if ("writes" in step) {
      runWrites(db, step.writes);
      return { rows: [], changes: 0 };
    }
    const { sql, params, query } = step;
    let statement = prepared.get(sql);
    if (statement === undefined) {
      statement = plainStatement(db, sql);
      prepared.set(sql, statement);
    }
    if (query) return { rows: statement.all(...params), changes: 0 };
    const { changes } = statement.run(...params);
    return { rows: [], changes: Number(changes) };
  };
}
