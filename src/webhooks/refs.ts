// The names of records and of their events: `booking:HX3K9`, `booking.Confirmed`.

import { bookingStatuses, listingStatuses } from "../models/records.ts";

/** The record that an event is about, as parsed from the event's `ref`. */
export type Subject =
  | { readonly kind: "booking"; readonly bookingCode: string }
  | { readonly kind: "listing"; readonly listingId: number };

/** Trims the code, unless the code is only white space. */
export function bookingRef(bookingCode: string): string {
  return `booking:${bookingCode.trim() || bookingCode}`;
}

export function listingRef(listingId: number): string {
  return `listing:${listingId}`;
}

export function parseRef(ref: string | null): Subject | undefined {
  if (ref?.startsWith("booking:")) return { kind: "booking", bookingCode: ref.slice("booking:".length) };
  if (ref?.startsWith("listing:"))
    return { kind: "listing", listingId: Number(ref.slice("listing:".length)) };
  return undefined;
}

/** The keys of `on` whose callback runs for every event of a booking or listing that has no callback of its own. */
export const kindsOfRecords: readonly string[] = ["booking", "listing"];

/** Returns the event type for a record of this kind and status. */
export function eventType(kind: Subject["kind"], status: string): string {
  const statuses: readonly string[] = kind === "booking" ? bookingStatuses : listingStatuses;
  return `${kind}.${statuses.includes(status) ? status : "unknown"}`;
}
