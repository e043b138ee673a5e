export { type StoreContractCase, type StoreContractOptions, storeContract } from "./contract.ts";
export type {
  AddOptions,
  AttemptEntry,
  ClaimedEvent,
  ClaimOptions,
  Entry,
  EventFilter,
  EventOrigin,
  EventState,
  EventStore,
  FailureReason,
  IntakeStore,
  ListOptions,
  NewEvent,
  Outcome,
  PruneOptions,
  PruneRecordsOptions,
  RecordSnapshot,
  Snapshot,
  StoredEvent,
  TrackedValue,
  Write,
} from "./event-store.ts";
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
} from "./sql/driver.ts";
export { sqlStore } from "./sql/sql-store.ts";
export { sqliteDialect } from "./sqlite/sqlite-dialect.ts";
