// Which errors of MariaDB, MySQL and `mysql2` mean what.

import { InvalidWriteError, StayhookError } from "../../errors.ts";
import { WriteFailed } from "../server-pool.ts";
import { RollBack } from "../sql/sql-queue.ts";

/** The codes of a lock that was not free in time, or at once. */
const LOCKED = [1205, 3572];
const DEADLOCK = 1213;
/** The codes of a lock, of a deadlock, and of a counter of `seq` that was locked. */
const CONFLICTS = [...LOCKED, DEADLOCK, 1467];
/** The codes of a read-only server. After a failover, the old primary is read-only. */
const READ_ONLY = [1290, 1792, 1836];
/**
 * The codes of a server that takes no part in its cluster: Galera (1047), group replication (3100, 3101), and ProxySQL
 * without a server (9001). It has rolled the transaction back. Only its open connections stay with it.
 */
const OUT_OF_CLUSTER = [1047, 3100, 3101, 9001];
/** The codes of a server that shuts down (1053), and of MaxScale when it has lost the server (1927). */
const GONE = [1053, 1927];
/** The codes of a server or user that has all the connections that it may have. */
const TOO_MANY = [1040, 1203, 1226];
/** The codes of a key that exists, and of a column or index that an interrupted migration has made. */
const EXISTS = [1062, 1060, 1061];
export const SAVEPOINT_UNKNOWN = 1305;
/** The code of a write that the binary log cannot have. */
const NOT_BY_STATEMENT = 1665;

/** The code that the server sent. An error of the socket has no SQL state, and its `errno` is not a code of the server. */
export function errnoOf(error: unknown): number | undefined {
  const { errno, sqlState } = Object(error) as { readonly errno?: unknown; readonly sqlState?: unknown };
  return typeof errno === "number" && typeof sqlState === "string" ? errno : undefined;
}

const hasCode = (error: unknown, codes: readonly number[]) => codes.includes(errnoOf(error) ?? 0);

export const isLocked = (error: unknown): boolean => hasCode(error, LOCKED);
/** Whether the transaction met another one, and can be tried again. */
export const isConflict = (error: unknown): boolean => hasCode(error, CONFLICTS);
export const isDeadlock = (error: unknown): boolean => hasCode(error, [DEADLOCK]);
/** Whether the connection's server takes no statement any longer. Before the commit, the transaction can move to another one. */
export const isRefused = (error: unknown): boolean =>
  hasCode(error, [...READ_ONLY, ...OUT_OF_CLUSTER, ...GONE]);
/** Whether the server has gone: if this answers a commit, it is unknown whether the server has committed. */
export const isGone = (error: unknown): boolean => hasCode(error, GONE);
export const isOutOfCluster = (error: unknown): boolean => hasCode(error, OUT_OF_CLUSTER);
export const exists = (error: unknown): boolean => hasCode(error, EXISTS);

/** Whether no connection is free: the server allows no more, or the user's pool does not wait, which has no code. */
export function isFull(error: unknown): boolean {
  return (
    hasCode(error, TOO_MANY) ||
    (error instanceof Error && /^(No connections available|Queue limit reached)/.test(error.message))
  );
}

/** Whether the connection is unusable. If so, it is unknown whether the server has committed the transaction. */
export function isLost(error: unknown): boolean {
  if (error instanceof InvalidWriteError) return true;
  if (error instanceof WriteFailed || error instanceof StayhookError || error instanceof RollBack)
    return false;
  return errnoOf(error) === undefined || isRefused(error);
}

/** Returns the next step for an error that the configuration of a server causes, or "". */
export function serverHint(error: unknown): string {
  if (errnoOf(error) === NOT_BY_STATEMENT)
    return ". The server's binlog_format is STATEMENT, and then it takes no writes of READ COMMITTED transactions. Set binlog_format to ROW or MIXED";
  return isOutOfCluster(error) ? ". The server has left its cluster, or its proxy has no server" : "";
}
