import { bookingTable, listingTable } from "./statuses.ts";

/** The types of events without those of timers, whose names users choose. */
export const eventTypes: readonly string[] = [
  ...bookingTable.map(({ name }) => `booking.${name}`),
  "booking.unknown",
  ...listingTable.map(({ name }) => `listing.${name}`),
  "listing.unknown",
  "message",
  "unknown",
];
