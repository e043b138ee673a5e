// Reads a record, and gives it the status that this package knows, whatever the platform's spelling.

import type { ApiPromise } from "../../client/api-promise.ts";
import type { StayhookClient } from "../../client/client.ts";
import type { RequestOptions } from "../../client/client-options.ts";
import { sentRecord } from "../../client/find-in-body.ts";
import type { Booking, Listing } from "../../models/records.ts";
import { knownStatus } from "../../models/statuses.ts";
import type { Subject } from "../refs.ts";

/** A record, and the same record as the platform sent it. */
export interface ReadRecord<R extends Booking | Listing = Booking | Listing> {
  /** The record as the user's model made it. The model may leave out or convert fields that the handler compares. */
  readonly record: R;
  /** The fields that the handler compares, as the platform sent them. */
  readonly sent: SentFields;
}

/** The fields that the handler compares whatever `track` says, in the platform's form. */
export interface SentFields {
  readonly checkIn?: unknown;
  readonly checkOut?: unknown;
  readonly listingId?: unknown;
  readonly listingName?: unknown;
}

const SENT = ["checkIn", "checkOut", "listingId", "listingName"] as const;

/** Reads a booking or listing. Does not retry: the queue retries, and its gates must see each failure at once. */
export function readRecord(
  client: StayhookClient<Booking, Listing>,
  subject: Subject,
  signal: AbortSignal,
): Promise<ReadRecord> {
  const { account } = subject;
  const { bookings, listings } = account === undefined ? client : client.account(account);
  const once = { signal, maxRetries: 0 };
  return subject.kind === "booking"
    ? readBooking(bookings, subject.bookingCode, once)
    : readWith("listing", listings.get(subject.listingId, once), subject.listingId);
}

/** Reads a booking with the options of a request. */
export function readBooking(
  bookings: StayhookClient["bookings"],
  bookingCode: string,
  options: RequestOptions,
): Promise<ReadRecord<Booking>> {
  return readWith("booking", bookings.get(bookingCode, options), bookingCode);
}

async function readWith<R extends Booking | Listing>(
  kind: "booking" | "listing",
  call: ApiPromise<R>,
  asked: string | number,
): Promise<ReadRecord<R>> {
  const record = await call;
  // The user may have replaced the client's method by one that returns a plain promise.
  const answer = await (call as Partial<ApiPromise<R>>).withResponse?.();
  return readFrom(kind, record, sentRecord(kind, answer?.body, asked));
}

/** @param sent - the record as the platform sent it; `undefined` if that is unknown */
export function readFrom<R extends Booking | Listing>(
  kind: "booking" | "listing",
  record: R,
  sent: object = record,
): ReadRecord<R> {
  const fields = Object.fromEntries(SENT.map((name) => [name, read(sent, name)]));
  return { record: withKnownStatus(kind, record), sent: fields };
}

/** Returns `null` if the property is a getter that throws. A model that keeps the platform's object may add such getters. */
export function read(record: object, name: string): unknown {
  try {
    return (record as Readonly<Record<string, unknown>>)[name] ?? null;
  } catch {
    return null;
  }
}

/** Returns the record with its status in the spelling of the tables. Changes the record if that is possible. */
function withKnownStatus<R extends { status: string }>(kind: "booking" | "listing", record: R): R {
  const status = knownStatus(kind, record.status);
  if (status === record.status || isChanged(record, status)) return record;
  // A model may freeze its record, or make the status a getter.
  return Object.create(Object.getPrototypeOf(record), {
    ...Object.getOwnPropertyDescriptors(record),
    status: { value: status, enumerable: true, writable: true, configurable: true },
  });
}

function isChanged(record: { status: string }, status: string): boolean {
  try {
    record.status = status;
  } catch {
    return false;
  }
  return record.status === status;
}
