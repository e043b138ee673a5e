import { bookingTable, GONE, listingTable } from "./statuses.ts";

/** The types of events without those of timers, whose names users choose. */
export const eventTypes: readonly string[] = [
  ...bookingTable.map(({ name }) => `booking.${name}`),
  `booking.${GONE}`,
  "booking.unknown",
  ...listingTable.map(({ name }) => `listing.${name}`),
  `listing.${GONE}`,
  "listing.unknown",
  "message",
  "unknown",
];
