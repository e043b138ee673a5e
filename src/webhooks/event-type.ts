import { bookingStatuses } from "../models/booking.ts";
import { listingStatuses } from "../models/listing.ts";
import type { Subject } from "./ref.ts";

/** All types of events. */
export const eventTypes: readonly string[] = [
  ...bookingStatuses.map((status) => `booking.${status}`),
  "booking.unknown",
  ...listingStatuses.map((status) => `listing.${status}`),
  "listing.unknown",
  "message",
  "unknown",
];

/** The type of an event whose record has this status. */
export function eventType(kind: Subject["kind"], status: string): string {
  const statuses: readonly string[] = kind === "booking" ? bookingStatuses : listingStatuses;
  return `${kind}.${statuses.includes(status) ? status : "unknown"}`;
}
