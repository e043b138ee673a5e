import { StayhookError } from "../../errors.ts";

interface SqliteError extends Error {
  readonly code: "ERR_SQLITE_ERROR";
  /** Deno's `exec` sets neither `errcode` nor `errstr`. */
  readonly errcode?: number;
  readonly errstr?: string;
}

const [BUSY, LOCKED, CONSTRAINT] = [5, 6, 19];
/**
 * The errors of the file or the machine: SQLITE_PERM, BUSY, LOCKED, NOMEM, READONLY, IOERR, CORRUPT, FULL, CANTOPEN,
 * PROTOCOL and NOTADB. Any other error comes from the statement.
 */
const OF_THE_STORE = [3, BUSY, LOCKED, 7, 8, 10, 11, 13, 14, 15, 26];
/** A mask: the lowest byte of an extended error code is the primary code. */
const PRIMARY = 0xff;

function isSqliteError(error: unknown): error is SqliteError {
  return error instanceof Error && "code" in error && error.code === "ERR_SQLITE_ERROR";
}

/** Whether an error that a user's write threw is a failure of the store, so that the attempt does not count. */
export function isOfTheStore(error: unknown): boolean {
  return isSqliteError(error) && OF_THE_STORE.includes((error.errcode ?? 0) & PRIMARY);
}

/** Whether a commit failed because of a deferred constraint. Only the user's tables have one. */
export function isConstraint(error: unknown): boolean {
  if (!isSqliteError(error)) return false;
  return error.errcode === undefined
    ? error.message.includes("constraint failed")
    : (error.errcode & PRIMARY) === CONSTRAINT;
}

/** Whether a retry may help: the file is locked, or the user has an open transaction on the store's connection. */
export function isBusy(error: unknown): boolean {
  if (!isSqliteError(error)) return false;
  if (error.message.includes("within a transaction")) return true;
  if (error.errcode === undefined) return error.message.includes("is locked");
  return [BUSY, LOCKED].includes(error.errcode & PRIMARY);
}

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
