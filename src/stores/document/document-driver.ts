import type { EventState } from "../event-states.ts";
import type { SqlNotifier } from "../sql/driver.ts";

/**
 * A document of {@link documentStore}. The store makes a document for each record, with all its events, and small ones for
 * the ids of events and for meta values. Only the documents of records have the fields that {@link DocumentIndex} names.
 *
 * The database must compare texts byte by byte, and not by the rules of a language, because a store would otherwise take
 * different records for one. No text has a NUL or a lone surrogate.
 */
export interface StoreDocument {
  /** The primary key. */
  readonly key: string;
  /** A random text, which is new after each write. */
  readonly version: string;
  /** The same as `key`, so that an index lists the records alone. */
  readonly record?: string | undefined;
  /** When the record is due. Absent if it has no due time. */
  readonly due?: string | undefined;
  /** Orders records by their newest event, the newest first. Absent if the record has no event. */
  readonly newest?: number | undefined;
  /** Orders records by their newest notification, the newest first. Absent if the record has none. */
  readonly received?: number | undefined;
  /** The number of the record's events in each state. A state without events is absent. */
  readonly counts?: { readonly [state in EventState]?: number } | undefined;
  /** The contents, as JSON. */
  readonly body: string;
}

/** A field of {@link StoreDocument} that needs an index. */
export type DocumentIndex = "record" | "due" | "newest" | "received";

/** Which documents {@link DocumentDriver.find} yields. */
export interface DocumentQuery {
  /** Yields the documents that have this field, in ascending order of the field. */
  readonly by: DocumentIndex;
  /** Yields only documents whose `record` comes after this text. Only with `by: "record"`. */
  readonly after?: string | undefined;
  /** Yields only documents with `counts[state]` above 0. A driver may ignore it, and yield more. */
  readonly state?: EventState | undefined;
}

/** A conditional write of one document. */
export interface DocumentWrite {
  /** The key of the document. */
  readonly key: string;
  /** The `version` that the stored document must have. `undefined`: no document may have the key. */
  readonly expected: string | undefined;
  /** The new document. `undefined` deletes the stored one. */
  readonly document: StoreDocument | undefined;
}

/** Reads and writes the documents of {@link documentStore} in your database. Its methods reject if the database fails. */
export interface DocumentDriver {
  /**
   * Resolves to the documents that have these keys, in any order. It must see each write that has ended, so read from the
   * primary.
   */
  read(keys: readonly string[]): Promise<readonly StoreDocument[]>;
  /**
   * Applies all writes in one atomic step, as durably as the database can. Resolves to `false`, and applies none, if a
   * document does not have its `expected` version.
   */
  write(writes: readonly DocumentWrite[]): Promise<boolean>;
  /** Yields documents by an index. The store ends the iteration when it has enough. */
  find(query: DocumentQuery): AsyncIterable<StoreDocument>;
  /** Resolves to the sum of `counts` over all documents. A state without events may be absent. */
  counts(): Promise<StoreDocument["counts"] & {}>;
  /** Adds `by` to a counter that all processes share, in one atomic step. Resolves to the new value. */
  increment(by: number): Promise<number>;
  /** Resolves to the database's time, epoch ms. Default: the clock of this process. */
  now?(): Promise<number>;
  /** Lets processes wake each other. Without a notifier, a process polls to find the events of other processes. */
  readonly notifier?: SqlNotifier | undefined;
  /** The store calls `close` once, and calls no other method afterwards. */
  close(): Promise<void>;
}
