import type { StayhookClient } from "../../client/client.ts";
import type { Booking, Listing } from "../../models/records.ts";
import type { Subject } from "../refs.ts";
import { withKnownStatus } from "./known-status.ts";

/** Reads a booking or listing, and gives it a status that is known. Does not retry: the queue retries, and its gates must see each failure at once. */
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
