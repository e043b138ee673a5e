export {
  runAsync,
  runSync,
  type SqlDialect,
  type SqlDriver,
  type SqlNotifier,
  type SqlResult,
  type SqlRow,
  type SqlStatement,
  type SqlSteps,
  type SqlValue,
  type SqlWrites,
} from "./driver.ts";
export { sqliteDialect } from "./sqlite-dialect.ts";
export { sqlStore } from "./store.ts";
