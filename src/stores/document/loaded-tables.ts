// The documents of records, and the tables of the memory store with their rows.

import type { EventState } from "../event-states.ts";
import { type EventRow, firstOf, newRecordRow, type RecordRow } from "../memory/memory-rows.ts";
import { MemoryStore } from "../memory/memory-store.ts";
import { MemoryTables } from "../memory/memory-tables.ts";
import type { RecordName } from "../stored-event.ts";
import type { DocumentWrite, StoreDocument } from "./document-driver.ts";

/** The version of the documents of ids. They need no other one, because each write of an id also writes its record. */
const ID_VERSION = "id";
/** A due time has 15 digits at most, and the number of an event 16. */
const DIGITS = 16;

/** Escapes a key as JSON, because a database may reject or change NUL and lone surrogates. */
export function documentKey(kind: "record" | "id" | "meta", key: string): string {
  return `${kind} ${JSON.stringify(key)}`;
}

/** Returns when the record of a document is due, epoch ms. */
export function dueOf({ due }: StoreDocument): number | undefined {
  return due === undefined ? undefined : Number(due.slice(0, DIGITS));
}

/** The rows of some documents, at one time. */
export class LoadedTables extends MemoryTables {
  readonly #arrivals: number[];
  readonly #documents: ReadonlyMap<string, StoreDocument>;
  /** The key of each loaded event's record, by the event's id. */
  readonly #homes: ReadonlyMap<string, string>;

  /** @param arrivals - the arrival numbers of new events */
  constructor(documents: readonly StoreDocument[], now: number, arrivals: readonly number[]) {
    super(now);
    this.#arrivals = [...arrivals];
    this.#documents = new Map(documents.map((document) => [document.key, document]));
    for (const document of documents) this.#load(document);
    this.#homes = this.#homesNow();
  }

  override nextArrival(): number {
    return this.#arrivals.shift()!;
  }

  #load(document: StoreDocument): void {
    const { key, ref, lease, events, ...kept } = JSON.parse(document.body) as Body;
    const record: RecordRow = Object.assign(newRecordRow(key, ref), kept);
    this.records.set(key, record);
    for (const { history, ...event } of events) {
      const entries = history.map((entry) => ({ ...entry, at: new Date(entry.at) }));
      this.insert({ ...event, history: entries, record } as EventRow);
    }
    if (lease !== undefined) record.lease = { ...lease, row: this.events.get(lease.eventId)! };
    // The end of an attempt may have made the record due later than its first event.
    this.due.set(record, dueOf(document));
  }

  /** Returns what the steps since the constructor changed. */
  writes(): DocumentWrite[] {
    const writes: DocumentWrite[] = [];
    for (const record of this.records.values()) {
      const after = documentOf(record);
      const before = this.#documents.get(after.key);
      if (before?.body === after.body && before.due === after.due) continue;
      writes.push({ key: after.key, expected: before?.version, document: after });
    }
    for (const { key, version, body } of this.#documents.values()) {
      if (!this.records.has((JSON.parse(body) as Body).key))
        writes.push({ key, expected: version, document: undefined });
    }
    return [...writes, ...this.#idWrites()];
  }

  *#idWrites(): Iterable<DocumentWrite> {
    const now = this.#homesNow();
    for (const eventId of new Set([...this.#homes.keys(), ...now.keys()])) {
      const [from, to] = [this.#homes.get(eventId), now.get(eventId)];
      if (from === to) continue;
      const key = documentKey("id", eventId);
      const document = to === undefined ? undefined : { key, version: ID_VERSION, body: to };
      yield { key, expected: from && ID_VERSION, document };
    }
  }

  #homesNow(): Map<string, string> {
    return new Map([...this.events].map(([eventId, { record }]) => [eventId, record.key]));
  }
}

/** The body of a record's document. */
interface Body extends Pick<RecordRow, "key" | "ref" | "snapshot" | "sequence" | "seenAt"> {
  readonly lease: { readonly eventId: string; readonly end: number; readonly duration: number } | undefined;
  readonly events: readonly Omit<EventRow, "record">[];
}

function documentOf(record: RecordRow): StoreDocument {
  const { ref, snapshot, sequence, seenAt, lease } = record;
  const events = [...record.events];
  const received = events.filter(({ event }) => event.source === "webhook").map((row) => row.receivedAt);
  const counts: { [state in EventState]?: number } = {};
  for (const { state } of events) counts[state] = (counts[state] ?? 0) + 1;
  const body: Body = {
    ...{ key: record.key, ref, snapshot, sequence, seenAt },
    lease: lease && { eventId: lease.row.event.eventId, end: lease.end, duration: lease.duration },
    events: events.map(({ record: _, ...row }) => row),
  };
  const key = documentKey("record", record.key);
  return {
    ...{ key, version: crypto.randomUUID(), record: key, counts, body: JSON.stringify(body) },
    ...(record.index !== -1 && { due: dueText(record) }),
    ...(events.length > 0 && { newest: -Math.max(...events.map(({ arrival }) => arrival)) }),
    ...(received.length > 0 && { received: -Math.max(...received) }),
  };
}

/** If two records are due at the same time, the one whose event arrived first comes first. */
function dueText(record: RecordRow): string {
  const parts = [Math.max(0, record.time), firstOf(record)?.arrival ?? 0];
  return parts.map((part) => String(part).padStart(DIGITS, "0")).join("-");
}

/** Reads the key of the document, because its body holds all events of the record. */
export function recordKey({ key }: StoreDocument): string {
  return JSON.parse(key.slice("record ".length)) as string;
}

/** @param record - the key of a record */
export function nameOf(record: string): RecordName {
  return { ref: record.startsWith("\0") ? null : record, eventId: record.slice(1) };
}

/** Returns the text by which `except` and `only` of a claim know a record. */
export function recordText(record: string): string {
  const { ref, eventId } = nameOf(record);
  return ref ?? eventId;
}

/** The rules of the memory store, on the rows of some documents. */
export interface Loaded {
  readonly tables: LoadedTables;
  readonly rules: MemoryStore;
}

export function loaded(
  documents: readonly StoreDocument[],
  now: number,
  arrivals: readonly number[] = [],
): Loaded {
  const tables = new LoadedTables(documents, now, arrivals);
  return { tables, rules: new MemoryStore(undefined, tables) };
}

/** What a step works on. */
export interface Keys {
  /** The keys of the step's records. */
  readonly records: readonly string[];
  /** The step also gets the records of these events. */
  readonly ids?: readonly string[] | undefined;
  /** The arrival numbers of new events. */
  readonly arrivals?: readonly number[];
}
