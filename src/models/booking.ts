import * as z from "zod";
import { toInteger } from "./integer.ts";
import { type Kinds, tolerant } from "./kinds.ts";

/** The statuses of a booking that the platform lists. */
export const bookingStatuses = ["Initiated", "Request", "Confirmed", "Declined", "Cancelled"] as const;
/** One of {@link bookingStatuses}. */
export type BookingStatus = (typeof bookingStatuses)[number];

const date = tolerant(z.union([z.string(), z.number()]));

/**
 * A booking. The code and the status are required; what else is known of is typed as it may be, and every
 * further field is kept.
 *
 * @example Fields that you know of are added by extending it:
 * ```ts
 * const MyBooking = Booking.extend({ guestName: z.string() });
 * const client = new StayhookClient({ baseUrl, accessToken, models: { booking: MyBooking } });
 * ```
 */
export const Booking = z.looseObject({
  bookingCode: z.string(),
  /** One of {@link bookingStatuses}, or one that is newer than this package. */
  status: z.string(),
  /** The booked listing; a number where it comes as digits. */
  listingId: tolerant(z.union([z.number(), z.string()]).transform((id) => toInteger(id) ?? id)),
  /** Arrival, in whatever format the platform uses; `stay()` reads it. */
  checkIn: date,
  /** Departure, likewise. */
  checkOut: date,
});
export type Booking = z.output<typeof Booking>;

export const bookingKinds: Kinds = {
  listingId: ["string", "number", "null"],
  checkIn: ["string", "number", "null"],
  checkOut: ["string", "number", "null"],
};
