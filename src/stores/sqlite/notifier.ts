import { type FSWatcher, utimesSync, watch } from "node:fs";
import type { DatabaseSync, StatementSync } from "node:sqlite";
// Not the globals: other processes do not go by a fake clock.
import { clearInterval, setInterval } from "node:timers";
import type { SqlNotifier } from "../sql/driver.ts";

/** How often the notifier looks for a commit that the file system did not tell of, ms. */
const NET = 1000;

/**
 * Tells the other processes on the file that something may be due: a process that has committed sets the file's
 * time, and the others watch it. (A watcher of the write-ahead log would be told before the commit can be seen.)
 * Does not keep the process alive.
 */
export class Notifier implements SqlNotifier {
  readonly #file: string | undefined;
  readonly #version: StatementSync;
  #seen: unknown;
  #wake: (() => void) | undefined;
  #watcher: FSWatcher | undefined;
  #net: NodeJS.Timeout | undefined;

  /** @param file - `undefined` for a database in memory, which no other process has */
  constructor(db: DatabaseSync, file: string | undefined) {
    this.#file = file;
    // Another number after each commit of another connection.
    this.#version = db.prepare("PRAGMA data_version");
  }

  notify(): void {
    if (this.#file === undefined) return;
    try {
      const now = new Date();
      utimesSync(this.#file, now, now);
    } catch {
      // This process is not the file's owner: the others find the commit within a second.
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
        // The system has no watchers left, or the file system has none: the interval remains.
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
      // The file is locked, or the user has closed the connection. The next look finds the commit.
      return false;
    }
  }
}
