export type {
  DocumentDriver,
  DocumentIndex,
  DocumentQuery,
  DocumentWrite,
  StoreDocument,
} from "./document/document-driver.ts";
export { documentStore } from "./document/document-store.ts";
export type { EventFilter } from "./event-filter.ts";
export type { EventOrigin, EventState, FailureReason } from "./event-states.ts";
export type {
  Entry,
  EventStore,
  FurtherChanges,
  FurtherEvent,
  Outcome,
  SynchronousTransaction,
  Write,
} from "./event-store.ts";
export type { IntakeStore } from "./forward.ts";
export type { RecordSnapshot, Snapshot, TrackedValue } from "./snapshot.ts";
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
export { sqlStore } from "./sql/sql-store.ts";
export { sqliteDialect } from "./sqlite/sqlite-dialect.ts";
export type {
  AddOptions,
  ClaimOptions,
  ListOptions,
  NextDueOptions,
  PruneOptions,
  PruneSnapshotsOptions,
  Replace,
  StoreSchema,
} from "./store-options.ts";
export type { AttemptEntry, ClaimedEvent, NewEvent, StoredEvent } from "./stored-event.ts";
