import { StayhookError } from "../../errors.ts";

/** What SQLite said, as far as it is one of its errors. */
interface SqliteError extends Error {
  readonly code: "ERR_SQLITE_ERROR";
  /** Deno's `exec` leaves out this and `errstr`. */
  readonly errcode?: number;
  readonly errstr?: string;
}

const BUSY = 5;
const LOCKED = 6;
/** Extended codes have the primary one in their lowest byte. */
const PRIMARY = 0xff;

export function isSqliteError(error: unknown): error is SqliteError {
  return error instanceof Error && "code" in error && error.code === "ERR_SQLITE_ERROR";
}

/** Whether it may work in a moment: another connection has the file, or the user has a transaction open on ours. */
export function isBusy(error: unknown): boolean {
  if (!isSqliteError(error)) return false;
  if (error.message.includes("within a transaction")) return true;
  if (error.errcode === undefined) return error.message.includes("is locked");
  const code = error.errcode & PRIMARY;
  return code === BUSY || code === LOCKED;
}

/** `disk is full`, said of the database that it is about. */
export function storeError(name: string, what: string, cause: unknown): StayhookError {
  if (cause instanceof StayhookError && cause.cause !== undefined) return cause;
  return new StayhookError(`sqliteStore (${name}): ${what}: ${reasonOf(cause)}`, { cause });
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  return isSqliteError(cause) && cause.errstr !== undefined && cause.message !== cause.errstr
    ? `${cause.message} (${cause.errstr})`
    : cause.message;
}
