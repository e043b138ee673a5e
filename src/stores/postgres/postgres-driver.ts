import type { PoolClient } from "pg";
import { withTimeout } from "../../async.ts";
import { InvalidWriteError, StayhookError } from "../../errors.ts";
import { CLOSE_WITHIN } from "../base-store.ts";
import { LONGEST_WRITES, runWrites, WriteFailed, WritesInterrupted } from "../server-pool.ts";
import {
  runAsync,
  type SqlDriver,
  type SqlResult,
  type SqlStatement,
  type SqlSteps,
  type SqlValue,
  type SqlWrites,
  type TransactionOptions,
} from "../sql/driver.ts";
import { RollBack } from "../sql/sql-queue.ts";
import { cancelStatement } from "./postgres-cancel.ts";
import {
  causeOf,
  hasTimedOut,
  isConflict,
  isStandby,
  mayBeBroken,
  misuseOf,
  NOT_PREPARED,
  READ_ONLY,
  StandbyError,
  sqlState,
  storeError,
  tooLongBy,
} from "./postgres-errors.ts";
import { Notifier, type NotifierOptions } from "./postgres-notifier.ts";
import { Connections, type PoolOptions } from "./postgres-pool.ts";
import type { Statement } from "./postgres-statements.ts";

export interface DriverOptions extends NotifierOptions, PoolOptions {
  /** Puts the tables of a statement into the schema. */
  readonly inSchema: (sql: string) => string;
  /** The name of the lock for migrations.  */
  readonly migrationLock: string;
}

export type Row = Record<string, unknown>;

/** Marks a step that runs a prepared statement. */
interface Prepared {
  readonly statement?: Statement;
}

/** Runs a statement of the hot path as a step of a transaction. */
export function* prepared(statement: Statement, ...values: readonly unknown[]): SqlSteps<readonly Row[]> {
  const step: SqlStatement & Prepared = {
    ...{ sql: statement.text, params: values as readonly SqlValue[], query: true },
    statement,
  };
  return (yield step).rows;
}

/** A connection that is lent to one job. */
interface Session {
  readonly client: PoolClient;
  /** Whether the connection has ended. */
  isLost: boolean;
  /** The error with which the connection ended between two statements. */
  error?: unknown;
}

/** Starts a transaction. If this process freezes, the server ends the transaction after {@link LONGEST_WRITES} ms. */
const BEGIN = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL idle_in_transaction_session_timeout = ${LONGEST_WRITES}`;
/** How long a statement of a migration may take, and how long it may wait for a lock while other statements wait behind it, ms. */
const MIGRATION = { timeout: 60_000, lockTimeout: 5000 } as const;
/** The maximum number of tries of a statement or transaction that conflicts with another transaction. */
const TRIES = 4;

/** Runs statements on the user's pool, or on its own pool, which it creates at the first use. */
export class PostgresDriver implements SqlDriver {
  readonly transactional = true;
  readonly notifier: Notifier;
  readonly #options: DriverOptions;
  readonly #jobs = new Set<Promise<unknown>>();
  readonly #connections: Connections;
  #canPrepare = true;

  constructor(options: DriverOptions) {
    this.#options = options;
    this.#connections = new Connections(options);
    this.notifier = new Notifier(this, options);
  }

  get connections(): Connections {
    return this.#connections;
  }

  get commandTimeout(): number {
    return this.#options.commandTimeout;
  }

  /** Runs a statement of the hot path, and commits it. */
  async query(
    failing: string,
    statement: Statement,
    values: readonly unknown[],
    answerWithin = Number.POSITIVE_INFINITY,
  ): Promise<Row[]> {
    const timeout = Math.min(this.commandTimeout, answerWithin);
    const { rows } = await this.#use(failing, ({ client }) =>
      this.#execute(client, statement.text, values, statement, timeout),
    );
    return rows;
  }

  migrate(steps: () => SqlSteps<void>, failing: string): Promise<void> {
    const { timeout, lockTimeout } = MIGRATION;
    return this.#use(failing, async (session) => {
      const { client } = session;
      const run = (sql: string, values: readonly unknown[] = []) =>
        this.#execute(client, sql, values, undefined, timeout);
      await run(BEGIN);
      try {
        await run(`SET LOCAL statement_timeout = ${timeout}; SET LOCAL lock_timeout = ${timeout}`);
        await run("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [this.#options.migrationLock]);
        await run(`SET LOCAL lock_timeout = ${lockTimeout}`);
        const { rows } = await run("SELECT current_setting('server_encoding') AS encoding");
        assertUtf8(String(rows[0]?.encoding));
        await runAsync(steps(), (step) => {
          const { sql, params } = step as SqlStatement;
          return run(this.#options.inSchema(sql), params);
        });
        await run("COMMIT");
      } catch (error) {
        if (!session.isLost && !mayBeBroken(error)) await run("ROLLBACK");
        throw error;
      }
    });
  }

  read<T>(steps: () => SqlSteps<T>, failing: string): Promise<T> {
    return this.#use(failing, ({ client }) =>
      runAsync(steps(), (step) => {
        if ("writes" in step) throw new Error("a query has no writes");
        return this.#step(client, step);
      }),
    );
  }

  /**
   * Other proxies send the statements of a transaction to the primary. pgpool-II does so after a call of a volatile function,
   * which the query for the time has.
   */
  decide<T>(steps: () => SqlSteps<T>, failing: string): Promise<T> {
    return this.transaction(steps, failing);
  }

  /** @param options.lockTimeout - how long a statement of the transaction waits for a lock, ms. Default: the server's setting */
  transaction<T>(
    steps: () => SqlSteps<T>,
    failing: string,
    { lockTimeout }: TransactionOptions & { readonly lockTimeout?: number } = {},
  ): Promise<T> {
    const begin = lockTimeout === undefined ? BEGIN : `${BEGIN}; SET LOCAL lock_timeout = ${lockTimeout}`;
    return this.#use(failing, async (session) => {
      const { client } = session;
      await this.#execute(client, begin).catch((error: unknown) => {
        throw isStandby(error) ? new StandbyError(error) : error;
      });
      let hasWrites = false;
      try {
        const result = await runAsync(steps(), async (step) => {
          if (!("writes" in step)) return this.#step(client, step);
          hasWrites = true;
          await this.#runWrites(client, step);
          return { rows: [], changes: 0 };
        });
        await this.#execute(client, "COMMIT").catch((error: unknown) => {
          // A deferred constraint fails at the commit. It is the writes' fault.
          throw hasWrites && sqlState(error) !== undefined ? new WriteFailed(error) : error;
        });
        return result;
      } catch (error) {
        const asks = hasWrites || !mayBeBroken(error);
        // Locks that the writes hold lead the store's own statements into deadlocks, too.
        if (asks && (await this.#rollBack(session, error)))
          throw hasWrites && isConflict(error) ? new WriteFailed(error) : error;
        throw hasWrites ? this.#interrupted(session, error) : error;
      }
    });
  }

  /** @returns whether the connection lives, which only an answer to the rollback shows */
  async #rollBack(session: Session, error: unknown): Promise<boolean> {
    const { client } = session;
    if (session.isLost) return false;
    if (hasTimedOut(error)) await cancelStatement(client);
    await this.#execute(client, "ROLLBACK").catch(() => {
      session.isLost = true;
    });
    return !session.isLost;
  }

  /** Returns the error for writes whose connection ended. */
  #interrupted(session: Session, error: unknown): unknown {
    if (error instanceof InvalidWriteError) return error;
    const cause = causeOf(error);
    return tooLongBy(cause) ?? tooLongBy(session.error) ?? new WritesInterrupted(cause);
  }

  async close(): Promise<void> {
    this.#connections.refuse();
    await withTimeout(CLOSE_WITHIN, Promise.allSettled(this.#jobs));
    await this.#connections.close();
  }

  async #execute(
    client: PoolClient,
    text: string,
    values: readonly unknown[] = [],
    statement?: Statement,
    timeout = this.commandTimeout,
  ): Promise<{ readonly rows: Row[]; readonly changes: number }> {
    const name = this.#canPrepare ? statement?.nextName() : undefined;
    const config = { text, name, values: values as unknown[], query_timeout: timeout };
    const { rows, rowCount } = await client.query<Row>(
      values.length > 0 ? config : { ...config, values: undefined },
    );
    return { rows, changes: rowCount ?? 0 };
  }

  /** Runs a step of a transaction: a statement of the core, or one of {@link prepared}. */
  #step(client: PoolClient, { sql, params, statement }: SqlStatement & Prepared): Promise<SqlResult> {
    return statement === undefined
      ? this.#execute(client, this.#options.inSchema(sql), params)
      : this.#execute(client, sql, params, statement);
  }

  /** @throws WriteFailed if a function throws, or `InvalidWriteError` if a function leaves the transaction unusable */
  async #runWrites(client: PoolClient, { writes }: SqlWrites): Promise<void> {
    const own = this.#connections.statementLimit;
    const longer = own === undefined ? "" : `; SET LOCAL statement_timeout = ${LONGEST_WRITES}`;
    await this.#execute(client, `SAVEPOINT stayhook_writes${longer}`);
    await runWrites(client, writes);
    const shorter = own === undefined ? "" : `; SET LOCAL statement_timeout = ${own}`;
    await this.#execute(client, `RELEASE SAVEPOINT stayhook_writes${shorter}`).catch((cause: unknown) => {
      throw misuseOf(cause) ?? cause;
    });
  }

  /**
   * Lends a session to `job`. Tries again after a conflict, and once if the server is read-only or if it does not know a
   * prepared statement.
   */
  async #use<T>(failing: string, job: (session: Session) => Promise<T>): Promise<T> {
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    this.#jobs.add(ended);
    let isBroken = false;
    try {
      for (let tries = 1; ; tries += 1) {
        isBroken = false;
        const client = await this.#connections.lender.lend(this.commandTimeout);
        const prepares = this.#canPrepare;
        const session: Session = { client, isLost: false };
        const onLost = (error?: unknown): void => {
          session.isLost = true;
          session.error ??= error;
        };
        // Without a listener for `error`, the loss of a lent connection would crash the process.
        client.on("error", onLost).on("end", onLost);
        try {
          return await job(session);
        } catch (error) {
          isBroken = session.isLost || mayBeBroken(error);
          if (isBroken && hasTimedOut(error) && !session.isLost) {
            this.#connections.lender.died();
            // Cancel before the connection ends, because PgBouncer forgets a client that has gone.
            await cancelStatement(client);
          }
          if (!this.#mayRepeat(error, tries, prepares)) throw error;
        } finally {
          client.release(isBroken);
          client.off("error", onLost).off("end", onLost);
        }
      }
    } catch (error) {
      if (error instanceof RollBack) throw error;
      throw error instanceof WriteFailed ? error.cause : storeError(failing, error, isBroken);
    } finally {
      this.#jobs.delete(ended);
      end();
    }
  }

  /** @param prepares - whether the job used prepared statements. Another job may have ended that meanwhile */
  #mayRepeat(error: unknown, tries: number, prepares: boolean): boolean {
    const cause = causeOf(error);
    const state = sqlState(cause) ?? "";
    if (state === READ_ONLY || error instanceof StandbyError) {
      this.#connections.lender.died();
      return tries === 1;
    }
    if (NOT_PREPARED.includes(state) && !(error instanceof WriteFailed) && prepares) {
      this.#canPrepare = false;
      return true;
    }
    return isConflict(cause) && tries < TRIES;
  }
}

function assertUtf8(encoding: string): void {
  if (encoding === "UTF8") return;
  throw new StayhookError(
    `postgresStore: the database's encoding is ${encoding}, which cannot hold every notification. Create a database WITH ENCODING 'UTF8'.`,
  );
}
