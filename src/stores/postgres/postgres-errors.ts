import { InvalidArgumentError, StayhookError } from "../../errors.ts";

/** The transaction conflicted with another one. PostgreSQL has rolled it back, so it may be retried at once. */
const TRY_AGAIN = ["40001", "40P01"];
/** Another transaction holds a lock. */
const LOCKED = "55P03";
/** The queue of NOTIFY is full, because a session of any client does not read it. */
const QUEUE_FULL = "54000";
/** After a failover, the session is on a read-only server. */
const READ_ONLY = "25006";
/** The server is stopping or starting, has ended the session, or is read-only. */
const SERVER_GONE = /^(08|57P0|25P0[34]|25006)/;

/** The code of an error that PostgreSQL sent; `undefined` for other errors. */
export function sqlState(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error) || !("severity" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

export function mayTryAgain(error: unknown): boolean {
  return TRY_AGAIN.includes(sqlState(error) ?? "");
}

export function isLocked(error: unknown): boolean {
  return sqlState(error) === LOCKED;
}

export function isQueueFull(error: unknown): boolean {
  return sqlState(error) === QUEUE_FULL;
}

export function isReadOnly(error: unknown): boolean {
  return sqlState(error) === READ_ONLY;
}

/** PostgreSQL reported that this session cannot be used any more. */
export function serverGone(error: unknown): boolean {
  return SERVER_GONE.test(sqlState(error) ?? "");
}

/** `pg` timed out, for which it has no error code. The statement may still run. */
export function hasTimedOut(error: unknown): boolean {
  return error instanceof Error && error.message === "Query read timeout";
}

/** The connection may be in any state, and PostgreSQL may have run the command or not. */
export function lostConnection(error: unknown): boolean {
  return sqlState(error) === undefined || serverGone(error);
}

/** Adds what the store was doing. Leaves out the connection string, which may contain a password. */
export function storeError(doing: string, cause: unknown): unknown {
  if (cause instanceof StayhookError) return cause;
  const error = cause as { readonly code?: unknown; readonly message?: unknown } | null | undefined;
  // Node's error contains the whole connection string.
  if (error?.code === "ERR_INVALID_URL") {
    return new InvalidArgumentError({ path: ["connectionString"], message: "is not the URL of a database" });
  }
  return new StayhookError(`postgresStore: ${doing}: ${reasonOf(cause)}`, { cause });
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  // The error for a host with several addresses has no message.
  if (cause.message === "" && cause instanceof AggregateError) return cause.errors.map(reasonOf).join(", ");
  return cause.message === "" && "code" in cause ? String(cause.code) : cause.message;
}
