// Use imported timers: a test's fake timers replace the globals, and would stop the polling.
import { clearInterval, setInterval } from "node:timers";
import { setTimeout as sleep } from "node:timers/promises";
import type { Pool, PoolConnection, ResultSetHeader, RowDataPacket } from "mysql2/promise";
import { errorText, InvalidWriteError, StayhookError } from "../../errors.ts";
import type { Write } from "../event-store.ts";
import { connectWithin, LONGEST_WRITES, WriteFailed, writeWithinTime } from "../server-pool.ts";
import {
  runAsync,
  type SqlDialect,
  type SqlDriver,
  type SqlResult,
  type SqlStatement,
  type SqlSteps,
  type SqlWrites,
} from "../sql/driver.ts";

const DUPLICATE_KEY = 1062;
/** The error codes of a lock timeout and a deadlock. The driver rolls the transaction back and tries again. */
const TRY_AGAIN = [1205, 1213];
/** The error codes of a read-only server. After a failover, the old primary is read-only. */
const READ_ONLY = [1290, 1792, 1836];
const SAVEPOINT_UNKNOWN = 1305;
const TRIES = 10;
/** After this time, in seconds, MariaDB ends an idle transaction, so a frozen process cannot keep its locks. */
export const LONGEST_IDLE = 2;

/** Returns SQL that sets how long a transaction may be idle. Only MariaDB has this variable. */
export function endIdleAfter(seconds: number): string {
  return `SET SESSION idle_transaction_timeout = ${seconds}`;
}

export interface MysqlDriverOptions {
  readonly pool: () => Promise<Pool>;
  /** Whether each connection of the pool has run the SQL of {@link endIdleAfter}. */
  readonly endsIdle: boolean;
  /** The timeout of a statement, and of the wait for a connection, ms. */
  readonly commandTimeout: number;
  /** The time between two polls, ms. */
  readonly pollInterval: number;
  readonly close: () => Promise<void>;
}

/** Returns a driver that runs the steps of `SqlStore` on a pool of `mysql2`. */
export function mysqlDriver({
  pool,
  endsIdle,
  commandTimeout,
  pollInterval,
  close,
}: MysqlDriverOptions): SqlDriver {
  const running = new Set<Promise<unknown>>();

  async function lend<T>(use: (connection: PoolConnection, query: Query) => Promise<T>): Promise<T> {
    const connection = await connectWithin(
      commandTimeout,
      pool().then((from) => from.getConnection()),
    );
    let isUsable = true;
    try {
      return await use(connection, (sql, values = []) =>
        connection.query<Answer>({ sql, values: [...values], timeout: commandTimeout }),
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

  function writeOnce<T>(steps: () => SqlSteps<T>): Promise<T> {
    return lend(async (connection, query) => {
      // In REPEATABLE READ, a transaction would not see rows that were committed while it waited for a lock.
      await query("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
      await query("START TRANSACTION");
      try {
        const result = await runAsync(steps(), async (step) => {
          if (!("writes" in step)) return execute(query, step);
          // Raise the idle limit, because the user's code may be slow between its statements.
          if (endsIdle) await query(endIdleAfter(LONGEST_WRITES / 1000)).catch(() => {});
          try {
            await runWrites(connection, step);
          } finally {
            // Restore the limit even if a function failed, because the connection goes back into the pool.
            if (endsIdle) await query(endIdleAfter(LONGEST_IDLE)).catch(() => {});
          }
          return { rows: [], changes: 0 };
        });
        await query("COMMIT");
        return result;
      } catch (error) {
        if (!isLost(error)) await query("ROLLBACK");
        throw error;
      }
    });
  }

  function readOnce<T>(steps: () => SqlSteps<T>): Promise<T> {
    return lend((_, query) => runAsync(steps(), (step) => execute(query, step as SqlStatement)));
  }

  async function retried<T>(attempt: () => Promise<T>, failing: string): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      const trying = attempt();
      running.add(trying);
      try {
        return await trying;
      } catch (error) {
        const cause = error instanceof WriteFailed ? error.cause : error;
        // Also retry after a conflict in an `event.atomically` function: the driver has rolled back the transaction.
        const mayTryAgain = TRY_AGAIN.includes(errnoOf(cause) ?? 0);
        if (mayTryAgain && tries < TRIES) {
          await sleep(Math.random() * 2 ** tries);
          continue;
        }
        if (error instanceof WriteFailed && !mayTryAgain && !isLost(error)) throw cause;
        if (error instanceof StayhookError) throw error;
        throw new StayhookError(`mysqlStore: ${failing}: ${errorText(cause)}`, { cause });
      } finally {
        running.delete(trying);
      }
    }
  }

  return {
    transactional: true,
    transaction: (steps, failing) => retried(() => writeOnce(steps), failing),
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
      await Promise.allSettled(running);
      await close();
    },
  };
}

/** The rows of a query, or the row counts of any other statement. */
type Answer = RowDataPacket[] & ResultSetHeader;
type Query = (sql: string, values?: readonly unknown[]) => Promise<[Answer, unknown]>;

async function execute(query: Query, { sql, params, query: reads }: SqlStatement): Promise<SqlResult> {
  const values = params.map((value) => (value instanceof Uint8Array ? Buffer.from(value) : value));
  try {
    const [result] = await query(sql, values);
    if (reads) return { rows: result, changes: 0 };
    // If ON DUPLICATE KEY UPDATE updated a row, `affectedRows` is 2. Return 0, because no row was added.
    const changes = sql.includes("ON DUPLICATE KEY") && result.affectedRows === 2 ? 0 : result.affectedRows;
    return { rows: [], changes, insertId: result.insertId };
  } catch (error) {
    if (errnoOf(error) === DUPLICATE_KEY) return { rows: [], changes: 0 };
    throw error;
  }
}

async function runWrites(connection: PoolConnection, { writes }: SqlWrites): Promise<void> {
  await connection.query("SAVEPOINT stayhook_writes");
  await writeWithinTime(async () => {
    for (const write of writes as unknown as readonly Write<PoolConnection>[]) {
      try {
        await write(connection);
      } catch (cause) {
        throw new WriteFailed(cause);
      }
    }
  });
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

/** Whether the connection is unusable. If so, it is unknown whether the server has committed the transaction. */
function isLost(error: unknown): boolean {
  if (error instanceof WriteFailed)
    return isLost(error.cause) && (error.cause as { fatal?: unknown }).fatal === true;
  if (error instanceof InvalidWriteError) return true;
  if (error instanceof StayhookError) return false;
  const errno = errnoOf(error);
  return errno === undefined || READ_ONLY.includes(errno);
}

/** Up to this number, `counts()` counts the done events. Above this number, it returns the server's estimate. */
const COUNTED = 100_000;

/**
 * The dialect of MariaDB 10.6 and MySQL 8. The comment of `sqliteDialect` describes the columns.
 *
 * Key columns contain bytes, because most collations of text ignore case, accents or trailing spaces.
 */
export const mysqlDialect: SqlDialect = {
  tableExists: "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?",
  // INSERT IGNORE would truncate long text. Use a plain INSERT instead: the driver ignores a duplicate-key error.
  // This error leaves a shared lock, and two shared locks can deadlock. So an INSERT into `stayhook_queue` updates
  // the existing row instead.
  insertIgnore: (insert) =>
    insert.includes("INTO stayhook_queue")
      ? `${insert} ON DUPLICATE KEY UPDATE duplicates = duplicates + 1`
      : insert,
  forUpdate: "FOR UPDATE",
  skipLocked: "FOR UPDATE SKIP LOCKED",
  clock: "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) AS now",
  counts: `
    SELECT state, count(*) AS events FROM stayhook_events
    WHERE state IN ('pending', 'processing', 'retrying', 'parked') GROUP BY state
    UNION ALL SELECT 'done', CASE WHEN events <= ${COUNTED} THEN events ELSE greatest(events, (
      SELECT table_rows FROM information_schema.tables
      WHERE table_schema = DATABASE() AND table_name = 'stayhook_events')) END
    FROM (SELECT count(*) AS events FROM (
      SELECT 1 FROM stayhook_events WHERE state = 'done' LIMIT ${COUNTED + 1}) AS some) AS done`,
  schema: [
    // Create this table first: without it, a process would take the other tables for tables of stayhook 0.1.
    `CREATE TABLE IF NOT EXISTS stayhook_meta (
      name VARBINARY(255) NOT NULL PRIMARY KEY,
      value MEDIUMBLOB NOT NULL,
      set_at BIGINT NOT NULL
    ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`,
    `CREATE TABLE IF NOT EXISTS stayhook_events (
      seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
      id VARBINARY(255) NOT NULL UNIQUE,
      record VARBINARY(1024) NOT NULL,
      state VARCHAR(10) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
      ready_at BIGINT,
      due_at BIGINT NOT NULL,
      wait_from BIGINT,
      received_at BIGINT NOT NULL,
      attempts INT NOT NULL DEFAULT 0,
      outages INT NOT NULL DEFAULT 0,
      first_outage_at BIGINT,
      replayed TINYINT NOT NULL DEFAULT 0,
      claimed_at BIGINT,
      worker TEXT,
      ended_at BIGINT,
      type VARBINARY(1024),
      reason VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin,
      history MEDIUMTEXT,
      source VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
      topic TEXT,
      timestamp TEXT NOT NULL,
      notification MEDIUMTEXT,
      traceparent TEXT,
      INDEX stayhook_events_ready (record, state, ready_at, seq),
      INDEX stayhook_events_state (state, seq),
      INDEX stayhook_events_later (state, ready_at),
      INDEX stayhook_events_ended (state, ended_at),
      INDEX stayhook_events_reason (state, reason, ended_at),
      INDEX stayhook_events_waits (wait_from),
      INDEX stayhook_events_source (source, seq)
    ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
    `CREATE TABLE IF NOT EXISTS stayhook_queue (
      record VARBINARY(1024) NOT NULL PRIMARY KEY,
      pending_due BIGINT,
      pending_seq BIGINT,
      retry_due BIGINT,
      retry_seq BIGINT,
      wait_from BIGINT,
      wait_end BIGINT NOT NULL DEFAULT 0,
      lease VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
      lease_seq BIGINT,
      lease_end BIGINT NOT NULL DEFAULT 0,
      duplicates BIGINT NOT NULL DEFAULT 0,
      pending_at BIGINT AS (greatest(pending_due, wait_end, lease_end)) STORED,
      retry_at BIGINT AS (greatest(retry_due, wait_end, lease_end)) STORED,
      INDEX stayhook_queue_pending (pending_at, pending_seq),
      INDEX stayhook_queue_retries (retry_at, retry_seq),
      INDEX stayhook_queue_waits (wait_from)
    ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
    `CREATE TABLE IF NOT EXISTS stayhook_records (
      record VARBINARY(1024) NOT NULL PRIMARY KEY,
      snapshot MEDIUMTEXT NOT NULL,
      sequence INT NOT NULL,
      seen_at BIGINT NOT NULL,
      seen_from BIGINT NOT NULL,
      INDEX stayhook_records_seen (seen_from)
    ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
  ],
};
