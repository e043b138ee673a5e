// The callbacks are exported from their own file, so its declaration file must name the type of each event.
import { Booking, type Listing, type WebhookCallbacks } from "stayhook";
import type { SqliteTransaction } from "stayhook/sqlite";
import * as z from "zod";

export const on = {
  "booking.Request": ({ booking, decideBy }) => [booking.bookingCode, decideBy],
  "booking.Confirmed": ({ booking, changes, previous, ref }) => ({ booking, changes, previous, ref }),
  "booking.unknown": (event) => event,
  "listing.Published": (event) => event.listing,
  message: (event) => event,
  unknown: (event) => event,
  fallback: (event) => event,
} satisfies WebhookCallbacks;

export const MyBooking = Booking.extend({ guestName: z.string() });
export type MyBooking = z.output<typeof MyBooking>;

export const selling = {
  "booking.Confirmed": ({ booking, atomically }) => atomically((tx) => tx.exec(`sell ${booking.guestName}`)),
  "booking.Cancelled": (event) => event,
  fallback: (event) => event,
} satisfies WebhookCallbacks<MyBooking, Listing, SqliteTransaction>;
