// Reads a record, and gives it the status that this package knows, whatever the platform's spelling.

import type { StayhookClient } from "../../client/client.ts";
import { asSent, rememberAsSent } from "../../models/as-sent.ts";
import type { Booking, Listing } from "../../models/records.ts";
import { knownStatus } from "../../models/statuses.ts";
import type { Subject } from "../refs.ts";

/** Reads a booking or listing. Does not retry: the queue retries, and its gates must see each failure at once. */
export async function readRecord(
  client: StayhookClient<Booking, Listing>,
  subject: Subject,
  signal: AbortSignal,
): Promise<Booking | Listing> {
  const { account } = subject;
  const { bookings, listings } = account === undefined ? client : client.account(account);
  const once = { signal, maxRetries: 0 };
  const record = await (subject.kind === "booking"
    ? bookings.get(subject.bookingCode, once)
    : listings.get(subject.listingId, once));
  return withKnownStatus(subject.kind, record);
}

/** Returns the record with its status in the spelling of the tables. Changes the record if that is possible. */
export function withKnownStatus<R extends { status: string }>(kind: "booking" | "listing", record: R): R {
  const status = knownStatus(kind, record.status);
  if (status === record.status || isChanged(record, status)) return record;
  // A model may freeze its record, or make the status a getter.
  const changed: R = Object.create(Object.getPrototypeOf(record), {
    ...Object.getOwnPropertyDescriptors(record),
    status: { value: status, enumerable: true, writable: true, configurable: true },
  });
  rememberAsSent(changed, asSent(record));
  return changed;
}

function isChanged(record: { status: string }, status: string): boolean {
  try {
    record.status = status;
  } catch {
    return false;
  }
  return record.status === status;
}
