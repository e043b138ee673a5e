// The rules of all changes but those of the hot path. Every store runs them on the rows that it has loaded.

import { isNeverRead, splitKey } from "../../account.ts";
import type { Change, EventState } from "../event-states.ts";
import { copyOfSnapshot, hasAllOf } from "../outcomes.ts";
import type { RecordLedger, RecordSnapshot, Snapshot } from "../snapshot.ts";
import type { ErasedAccount, PruneOptions, PruneSnapshotsOptions } from "../store-options.ts";
import type { StoredEvent } from "../stored-event.ts";
import {
  dropText,
  type EventRow,
  isLocked,
  isOpen,
  isWaiting,
  type RecordRow,
  remember,
  restoredRow,
} from "./memory-rows.ts";
import type { MemoryTables } from "./memory-tables.ts";

/** Changes those of the events that are in one of the states. @returns their number */
export function changeEvents(
  tables: MemoryTables,
  change: Change,
  rows: readonly EventRow[],
  states: readonly EventState[],
): number {
  const now = tables.now();
  // An event that is due needs no replay.
  const changed = rows.filter(
    (row) => states.includes(row.state) && !(change === "replay" && isOpen(row) && row.dueAt <= now),
  );
  for (const row of changed) {
    if (change === "replay") replay(tables, row, now);
    else discard(tables, row, now);
  }
  return changed.length;
}

function replay(tables: MemoryTables, row: EventRow, now: number): void {
  tables.notDone(row);
  // An event that waits for its next attempt is only tried sooner, and keeps its counts.
  if (isOpen(row)) bringForward(row, now);
  else {
    tables.beginAnew(row, "pending", now);
    row.replayed = true;
  }
  tables.becomeDue(row);
}

/** Makes an open event due now, unless it is due earlier. */
function bringForward(row: EventRow & { dueAt: number }, now: number): void {
  row.dueAt = Math.min(row.dueAt, now);
  row.firstDueAt = Math.min(row.firstDueAt, now);
}

function discard(tables: MemoryTables, row: EventRow, now: number): void {
  tables.setState(row, "done");
  row.reason = "discarded";
  row.dueAt = undefined;
  row.endedAt = now;
  if (isNeverRead(row.event)) dropText(row);
  tables.becameDone(row);
  tables.refresh(row.record);
}

export function setBack(tables: MemoryTables): void {
  const now = tables.now();
  for (const record of tables.records.values()) {
    for (const row of record.open) {
      const follows =
        row.state === "pending" ||
        row.state === "retrying" ||
        (row.state === "scheduled" && row.event.source === "recheck");
      if (follows && isOpen(row)) bringForward(row, now);
    }
    const { lease } = record;
    if (lease !== undefined) {
      lease.row.dueAt = Math.min(lease.row.dueAt!, now + lease.duration);
      if (!isLocked(record)) lease.end = lease.row.dueAt;
    }
    tables.refresh(record);
  }
}

export function remove(tables: MemoryTables, ref: string, what: readonly string[] | "timers"): number {
  const record = tables.records.get(ref);
  return record === undefined ? 0 : tables.remove(record, what, tables.now());
}

/** @returns the number of deleted events. It is `undefined` if an event of one of the records is being processed */
export function erase(tables: MemoryTables, refs: readonly string[]): number | undefined {
  const records = refs.flatMap((ref) => tables.records.get(ref) ?? []);
  if (records.some((record) => isLeased(tables, record))) return undefined;
  return records.reduce((events, record) => events + (eraseRecord(tables, record)?.events ?? 0), 0);
}

export function eraseAccount(tables: MemoryTables, account: string): ErasedAccount {
  const records = new Set([...(tables.accounts.get(account) ?? [])].map(({ record }) => record));
  for (const record of tables.records.values())
    if (record.ref !== null && splitKey(record.ref).account === account) records.add(record);
  const erased = { events: 0, snapshots: 0, processing: 0 };
  for (const record of records) {
    const rows = eraseRecord(tables, record);
    if (rows === undefined) erased.processing += 1;
    erased.events += rows?.events ?? 0;
    erased.snapshots += rows?.snapshots ?? 0;
  }
  return erased;
}

function isLeased(tables: MemoryTables, { lease }: RecordRow): boolean {
  return lease !== undefined && lease.end > tables.now();
}

function eraseRecord(tables: MemoryTables, record: RecordRow) {
  if (isLeased(tables, record)) return undefined;
  const snapshots = record.snapshot === undefined ? 0 : 1;
  const erased = [...record.events];
  for (const row of erased) tables.forget(row);
  record.lease = record.snapshot = record.ledger = undefined;
  tables.refresh(record);
  return { events: erased.length, snapshots };
}

/** @param isKnown - whether the record must have a snapshot already */
export function learn(tables: MemoryTables, ref: string, snapshot: Snapshot, isKnown: boolean): boolean {
  const now = tables.now();
  const known = tables.records.get(ref);
  if (known?.snapshot !== undefined) {
    if (!hasAllOf(snapshot, known.snapshot)) return false;
    remember(known, snapshot, false, now);
    return true;
  }
  if (isKnown) return false;
  for (const row of known?.events ?? []) {
    if (isWaiting(row, now) || row.state === "processing" || row.state === "parked") return false;
  }
  remember(tables.recordFor(ref, ref), snapshot, true, now);
  return true;
}

export function prune(tables: MemoryTables, options: PruneOptions): number {
  const rows = tables.prunable(options);
  for (const row of rows) tables.forget(row);
  for (const { record } of rows) tables.refresh(record);
  return rows.length;
}

export function pruneSnapshots(tables: MemoryTables, options: PruneSnapshotsOptions): number {
  const records = tables.prunableSnapshots(options);
  for (const record of records) {
    record.snapshot = undefined;
    record.sequence = 0;
    tables.refresh(record);
  }
  return records.length;
}

export function restore(
  tables: MemoryTables,
  events: readonly StoredEvent[],
  snapshots: readonly RecordSnapshot[],
  ledgers: readonly RecordLedger[],
): void {
  for (const event of events) {
    if (tables.events.has(event.eventId)) continue;
    const record = tables.recordFor(event.ref, event.eventId);
    tables.insert(restoredRow(event, record, tables.nextArrival()));
  }
  for (const { ref, snapshot, sequence, seenAt, ledger } of snapshots) {
    const record = tables.recordFor(ref, ref);
    if (record.snapshot !== undefined || record.ledger !== undefined) continue;
    Object.assign(record, { snapshot: copyOfSnapshot(snapshot), sequence, seenAt: seenAt.getTime() });
    record.ledger = ledger || undefined;
  }
  for (const { ref, ledger } of ledgers) {
    const record = tables.recordFor(ref, ref);
    if (record.snapshot === undefined) record.ledger ??= ledger || undefined;
    tables.refresh(record);
  }
}
