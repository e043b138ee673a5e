// Notices that somebody deleted, replaced or overwrote the files of an open database. SQLite would still write to the old
// files, or mix the old write-ahead log with the new file.

import { openSync, readSync, statSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";

/** Thrown if a file of the database was deleted, replaced or overwritten. */
export class FileGone extends Error {}

/** The time between two looks of calls that only read, ms. */
const LOOK_AGAIN = 1000;
/**
 * Where SQLite keeps in the `-shm` file how many frames the write-ahead log has, and up to which frame it has begun to copy
 * them into the main file. See https://www.sqlite.org/walformat.html#the_wal_index_file_format.
 */
const [FRAMES, COPIED] = [16, 128];

interface Seen {
  readonly dev: number;
  readonly ino: number;
  readonly size: number;
  /** Epoch ms, with a fraction. */
  readonly written: number;
}

/** Compares the files at a database's path with those that SQLite has open. */
export class FileGuard {
  readonly #db: DatabaseSync;
  readonly #file: string;
  readonly #logPath: string;
  readonly #main: Seen | undefined;
  #wal: Seen | undefined;
  #seen: Seen | undefined;
  #lookedAt = performance.now();
  #gone: FileGone | undefined;
  #shm: number | undefined;

  /** @param file - the main file of `db`, which is in WAL mode */
  constructor(db: DatabaseSync, file: string) {
    this.#db = db;
    this.#file = file;
    this.#seen = look(file);
    this.#main = this.#seen;
    this.#logPath = `${file}-wal`;
    this.#wal = look(this.#logPath);
  }

  /** Whether the files were found deleted, replaced or overwritten. */
  get isGone(): boolean {
    return this.#gone !== undefined;
  }

  lookNow(): void {
    if (this.#gone === undefined) this.#look(true);
  }

  /** @throws FileGone before a transaction */
  beforeCommit(): void {
    // The log is looked at after the commit, and here only if the main file was written meanwhile.
    if (this.#gone === undefined && look(this.#file)?.written !== this.#seen?.written) this.#look(true);
    if (this.#gone !== undefined) throw this.#gone;
  }

  /** @throws FileGone after a commit, so that nothing is answered that only the old files have */
  afterCommit(): void {
    if (this.#gone === undefined) this.#look(false);
    if (this.#gone !== undefined) throw this.#gone;
  }

  /** @throws FileGone before a read. Looks at most once a second */
  beforeRead(): void {
    if (this.#gone === undefined && performance.now() - this.#lookedAt >= LOOK_AGAIN) this.#look(true);
    if (this.#gone !== undefined) throw this.#gone;
  }

  /** @param isOutside - whether no transaction of this connection has run since the last look */
  #look(isOutside: boolean): void {
    // A user who closes the own connection too early gets the error of SQLite.
    if (!this.#db.isOpen) return;
    this.#lookedAt = performance.now();
    const [main, wal] = [look(this.#file), look(this.#logPath)];
    const found = this.#problem(main, wal, isOutside);
    if (found !== undefined)
      this.#gone = new FileGone(
        `${found} while the store was open. Stop all processes that use the file, restore the file if you meant to, and start them again`,
      );
    this.#seen = main;
    this.#wal = wal;
  }

  #problem(main: Seen | undefined, wal: Seen | undefined, isOutside: boolean): string | undefined {
    const goneOr = (found: unknown): string =>
      found === undefined ? "deleted or moved" : "replaced by another file";
    if (!isSame(main, this.#main)) return `the file was ${goneOr(main)}`;
    // SQLite deletes the write-ahead log only when the last connection closes.
    if (this.#wal !== undefined && !isSame(wal, this.#wal)) return `${this.#file}-wal was ${goneOr(wal)}`;
    return isOutside && this.#isOverwritten(main, wal)
      ? "the file was overwritten by another program, such as cp"
      : undefined;
  }

  /**
   * Whether the main file was written although nobody committed. Otherwise SQLite writes to it only when it copies frames
   * of the write-ahead log, and then says so in the `-shm` file.
   */
  #isOverwritten(main: Seen | undefined, wal: Seen | undefined): boolean {
    const [before, log] = [this.#seen, this.#wal];
    if (main === undefined || before === undefined || main.written === before.written) return false;
    if (wal === undefined || log === undefined || wal.size !== log.size || wal.written !== log.written)
      return false;
    return !isTouched(main.written) && this.#hasCopiedNothing();
  }

  /** Whether SQLite has begun no checkpoint of the write-ahead log as it is. */
  #hasCopiedNothing(): boolean {
    try {
      // Never close this descriptor: POSIX would drop the locks that SQLite holds on the file.
      this.#shm ??= openSync(`${this.#file}-shm`, "r");
      const numbers = new Uint32Array(COPIED / 4 + 1);
      if (readSync(this.#shm, numbers, 0, numbers.byteLength, 0) < numbers.byteLength) return false;
      // Without frames, a process that has just copied all of them begins the log anew.
      return numbers[FRAMES / 4]! > 0 && numbers[COPIED / 4] === 0;
    } catch {
      return false;
    }
  }
}

/** Whether a modification time was set by the notifier of a process, which sets whole ms. The kernel sets ns. */
function isTouched(written: number): boolean {
  return Math.abs(written - Math.round(written)) < 0.001;
}

function isSame(one: Seen | undefined, other: Seen | undefined): boolean {
  return one?.ino === other?.ino && one?.dev === other?.dev;
}

function look(path: string): Seen | undefined {
  const stat = statSync(path, NOTHING);
  return stat && { dev: stat.dev, ino: stat.ino, size: stat.size, written: stat.mtimeMs };
}
const NOTHING = { throwIfNoEntry: false } as const;

/** The databases that must not be closed, because SQLite would then write their logs into the files at their paths. */
const abandoned: unknown[] = [];

/** Keeps a database open until the process ends, and ends the process without closing it. */
export function abandon(db: unknown): void {
  // Inside an `exit` listener, `process.exit` ends the process at once, before Node closes its databases.
  if (abandoned.length === 0) process.once("exit", () => process.exit());
  abandoned.push(db);
}
