// Warns of a second SQLite library in this process on a store's file. POSIX gives locks to processes, so the two libraries
// do not see each other's locks, and overwrite each other's commits. See https://www.sqlite.org/howtocorrupt.html, 2.2.1.

import { readdirSync, readFileSync, readlinkSync, realpathSync } from "node:fs";
// Use an imported timer: a test's fake timers replace the globals.
import { setTimeout } from "node:timers";

/** The time from a call of the store to the look that it causes, ms. */
const LOOK_AFTER = 1000;
/** The last digit of the flags of a descriptor that was opened to read and write. */
const READ_WRITE = "2";

/** The files of which this process was warned. */
const warned = new Set<string>();

/** Looks for a second SQLite library on one file: at its making, and in the second after calls of the store. Linux only. */
export class SecondLibrary {
  readonly #file: string;
  #isDue = false;

  constructor(file: string) {
    this.#file = file;
    this.#look();
  }

  /** Looks once within a second, outside of the call. */
  soon(): void {
    if (this.#isDue || warned.has(this.#file)) return;
    this.#isDue = true;
    setTimeout(() => {
      this.#isDue = false;
      this.#look();
    }, LOOK_AFTER).unref();
  }

  #look(): void {
    if (process.platform !== "linux" || warned.has(this.#file)) return;
    const library = otherLibrary();
    if (library === undefined || librariesOn(this.#file) < 2) return;
    warned.add(this.#file);
    process.emitWarning(
      `A second SQLite library in this process (${library}) has ${this.#file} open, the file of an sqliteStore. The libraries do not see each other's locks, so events that you have answered with 200 get lost. Use one library for a file in a process: write in event.atomically, or with DatabaseSync of node:sqlite, or use the other library in another process or on another file.`,
      { type: "StayhookWarning", code: "STAYHOOK_SECOND_SQLITE" },
    );
  }
}

/** Returns the path of a loaded SQLite library that is not part of the runtime's executable. */
function otherLibrary(): string | undefined {
  try {
    const [, path] =
      /(\/\S*(?:sqlite|sqlcipher|libsql|query_engine)\S*\.(?:node|so[.\d]*))$/im.exec(
        readFileSync("/proc/self/maps", "utf8"),
      ) ?? [];
    return path;
  } catch {
    return undefined;
  }
}

/**
 * Counts the libraries that have the file open in WAL mode. All connections of one library share one descriptor of `-shm`,
 * however many there are. The store's own look at `-shm` can only read.
 */
function librariesOn(file: string): number {
  try {
    const shm = realpathSync(`${file}-shm`);
    return readdirSync("/proc/self/fd").filter((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`) === shm && flagsOf(fd).endsWith(READ_WRITE);
      } catch {
        // Another thread has closed the descriptor meanwhile.
        return false;
      }
    }).length;
  } catch {
    return 0;
  }
}

function flagsOf(fd: string): string {
  return /^flags:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "utf8"))?.[1] ?? "";
}
