import { v4 } from "uuid";
import { StayhookError } from "../errors.ts";
import { type Booking, bookingStatuses } from "../models/booking.ts";
import { type Listing, listingStatuses } from "../models/listing.ts";
import { refuse } from "../sandbox/records.ts";
import { eventTypes } from "../webhooks/event-type.ts";
import type { FieldChanges, PreviousRecord } from "../webhooks/events.ts";
import { compare, snapshots } from "../webhooks/processing/snapshot.ts";
import { standInClient } from "./test-client.ts";
import type {
  BookingEventType,
  BookingFields,
  CommonFields,
  FieldsOfEvent,
  ListingEventType,
  ListingFields,
  TestEvent,
  TestEventExtras,
  TestEventType,
} from "./test-event-types.ts";
import { type RecordKind, type TestRecord, testRecord } from "./test-records.ts";

type Given = Readonly<Record<string, unknown>>;
/** What an event is about. */
type Subject = RecordKind | "none";

const commonFields = [
  "eventId",
  "timestamp",
  "receivedAt",
  "source",
  "notification",
  "topic",
  "attempt",
  "signal",
  "client",
  "tx",
  "atomically",
];
const recordFields = ["status", "previous", "previousStatus", "changed", "changes"];
const dayMs = 86_400_000;

/**
 * Makes the argument of a callback, for a unit test of the callback. Each field that is not given has a default. The
 * fields of your own model are typed by what you give in `booking` or `listing`. {@link createTestEventOf} takes the
 * type of the event instead.
 *
 * @throws InvalidArgumentError where there is no event of that type, the event has no such field, or the given status
 *   has a type of its own
 * @example
 * ```ts
 * await onConfirmed(createTestEvent("booking.Confirmed", { booking: { bookingCode: "HX3K9", guestName: "Ada" } }));
 *
 * const event = createTestEvent("booking.Cancelled", { previousStatus: "Confirmed", tx: db });
 * await onCancelled(event);
 * await event.commit(); // runs the writes that the callback gave to event.atomically
 * ```
 */
// NoInfer: the wanted type must not add fields that were not given. An event about a booking fits any listing
// model (never), unless a client says which one, and the other way round.
export function createTestEvent<
  const T extends BookingEventType,
  B extends object = object,
  L extends Listing = never,
  Tx = never,
>(
  type: T,
  fields?: CommonFields<Booking, L, Tx> & BookingFields<T, B>,
): TestEvent<T, Booking & NoInfer<B>, L, NoInfer<Tx>>;
export function createTestEvent<
  const T extends ListingEventType,
  L extends object = object,
  B extends Booking = never,
  Tx = never,
>(
  type: T,
  fields?: CommonFields<B, Listing, Tx> & ListingFields<T, L>,
): TestEvent<T, B, Listing & NoInfer<L>, NoInfer<Tx>>;
export function createTestEvent<
  const T extends "message" | "unknown",
  B extends Booking = never,
  L extends Listing = never,
  Tx = never,
>(type: T, fields?: CommonFields<B, L, Tx>): TestEvent<T, B, L, NoInfer<Tx>>;
export function createTestEvent(type: string, given: unknown = {}): unknown {
  if (!eventTypes.includes(type)) refuse(`must be one of ${eventTypes.join(", ")}`, "type");
  if (typeof given !== "object" || given === null) refuse("must be an object", "fields");
  const fields = given as Given;
  const [kind, name] = type.split(".") as [string, string | undefined];
  const subject: Subject = kind === "booking" || kind === "listing" ? kind : "none";
  checkNames(type, subject, fields);

  const { timestamp = new Date(), eventId = v4(), source = "webhook" } = fields;
  const { topic = type === "message" ? "messages" : undefined } = fields;
  if (!(timestamp instanceof Date && !Number.isNaN(timestamp.getTime())))
    refuse("must be a valid Date", "timestamp");
  const record =
    subject === "none"
      ? undefined
      : testRecord(subject, statusOf(subject, name, fields), fields[subject], timestamp);
  const { receivedAt = timestamp, attempt = 1, signal = new AbortController().signal } = fields;
  const { client = standInClient(record) } = fields;
  const notification = {
    eventId,
    timestamp: timestamp.toISOString(),
    bookingCode: record?.bookingCode ?? null,
    listingId: subject === "listing" ? record?.listingId : null,
  };
  const decideBy =
    fields.decideBy ?? (source === "reconcile" ? undefined : new Date(timestamp.getTime() + dayMs));
  const event = {
    type,
    ...(type === "message" && { ref: null }),
    ...(record && { status: record.status, [subject]: record }),
    ...(record && differences(subject as RecordKind, record, fields)),
    eventId,
    timestamp,
    receivedAt,
    source,
    notification: fields.notification ?? (source === "webhook" ? notification : undefined),
    ...(topic !== undefined && { topic }),
    ...(type === "booking.Request" && { decideBy }),
    attempt,
    signal,
    client,
  };
  return withWrites(event, fields);
}

/**
 * Makes the event of a type that you write out. Required fields of your own model must be given.
 *
 * @typeParam E - the event, such as `BookingEvent<"Confirmed", MyBooking>`
 * @throws InvalidArgumentError like {@link createTestEvent}
 * @example
 * ```ts
 * createTestEventOf<BookingEvent<"Confirmed", MyBooking>>("booking.Confirmed", { booking: { guestName: "Ada" } });
 * ```
 */
export function createTestEventOf<E extends { readonly type: TestEventType }>(
  type: E["type"],
  ...[fields]: Record<never, never> extends FieldsOfEvent<E>
    ? [fields?: FieldsOfEvent<E>]
    : [fields: FieldsOfEvent<E>]
): E & TestEventExtras {
  return createTestEvent(type as "unknown", fields as object) as unknown as E & TestEventExtras;
}

function checkNames(type: string, subject: Subject, fields: Given): void {
  const known = [...commonFields];
  if (subject !== "none") known.push(subject, ...recordFields);
  if (type === "booking.Request") known.push("decideBy");
  for (const [field, value] of Object.entries(fields))
    if (value !== undefined && !known.includes(field)) refuse(`is no field of ${type}`, field);
}

/** The fields that compare the record with its snapshot, by the fields that a handler tracks by default. */
function differences(kind: RecordKind, record: TestRecord, fields: Given) {
  const look = snapshots()(kind, record as unknown as Booking | Listing);
  const { status: _, ...kept } = Object(fields.previous) as PreviousRecord;
  const { previousStatus = (fields.previous as PreviousRecord | undefined)?.status } = fields;
  if (fields.previous !== undefined && (fields.previous as PreviousRecord).status !== previousStatus)
    refuse("differs from previous.status", "previousStatus");
  const snapshot =
    previousStatus === undefined
      ? undefined
      : { status: previousStatus, fields: fields.previous === undefined ? look.snapshot.fields : kept };
  const found = compare(snapshot as Parameters<typeof compare>[0], look);
  const { changes = fields.changed === false ? {} : found.changes } = fields;
  const { changed = Object.keys(changes as FieldChanges).length > 0 } = fields;
  return { previousStatus, changed, changes, previous: fields.previous ?? found.previous };
}

/** The status in the type; for an `unknown` type the one that was given. */
function statusOf(kind: RecordKind, name: string | undefined, fields: Given): string {
  const { status: ofRecord } = Object(fields[kind]) as Given;
  const { status = ofRecord } = fields;
  if (ofRecord !== undefined && status !== ofRecord) refuse(`differs from ${kind}.status`, "status");
  const listed: readonly unknown[] = kind === "booking" ? bookingStatuses : listingStatuses;
  if (name !== "unknown") {
    if (status !== undefined && status !== name)
      refuse(`must be ${name}: the event is ${kind}.${name}`, "status");
    return name as string;
  }
  if (status === undefined) return "OnHold";
  if (typeof status !== "string") refuse("must be a string", "status");
  if (listed.includes(status)) refuse(`is listed: make a ${kind}.${status} instead`, "status");
  return status;
}

/** Adds the part of a store: it takes the callback's writes, and runs them. */
function withWrites<E extends object>(event: E, { tx, atomically }: Given): E {
  const writes: ((tx: unknown) => unknown)[] = [];
  const collect = (write: unknown): void => {
    if (tx === undefined)
      throw new StayhookError(
        "This test event has no transaction. Give createTestEvent the tx that the writes of event.atomically take.",
      );
    if (typeof write !== "function") throw new TypeError("event.atomically() takes a function");
    writes.push(write as (tx: unknown) => unknown);
  };
  const commit = async (): Promise<void> => {
    for (const write of writes.splice(0)) await write(tx);
  };
  // Not enumerable, because the handler's own events do not have it.
  return Object.defineProperty({ ...event, atomically: atomically ?? collect }, "commit", { value: commit });
}
