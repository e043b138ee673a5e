import type { DatabaseSync } from "node:sqlite";
import { InvalidWriteError } from "../../errors.ts";
import type { Write } from "../event-store.ts";

export type Writes = readonly Write<DatabaseSync>[];

/** The user's writes of one event failed. The other jobs of the transaction did not. */
export class WritesFailed {
  readonly error: unknown;
  /** Whether the writes alone were rolled back; `false`: the whole transaction is gone. */
  readonly undone: boolean;

  constructor(error: unknown, undone: boolean) {
    this.error = error;
    this.undone = undone;
  }
}

/**
 * Runs the user's writes inside the open transaction.
 *
 * @throws WritesFailed
 */
export function runWrites(db: DatabaseSync, writes: Writes): void {
  db.exec("SAVEPOINT stayhook_writes");
  try {
    for (const write of writes) assertSync(write(db));
  } catch (error) {
    throw new WritesFailed(error, undo(db));
  }
  try {
    db.exec("RELEASE stayhook_writes");
  } catch (cause) {
    throw new WritesFailed(
      new InvalidWriteError(
        "a write of event.atomically ended the transaction that it runs in: it must not COMMIT, END or ROLLBACK",
        { cause },
      ),
      false,
    );
  }
}

function assertSync(result: unknown): void {
  if (typeof (result as { then?: unknown } | null | undefined)?.then !== "function") return;
  // Its rejection comes too late to matter.
  Promise.resolve(result).catch(() => {});
  throw new InvalidWriteError(
    "a write of event.atomically returned a promise: with sqliteStore it must be synchronous, as its transaction does not stay open",
  );
}

function undo(db: DatabaseSync): boolean {
  try {
    db.exec("ROLLBACK TO stayhook_writes; RELEASE stayhook_writes");
    return true;
  } catch {
    // SQLite has rolled back the transaction, such as on a full disk, or the write has ended it.
    return false;
  }
}
