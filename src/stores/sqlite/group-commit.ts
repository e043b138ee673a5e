import type { DatabaseSync } from "node:sqlite";
// Not the globals: a user's fake timers would stop all writes.
import { setImmediate, setTimeout } from "node:timers";
import { WritesFailed } from "./user-writes.ts";

/** The most jobs of one transaction, so that none holds up the event loop for long. */
const MOST_JOBS = 256;
/** The longest time of one transaction before its commit, ms. */
const MOST_TIME = 10;
/** Waits before a busy file is tried again, ms; jittered. */
const BUSY_AGAIN = [1, 2, 5, 10, 20] as const;

interface Job {
  readonly run: () => unknown;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** The end of retries on a busy file, by `performance.now()`. */
  readonly deadline: number;
}

/** Resolves or rejects a job. Called once its transaction is on disk. */
type Ending = () => void;

/**
 * Commits jobs in groups: all jobs that came in while the last transaction was written share one transaction, and
 * one wait for the disk. No job resolves before its transaction is on disk. If a transaction fails, each of its jobs
 * runs again alone.
 */
export class GroupCommit {
  readonly #db: DatabaseSync;
  readonly #busyTimeout: number;
  readonly #check: () => void;
  readonly #queue: Job[] = [];
  #scheduled = false;
  /** How many jobs at the head of the queue run alone. */
  #alone = 0;
  #busyTries = 0;
  #idle: (() => void)[] = [];

  /** @param check - called before each transaction; where it throws, nothing is written */
  constructor(db: DatabaseSync, busyTimeout: number, check: () => void) {
    this.#db = db;
    this.#busyTimeout = busyTimeout;
    this.#check = check;
  }

  get isIdle(): boolean {
    return this.#queue.length === 0;
  }

  /** Runs `run` in a transaction; more than once where its group failed. */
  run<T>(run: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const deadline = performance.now() + this.#busyTimeout;
      this.#queue.push({ run, resolve: resolve as (value: unknown) => void, reject, deadline });
      this.#schedule();
    });
  }

  /** Resolves when all jobs have ended. */
  idle(): Promise<void> {
    if (this.isIdle) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle.push(resolve);
    });
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    // Wait for the sockets to be read, so that all requests that have arrived share the transaction.
    setImmediate(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    const jobs = this.#queue.slice(0, this.#alone > 0 ? 1 : MOST_JOBS);
    try {
      this.#check();
      const endings = transact(this.#db, jobs);
      this.#busyTries = 0;
      this.#take(endings.length);
      for (const end of endings) end();
    } catch (error) {
      if (isBusy(error)) this.#busy(error);
      else this.#failed(jobs, error);
    }
    if (!this.isIdle) this.#schedule();
    else for (const resolve of this.#idle.splice(0)) resolve();
  }

  #take(count: number): void {
    this.#queue.splice(0, count);
    this.#alone = Math.max(0, this.#alone - count);
  }

  #failed(jobs: readonly Job[], error: unknown): void {
    if (error instanceof TransactionLost) {
      // Do not run this job again: it has ended the transaction of other jobs.
      this.#queue.splice(this.#queue.indexOf(error.job), 1);
      error.job.reject(error.cause);
      this.#alone = Math.max(0, this.#alone - 1);
    } else if (jobs.length === 1) {
      this.#take(1);
      jobs[0]!.reject(error);
    } else {
      this.#alone = jobs.length;
    }
  }

  #busy(error: unknown): void {
    const now = performance.now();
    // The oldest jobs are at the head.
    while (this.#queue[0] !== undefined && this.#queue[0].deadline <= now) {
      this.#queue[0].reject(error);
      this.#take(1);
    }
    if (this.isIdle) return;
    const wait = BUSY_AGAIN[this.#busyTries] ?? BUSY_AGAIN.at(-1)!;
    this.#busyTries += 1;
    this.#scheduled = true;
    setTimeout(() => this.#flush(), wait * (0.5 + Math.random()));
  }
}

interface SqliteError extends Error {
  readonly code: "ERR_SQLITE_ERROR";
  /** Deno's `exec` leaves out this and `errstr`. */
  readonly errcode?: number;
  readonly errstr?: string;
}

const BUSY = 5;
const LOCKED = 6;
/** Extended codes have the primary one in their lowest byte. */
const PRIMARY = 0xff;

export function isSqliteError(error: unknown): error is SqliteError {
  return error instanceof Error && "code" in error && error.code === "ERR_SQLITE_ERROR";
}

/** Whether a retry may work: another connection has locked the file, or the user has an open transaction on ours. */
export function isBusy(error: unknown): boolean {
  if (!isSqliteError(error)) return false;
  if (error.message.includes("within a transaction")) return true;
  if (error.errcode === undefined) return error.message.includes("is locked");
  const code = error.errcode & PRIMARY;
  return code === BUSY || code === LOCKED;
}

/** A job has ended the transaction that it shares with others. */
class TransactionLost extends Error {
  readonly job: Job;

  constructor(job: Job, cause: unknown) {
    super("transaction lost", { cause });
    this.job = job;
  }
}

/**
 * Runs as many of the jobs as there is time for, and commits.
 *
 * @throws where nothing was committed
 */
function transact(db: DatabaseSync, jobs: readonly Job[]): Ending[] {
  const until = performance.now() + MOST_TIME;
  const endings: Ending[] = [];
  db.exec("BEGIN IMMEDIATE");
  try {
    for (const job of jobs) {
      endings.push(attempt(job));
      if (performance.now() > until) break;
    }
    db.exec("COMMIT");
    return endings;
  } catch (error) {
    rollback(db);
    throw error;
  }
}

function attempt(job: Job): Ending {
  try {
    const value = job.run();
    return () => job.resolve(value);
  } catch (error) {
    if (!(error instanceof WritesFailed)) throw error;
    if (!error.undone) throw new TransactionLost(job, error.error);
    return () => job.reject(error.error);
  }
}

function rollback(db: DatabaseSync): void {
  try {
    db.exec("ROLLBACK");
  } catch {
    // After some failures, such as a full disk, SQLite has rolled back already.
  }
}
