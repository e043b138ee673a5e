import { v4 } from "uuid";
import { StayhookError } from "../errors.ts";
import { type Booking, bookingStatuses } from "../models/booking.ts";
import { type Listing, listingStatuses } from "../models/listing.ts";
import { refuse } from "../sandbox/fields.ts";
import { eventTypes } from "../webhooks/event-type.ts";
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
import { type RecordKind, testRecord } from "./test-records.ts";

type Given = Readonly<Record<string, unknown>>;

const commonFields = [
  "eventId",
  "timestamp",
  "receivedAt",
  "source",
  "notification",
  "topic",
  "attempt",
  "signal",
];
const ownFields = ["client", "tx", "atomically"];
const statusFields = ["status", "previousStatus", "changed"];
const dayMs = 86_400_000;

/**
 * Makes what a callback of the webhook handler gets, for a unit test of the callback: complete, with a default
 * for all that is not given. Fields of your own model are given in `booking` or `listing`, and are typed by what
 * is given; or the event's type is written out.
 *
 * @throws InvalidArgumentError where there is no event of that type, it has no such field, or the status given is
 *   one that has a type of its own
 * @example
 * ```ts
 * await onConfirmed(createTestEvent("booking.Confirmed", { booking: { bookingCode: "HX3K9", guestName: "Ada" } }));
 * createTestEvent<BookingEvent<"Confirmed", MyBooking>>("booking.Confirmed", { booking: { guestName: "Ada" } });
 *
 * const event = createTestEvent("booking.Cancelled", { previousStatus: "Confirmed", tx: db });
 * await onCancelled(event);
 * await event.commit(); // runs what it gave to event.atomically
 * ```
 */
// What is wanted must not decide what an event has (NoInfer): only what was given is there. Of the record that it
// is not about there is none, and so it is one of any model (never), unless a client says of which.
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
export function createTestEvent<B extends Booking = never, L extends Listing = never, Tx = never>(
  type: "unknown",
  fields?: CommonFields<B, L, Tx>,
): TestEvent<"unknown", B, L, NoInfer<Tx>>;
export function createTestEvent<E extends { readonly type: TestEventType }>(
  type: E["type"],
  fields: FieldsOfEvent<E>,
): E & TestEventExtras;
export function createTestEvent(type: string, given: unknown = {}): unknown {
  if (!eventTypes.includes(type)) refuse(`must be one of ${eventTypes.join(", ")}`, "type");
  if (typeof given !== "object" || given === null) refuse("must be an object", "fields");
  const fields = given as Given;
  const [kind, name] = type.split(".") as [RecordKind | "unknown", string | undefined];
  checkNames(type, kind, fields);

  const { timestamp = new Date(), eventId = v4(), source = "webhook", previousStatus, topic } = fields;
  if (!(timestamp instanceof Date && !Number.isNaN(timestamp.getTime())))
    refuse("must be a valid Date", "timestamp");
  const record =
    kind === "unknown" ? undefined : testRecord(kind, statusOf(kind, name, fields), fields[kind], timestamp);
  const { receivedAt = timestamp, attempt = 1, signal = new AbortController().signal } = fields;
  const { client = standInClient(record), changed = record?.status !== previousStatus } = fields;
  const notification = {
    eventId,
    timestamp: timestamp.toISOString(),
    bookingCode: record?.bookingCode ?? null,
    listingId: kind === "listing" ? record?.listingId : null,
  };
  const event = {
    type,
    eventId,
    timestamp,
    receivedAt,
    source,
    notification: fields.notification ?? (source === "reconcile" ? undefined : notification),
    ...(topic !== undefined && { topic }),
    attempt,
    signal,
    client,
    ...(record && { status: record.status, [kind]: record, previousStatus, changed }),
    ...(type === "booking.Request" && { decideBy: fields.decideBy ?? new Date(timestamp.getTime() + dayMs) }),
  };
  return withWrites(event, fields);
}

function checkNames(type: string, kind: RecordKind | "unknown", fields: Given): void {
  const known = [...commonFields, ...ownFields];
  if (kind !== "unknown") known.push(kind, ...statusFields);
  if (type === "booking.Request") known.push("decideBy");
  for (const [field, value] of Object.entries(fields))
    if (value !== undefined && !known.includes(field)) refuse(`is no field of ${type}`, field);
}

/** The status that the type says; where it says none, the one that was given. */
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

/** Adds what the store would do with the callback's writes. Not enumerable: a copy of the event need not have it. */
function withWrites<E extends object>(event: E, { tx, atomically }: Given): E {
  const writes: ((tx: unknown) => unknown)[] = [];
  const collect = (write: unknown): void => {
    if (tx === undefined)
      throw new StayhookError(
        "this test event has no transaction: give createTestEvent the tx that event.atomically is to write to",
      );
    if (typeof write !== "function") throw new TypeError("event.atomically() takes a function");
    writes.push(write as (tx: unknown) => unknown);
  };
  const commit = async (): Promise<void> => {
    for (const write of writes.splice(0)) await write(tx);
  };
  const shown = tx !== undefined || atomically !== undefined;
  Object.defineProperty(event, "atomically", { value: atomically ?? collect, enumerable: shown });
  return Object.defineProperty(event, "commit", { value: commit });
}
