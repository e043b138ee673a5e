import type { DatabaseSync, StatementSync } from "node:sqlite";
import { StayhookError } from "../../errors.ts";

/** A value of each type that the store reads. */
const SAMPLE = "SELECT 1 AS whole, 'a' AS words, x'07' AS bytes, NULL AS empty";

/**
 * Prepares a statement whose rows are objects with numbers, whatever options the user's `DatabaseSync` has. Older versions of
 * Node lack `setReturnArrays`, and the option that it overrides.
 */
export function plainStatement(db: DatabaseSync, sql: string): StatementSync {
  const statement = db.prepare(sql);
  statement.setReturnArrays?.(false);
  statement.setReadBigInts(false);
  return statement;
}

/** @throws StayhookError if rows arrive in another form, because of an option that a later version of Node has */
export function assertPlain(db: DatabaseSync): void {
  const { whole, words, bytes, empty } = Object(plainStatement(db, SAMPLE).get());
  if (whole === 1 && words === "a" && bytes instanceof Uint8Array && bytes[0] === 7 && empty === null) return;
  throw new StayhookError(
    "an option of the DatabaseSync changes the form of its rows, and the store cannot undo that. Pass the path of the file, or a DatabaseSync without options",
  );
}
