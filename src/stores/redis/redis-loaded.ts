// The rows that the script `load` reads for a rule, and the changes that the script `write` makes.

import type { EventOrigin, EventState } from "../event-states.ts";
import { type EventRow, type RecordRow, toName } from "../memory/memory-rows.ts";
import { MemoryTables } from "../memory/memory-tables.ts";
import { fromText, toText } from "../sql/sql-rows.ts";
import type { RecordName } from "../stored-event.ts";
import { packSnapshot, recordName, toInsert, toRecordSnapshot, unpackText } from "./redis-rows.ts";

type Value = string | false;
type LeaseReply = readonly [event: Value, end: Value, duration: Value];
/** A rule that reads events alone gets only the name. */
type RecordReply = readonly [name: string, lease?: LeaseReply, due?: Value, snapshot?: Value, ledger?: Value];
/** Id, fields, due time. */
type EventReply = readonly [string, readonly Value[], Value];

const NO_LEASE: LeaseReply = [false, false, false];
/** Stands for a notification, which is not loaded, because a rule at most drops it. */
const NOT_LOADED = "";

/** Returns the record with a name of {@link recordName}. */
export function nameOfRecord(name: string): RecordName {
  const text = fromText(name.slice(1));
  return name.startsWith("r") ? { ref: text, eventId: "" } : { ref: null, eventId: text };
}

export class LoadedRows {
  readonly tables: MemoryTables;
  /** The rows before the rule. */
  readonly #events: ReadonlyMap<EventRow, EventRow>;
  readonly #records: ReadonlyMap<RecordRow, RecordRow>;

  /** @param rows - the JSON of the script `load` */
  constructor(rows: string, now: number) {
    this.tables = new MemoryTables(now);
    const [records, events] = (JSON.parse(rows) as [object, object]).map(Object.values) as [
      RecordReply[],
      EventReply[],
    ];
    const names = new Map(records.map(([name]) => [name, nameOfRecord(name)]));
    for (const reply of events) {
      const { ref, eventId } = names.get(reply[1][0] as string)!;
      this.tables.insert(eventRowOf(reply, ref, this.tables.recordFor(ref, eventId)));
    }
    for (const reply of records) this.#complete(reply, names.get(reply[0])!);
    this.#events = new Map([...this.tables.events.values()].map((row) => [row, { ...row }]));
    this.#records = new Map(
      [...this.tables.records.values()].map((row) => [row, { ...row, lease: row.lease && { ...row.lease } }]),
    );
  }

  #complete(
    [, lease = NO_LEASE, due = false, snapshot = false, ledger = false]: RecordReply,
    { ref, eventId }: RecordName,
  ): void {
    const [holder, end, duration] = lease;
    const record = this.tables.recordFor(ref, eventId);
    if (ref !== null && snapshot !== false) {
      const { seenAt, ...known } = toRecordSnapshot(ref, snapshot);
      Object.assign(record, known, { seenAt: seenAt.getTime() });
    }
    if (ledger !== false) record.ledger = fromText(ledger);
    const row = holder === false ? undefined : this.tables.events.get(fromText(holder));
    if (row !== undefined && end !== false)
      record.lease = { row, end: Number(end), duration: Number(duration) };
    this.tables.due.set(record, due === false ? undefined : Number(due));
  }

  /** Returns what the rule has changed, as the script `write` takes it, or `undefined` if it changed nothing. */
  changes() {
    const touched = new Set<RecordRow>();
    const events = [...this.#events];
    const isKept = ([row]: readonly [EventRow, EventRow]) =>
      this.tables.events.get(row.event.eventId) === row;
    const drops = events.filter((event) => !isKept(event));
    const changed = events
      .filter(isKept)
      .filter(([row, before]) => row.record.lease?.row !== row && isChanged(row, before));
    const inserted = [...this.tables.events.values()].filter((row) => !this.#events.has(row));
    for (const [row] of [...drops, ...changed]) touched.add(row.record);
    for (const row of inserted) touched.add(row.record);
    const records = [...this.#records];
    for (const row of this.tables.records.values())
      if (!this.#records.has(row)) records.push([row, { ...row, snapshot: undefined, ledger: undefined }]);
    const ended = records.filter(([row, before]) => before.lease !== undefined && row.lease === undefined);
    const held = records.filter(
      ([row, before]) => row.lease !== undefined && row.lease.end !== before.lease?.end,
    );
    for (const [row] of [...ended, ...held]) touched.add(row);
    const seen = records.filter(([row, before]) => row.snapshot !== before.snapshot);
    const ledgered = records.filter(([row, before]) => row.ledger !== before.ledger);
    if (touched.size + seen.length + ledgered.length === 0) return undefined;
    return {
      drops: drops.map(([row]) => toText(row.event.eventId)),
      changes: changed.map(([row, before]) => toChange(row, before)),
      inserts: inserted.map(toInsert),
      ended: ended.map(([row]) => nameOf(row)),
      holds: held.map(([row]) => toHold(row)),
      snapshots: seen.flatMap(([row]) => (row.snapshot === undefined ? [] : [toSnapshot(row)])),
      ledgers: ledgered.map(([{ ref, ledger }]) => ({ ref: toText(ref!), ledger: toText(ledger ?? "") })),
      forgotten: seen.flatMap(([row]) => (row.snapshot === undefined ? [toText(row.ref!)] : [])),
      touched: [...touched].map(nameOf),
    };
  }
}

function nameOf(row: RecordRow): string {
  return recordName(toName(row));
}

function eventRowOf([id, fields, due]: EventReply, ref: string | null, record: RecordRow): EventRow {
  const texts = fields.map((value) => (value === false ? "" : value));
  const [
    ,
    seq = "",
    state = "",
    received = "",
    timestamp = "",
    source = "",
    attempts = "",
    outages = "",
    outageAt = "",
    failures = "",
    refusals = "",
    firstDueAt = "",
    replayed = "",
    ended = "",
    type = "",
    reason = "",
  ] = texts;
  const event = { eventId: fromText(id), ref, source: source as EventOrigin, timestamp };
  const dueAt = due === false || due === "inf" ? undefined : Number(due);
  return {
    ...{ event: { ...event, topic: null, traceparent: null, notification: NOT_LOADED }, record },
    ...{ arrival: Number(seq), state: state as EventState, dueAt, receivedAt: Number(received) },
    ...{ attempts: Number(attempts), outages: Number(outages), replayed: replayed === "1" },
    ...{ failures: Number(failures), refusals: Number(refusals), firstDueAt: Number(firstDueAt) },
    firstOutageAt: outageAt === "" ? null : Number(outageAt),
    ...{ claimedAt: 0, worker: undefined, lease: undefined, endedAt: Number(ended), history: [] },
    ...{ type: unpackText(type), reason: (reason || null) as EventRow["reason"] },
  };
}

/** The fields of an event that a rule may change. */
function fieldsOf({ attempts, outages, firstOutageAt, failures, refusals, firstDueAt, replayed }: EventRow) {
  return {
    attempts: attempts || "",
    outages: outages || "",
    outage_at: firstOutageAt ?? "",
    failures: failures || "",
    refusals: refusals || "",
    first_due: firstDueAt,
    replayed: replayed ? 1 : "",
  };
}

function isChanged(row: EventRow, before: EventRow): boolean {
  return row.state !== before.state || row.dueAt !== before.dueAt || row.reason !== before.reason;
}

function toChange(row: EventRow, before: EventRow) {
  const known: Readonly<Record<string, unknown>> = fieldsOf(before);
  return {
    ...{ id: toText(row.event.eventId), state: row.state, due: row.dueAt, firstDue: row.firstDueAt },
    ended: row.dueAt === undefined ? row.endedAt : undefined,
    reason: row.reason === before.reason ? undefined : (row.reason ?? ""),
    fields: Object.entries(fieldsOf(row))
      .filter(([name, value]) => value !== known[name])
      .flat(),
    drops: row.event.notification === null,
  };
}

function toHold(row: RecordRow) {
  const { row: holder, end, duration } = row.lease!;
  return { record: nameOf(row), id: toText(holder.event.eventId), leaseEnd: end, duration };
}

function toSnapshot({ ref, snapshot, sequence, seenAt }: RecordRow) {
  return { ref: toText(ref!), sequence, seenAt, snapshot: packSnapshot(snapshot!) };
}
