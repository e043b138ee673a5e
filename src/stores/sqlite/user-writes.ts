// Runs the functions passed to `event.atomically`.

import type { DatabaseSync } from "node:sqlite";
import { isThenable } from "../../async.ts";
import { InvalidWriteError } from "../../errors.ts";
import type { Write } from "../event-store.ts";

/** Thrown if a function passed to `event.atomically` failed, not the store. */
export class WritesFailed {
  readonly error: unknown;
  /** Whether only the writes were rolled back. If `false`, the whole transaction is lost. */
  readonly undone: boolean;

  constructor(error: unknown, undone: boolean) {
    this.error = error;
    this.undone = undone;
  }
}

/**
 * Calls the functions passed to `event.atomically` inside the open transaction.
 *
 * @throws WritesFailed if a function throws, returns a promise or ends the transaction
 */
export function runWrites(db: DatabaseSync, writes: readonly Write<never>[]): void {
  db.exec("SAVEPOINT stayhook_writes");
  try {
    for (const write of writes) assertSync(write(db as never));
  } catch (error) {
    throw new WritesFailed(error, undo(db));
  }
  try {
    db.exec("RELEASE stayhook_writes");
  } catch (cause) {
    throw new WritesFailed(
      new InvalidWriteError(
        "A function passed to event.atomically ended the store's transaction. Such a function must not run COMMIT, END or ROLLBACK.",
        { cause },
      ),
      false,
    );
  }
}

function assertSync(result: unknown): void {
  if (!isThenable(result)) return;
  // Ignore a later rejection of the promise: the function has failed already. A lazy query has not begun, and must not.
  if (result instanceof Promise) result.catch(() => {});
  throw new InvalidWriteError(
    "A function passed to event.atomically returned a promise or a lazy query. With sqliteStore, such a function must be synchronous. Remove async and await, and run an ORM's query as SQL by tx.prepare().",
  );
}

function undo(db: DatabaseSync): boolean {
  try {
    db.exec("ROLLBACK TO stayhook_writes; RELEASE stayhook_writes");
    return true;
  } catch {
    // The transaction has already ended. Either the write ended it, or SQLite rolled it back because of a full disk.
    return false;
  }
}
