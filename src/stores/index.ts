export type { EventOrigin, EventState, FailureReason } from "./event-states.ts";
export type {
  AddOptions,
  AttemptEntry,
  ClaimedEvent,
  ClaimOptions,
  Entry,
  EventFilter,
  EventStore,
  FurtherChanges,
  FurtherEvent,
  ListOptions,
  NewEvent,
  Outcome,
  PruneOptions,
  PruneSnapshotsOptions,
  RecordSnapshot,
  Replace,
  Snapshot,
  StoredEvent,
  StoreSchema,
  SynchronousTransaction,
  TrackedValue,
  Write,
} from "./event-store.ts";
export type { IntakeStore } from "./forward.ts";
export {
  runAsync,
  runSync,
  type SqlDialect,
  type SqlDriver,
  type SqlMigration,
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
