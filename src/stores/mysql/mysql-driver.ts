// Use imported timers: a test's fake timers replace the globals, and would stop the polling.
import { clearInterval, setInterval } from "node:timers";
import { setTimeout as sleep } from "node:timers/promises";
import type { Pool, PoolConnection, ResultSetHeader, RowDataPacket } from "mysql2/promise";
import { createSlots, withTimeout } from "../../async.ts";
import { errorText } from "../../error-text.ts";
import { InvalidWriteError, StayhookError } from "../../errors.ts";
import { CLOSE_WITHIN } from "../base-store.ts";
import { InterruptedError, LockedError } from "../call-errors.ts";
import { connectWithin, runWrites, WriteFailed, WritesInterrupted } from "../server-pool.ts";
import {
  runAsync,
  type SqlDriver,
  type SqlResult,
  type SqlStatement,
  type SqlSteps,
  type SqlWrites,
  type TransactionOptions,
} from "../sql/driver.ts";
import { LeaseLost } from "../sql/sql-queue.ts";
import { ISOLATION, limited, ownLimits, PLAIN, type PoolCheck, writeLimits } from "./mysql-session.ts";

const DUPLICATE_KEY = 1062;
const LOCK_TIMEOUT = 1205;
/**
 * The error codes of a lock timeout, of a deadlock, and of a counter of `seq` that was locked. The driver rolls the
 * transaction back and tries again.
 */
const TRY_AGAIN = [LOCK_TIMEOUT, 1213, 1467];
/** The error codes of a read-only server. After a failover, the old primary is read-only. */
const READ_ONLY = [1290, 1792, 1836];
/** The error codes of a server or user that has all the connections that it may have. */
const TOO_MANY = [1040, 1203, 1226];
const SAVEPOINT_UNKNOWN = 1305;
const TRIES = 10;
/** The errors of a column or index that exists. An interrupted migration has made it. */
const EXISTS = [1060, 1061];
/** The time limits of a migration, in seconds: for a statement, for another process's migration, and for a table's lock. */
const MIGRATION = { statement: 60, other: 50, lock: 1 } as const;
/**
 * The pause before a migration tries again to lock a table, ms. While it waits for the lock, all other statements on that
 * table wait behind it, and the transaction that holds the table may wait for one of them.
 */
const PAUSE = 300;

/** How long the driver regards a lock as held after it has met it, ms. */
const LOCK_LASTS = 5000;

/** A pool, and what it needs. */
export interface OpenPool extends PoolCheck {
  readonly pool: Pool;
}

export interface MysqlDriverOptions {
  readonly pool: () => Promise<OpenPool>;
  /** Whether each connection of the pool has the {@link ISOLATION} level and the {@link ownLimits}. */
  readonly isPrepared: boolean;
  /** How many transactions that have met a lock may hold a connection at once. Other calls use the remaining ones. */
  readonly waitsAtOnce: number;
  /** The timeout of a statement, and of the wait for a connection, ms. */
  readonly commandTimeout: number;
  /** The time between two polls, ms. */
  readonly pollInterval: number;
  readonly close: () => Promise<void>;
}

export interface MysqlTransactionOptions extends TransactionOptions {
  /** How long the transaction is tried again while others hold a lock that it needs, ms. Default: `commandTimeout`. */
  readonly lockPatience?: number | undefined;
}

export interface MysqlDriver extends SqlDriver {
  transaction<T>(steps: () => SqlSteps<T>, failing: string, options?: MysqlTransactionOptions): Promise<T>;
}

/** Returns a driver that runs the steps of `SqlStore` on a pool of `mysql2`. */
export function mysqlDriver({
  pool,
  isPrepared,
  waitsAtOnce,
  commandTimeout,
  pollInterval,
  close,
}: MysqlDriverOptions): MysqlDriver {
  const running = new Set<Promise<unknown>>();
  const waiting = createSlots(waitsAtOnce);
  const limits = isPrepared ? "" : limited(commandTimeout);
  const noWait = limited(commandTimeout, 0);
  /** When a transaction last met a lock, on the monotonic clock. */
  let lockedAt = Number.NEGATIVE_INFINITY;
  /** The connections of the user's pool that have the settings of {@link PoolCheck}. */
  const prepared = new WeakSet<object>();

  /** Waits for a connection. If there are no more, one of the pool's own becomes free. */
  async function connect(): Promise<PoolConnection> {
    const deadline = performance.now() + commandTimeout;
    const { pool: from, setting } = await pool();
    for (let wait = 10; ; wait = Math.min(wait * 2, 200)) {
      try {
        const left = Math.max(1, deadline - performance.now());
        const connection = await connectWithin(left, from.getConnection());
        if (setting !== undefined && !prepared.has(connection.connection)) {
          prepared.add(connection.connection);
          await connection.query(setting).catch((error: unknown) => {
            connection.destroy();
            throw error;
          });
        }
        return connection;
      } catch (error) {
        if (!isFull(error) || performance.now() + wait > deadline) throw error;
        await sleep(wait);
      }
    }
  }

  async function lend<T>(use: (connection: PoolConnection, query: Query) => Promise<T>): Promise<T> {
    const connection = await connect();
    let isUsable = true;
    try {
      return await use(connection, (sql, values = []) =>
        connection.query<QueryResult>({ sql, values: [...values], timeout: commandTimeout, ...PLAIN }),
      );
    } catch (error) {
      isUsable = !isLost(error);
      throw error;
    } finally {
      // After a network error or a timeout, the connection may be in any state. Do not reuse it.
      if (isUsable) connection.release();
      else connection.destroy();
    }
  }

  function writeOnce<T>(steps: () => SqlSteps<T>, prefix: string): Promise<T> {
    return lend(async (connection, query) => {
      if (!isPrepared) await query(`SET TRANSACTION ${ISOLATION}`);
      await query("START TRANSACTION");
      let hasWrites = false;
      try {
        const result = await runAsync(steps(), async (step) => {
          if (!("writes" in step)) return execute(query, step, prefix);
          hasWrites = true;
          if (isPrepared) await query(writeLimits(commandTimeout)).catch(() => {});
          try {
            await runInSavepoint(connection, step);
          } finally {
            // Restore the limits even if a function failed, because the connection goes back into the pool.
            if (isPrepared) await query(ownLimits(commandTimeout)).catch(() => {});
          }
          return { rows: [], changes: 0 };
        });
        await query("COMMIT");
        return result;
      } catch (error) {
        if (error instanceof InvalidWriteError || (!hasWrites && isLost(error))) throw error;
        // Only an answer to the rollback shows that the connection lives.
        await query("ROLLBACK").catch(() => {
          throw hasWrites ? new WritesInterrupted(error) : error;
        });
        throw error;
      }
    });
  }

  function readOnce<T>(steps: () => SqlSteps<T>): Promise<T> {
    return lend((_, query) => runAsync(steps(), (step) => execute(query, step as SqlStatement, limits)));
  }

  /**
   * DDL commits by itself, so a lock of the session keeps other processes out. The session ends afterwards, and with it
   * the lock and the settings. If this process dies, the server frees the lock when the running statement has ended.
   */
  async function migrateOnce(steps: () => SqlSteps<void>): Promise<void> {
    const connection = await connect();
    const query: Query = (sql, values = []) =>
      connection.query<QueryResult>({
        sql,
        values: [...values],
        timeout: MIGRATION.statement * 1000,
        ...PLAIN,
      });
    try {
      const sql = "SELECT GET_LOCK(CONCAT('stayhook ', MD5(DATABASE())), ?) AS locked";
      const [rows] = await query(sql, [MIGRATION.other]);
      if (Number(rows[0]?.locked) !== 1)
        throw new Error(`another process has been changing the tables for ${MIGRATION.other} s`);
      await query(`SET SESSION autocommit = 1, lock_wait_timeout = ${MIGRATION.lock}`);
      // Only MariaDB has this variable.
      await query(`SET SESSION max_statement_time = ${MIGRATION.statement}`).catch(() => {});
      await runAsync(steps(), (step) => execute(query, step as SqlStatement));
    } finally {
      connection.destroy();
    }
  }

  /**
   * Runs a transaction again after a conflict. While somebody holds a lock, first tries do not wait for it, and few later
   * ones do at a time, so that one locked row leaves connections for others. With `SKIP LOCKED`, MariaDB 10.11 fails if a
   * statement does not wait at all, so a transaction without patience always waits.
   */
  async function retried<T>(
    attempt: (prefix: string) => Promise<T>,
    failing: string,
    { pause = 0, lockPatience }: { pause?: number; lockPatience?: number | undefined } = {},
  ): Promise<T> {
    const patience = lockPatience ?? commandTimeout;
    const startedAt = performance.now();
    const isFast = lockPatience !== undefined && startedAt - lockedAt < LOCK_LASTS;
    let hasMetLock = false;
    for (let tries = 1; ; tries += 1) {
      const trying = hasMetLock ? waiting.run(() => attempt(limits)) : attempt(isFast ? noWait : limits);
      running.add(trying);
      try {
        return await trying;
      } catch (error) {
        const cause = error instanceof WriteFailed ? error.cause : error;
        // Also retry after a conflict in an `event.atomically` function: the driver has rolled back the transaction.
        const mayTryAgain = TRY_AGAIN.includes(errnoOf(cause) ?? 0);
        if (errnoOf(cause) === LOCK_TIMEOUT) {
          hasMetLock = true;
          lockedAt = performance.now();
        }
        if (mayTryAgain && tries < TRIES && !(hasMetLock && performance.now() - startedAt >= patience)) {
          await sleep(pause + Math.random() * 2 ** tries);
          continue;
        }
        if (error instanceof WriteFailed) throw cause;
        if (error instanceof StayhookError || error instanceof LeaseLost) throw error;
        const isLocked = errnoOf(cause) === LOCK_TIMEOUT;
        const Failure =
          error instanceof WritesInterrupted ? InterruptedError : isLocked ? LockedError : StayhookError;
        throw new Failure(`mysqlStore: ${failing}: ${errorText(cause)}`, { cause });
      } finally {
        running.delete(trying);
      }
    }
  }

  return {
    transactional: true,
    transaction: (steps, failing, { lockPatience } = {}) =>
      retried((prefix) => writeOnce(steps, prefix), failing, { lockPatience }),
    migrate: (steps, failing) =>
      retried(() => migrateOnce(steps), failing, { pause: PAUSE, lockPatience: Number.POSITIVE_INFINITY }),
    read: (steps, failing) => retried(() => readOnce(steps), failing),
    notifier: {
      notify() {},
      // MySQL has no notifications. Poll instead.
      listen(wake) {
        const timer = setInterval(wake, pollInterval);
        timer.unref();
        return () => clearInterval(timer);
      },
    },
    async close() {
      await withTimeout(CLOSE_WITHIN, Promise.allSettled(running));
      await close();
    },
  };
}

/** The rows of a query, or the row counts of any other statement. */
type QueryResult = RowDataPacket[] & ResultSetHeader;
type Query = (sql: string, values?: readonly unknown[]) => Promise<[QueryResult, unknown]>;

/** @param prefix - the beginning of the statement that limits its time, if the session does not */
async function execute(
  query: Query,
  { sql, params, query: reads }: SqlStatement,
  prefix = "",
): Promise<SqlResult> {
  const values = params.map((value) => (value instanceof Uint8Array ? Buffer.from(value) : value));
  try {
    const [result] = await query(prefix + sql, values);
    if (reads) return { rows: result, changes: 0 };
    return { rows: [], changes: result.affectedRows };
  } catch (error) {
    const errno = errnoOf(error) ?? 0;
    if (errno === DUPLICATE_KEY || EXISTS.includes(errno)) return { rows: [], changes: 0 };
    throw error;
  }
}

async function runInSavepoint(connection: PoolConnection, { writes }: SqlWrites): Promise<void> {
  await connection.query("SAVEPOINT stayhook_writes");
  await runWrites(connection, writes);
  try {
    await connection.query("RELEASE SAVEPOINT stayhook_writes");
  } catch (cause) {
    if (errnoOf(cause) !== SAVEPOINT_UNKNOWN) throw cause;
    const message =
      "A function passed to event.atomically ended the store's transaction. Such a function must not run BEGIN, COMMIT or ROLLBACK, and must not create or alter tables.";
    throw new InvalidWriteError(message, { cause });
  }
}

function errnoOf(error: unknown): number | undefined {
  const { errno, sqlState } = Object(error) as { readonly errno?: unknown; readonly sqlState?: unknown };
  // An error without an SQL state comes from the socket, and its `errno` is not a code of MySQL.
  return typeof errno === "number" && typeof sqlState === "string" ? errno : undefined;
}

/**
 * Whether no connection is free: the server allows no more, or the user's pool does not wait. `mysql2` gives the pool's
 * errors no code.
 */
function isFull(error: unknown): boolean {
  return (
    TOO_MANY.includes(errnoOf(error) ?? 0) ||
    (error instanceof Error && /^(No connections available|Queue limit reached)/.test(error.message))
  );
}

/** Whether the connection is unusable. If so, it is unknown whether the server has committed the transaction. */
function isLost(error: unknown): boolean {
  if (error instanceof InvalidWriteError) return true;
  if (error instanceof WriteFailed || error instanceof StayhookError || error instanceof LeaseLost)
    return false;
  const errno = errnoOf(error);
  return errno === undefined || READ_ONLY.includes(errno);
}
