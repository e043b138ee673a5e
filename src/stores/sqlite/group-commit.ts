import type { DatabaseSync } from "node:sqlite";
// Use imported timers: a test's fake timers replace the globals, and would stop all writes.
import { setImmediate, setTimeout } from "node:timers";
import { WritesFailed } from "./user-writes.ts";

/** The maximum number of jobs in one transaction. More jobs would block the event loop for too long. */
const MOST_JOBS = 256;
/** The time after which a transaction starts no further job, ms. */
const MOST_TIME = 10;
/** The waits before retries on a busy file, ms. Each wait is multiplied by a random factor from 0.5 to 1.5. */
const BUSY_AGAIN = [1, 2, 5, 10, 20] as const;

interface Job {
  readonly run: () => unknown;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** The deadline for retries on a busy file, by `performance.now()`. */
  readonly deadline: number;
}

/** Resolves or rejects a job. Called when the job's transaction is on disk. */
type Ending = () => void;

/**
 * Commits jobs in groups: jobs that are in the queue at the same time share one transaction and one wait for the
 * disk. A job resolves only when its transaction is on disk. If a transaction fails, each of its jobs runs again in a
 * separate transaction.
 */
export class GroupCommit {
  readonly #db: DatabaseSync;
  readonly #busyTimeout: number;
  readonly #check: () => void;
  readonly #queue: Job[] = [];
  #scheduled = false;
  /** How many jobs at the head of the queue need separate transactions, because their shared transaction failed. */
  #alone = 0;
  #busyTries = 0;
  #idle: (() => void)[] = [];

  /** @param check - runs before each transaction. If it throws, nothing is written */
  constructor(db: DatabaseSync, busyTimeout: number, check: () => void) {
    this.#db = db;
    this.#busyTimeout = busyTimeout;
    this.#check = check;
  }

  get isIdle(): boolean {
    return this.#queue.length === 0;
  }

  /** Calls `run` in a shared transaction. If this transaction fails, calls `run` again in a separate transaction. */
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
    // `setImmediate` lets Node read the sockets first. All requests that have arrived then share the transaction.
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
      // Do not run this job again, because the job itself ended the shared transaction.
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
    // The jobs in the queue are sorted by deadline.
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
  /** Deno's `exec` sets neither `errcode` nor `errstr`. */
  readonly errcode?: number;
  readonly errstr?: string;
}

const BUSY = 5;
const LOCKED = 6;
/** A mask: the lowest byte of an extended error code is the primary code. */
const PRIMARY = 0xff;

export function isSqliteError(error: unknown): error is SqliteError {
  return error instanceof Error && "code" in error && error.code === "ERR_SQLITE_ERROR";
}

/** Whether a retry may help: the file is locked, or the user has an open transaction on the store's connection. */
export function isBusy(error: unknown): boolean {
  if (!isSqliteError(error)) return false;
  if (error.message.includes("within a transaction")) return true;
  if (error.errcode === undefined) return error.message.includes("is locked");
  const code = error.errcode & PRIMARY;
  return code === BUSY || code === LOCKED;
}

/** Thrown if a job has ended the transaction that it shares with other jobs. */
class TransactionLost extends Error {
  readonly job: Job;

  constructor(job: Job, cause: unknown) {
    super("transaction lost", { cause });
    this.job = job;
  }
}

/**
 * Runs jobs in one transaction until {@link MOST_TIME} ms have passed, and commits the transaction.
 *
 * @throws if nothing was committed
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
