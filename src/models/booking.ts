import type { ZodObject, ZodOptional, ZodString, ZodType } from "zod";
import * as z from "zod";
import { type FieldTypes, tolerant } from "./fields.ts";
import { toInteger } from "./stay.ts";

/** The statuses of a booking that the platform lists. */
export const bookingStatuses = ["Initiated", "Request", "Confirmed", "Declined", "Cancelled"] as const;
/** One of {@link bookingStatuses}. */
export type BookingStatus = (typeof bookingStatuses)[number];

/**
 * A booking. The code and the status are always there.
 *
 * The object also has every further field that the platform sent. Give the client a model to have them typed, or
 * read them with `booking as Booking & Record<string, unknown>`.
 */
export interface Booking {
  /** The booking's unique code. */
  bookingCode: string;
  /** One of {@link bookingStatuses}, or a status that is newer than this package. */
  status: string;
  /** The booked listing. `listingIdOf(booking)` gives the id as a number. */
  listingId?: string | number | null | undefined;
  /** The day of arrival, in the platform's format. `stay(booking)` gives it as `YYYY-MM-DD`. */
  checkIn?: string | number | null | undefined;
  /** The day of departure, in the platform's format. `stay(booking)` gives it as `YYYY-MM-DD`. */
  checkOut?: string | number | null | undefined;
}

// This type is written by hand for these reasons:
// - It has no index signature, which zod gives to loose objects, so that `booking.chekIn` does not compile.
// - It uses no type names of this package. A declaration file that exports `Booking.extend(...)` could not import them.
// - It uses named imports of zod. If zod's types are CommonJS (node16), a namespace import costs 1,800 instantiations.
// - Its fields have TSDoc of their own, which editors show for the fields of a user's model.
type BookingSchema = ZodObject<{
  /** The booking's unique code. */
  bookingCode: ZodString;
  /** The booking's status. */
  status: ZodString;
  /** The booked listing. `listingIdOf(booking)` gives the id as a number. */
  listingId: ZodOptional<ZodType<string | number | null>>;
  /** The day of arrival. `stay(booking)` gives it as `YYYY-MM-DD`. */
  checkIn: ZodOptional<ZodType<string | number | null>>;
  /** The day of departure. `stay(booking)` gives it as `YYYY-MM-DD`. */
  checkOut: ZodOptional<ZodType<string | number | null>>;
}>;

const date = tolerant(z.union([z.string(), z.number()]));

/**
 * The zod schema of a booking. It requires the code and the status, and keeps every further field.
 *
 * @example
 * ```ts
 * const MyBooking = Booking.extend({ guestName: z.string() });
 * const client = new StayhookClient({ baseUrl, accessToken, models: { booking: MyBooking } });
 * ```
 */
export const Booking: BookingSchema = z.looseObject({
  bookingCode: z.string(),
  status: z.string(),
  listingId: tolerant<string | number>(
    z.union([z.number(), z.string()]).transform((id) => toInteger(id) ?? id),
  ),
  checkIn: date,
  checkOut: date,
}) as unknown as BookingSchema;

export const bookingFieldTypes: FieldTypes = {
  listingId: ["string", "number", "null"],
  checkIn: ["string", "number", "null"],
  checkOut: ["string", "number", "null"],
};
