export type { EventFilter } from "./event-filter.ts";
export type { EventOrigin, EventState, FailureReason } from "./event-states.ts";
export type {
  EventStore,
  FurtherChanges,
  FurtherEvent,
  Outcome,
  SynchronousTransaction,
  Write,
} from "./event-store.ts";
export type { IntakeStore } from "./forward.ts";
export type { RecordLedger, RecordSnapshot, Snapshot, TrackedValue } from "./snapshot.ts";
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
  type TransactionOptions,
} from "./sql/driver.ts";
export { sqlStore } from "./sql/own-sql-store.ts";
export { sqliteDialect } from "./sqlite/sqlite-dialect.ts";
export type {
  AddOptions,
  ClaimOptions,
  LearnOptions,
  ListOptions,
  NextDueOptions,
  PruneOptions,
  PruneSnapshotsOptions,
  Replace,
  StoreSchema,
} from "./store-options.ts";
export type { AttemptEntry, ClaimedEvent, NewEvent, StoredEvent } from "./stored-event.ts";
