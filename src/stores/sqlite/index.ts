import type { DatabaseSync } from "node:sqlite";
import { InvalidArgumentError, type Issue } from "../../errors.ts";
import { checkNoUnknown } from "../../options.ts";
import type { EventStore, SynchronousTransaction } from "../event-store.ts";
import { sqliteDialect } from "../sql/sqlite-dialect.ts";
import { SqlStore } from "../sql/store.ts";
import { SqliteDriver } from "./driver.ts";
import { open } from "./open.ts";

/** Options of {@link sqliteStore}. */
export interface SqliteStoreOptions {
  /**
   * What an event that was answered 200 survives.
   *
   * - `"power-loss"` (default): the end of the process, a crash of the machine, a power cut. SQLite waits for the
   *   disk at each commit (`synchronous = FULL`).
   * - `"process-crash"`: the end of the process, in whatever way (`kill -9` too). A crash of the machine or a
   *   power cut may lose the last moments; the file stays sound (`synchronous = NORMAL`).
   */
  readonly durability?: "power-loss" | "process-crash" | undefined;
  /** How long a call waits for a file that another process has locked, ms. Holds nothing else up. Default 5000. */
  readonly busyTimeout?: number | undefined;
}

/** The argument of a callback's writes: the database, inside the transaction that ends the event. */
export interface SqliteTransaction extends DatabaseSync, SynchronousTransaction {}

/**
 * Keeps events in an SQLite file, for one machine: durable, and for several processes at once. Needs nothing
 * but Node (`node:sqlite`). `event.atomically` writes to tables of your own in the same file, in the
 * transaction that ends the event.
 *
 * The file is created, for its owner alone (mode 600); its directory must be there. It must be on a disk of
 * this machine, not on a network share. The file's `user_version` is the store's own.
 *
 * @param database - the file's path; `":memory:"` keeps nothing; or a `DatabaseSync` of your own, which `close()`
 *   leaves open. Set on it: `journal_mode = WAL`, `synchronous` by `durability`, `busy_timeout = 0` (what
 *   you run on it yourself fails at once while another process writes), `wal_autocheckpoint`, `journal_size_limit`.
 * @throws {@link InvalidArgumentError} where an argument cannot be used
 * @throws {@link StayhookError} where the database cannot be: no such directory, read-only, corrupt, not a
 *   database, written by a newer version of this package
 *
 * @example
 * ```ts
 * import { sqliteStore } from "stayhook/sqlite";
 *
 * const webhooks = createWebhookHandler({ client, store: sqliteStore("events.db"), on });
 * ```
 */
export function sqliteStore(
  database: string | DatabaseSync,
  options: SqliteStoreOptions = {},
): EventStore<SqliteTransaction> {
  checkNoUnknown(options, ["durability", "busyTimeout"]);
  const { durability = "power-loss", busyTimeout = 5000 } = options;
  const issues = [...databaseIssues(database), ...optionIssues(durability, busyTimeout)];
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  const opened = open(database, { durability, busyTimeout });
  return new SqlStore(new SqliteDriver(opened, busyTimeout), sqliteDialect, { migrated: true });
}

function* databaseIssues(database: unknown): Generator<Issue> {
  const path = ["database"];
  if (typeof database === "string") {
    if (database === "" || database.includes("\0")) yield { path, message: "must be the path of a file" };
    // SQLite would take it for a URI, with options in its query.
    else if (database.startsWith("file:"))
      yield { path, message: "must be a path, not a URL: leave out file:" };
  } else if (typeof (database as DatabaseSync | undefined)?.prepare !== "function") {
    yield { path, message: "must be the path of a file, or a DatabaseSync of node:sqlite" };
  }
}

function* optionIssues(durability: unknown, busyTimeout: unknown): Generator<Issue> {
  if (durability !== "power-loss" && durability !== "process-crash") {
    yield { path: ["durability"], message: 'must be "power-loss" or "process-crash"' };
  }
  if (typeof busyTimeout !== "number" || !(busyTimeout >= 0 && busyTimeout < Number.POSITIVE_INFINITY)) {
    yield { path: ["busyTimeout"], message: "must be a number of ms, 0 or more" };
  }
}
