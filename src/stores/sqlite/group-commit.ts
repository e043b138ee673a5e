import type { DatabaseSync } from "node:sqlite";
// Use imported timers: a test's fake timers replace the globals, and would stop all writes.
import { setImmediate, setTimeout } from "node:timers";
import type { FileGuard } from "./file-guard.ts";
import { plainStatement } from "./plain-statement.ts";
import { isBusy, isConstraint, isFull } from "./sqlite-errors.ts";
import { WritesFailed } from "./user-writes.ts";

/** The time after which a transaction starts no further job, ms. */
const MOST_TIME = 10;
/** The waits before retries on a busy file, ms. Each wait is multiplied by a random factor from 0.5 to 1.5. */
const BUSY_AGAIN = [1, 2, 5, 10, 20] as const;
/** The shortest time between two checkpoints because the disk is full, ms. */
const CHECKPOINT_AGAIN = 1000;

/** The value of `PRAGMA synchronous` with which a commit does not wait for the disk. */
const NORMAL = 1;

interface Job {
  readonly run: () => unknown;
  /** Whether a power cut may undo the job. */
  readonly mayBeLost: boolean;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** The deadline for retries on a busy file, by `performance.now()`. */
  readonly deadline: number;
}

/** Thrown if a job's write has ended the transaction that it shares with other jobs. */
class TransactionEnded extends Error {
  readonly job: Job;
  readonly failure: WritesFailed;

  constructor(job: Job, failure: WritesFailed) {
    super("transaction ended");
    this.job = job;
    this.failure = failure;
  }
}

/**
 * Commits the jobs of one turn together, so that they share one wait for the disk. A job resolves only when its
 * transaction is on disk, unless a power cut may undo all jobs of the transaction. If a transaction fails, each of its jobs
 * runs again in a transaction of its own.
 */
export class GroupCommit {
  readonly #db: DatabaseSync;
  /** Whether the connection waits for the disk at each commit. */
  readonly #waits: boolean;
  readonly #busyTimeout: number;
  readonly #guard: FileGuard | undefined;
  readonly #queue: Job[] = [];
  #scheduled = false;
  /** How many jobs at the head of the queue need separate transactions, because their shared transaction failed. */
  #alone = 0;
  #busyTries = 0;
  #checkpointAt = Number.NEGATIVE_INFINITY;
  #idle: (() => void)[] = [];

  /** @param guard - looks before and after each transaction. `undefined` for a database in memory */
  constructor(db: DatabaseSync, busyTimeout: number, guard: FileGuard | undefined) {
    this.#db = db;
    this.#waits = Number(plainStatement(db, "PRAGMA synchronous").get()?.synchronous) > NORMAL;
    this.#busyTimeout = busyTimeout;
    this.#guard = guard;
  }

  /**
   * Calls `run` in a transaction.
   *
   * @param mayBeLost - whether a power cut may undo the transaction
   * @throws WritesFailed if a user's write failed, or broke a deferred constraint
   */
  run<T>(run: () => T, mayBeLost = false): Promise<T> {
    return new Promise((resolve, reject) => {
      const deadline = performance.now() + this.#busyTimeout;
      this.#queue.push({ run, mayBeLost, resolve: resolve as (value: unknown) => void, reject, deadline });
      this.#schedule();
    });
  }

  /** Resolves when all jobs have ended. */
  async idle(): Promise<void> {
    if (this.#queue.length > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    // `setImmediate` lets Node read the sockets first. All requests that have arrived then share the transaction.
    setImmediate(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    const jobs = this.#alone > 0 ? this.#queue.slice(0, 1) : [...this.#queue];
    try {
      this.#guard?.beforeCommit();
      const endings = this.#transact(jobs);
      this.#guard?.afterCommit();
      this.#busyTries = 0;
      this.#take(endings.length);
      for (const end of endings) end();
    } catch (error) {
      if (error instanceof TransactionEnded) this.#remove(error);
      else if (isBusy(error)) this.#waitForFile(error);
      else if (isFull(error) && this.#makesRoom()) this.#busyTries = 0;
      else if (jobs.length > 1) this.#alone = jobs.length;
      // Only the user's tables have constraints that fail at the commit.
      else this.#take(1)[0]?.reject(isConstraint(error) ? new WritesFailed(error, true) : error);
    }
    if (this.#queue.length > 0) this.#schedule();
    else for (const resolve of this.#idle.splice(0)) resolve();
  }

  /**
   * Copies the write-ahead log into the file, and empties the log. On a disk that was full, the log takes the room that its
   * own checkpoint would free, because SQLite makes none before the log is large.
   *
   * @returns whether the jobs can run again
   */
  #makesRoom(): boolean {
    const now = performance.now();
    if (now - this.#checkpointAt < CHECKPOINT_AGAIN) return false;
    this.#checkpointAt = now;
    try {
      const [answer] = plainStatement(this.#db, "PRAGMA wal_checkpoint(TRUNCATE)").all();
      return answer?.busy === 0;
    } catch {
      return false;
    }
  }

  #transact(jobs: readonly Job[]): (() => void)[] {
    if (!this.#waits || !jobs.every(({ mayBeLost }) => mayBeLost)) return transact(this.#db, jobs);
    this.#db.exec("PRAGMA synchronous = NORMAL");
    try {
      return transact(this.#db, jobs);
    } finally {
      // The next commit may be the user's own, on a connection that the user has passed.
      this.#db.exec("PRAGMA synchronous = FULL");
    }
  }

  #take(count: number): Job[] {
    this.#alone = Math.max(0, this.#alone - count);
    return this.#queue.splice(0, count);
  }

  /** Does not run this job again, because its write ended the shared transaction. */
  #remove({ job, failure }: TransactionEnded): void {
    this.#queue.splice(this.#queue.indexOf(job), 1);
    this.#alone = Math.max(0, this.#alone - 1);
    job.reject(failure);
  }

  #waitForFile(error: unknown): void {
    const now = performance.now();
    // The jobs in the queue are sorted by deadline.
    while (this.#queue[0] !== undefined && this.#queue[0].deadline <= now) this.#take(1)[0]?.reject(error);
    if (this.#queue.length === 0) return;
    const wait = BUSY_AGAIN[this.#busyTries] ?? BUSY_AGAIN.at(-1)!;
    this.#busyTries += 1;
    this.#scheduled = true;
    setTimeout(() => this.#flush(), wait * (0.5 + Math.random()));
  }
}

/**
 * Runs jobs in one transaction until {@link MOST_TIME} ms have passed, and commits it. Returns functions that resolve or
 * reject the jobs that ran.
 *
 * @throws if nothing was committed
 */
function transact(db: DatabaseSync, jobs: readonly Job[]): (() => void)[] {
  const until = performance.now() + MOST_TIME;
  const endings: (() => void)[] = [];
  db.exec("BEGIN IMMEDIATE");
  try {
    for (const job of jobs) {
      endings.push(attempt(job));
      if (performance.now() > until) break;
    }
    db.exec("COMMIT");
    return endings;
  } catch (error) {
    try {
      db.exec("ROLLBACK");
    } catch {
      // After some failures, such as a full disk, SQLite has rolled back already.
    }
    throw error;
  }
}

function attempt(job: Job): () => void {
  try {
    const value = job.run();
    return () => job.resolve(value);
  } catch (error) {
    if (!(error instanceof WritesFailed)) throw error;
    if (!error.undone) throw new TransactionEnded(job, error);
    return () => job.reject(error);
  }
}
