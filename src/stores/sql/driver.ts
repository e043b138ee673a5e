// What the SQL core asks of a database: a driver, and a dialect.

import type { Write } from "../event-store.ts";

/** A parameter of a statement. Numbers are integers. */
export type SqlValue = string | number | Uint8Array | null;

/** A row as the database returns it. Numbers may be bigint or text, and text may be bytes. */
export type SqlRow = Readonly<Record<string, unknown>>;

/** One statement with its parameters. */
export interface SqlStatement {
  /** The text of the statement, with a `?` for each parameter. */
  readonly sql: string;
  /** The parameters, in the order of the `?` marks. */
  readonly params: readonly SqlValue[];
  /** Whether the statement is a query. The store reads `rows` of a query, and `changes` of any other statement. */
  readonly query: boolean;
}

/** The functions passed to `event.atomically`. The store yields them only if the driver is `transactional`. */
export interface SqlWrites {
  /** The functions, in the order of the calls of `event.atomically`. */
  readonly writes: readonly Write<never>[];
}

/** The result of a statement. */
export interface SqlResult {
  /** The rows of a query; empty for other statements. */
  readonly rows: readonly SqlRow[];
  /** How many rows the statement inserted or deleted. For an `UPDATE`: how many rows matched its `WHERE`. */
  readonly changes: number;
}

/** The steps of one transaction. Each `yield` runs a statement and gets its result. The generator returns `T`. */
export type SqlSteps<T> = Generator<SqlStatement | SqlWrites, T, SqlResult>;

/** Options of {@link SqlDriver.transaction}. A driver may ignore them. */
export interface TransactionOptions {
  /**
   * Whether a crash that ends all processes of the store may undo the transaction, as a power cut does if the store and
   * the database share a machine. True for claims and renewals: the events are claimed again.
   */
  readonly mayBeLost?: boolean | undefined;
  /** How long the transaction is tried again while others hold a lock that it needs, ms. Default: the driver's. */
  readonly patience?: number | undefined;
  /** How long the server may take to answer a statement, ms. Default: the driver's, which is also the most. */
  readonly answerWithin?: number | undefined;
}

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
   * Runs the steps in one transaction, and resolves when it is committed. May call `steps` again to start over,
   * for example after a deadlock. The transaction must be serializable, or use `READ COMMITTED` and row locks
   * ({@link SqlDialect.forUpdate}).
   *
   * @param failing - the failed action for the error message, such as "the event could not be recorded"
   */
  transaction<T>(steps: () => SqlSteps<T>, failing: string, options?: TransactionOptions): Promise<T>;
  /**
   * Runs steps that write nothing. If `read` is absent, the store calls `transaction`. A proxy may send the steps to a copy of
   * the database that is behind. Where that matters, the store calls `decide`.
   */
  read?<T>(steps: () => SqlSteps<T>, failing: string): Promise<T>;
  /**
   * Runs steps that write nothing, and that must see all that has been committed. The first step asks for the time, if the
   * dialect has a `clock`. If `decide` is absent, the store calls `read`.
   */
  decide?<T>(steps: () => SqlSteps<T>, failing: string): Promise<T>;
  /**
   * Runs the steps that create or change the tables, while no other process does. A step may take minutes. If the
   * database can roll back DDL, all steps are one transaction. If `migrate` is absent, the store calls `transaction`.
   */
  migrate?(steps: () => SqlSteps<void>, failing: string): Promise<void>;
  /** `true` if the driver runs {@link SqlWrites} in the transaction. */
  readonly transactional?: true;
  /** Lets processes wake each other. Without a notifier, a process polls to find the events of other processes. */
  readonly notifier?: SqlNotifier | undefined;
  /** The store calls `close` once, and calls no other method afterwards. */
  close(): Promise<void>;
}

/** Lets processes that share a database wake each other. */
export interface SqlNotifier {
  /** The store calls `notify` after a commit that may have made an event due. `notify` must not throw. */
  notify(): void;
  /** Calls `wake` when another process may have made an event due. The returned function ends the calls. */
  listen(wake: () => void): () => void;
}

/**
 * Leads the tables from one schema version to the next one. It only adds to the tables, so that older versions of
 * stayhook can go on using them: a new column has a default or may be NULL.
 */
export interface SqlMigration {
  /**
   * The statements, each without a semicolon at its end. If the database cannot roll back DDL, the store may run a
   * statement again after an interrupted run.
   */
  readonly statements: readonly string[];
  /**
   * Why the migration may lock a table for long, and how to avoid that. Without line breaks. `migrationSql` and errors
   * show it.
   */
  readonly note?: string | undefined;
}

/** The SQL that differs between databases. See `sqliteDialect` for an example. */
export interface SqlDialect {
  /**
   * The statements that create the tables of the first schema version. `sqliteDialect` documents the columns and indexes. The
   * columns must compare text byte by byte, including trailing spaces. After an interrupted run, the store runs all
   * statements again. If the database cannot roll back DDL, each statement must have `IF NOT EXISTS`, and the first
   * statement must create `stayhook_meta`.
   */
  readonly schema: readonly string[];
  /** The later versions of the tables, in their order. The first entry leads from version 3 to version 4. Default: none. */
  readonly migrations?: readonly SqlMigration[] | undefined;
  /** A query whose parameter is a table's name. It returns a row if the table exists. */
  readonly tableExists: string;
  /** Makes an `INSERT INTO … VALUES …` skip a row whose key exists. For a skipped row, `changes` must be 0. */
  insertIgnore(insert: string): string;
  /** The clause at the end of a `SELECT` that must lock its rows, such as `FOR UPDATE`. Default: no clause. */
  readonly forUpdate?: string | undefined;
  /** The clause that makes a `SELECT` lock its rows and skip locked rows: `FOR UPDATE SKIP LOCKED`. Default: none. */
  readonly skipLocked?: string | undefined;
  /**
   * A hint behind the name of the table `stayhook_records`, if the database needs one to find a list of refs by the primary
   * key: a scan of all rows would wait for those that others have locked. Default: none.
   */
  readonly byRef?: string | undefined;
  /** Returns the placeholder of a parameter, such as `$1`. The first number is 1. Default: `?`. */
  placeholder?(number: number): string;
  /** A query for the database's time, epoch ms. Its column is `now`. Default: the clock of this process. */
  readonly clock?: string | undefined;
  /** A query for the `seq` of each event of a record. The parameter is the `ref`. Default: the condition `ref = ?`. */
  readonly ofRecord?: string | undefined;
  /**
   * A query for the `seq` of each event that may be one of an account. Its parameters are the first id of the account, the
   * id after its last one, and two times those of `range`, a condition on `ref`. Default: the condition itself, for which
   * a database has an index on `ref`.
   */
  ofAccount?(range: string): string;
  /**
   * A query for the texts of a JSON array, which is its parameter, such as `SELECT value FROM json_each(?)`. A claim with
   * `except` or `only` uses it. Default: each text is a parameter of its own, so a claim may have thousands.
   */
  readonly jsonTexts?: string | undefined;
  /** A query for the number of events in each state. Its columns are `state` and `events`. Default: `count(*)`. */
  readonly counts?: string | undefined;
}

/** Runs steps with a synchronous `execute`. */
export function runSync<T>(steps: SqlSteps<T>, execute: (step: SqlStatement | SqlWrites) => SqlResult): T {
  let step = steps.next();
  while (step.done !== true) step = steps.next(execute(step.value));
  return step.value;
}

/** Runs steps with an asynchronous `execute`, one step after the other. */
export async function runAsync<T>(
  steps: SqlSteps<T>,
  execute: (step: SqlStatement | SqlWrites) => Promise<SqlResult>,
): Promise<T> {
  let step = steps.next();
  while (step.done !== true) step = steps.next(await execute(step.value));
  return step.value;
}

export function* select<Row = SqlRow>(sql: string, ...params: SqlValue[]): SqlSteps<readonly Row[]> {
  return (yield { sql, params, query: true }).rows as readonly Row[];
}

export function* change(sql: string, ...params: SqlValue[]): SqlSteps<number> {
  return (yield { sql, params, query: false }).changes;
}

/** Replaces each `?` with the dialect's placeholder. @param before - the number of the parameters before the first `?` */
export function prepared(dialect: Pick<SqlDialect, "placeholder">, sql: string, before = 0): string {
  if (dialect.placeholder === undefined) return sql;
  let parameters = before;
  return sql.replaceAll("?", () => dialect.placeholder!(++parameters));
}
