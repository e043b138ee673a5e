import { type FSWatcher, utimesSync, watch } from "node:fs";
import type { DatabaseSync, StatementSync } from "node:sqlite";
// Use imported timers: a test's fake timers replace the globals, and would stop wake-ups from other processes.
import { clearInterval, setInterval } from "node:timers";
import type { SqlNotifier } from "../sql/driver.ts";
import { plainStatement } from "./plain-statement.ts";

/** The time between two checks for commits, ms. These checks find a commit that the file watcher has missed. */
const NET = 1000;

/**
 * Wakes the other processes that use the file. After a commit, a process sets the file's modification time, and the
 * other processes watch the file. They do not watch the write-ahead log, which changes before the commit is visible.
 * The notifier does not keep the process alive.
 */
export class Notifier implements SqlNotifier {
  readonly #file: string | undefined;
  readonly #version: StatementSync;
  #seen: unknown;
  #wake: (() => void) | undefined;
  #watcher: FSWatcher | undefined;
  #net: NodeJS.Timeout | undefined;

  /** @param file - the database's file, or `undefined` for a database in memory */
  constructor(db: DatabaseSync, file: string | undefined) {
    this.#file = file;
    // `data_version` changes with each commit of another connection.
    this.#version = plainStatement(db, "PRAGMA data_version");
  }

  notify(): void {
    if (this.#file === undefined) return;
    try {
      const now = new Date();
      utimesSync(this.#file, now, now);
    } catch {
      // Only the file's owner can set its time. Without a new time, other processes find the commit by polling.
    }
  }

  listen(wake: () => void): () => void {
    this.#wake = wake;
    if (this.#file !== undefined && this.#net === undefined) {
      this.#hasChanged();
      this.#net = setInterval(() => this.#look(), NET).unref();
      try {
        this.#watcher = watch(this.#file, { persistent: false }, () => this.#look());
        this.#watcher.on("error", () => this.#watcher?.close());
      } catch {
        // No watcher is available, so only the interval finds commits.
      }
    }
    return () => this.close();
  }

  close(): void {
    clearInterval(this.#net);
    this.#net = undefined;
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #look(): void {
    if (this.#hasChanged()) this.#wake?.();
  }

  #hasChanged(): boolean {
    try {
      const version = this.#version.get()?.data_version;
      const changed = version !== this.#seen;
      this.#seen = version;
      return changed;
    } catch {
      // The user has closed the connection, or the file is locked. When the lock ends, a check finds the commit.
      return false;
    }
  }
}
