// What the errors of PostgreSQL and of `pg` mean for the store.

import type { Pool } from "pg";
import { InvalidArgumentError, InvalidWriteError, StayhookError } from "../../errors.ts";
import { AdvisedError, InterruptedError, LockedError, NoAnswerError } from "../call-errors.ts";
import { networkHint, WriteFailed, WritesInterrupted } from "../server-pool.ts";
import { RollBack } from "../sql/sql-queue.ts";

/** SQLSTATE: a lock was not available in time, because another transaction holds it. */
const LOCKED = "55P03";
/** SQLSTATE: the server is read-only, such as the old primary after a failover. */
export const READ_ONLY = "25006";
/** SQLSTATEs of serialization failures and deadlocks. PostgreSQL has rolled back. */
const CONFLICTS = ["40001", "40P01"];
/**
 * SQLSTATEs of a prepared statement that does not exist, exists already, or has other columns after an upgrade.
 * PgBouncer in transaction mode may give each statement another connection.
 */
export const NOT_PREPARED = ["26000", "42P05", "0A000"];
/** SQLSTATE: the server, the database or the role has all the connections that it may have. */
const TOO_MANY = "53300";
/** How PgBouncer (08P01) and Supavisor (XX000) say that they have all the connections that they may have. */
const POOLER_FULL = /no more connections allowed|max client(s|s? connections) reached/i;
/** How PgBouncer refuses a transaction in the mode that has none. */
const NO_TRANSACTIONS = /statement pooling mode/;
/** How PostgreSQL refuses a row that no policy allows. */
const ROW_SECURITY = /violates row-level security policy/;
/** SQLSTATE of a feature that is not supported, such as a transaction that writes on a standby. */
const NOT_SUPPORTED = "0A000";
/** Matches the SQLSTATE of a server that is stopping, starting or read-only, or that has ended the session. */
const SERVER_GONE = /^(08|57P0|25P0[34]|25006)/;
/** SQLSTATE: the transaction took longer than `transaction_timeout`, and the server has ended the session. */
const TRANSACTION_TIMEOUT = "25P04";

/** The SQLSTATE of an error that PostgreSQL sent. It is `undefined` for other errors, such as a lost connection. */
export function sqlState(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error) || !("severity" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** A transaction that writes cannot begin, because the server is a standby. */
export class StandbyError extends Error {
  constructor(cause: unknown) {
    super(reasonOf(cause), { cause });
  }
}

/** Whether no connection is free, because the server or its pooler allows no more. */
export function isFull(error: unknown): boolean {
  const state = sqlState(error);
  return state === TOO_MANY || (state !== undefined && POOLER_FULL.test((error as Error).message));
}

/** Whether the transaction met another one, and can be tried again. */
export function isConflict(error: unknown): boolean {
  return CONFLICTS.includes(sqlState(error) ?? "");
}

export function isStandby(error: unknown): boolean {
  return sqlState(error) === NOT_SUPPORTED;
}

/** SQLSTATEs of a connection that the server refuses whatever its parameters are: the user, the password, the database. */
const REFUSED = ["28000", "28P01", "3D000"];

/**
 * Whether the start of a connection was refused, perhaps because of a parameter: PgBouncer and RDS Proxy know few. A server
 * says FATAL in its own language, and proxies may say ERROR, so only the SQLSTATE counts.
 */
export function isRefusedStart(error: unknown): boolean {
  const state = sqlState(error);
  return state !== undefined && !REFUSED.includes(state) && !isFull(error);
}

/** A connection did not open. */
class NotOpened extends Error {
  readonly hint: string;

  constructor(hint: string, cause: unknown) {
    super(reasonOf(cause), { cause });
    this.hint = hint;
  }
}

/** Options of a pool that are parameters of a connection's start. */
const PARAMETERS = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "options"];
/** How a connection ends that the server has cut. */
const CUT = /ECONNRESET|EPIPE|Connection terminated unexpectedly/;
/** How the wait for a connection ends that the server does not answer. */
const SILENT = /gave no connection within|connection timeout/;

/** A client of a pool, as far as `pg` shows it. */
interface PooledClient {
  readonly _connected?: boolean;
  readonly connection?: { readonly stream?: { destroy(): void } };
}

/** Returns the connections of a pool that are open or opening. */
export function clientsOf(pool: object): readonly PooledClient[] {
  return (pool as { readonly _clients?: readonly PooledClient[] })._clients ?? [];
}

/**
 * Returns what the error of a connection that did not open is for the caller: the error with the next step, if it is known.
 *
 * @param isOwn - whether the pool is the store's own
 */
export function notOpened(error: unknown, pool: Pool, isOwn: boolean): unknown {
  const sent = PARAMETERS.filter((name) => name in pool.options);
  if (!isOwn && isRefusedStart(error) && sent.length > 0)
    return new NotOpened(
      `. If a proxy refuses parameters of a connection, make the pool without ${sent.join(", ")}`,
      error,
    );
  if (pool.options.max === 1 || sqlState(error) !== undefined) return error;
  // Without a server, no connection is open. A server of one connection cuts the others, or lets them wait.
  const isCut = pool.totalCount > 0 && CUT.test(reasonOf(error));
  const states = new Set(clientsOf(pool).map(({ _connected: isOpen }) => isOpen === true));
  if (!isCut && !(SILENT.test(reasonOf(error)) && states.size === 2)) return error;
  const option = isOwn ? "the option maxConnections" : "max of your pool";
  return new NotOpened(
    `. The server has ${isCut ? "cut" : "not answered"} this connection, and has another one of this process. If it takes only one, as the socket of PGlite does, set ${option} to 1`,
    error,
  );
}

/** The error inside of an error of this file. */
export function causeOf(error: unknown): unknown {
  const isOwn = [WriteFailed, StandbyError, NotOpened].some((Own) => error instanceof Own);
  return isOwn ? (error as Error).cause : error;
}

/** Whether `pg` timed out. `pg` gives this error no code. The statement may still run. */
export function hasTimedOut(error: unknown): boolean {
  const cause = causeOf(error);
  return cause instanceof Error && cause.message === "Query read timeout";
}

/** Whether the connection may be unusable, so that it is unknown what PostgreSQL has run. */
export function mayBeBroken(error: unknown): boolean {
  if (error instanceof WriteFailed || error instanceof InvalidWriteError || error instanceof RollBack)
    return false;
  const state = sqlState(error);
  return state === undefined || SERVER_GONE.test(state);
}

const ENDED =
  "A function passed to event.atomically ended the store's transaction. Such a function must not run BEGIN, COMMIT or ROLLBACK.";
const FAILED =
  "A statement in a function passed to event.atomically failed, and the function ignored the error. PostgreSQL therefore rolls back the whole transaction. In the function, throw the error again, or run the statement after a SAVEPOINT.";

/** What a function has done to the transaction, by the SQLSTATE of the statement that follows it. */
const UNUSABLE: Readonly<Record<string, string>> = { "25P02": FAILED, "25P01": ENDED, "3B001": ENDED };

/** Returns the error for functions that left the transaction unusable, as the statement after them shows. */
export function misuseOf(cause: unknown): InvalidWriteError | undefined {
  const message = UNUSABLE[sqlState(cause) ?? ""];
  return message === undefined ? undefined : new InvalidWriteError(message, { cause });
}

/**
 * Returns an error that names the failed action. Hides the connection string, which may contain a password.
 *
 * @param hasDied - whether the connection died during the action
 */
export function storeError(failing: string, cause: unknown, hasDied: boolean): unknown {
  if (cause instanceof StayhookError) return cause;
  const error = causeOf(cause) as { readonly code?: unknown } | null | undefined;
  // Leave out Node's error, because it contains the whole connection string.
  if (error?.code === "ERR_INVALID_URL") {
    return new InvalidArgumentError({
      path: ["connectionString"],
      message: "must be a URL with one host, such as postgresql://user@host/database",
    });
  }
  if (cause instanceof WritesInterrupted)
    return new InterruptedError(`postgresStore: ${failing}: ${reasonOf(cause.cause)}`, { cause });
  const reason = reasonOf(cause);
  const hint = cause instanceof NotOpened ? cause.hint : hintOf(error?.code, reason);
  const Failure = failureOf(cause, hasDied, hint);
  return new Failure(`postgresStore: ${failing}: ${reason}${hint}`, { cause });
}

function failureOf(cause: unknown, hasDied: boolean, hint: string): typeof StayhookError {
  if (hasDied) return NoAnswerError;
  if (sqlState(cause) === LOCKED) return LockedError;
  return hint === "" ? StayhookError : AdvisedError;
}

/** Returns the next step for an error that a wrong connection string or pooler often causes. */
function hintOf(code: unknown, reason: string): string {
  if (ROW_SECURITY.test(reason))
    return ". Something forces row-level security on the store's tables, such as an event trigger. Give the store's user BYPASSRLS, or let the trigger leave out the store's schema";
  if (NO_TRANSACTIONS.test(reason))
    return ". The store needs transactions: set PgBouncer's pool_mode to transaction or session";
  if (code === "ENOTFOUND")
    return ". The name of the host is unknown. Is the host in connectionString right?";
  if (code === "ECONNREFUSED")
    return ". Nothing listens there. Are the host and port in connectionString right, and does PostgreSQL run?";
  if (code === "28P01" || code === "28000") return ". Are the user and password in connectionString right?";
  return code === "3D000" ? ". Is the database's name in connectionString right?" : networkHint({ code });
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  // If a host has several addresses, the error has an empty message and contains one error per address.
  if (cause.message === "" && cause instanceof AggregateError) return cause.errors.map(reasonOf).join(", ");
  return cause.message === "" && "code" in cause ? String(cause.code) : cause.message;
}

/** Returns the error for functions that took longer than the server's `transaction_timeout`, which ends the session. */
export function tooLongBy(cause: unknown): InvalidWriteError | undefined {
  if (sqlState(cause) !== TRANSACTION_TIMEOUT) return undefined;
  const message =
    "The functions passed to event.atomically took longer than the transaction_timeout of PostgreSQL. Do slow work before you call event.atomically, or raise transaction_timeout for the role of the store.";
  return new InvalidWriteError(message, { cause });
}
