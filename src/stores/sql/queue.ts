import { change, type SqlDialect, type SqlRow, type SqlSteps, type SqlValue, select } from "./driver.ts";
import { number, numberOrNull, text } from "./rows.ts";
import type { Statements } from "./statements.ts";

/** What the steps of an operation share. */
export interface Operation {
  readonly sql: Statements;
  readonly dialect: SqlDialect;
  /** Epoch ms by the store's clock. */
  readonly now: number;
}

/** A row of `stayhook_queue`: one record with an event to claim, or a lease. */
export interface QueueRow {
  readonly record: string;
  readonly pendingDue: number | null;
  readonly pendingSeq: number | null;
  readonly pendingAt: number | null;
  readonly retryDue: number | null;
  readonly retrySeq: number | null;
  readonly waitFrom: number | null;
  readonly waitEnd: number;
  readonly lease: string | null;
  readonly leaseSeq: number | null;
  readonly leaseEnd: number;
}

type First = { readonly due: number | null; readonly seq: number | null };

export function queueRowOf(row: SqlRow): QueueRow {
  return {
    record: text(row.record),
    pendingDue: numberOrNull(row.pending_due),
    pendingSeq: numberOrNull(row.pending_seq),
    pendingAt: numberOrNull(row.pending_at),
    retryDue: numberOrNull(row.retry_due),
    retrySeq: numberOrNull(row.retry_seq),
    waitFrom: numberOrNull(row.wait_from),
    waitEnd: number(row.wait_end),
    lease: row.lease === null ? null : text(row.lease),
    leaseSeq: numberOrNull(row.lease_seq),
    leaseEnd: number(row.lease_end),
  };
}

/** The record's row, locked by the transaction. */
export function* queueOf({ sql }: Operation, record: string): SqlSteps<QueueRow | undefined> {
  const [row] = yield* select(sql.queueOf, record);
  return row && queueRowOf(row);
}

/** Writes a row as it is now. Deletes it where the record has nothing more to claim. */
export function* putQueue({ sql }: Operation, row: QueueRow): SqlSteps<void> {
  if (row.pendingSeq === null && row.retrySeq === null) {
    yield* change(sql.dropQueue, row.record);
    return;
  }
  const { pendingDue, pendingSeq, retryDue, retrySeq, waitFrom, waitEnd, lease, leaseSeq, leaseEnd } = row;
  const first: SqlValue[] = [pendingDue, pendingSeq, retryDue, retrySeq];
  yield* change(sql.setQueue, ...first, waitFrom, waitEnd, lease, leaseSeq, leaseEnd, row.record);
}

/** The first pending event of a record, in the form of {@link QueueRow}. */
export function* firstPending({ sql }: Operation, record: string) {
  const { due, seq } = first(yield* select(sql.firstPending, record));
  return { pendingDue: due, pendingSeq: seq };
}

/** The first event of a record that is retrying or processed, in the form of {@link QueueRow}. */
export function* firstRetry({ sql }: Operation, record: string) {
  const { due, seq } = first(yield* select(sql.firstRetry, record, record));
  return { retryDue: due, retrySeq: seq };
}

/** Reads the record's first events anew, after several of them have changed. */
export function* refresh(
  operation: Operation,
  record: string,
  changes: Partial<QueueRow> = {},
): SqlSteps<void> {
  const pending = yield* firstPending(operation, record);
  const retry = yield* firstRetry(operation, record);
  // Not there yet where ended events are replayed.
  if (pending.pendingSeq !== null || retry.retrySeq !== null) {
    yield* change(operation.sql.insertQueue, record, null, null);
  }
  const row = yield* queueOf(operation, record);
  if (row !== undefined) yield* putQueue(operation, { ...row, ...pending, ...retry, ...changes });
}

function first([row]: readonly SqlRow[]): First {
  return row === undefined ? { due: null, seq: null } : { due: number(row.ready_at), seq: number(row.seq) };
}
