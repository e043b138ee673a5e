import { InvalidArgumentError, StayhookError } from "../../errors.ts";

/** The transaction met another one: nothing was done, and it may work at once. */
const TRY_AGAIN = ["40001", "40P01"];
/** Another transaction holds what is needed. */
const LOCKED = "55P03";
/** The server ends or starts, or has ended the session. */
const SERVER_GONE = /^(08|57P0|25P0[34])/;

/** PostgreSQL's code, where it was PostgreSQL that refused. */
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

/** Whether the connection may be in any state now, and what was asked for may have been done or not. */
export function lostConnection(error: unknown): boolean {
  const state = sqlState(error);
  return state === undefined || SERVER_GONE.test(state);
}

/** `connect ECONNREFUSED`, said of the store and what it was doing. Never with the connection string, which may hold a password. */
export function storeError(what: string, cause: unknown): unknown {
  if (cause instanceof StayhookError) return cause;
  const error = cause as { readonly code?: unknown; readonly message?: unknown } | null | undefined;
  // Node's error holds the whole string.
  if (error?.code === "ERR_INVALID_URL") {
    return new InvalidArgumentError({ path: ["connectionString"], message: "is not a URL of a database" });
  }
  return new StayhookError(`postgresStore: ${what}: ${reasonOf(cause)}`, { cause });
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  // What a host with several addresses is refused with has no message.
  if (cause.message === "" && cause instanceof AggregateError) return cause.errors.map(reasonOf).join(", ");
  return cause.message === "" && "code" in cause ? String(cause.code) : cause.message;
}
