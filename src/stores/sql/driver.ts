import type { Write } from "../event-store.ts";

/** A value that a statement takes. Numbers are whole. */
export type SqlValue = string | number | Uint8Array | null;

/** A row as the database gives it. Numbers may come as bigint or text, and text as bytes. */
export type SqlRow = Readonly<Record<string, unknown>>;

/** One statement with its values. */
export interface SqlStatement {
  /** The text of the statement, with a `?` for each parameter. */
  readonly sql: string;
  /** The parameters, in the order of their marks. */
  readonly params: readonly SqlValue[];
  /** Whether the statement is a query. The store reads `rows` of a query, and `changes` of any other statement. */
  readonly query: boolean;
}

/** The user's writes of `event.atomically`. Yielded only where {@link SqlDriver.transactional} is set. */
export interface SqlWrites {
  /** The writes, in the order of the calls. */
  readonly writes: readonly Write<never>[];
}

/** The result of a statement. */
export interface SqlResult {
  /** The rows of a query; empty for other statements. */
  readonly rows: readonly SqlRow[];
  /** How many rows the statement inserted, deleted or matched for an update. */
  readonly changes: number;
  /** The `seq` of an inserted event, if the database returns it. Otherwise the store runs a query for it. */
  readonly insertId?: number | undefined;
}

/** The steps of one transaction. Each step gets the result of its statement; the last one returns `T`. */
export type SqlSteps<T> = Generator<SqlStatement | SqlWrites, T, SqlResult>;

/**
 * Runs the statements of a store on a database. A driver knows nothing of events.
 *
 * @example
 * ```ts
 * const driver: SqlDriver = {
 *   transaction: (steps) => pool.inTransaction((tx) => runAsync(steps(), (step) => execute(tx, step))),
 *   close: () => pool.end(),
 * };
 * ```
 */
export interface SqlDriver {
  /**
   * Runs the steps in one transaction, and resolves when it is committed. May call `steps` again to start over, such
   * as after a deadlock. The transaction must be serializable, or have `READ COMMITTED` and row locks
   * ({@link SqlDialect.forUpdate}).
   *
   * @param failing - text for an error, such as "the event could not be recorded"
   */
  transaction<T>(steps: () => SqlSteps<T>, failing: string): Promise<T>;
  /** Runs steps that write nothing. Default: `transaction`. */
  read?<T>(steps: () => SqlSteps<T>, failing: string): Promise<T>;
  /** Whether transactions are running. A claim then skips the read that it makes before its own transaction. */
  readonly busy?: boolean;
  /** Set where the driver runs {@link SqlWrites} in the transaction. */
  readonly transactional?: true;
  /** Wakes other processes, and is woken by them. Without a notifier, a process finds their events at its next poll. */
  readonly notifier?: SqlNotifier | undefined;
  /** Called once. No call is made afterwards. */
  close(): Promise<void>;
}

/** How processes that share a database wake each other. */
export interface SqlNotifier {
  /** Called after a commit that may have made something due. Must not throw. */
  notify(): void;
  /** Calls `wake` whenever another process may have made something due, until the returned function is called. */
  listen(wake: () => void): () => void;
}

/** The SQL that differs between databases. See `sqliteDialect` for an example. */
export interface SqlDialect {
  /**
   * The statements that make the tables of schema version 1. See `sqliteDialect` for the columns and indexes. Text must be
   * compared byte by byte, trailing spaces included. If the database cannot roll back DDL, the first statement must make
   * `stayhook_meta`, and each must have `IF NOT EXISTS`, because the store repeats them after an interrupted run.
   */
  readonly schema: readonly string[];
  /** A query with one parameter, a table's name. It gives a row where the table exists. */
  readonly tableExists: string;
  /** Changes an `INSERT INTO … VALUES …` so that it skips a row whose key exists. `changes` is 0 then. */
  insertIgnore(insert: string): string;
  /** The end of a `SELECT` that locks its row, such as `FOR UPDATE`. Default: nothing. */
  readonly forUpdate?: string | undefined;
  /** The end of a `SELECT` that locks its rows and skips locked ones: `FOR UPDATE SKIP LOCKED`. Default: nothing. */
  readonly skipLocked?: string | undefined;
  /** Returns the mark of the parameter with this number, from 1. Default: `?`. */
  placeholder?(number: number): string;
  /** A query that gives the database's time as `now`, in epoch ms. Default: the clock of this process. */
  readonly clock?: string | undefined;
  /** A query that gives the `seq` of each event of a record. Its parameter is the `record`. Default: it reads `record`. */
  readonly ofRecord?: string | undefined;
  /** A query that gives `state` and `events`, how many there are. Default: it counts the events. */
  readonly counts?: string | undefined;
}

/** Runs steps whose statements are executed synchronously. */
export function runSync<T>(steps: SqlSteps<T>, execute: (step: SqlStatement | SqlWrites) => SqlResult): T {
  let step = steps.next();
  while (step.done !== true) step = steps.next(execute(step.value));
  return step.value;
}

/** Runs steps whose statements are executed asynchronously, one after the other. */
export async function runAsync<T>(
  steps: SqlSteps<T>,
  execute: (step: SqlStatement | SqlWrites) => Promise<SqlResult>,
): Promise<T> {
  let step = steps.next();
  while (step.done !== true) step = steps.next(await execute(step.value));
  return step.value;
}

/** The rows of a query. */
export function* select<Row = SqlRow>(sql: string, ...params: SqlValue[]): SqlSteps<readonly Row[]> {
  return (yield { sql, params, query: true }).rows as readonly Row[];
}

/** How many rows a statement changed. */
export function* change(sql: string, ...params: SqlValue[]): SqlSteps<number> {
  return (yield { sql, params, query: false }).changes;
}
