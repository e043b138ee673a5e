import { DatabaseSync } from "node:sqlite";
import { runSync } from "../sql/driver.ts";
import { latestVersion, type Tables, versionOf } from "../sql/sql-schema.ts";
import type { StoreSchema } from "../store-options.ts";
import { sqliteDialect } from "./sqlite-dialect.ts";
import { executeOn } from "./sqlite-driver.ts";
import { storeError } from "./sqlite-errors.ts";

export const sqliteTables: Tables = {
  dialect: sqliteDialect,
  place: "the file",
  elsewhere: "give the store another file, or delete this one",
  migrationCall: (from, to) => `migrationSql({ from: ${from}, to: ${to} })`,
};

/** Reads the version of the tables in a file, and changes nothing. */
export function readSchema(path: string): StoreSchema {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { readOnly: true });
    const version = runSync(versionOf(sqliteTables), executeOn(db));
    return { version, expected: latestVersion(sqliteDialect) };
  } catch (error) {
    throw storeError(path, "the database cannot be used", error);
  } finally {
    db?.close();
  }
}
