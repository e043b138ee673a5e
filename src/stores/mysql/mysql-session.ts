// What the store needs of a session of MariaDB or MySQL, and which settings of a pool it cannot work with.

import type { Pool, PoolConnection, RowDataPacket } from "mysql2/promise";
import { StayhookError } from "../../errors.ts";
import { LONGEST_WRITES } from "../server-pool.ts";

/** In REPEATABLE READ, a transaction would not see rows that were committed while it waited for a lock. */
export const ISOLATION = "ISOLATION LEVEL READ COMMITTED";

/** After this time, in seconds, MariaDB ends an idle transaction, so a frozen process cannot keep its locks. */
const LONGEST_IDLE = 2;

/**
 * How long a statement waits for a lock, in seconds. A group of calls then waits one by one, so that a locked row delays
 * nothing else. Neither MariaDB nor MySQL waits for less than a second.
 */
const LOCK_WAIT = 1;

/** The limits of a session. `execution` is in ms, the others are in seconds. */
interface Limits {
  readonly lock: number;
  readonly table: number;
  readonly statement: number;
  readonly idle: number;
  readonly execution: number;
}

/** Returns a SET for each limit. Only MariaDB runs the SQL in the first comment, and only MySQL that in the second. */
function setEach(assign: (variable: string, limit: keyof Limits) => string): string {
  return `SET ${assign("innodb_lock_wait_timeout", "lock")}, ${assign("lock_wait_timeout", "table")}
    /*M! , ${assign("max_statement_time", "statement")}, ${assign("idle_transaction_timeout", "idle")} */
    /*!80000 , ${assign("max_execution_time", "execution")} */`;
}

/** The server ends a statement that nobody waits for any more. */
function limitsOf(commandTimeout: number): Limits {
  const seconds = secondsOf(commandTimeout);
  return {
    ...{ lock: LOCK_WAIT, table: seconds, statement: seconds, idle: LONGEST_IDLE },
    execution: Math.ceil(commandTimeout),
  };
}

function setLimits(limits: Limits): string {
  return setEach((variable, limit) => `SESSION ${variable} = ${limits[limit]}`);
}

/** Returns the statement that gives a session the limits of the store's own statements. */
export function ownLimits(commandTimeout: number): string {
  return setLimits(limitsOf(commandTimeout));
}

/** Returns the limits while the user's functions run: they may be slow between their statements, and in them. */
export function writeLimits(commandTimeout: number): string {
  const longest = LONGEST_WRITES / 1000;
  const limits = { ...limitsOf(commandTimeout), lock: secondsOf(commandTimeout), execution: LONGEST_WRITES };
  return setLimits({ ...limits, statement: longest, idle: longest });
}

/** Returns {@link ownLimits} for a session of the user's pool, which also notes the limits that the session has. */
export function borrowedLimits(commandTimeout: number): string {
  const limits = limitsOf(commandTimeout);
  return setEach(
    (variable, limit) =>
      `@stayhook_${variable} = @@SESSION.${variable}, SESSION ${variable} = ${limits[limit]}`,
  );
}

/** Gives a session of the user's pool the limits that {@link borrowedLimits} has noted. */
export const USER_LIMITS = setEach((variable) => `SESSION ${variable} = @stayhook_${variable}`);

function secondsOf(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000));
}

/** Settings of a server that would refuse or change the store's statements. */
const SAFE = `SET SESSION sql_safe_updates = 0, sql_select_limit = 18446744073709551615, sql_big_selects = 1,
  sql_mode = TRIM(BOTH ',' FROM REPLACE(REPLACE(@@SESSION.sql_mode, 'EMPTY_STRING_IS_NULL', ''), ',,', ','))`;

/** Returns the statements that each connection of the store's own pool runs first. */
export function sessionSettings(commandTimeout: number): readonly string[] {
  return [
    `SET SESSION TRANSACTION ${ISOLATION}`,
    SAFE,
    "SET SESSION autocommit = 1",
    ownLimits(commandTimeout),
  ];
}

/** The statement that a connection of the user's pool needs, and the reason why the pool cannot be used. */
export interface PoolCheck {
  readonly setting: string | undefined;
}

/** Overrides options of the user's pool that change the form of rows. */
export const PLAIN = { rowsAsArray: false, typeCast: true, nestTables: false } as const;

const SETTINGS = `
  SELECT @@SESSION.sql_mode AS mode, @@SESSION.character_set_client AS client, @@SESSION.character_set_connection AS connection,
    @@SESSION.character_set_results AS results, @@SESSION.autocommit AS autocommit, @@SESSION.sql_safe_updates AS safe,
    @@SESSION.sql_select_limit < 18446744073709551615 AS limited, @@SESSION.sql_big_selects AS big`;

/**
 * Throws if the store would lose or change text, or would read old rows.
 *
 * @returns the statement that the store runs on each connection of the pool, if the settings of its sessions need one
 */
export async function checkPool(pool: Pool, connection: PoolConnection): Promise<PoolCheck> {
  const [rows] = await connection.query<RowDataPacket[]>({ sql: SETTINGS, ...PLAIN });
  const row = rows[0]!;
  const mode = String(row.mode);
  const refuse = (what: string): never => {
    throw new StayhookError(`mysqlStore ${what}`);
  };
  if (!/STRICT_(TRANS|ALL)_TABLES/.test(mode) || mode.includes("NO_BACKSLASH_ESCAPES"))
    refuse(
      `needs an sql_mode with STRICT_TRANS_TABLES and without NO_BACKSLASH_ESCAPES. The server's sql_mode is ${mode}.`,
    );
  const charset = [row.client, row.connection, row.results].find((name) => name !== "utf8mb4");
  if (charset !== undefined)
    refuse(
      `needs connections with the charset utf8mb4, and those of this pool have ${charset}, which cannot hold every text. Remove the pool's option charset, or set it to utf8mb4.`,
    );
  if (Number(row.autocommit) !== 1)
    refuse(
      "needs connections with autocommit = 1. With autocommit = 0, reads would show old rows. Give the store a pool of its own.",
    );
  const { flags, queryFormat } = configOf(pool);
  if (flags !== undefined && (flags & FOUND_ROWS) === 0)
    refuse("needs connections with the flag FOUND_ROWS. Remove -FOUND_ROWS from the pool's option flags.");
  if (queryFormat !== undefined) refuse("cannot use a pool with the option queryFormat.");
  const isSafe = Number(row.safe) === 0 && Number(row.limited) === 0 && Number(row.big) === 1;
  return { setting: isSafe && !mode.includes("EMPTY_STRING_IS_NULL") ? undefined : SAFE };
}

/** The flag of the protocol that makes `affectedRows` count the rows that match, not only those that change. */
const FOUND_ROWS = 2;

function configOf(pool: Pool): { readonly flags: number | undefined; readonly queryFormat: unknown } {
  const inner = pool.pool as unknown as {
    readonly config?: {
      readonly connectionConfig?: { readonly clientFlags?: number; readonly queryFormat?: unknown };
    };
  };
  const config = inner?.config?.connectionConfig;
  return { flags: config?.clientFlags, queryFormat: config?.queryFormat };
}
