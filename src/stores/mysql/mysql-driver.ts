// Use imported timers: a test's fake timers replace the globals, and would stop the polling.
import { clearInterval, setInterval } from "node:timers";
import { setTimeout as sleep } from "node:timers/promises";
import type { Pool, PoolConnection, ResultSetHeader, RowDataPacket } from "mysql2/promise";
import { createSlots, type Slots, withTimeout } from "../../async.ts";
import { errorText } from "../../error-text.ts";
import { InvalidWriteError, StayhookError } from "../../errors.ts";
import { CLOSE_WITHIN } from "../base-store.ts";
import { AdvisedError, InterruptedError, LockedError, NoAnswerError } from "../call-errors.ts";
import { dating, Lender, networkHint, runWrites, WriteFailed, WritesInterrupted } from "../server-pool.ts";
import {
  runAsync,
  type SqlDriver,
  type SqlNotifier,
  type SqlResult,
  type SqlStatement,
  type SqlSteps,
  type SqlWrites,
  type TransactionOptions,
} from "../sql/driver.ts";
import { RollBack } from "../sql/sql-queue.ts";
import {
  errnoOf,
  exists,
  isConflict,
  isDeadlock,
  isFull,
  isGone,
  isLocked,
  isLost,
  isOutOfCluster,
  isRefused,
  SAVEPOINT_UNKNOWN,
  serverHint,
} from "./mysql-errors.ts";
import {
  borrowedLimits,
  checkPool,
  ISOLATION,
  ownLimits,
  PLAIN,
  type PoolCheck,
  USER_LIMITS,
  writeLimits,
} from "./mysql-session.ts";

/** How often a transaction is tried that meets other ones. */
const TRIES = 10;
/** How long the driver regards a lock as held after it has met it, ms. */
const LOCK_LASTS = 5000;
/** The time limits of a migration, in seconds: for a statement, for another process's migration, and for a table's lock. */
const MIGRATION = { statement: 60, other: 50, lock: 1 } as const;
/**
 * The pause before a migration tries again to lock a table, ms. While it waits for the lock, all other statements on that
 * table wait behind it, and the transaction that holds the table may wait for one of them.
 */
const PAUSE = 300;

export interface MysqlDriverOptions {
  readonly pool: () => Promise<Pool>;
  /** Whether the pool is the store's own, so that each connection has the {@link ISOLATION} level and {@link ownLimits}. */
  readonly isOwn: boolean;
  /** How many transactions that have met a lock may hold a connection at once. Other calls use the remaining ones. */
  readonly waitsAtOnce: number;
  /** The timeout of a statement, and of the wait for a connection, ms. */
  readonly commandTimeout: number;
  /** The time between two polls, ms. */
  readonly pollInterval: number;
  readonly close: () => Promise<void>;
}

/** The rows of a query, or the row counts of any other statement. */
type QueryResult = RowDataPacket[] & ResultSetHeader;

/** A connection that is lent to one job. */
interface Session {
  readonly connection: PoolConnection;
  query(sql: string, values?: readonly unknown[]): Promise<QueryResult>;
}

/** Runs the steps of `SqlStore` on a pool of `mysql2`. */
export class MysqlDriver implements SqlDriver {
  readonly transactional = true;
  readonly notifier: SqlNotifier;
  readonly #options: MysqlDriverOptions;
  readonly #running = new Set<Promise<unknown>>();
  readonly #waiting: Slots;
  /** The connections of the user's pool that have the settings of {@link PoolCheck}. */
  readonly #prepared = new WeakSet<object>();
  /** The connections that functions of the user, which failed, may have changed, for example by `USE`. */
  readonly #spoiled = new WeakSet<object>();
  readonly #lender: Lender<PoolConnection>;
  /** What the connections of the pool need, by the first one that has answered. */
  #check: PoolCheck | undefined;
  /** When a transaction last met a lock, on the monotonic clock. */
  #lockedAt = Number.NEGATIVE_INFINITY;

  constructor(options: MysqlDriverOptions) {
    this.#options = options;
    this.#waiting = createSlots(options.waitsAtOnce);
    this.#lender = new Lender({
      connect: async () => dating(await options.pool(), "connection").getConnection(),
      identityOf: ({ connection }) => connection,
      end: (connection) => connection.destroy(),
      isFull,
    });
    this.notifier = {
      notify() {},
      // MySQL has no notifications. Poll instead.
      listen(wake) {
        const timer = setInterval(wake, options.pollInterval);
        timer.unref();
        return () => clearInterval(timer);
      },
    };
  }

  transaction<T>(steps: () => SqlSteps<T>, failing: string, options?: TransactionOptions): Promise<T> {
    const run = (mayWait: boolean) =>
      this.#lend(
        (session) => this.#transact(mayWait ? session : impatient(session), steps),
        options?.answerWithin,
      );
    return this.#retried(run, failing, options);
  }

  read<T>(steps: () => SqlSteps<T>, failing: string): Promise<T> {
    const run = (session: Session) => runAsync(steps(), (step) => execute(session, step as SqlStatement));
    return this.#retried(() => this.#lend(run), failing);
  }

  /** ProxySQL and MaxScale send the statements of a transaction to the server that takes writes. */
  decide<T>(steps: () => SqlSteps<T>, failing: string): Promise<T> {
    return this.transaction(steps, failing);
  }

  migrate(steps: () => SqlSteps<void>, failing: string): Promise<void> {
    const options = { pause: PAUSE, patience: Number.POSITIVE_INFINITY };
    return this.#retried(() => this.#migrateOnce(steps), failing, options);
  }

  async close(): Promise<void> {
    await withTimeout(CLOSE_WITHIN, Promise.allSettled(this.#running));
    await this.#options.close();
  }

  async #connect(): Promise<PoolConnection> {
    const pool = await this.#options.pool();
    const connection = await this.#lender.lend(this.#options.commandTimeout);
    try {
      this.#check ??= await checkPool(pool, connection);
      const { setting } = this.#check;
      if (setting === undefined || this.#prepared.has(connection.connection)) return connection;
      this.#prepared.add(connection.connection);
      await connection.query(setting);
      return connection;
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  /** Lends a connection to `job`. A session of the user's pool has the store's limits only during the job. */
  async #lend<T>(job: (session: Session) => Promise<T>, answerWithin = Number.POSITIVE_INFINITY): Promise<T> {
    const { isOwn, commandTimeout } = this.#options;
    const connection = await this.#connect();
    const session = sessionOf(connection, Math.min(commandTimeout, answerWithin));
    let isUsable = false;
    try {
      if (!isOwn) await session.query(borrowedLimits(commandTimeout));
      const result = await job(session);
      isUsable = true;
      return result;
    } catch (error) {
      const hasDied = isLost(error) || isRefused(causeOf(error));
      isUsable = !this.#spoiled.has(connection) && !hasDied;
      if (!hasDied || error instanceof InvalidWriteError) throw error;
      throw new Died(error);
    } finally {
      if (isUsable && !isOwn)
        isUsable = await session.query(USER_LIMITS).then(
          () => true,
          () => false,
        );
      // After a network error or a timeout, the connection may be in any state. Do not reuse it.
      if (isUsable) connection.release();
      else connection.destroy();
    }
  }

  async #transact<T>(session: Session, steps: () => SqlSteps<T>): Promise<T> {
    if (!this.#options.isOwn) await session.query(`SET TRANSACTION ${ISOLATION}`);
    await session.query("START TRANSACTION");
    let hasWrites = false;
    try {
      const result = await runAsync(steps(), async (step) => {
        if (!("writes" in step)) return execute(session, step);
        hasWrites = true;
        await this.#runWrites(session, step);
        return { rows: [], changes: 0 };
      });
      await session.query("COMMIT").catch((error: unknown) => {
        throw isGone(error) ? new Error("the server has gone at the commit", { cause: error }) : error;
      });
      return result;
    } catch (error) {
      if (hasWrites && !isConflict(causeOf(error))) this.#spoiled.add(session.connection);
      if (error instanceof InvalidWriteError || (!hasWrites && isLost(error))) throw error;
      // Only an answer to the rollback shows that the connection lives.
      await session.query("ROLLBACK").catch(() => {
        throw hasWrites ? new WritesInterrupted(error) : error;
      });
      if (hasWrites && isOutOfCluster(causeOf(error))) throw new WritesInterrupted(error);
      // Locks that the writes hold lead the store's own statements into deadlocks, too.
      throw hasWrites && isDeadlock(error) ? new WriteFailed(error) : error;
    }
  }

  async #runWrites({ connection, query }: Session, { writes }: SqlWrites): Promise<void> {
    const { isOwn, commandTimeout } = this.#options;
    await query(isOwn ? writeLimits(commandTimeout) : USER_LIMITS);
    try {
      await query("SAVEPOINT stayhook_writes");
      await runWrites(connection, writes);
      await query("RELEASE SAVEPOINT stayhook_writes").catch((cause: unknown) => {
        throw errnoOf(cause) === SAVEPOINT_UNKNOWN ? new InvalidWriteError(ENDED, { cause }) : cause;
      });
    } finally {
      // Restore the limits even if a function failed, because the connection goes back into the pool.
      await query(isOwn ? ownLimits(commandTimeout) : borrowedLimits(commandTimeout)).catch(() => {});
    }
  }

  /**
   * DDL commits by itself, so a lock of the session keeps other processes out. The session ends afterwards, and with it
   * the lock and the settings. If this process dies, the server frees the lock when the running statement has ended.
   */
  async #migrateOnce(steps: () => SqlSteps<void>): Promise<void> {
    const connection = await this.#connect();
    const session = sessionOf(connection, MIGRATION.statement * 1000);
    try {
      // MySQL allows 64 characters for the name, and MySQL 9 has no MD5.
      const sql = "SELECT GET_LOCK(CONCAT('stayhook ', LEFT(SHA2(DATABASE(), 256), 40)), ?) AS locked";
      const [row] = await session.query(sql, [MIGRATION.other]);
      if (Number(row?.locked) !== 1)
        throw new Error(`another process has been changing the tables for ${MIGRATION.other} s`);
      await session.query(`SET SESSION autocommit = 1, lock_wait_timeout = ${MIGRATION.lock}`);
      await session.query(`SET @stayhook = 0 /*M! , SESSION max_statement_time = ${MIGRATION.statement} */`);
      await runAsync(steps(), (step) => execute(session, step as SqlStatement));
    } finally {
      connection.destroy();
    }
  }

  /**
   * Runs a transaction again after a conflict. While somebody holds a lock, first tries do not wait for it, and few later
   * ones do at a time, so that one locked row leaves connections for others.
   */
  async #retried<T>(
    attempt: (mayWait: boolean) => Promise<T>,
    failing: string,
    { pause = 0, patience }: TransactionOptions & { readonly pause?: number } = {},
  ): Promise<T> {
    const { commandTimeout } = this.#options;
    const mayWait = patience === undefined || performance.now() - this.#lockedAt >= LOCK_LASTS;
    /** When this transaction first met a lock. */
    let metAt: number | undefined;
    let wasRefused = false;
    for (let tries = 1; ; tries += 1) {
      const trying = metAt !== undefined ? this.#waiting.run(() => attempt(true)) : attempt(mayWait);
      this.#running.add(trying);
      try {
        return await trying;
      } catch (error) {
        // Also retry after a conflict in an `event.atomically` function: the driver has rolled back the transaction.
        const cause = causeOf(error);
        if (error instanceof Died || isRefused(cause)) this.#lender.died();
        if (isLocked(cause)) {
          this.#lockedAt = performance.now();
          metAt ??= this.#lockedAt;
        }
        const hasWaited = metAt !== undefined && performance.now() - metAt >= (patience ?? commandTimeout);
        // A new connection may lead to a server that takes the transaction.
        const mayMove = isRefused(cause) && !wasRefused && !(isGone(cause) && ranWrites(error));
        const mayRepeat = isConflict(cause) || mayMove;
        if (hasWaited || tries === TRIES || !mayRepeat) throw failure(failing, error);
        wasRefused ||= isRefused(cause);
        await sleep(pause + Math.random() * 2 ** tries);
      } finally {
        this.#running.delete(trying);
      }
    }
  }
}

function sessionOf(connection: PoolConnection, timeout: number): Session {
  return {
    connection,
    async query(sql, values = []) {
      const [result] = await connection.query<QueryResult>({ sql, values: [...values], timeout, ...PLAIN });
      return result;
    },
  };
}

/** A session whose statements do not wait for the lock of a record. */
function impatient({ connection, query }: Session): Session {
  return {
    connection,
    query: (sql, values) => query(sql.endsWith(" FOR UPDATE") ? `${sql} NOWAIT` : sql, values),
  };
}

async function execute({ query }: Session, { sql, params, query: reads }: SqlStatement): Promise<SqlResult> {
  const values = params.map((value) => (value instanceof Uint8Array ? Buffer.from(value) : value));
  try {
    const result = await query(sql, values);
    return reads ? { rows: result, changes: 0 } : { rows: [], changes: result.affectedRows };
  } catch (error) {
    if (exists(error)) return { rows: [], changes: 0 };
    throw error;
  }
}

const ENDED =
  "A function passed to event.atomically ended the store's transaction. Such a function must not run BEGIN, COMMIT or ROLLBACK, and must not create or alter tables.";

/** Returns the error of a call that `error` ended: that of the user's function, or one of the store. */
function failure(failing: string, error: unknown): unknown {
  const cause = causeOf(error);
  if (error instanceof WriteFailed || (error instanceof Died && error.cause instanceof WriteFailed))
    return cause;
  if (error instanceof StayhookError || error instanceof RollBack) return error;
  const hint = serverHint(cause);
  const Failure = failureOf(error, cause, hint);
  return new Failure(`mysqlStore: ${failing}: ${errorText(cause)}${hint}${networkHint(cause)}`, { cause });
}

function failureOf(error: unknown, cause: unknown, hint: string): typeof StayhookError {
  if (error instanceof Died)
    return error.cause instanceof WritesInterrupted ? InterruptedError : NoAnswerError;
  if (isLocked(cause)) return LockedError;
  return hint === "" ? StayhookError : AdvisedError;
}

/** The connection died during a job. */
class Died extends Error {
  constructor(cause: unknown) {
    super("the connection died", { cause });
  }
}

/** Whether the user's functions ran in a job that died. They may have ended the connection, so the caller counts their runs. */
function ranWrites(error: unknown): boolean {
  const cause = error instanceof Died ? error.cause : undefined;
  return cause instanceof WriteFailed || cause instanceof WritesInterrupted;
}

/** Returns the error that the server or a function of the user gave. */
function causeOf(error: unknown): unknown {
  const isOwn = [WriteFailed, WritesInterrupted, Died].some((Own) => error instanceof Own);
  return isOwn ? causeOf((error as Error).cause) : error;
}
