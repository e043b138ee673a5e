import { type FSWatcher, utimesSync, watch } from "node:fs";
import type { DatabaseSync, StatementSync } from "node:sqlite";
// Not the globals: what other processes do goes by no fake clock.
import { clearInterval, setInterval } from "node:timers";
import { Subscribers } from "../subscribers.ts";

/** How often a change of another process is looked for that the file system did not tell of, ms. */
const NET = 1000;

/**
 * Tells subscribers of this process, and the other processes on the file, that something may be due: who has
 * committed touches the file's time, and the others watch that. (The write-ahead log, which a commit changes
 * by itself, changes before the commit can be seen.) Holds no process open.
 */
export class Wake {
  readonly #file: string | undefined;
  readonly #version: StatementSync;
  readonly #subscribers = new Subscribers();
  #seen: unknown;
  #watcher: FSWatcher | undefined;
  #net: NodeJS.Timeout | undefined;

  /** Without a `file` there are no other processes. */
  constructor(db: DatabaseSync, file: string | undefined) {
    this.#file = file;
    // Another number after each commit of another connection.
    this.#version = db.prepare("PRAGMA data_version");
  }

  subscribe(wake: () => void): () => void {
    const remove = this.#subscribers.add(wake);
    this.#listen();
    return () => {
      if (remove() && this.#subscribers.isEmpty) this.#stop();
    };
  }

  /** After a commit of this process's own that made something due. */
  madeDue(): void {
    this.#subscribers.wake();
    if (this.#file === undefined) return;
    try {
      const now = new Date();
      utimesSync(this.#file, now, now);
    } catch {
      // Not the file's owner: the others see it by their net.
    }
  }

  close(): void {
    this.#subscribers.clear();
    this.#stop();
  }

  #listen(): void {
    if (this.#file === undefined || this.#net !== undefined) return;
    this.#hasChanged();
    this.#net = setInterval(() => this.#look(), NET).unref();
    try {
      this.#watcher = watch(this.#file, { persistent: false }, () => this.#look());
      this.#watcher.on("error", () => this.#watcher?.close());
    } catch {
      // No watchers left, or none on this file system: there is the net.
    }
  }

  #stop(): void {
    clearInterval(this.#net);
    this.#net = undefined;
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #look(): void {
    if (this.#hasChanged()) this.#subscribers.wake();
  }

  #hasChanged(): boolean {
    try {
      const version = this.#version.get()?.data_version;
      const changed = version !== this.#seen;
      this.#seen = version;
      return changed;
    } catch {
      // The file is locked, or the user has closed the connection: looked at again later.
      return false;
    }
  }
}
