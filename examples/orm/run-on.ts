import type { DatabaseSync, SQLInputValue } from "node:sqlite";

/** Runs a statement that an ORM has written. SQLite has no booleans and no dates, so convert yours before. */
export function runOn(tx: DatabaseSync, sql: string, values: readonly unknown[]): void {
  tx.prepare(sql).run(...values.map(sqliteValue));
}

function sqliteValue(value: unknown): SQLInputValue {
  if (value === null || typeof value === "string" || typeof value === "number") return value;
  throw new TypeError(`SQLite cannot store a ${typeof value}.`);
}
