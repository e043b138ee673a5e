import type { EventStore } from "../event-store.ts";
import type { SqlDialect, SqlDriver } from "./driver.ts";
import { SqlStore } from "./sql-store.ts";

/**
 * Returns a store in your own SQL database. At its first use, the store creates tables with the prefix `stayhook_`.
 *
 * @param driver - runs statements on the database
 * @param dialect - the SQL that differs between databases, such as `sqliteDialect`
 *
 * @example
 * ```ts
 * import { runSync, sqliteDialect, sqlStore } from "stayhook/store";
 *
 * const store = sqlStore(driver, sqliteDialect);
 * ```
 */
export function sqlStore<Tx = never>(driver: SqlDriver, dialect: SqlDialect): EventStore<Tx> {
  return new SqlStore<Tx>(driver, { dialect, place: "the database" });
}
