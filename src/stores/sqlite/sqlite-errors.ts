import { accessSync, constants, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { StayhookError } from "../../errors.ts";

interface SqliteError extends Error {
  readonly code: "ERR_SQLITE_ERROR";
  /** Deno's `exec` sets neither `errcode` nor `errstr`. */
  readonly errcode?: number;
  readonly errstr?: string;
}

const [PERM, BUSY, LOCKED, READONLY, FULL, CANTOPEN, CONSTRAINT] = [3, 5, 6, 8, 13, 14, 19];
/** A mask: the lowest byte of an extended error code is the primary code. */
const PRIMARY = 0xff;

function isSqliteError(error: unknown): error is SqliteError {
  return error instanceof Error && "code" in error && error.code === "ERR_SQLITE_ERROR";
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

/** Whether the disk is full. */
export function isFull(error: unknown): boolean {
  if (!isSqliteError(error)) return false;
  return error.errcode === undefined ? error.message.includes("is full") : (error.errcode & PRIMARY) === FULL;
}

/** @param file - the database's file; `undefined` for a database in memory */
export function storeError(name: string, what: string, cause: unknown, file?: string): StayhookError {
  if (cause instanceof StayhookError && cause.cause !== undefined) return cause;
  const right = file !== undefined && isAboutRights(cause) ? missingRight(file) : undefined;
  const reason = right === undefined ? reasonOf(cause) : `${reasonOf(cause)}. ${right}`;
  return new StayhookError(`sqliteStore (${name}): ${what}: ${reason}`, { cause });
}

function isAboutRights(error: unknown): boolean {
  if (isSqliteError(error))
    return error.errcode === undefined || [PERM, READONLY, CANTOPEN].includes(error.errcode & PRIMARY);
  return ["EACCES", "EPERM", "EROFS"].includes(String((error as NodeJS.ErrnoException | undefined)?.code));
}

/** Returns which right on which file or directory this process does not have. */
function missingRight(file: string): string | undefined {
  const directory = dirname(resolve(file));
  const all: [kind: string, path: string][] = [["directory", directory]];
  for (const suffix of ["", "-wal", "-shm"]) all.push(["file", `${resolve(file)}${suffix}`]);
  for (const [kind, path] of all) {
    try {
      const isDirectory = kind === "directory";
      accessSync(path, constants.R_OK | constants.W_OK | (isDirectory ? constants.X_OK : 0));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EROFS") return `The ${kind} ${path} is on a file system that is mounted read-only`;
      if (code === "EACCES" || code === "EPERM")
        return `${userOfProcess()} may not read and write the ${kind} ${path}${ownerOf(path)}. SQLite writes to the file, and to files that it creates beside it. Change the owner or the mode of the ${kind}`;
    }
  }
  return undefined;
}

function userOfProcess(): string {
  const uid = process.getuid?.();
  return uid === undefined ? "The user of this process" : `The user of this process (uid ${uid})`;
}

function ownerOf(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat ? `, which belongs to uid ${stat.uid} and has the mode ${(stat.mode & 0o777).toString(8)}` : "";
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  return isSqliteError(cause) && cause.errstr !== undefined && cause.message !== cause.errstr
    ? `${cause.message} (${cause.errstr})`
    : cause.message;
}
