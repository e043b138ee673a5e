import type { ZodBoolean, ZodObject, ZodOptional, ZodString, ZodType } from "zod";
import * as z from "zod";
import { toInteger } from "./ids.ts";

/** An integer, also one that comes as a string of digits. */
export const integer: z.ZodType<number> = z
  .union([z.number(), z.string()], { error: "must be an integer" })
  .transform((value, context) => {
    const number = toInteger(value);
    if (number !== undefined) return number;
    context.issues.push({ code: "custom", message: "must be an integer", input: value });
    return z.NEVER;
  });

/** A field that fails no record: a `T`, `null` or absent. Any other value is passed on unchanged. */
export function tolerant<T>(type: z.ZodType<T>): z.ZodType<T | null | undefined> {
  return type.nullish().catch((context) => context.value as T);
}

/** The types that a field of a record may have, as `typeof` names them, and `null`. Each field may be absent. */
export type FieldTypes = Readonly<Record<string, readonly ("string" | "number" | "null")[]>>;

/** The names of the fields whose values have none of their types. */
export function unexpectedFields(record: object, types: FieldTypes): string[] {
  const fields = record as Readonly<Record<string, unknown>>;
  return Object.keys(types).filter((name) => {
    const value = fields[name];
    const type = value === null ? "null" : typeof value;
    return value !== undefined && !(types[name] as readonly string[]).includes(type);
  });
}

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

/** The statuses of a listing that the platform lists. */
export const listingStatuses = ["InReview", "Published", "Hidden"] as const;
/** One of {@link listingStatuses}. */
export type ListingStatus = (typeof listingStatuses)[number];

/**
 * A listing. The id and the status are always there.
 *
 * The object also has every further field that the platform sent. Give the client a model to have them typed, or
 * read them with `listing as Listing & Record<string, unknown>`.
 */
export interface Listing {
  /** The listing's unique id. An id that came as digits is a number here. */
  listingId: number;
  /** One of {@link listingStatuses}, or a status that is newer than this package. */
  status: string;
  /** The listing's name. */
  listingName?: string | null | undefined;
}

// See `BookingSchema`.
type ListingSchema = ZodObject<{
  /** The listing's unique id. */
  listingId: ZodType<number>;
  /** The listing's status. */
  status: ZodString;
  /** The listing's name. */
  listingName: ZodOptional<ZodType<string | null>>;
}>;

/** The zod schema of a listing. It requires the id and the status, and keeps every further field. */
export const Listing: ListingSchema = z.looseObject({
  listingId: integer,
  status: z.string(),
  listingName: tolerant(z.string()),
}) as unknown as ListingSchema;

export const listingFieldTypes: FieldTypes = { listingName: ["string", "null"] };

/** The topics that the platform names. It may have more. */
export const topics = ["bookings", "listings", "messages"] as const;
/** One of {@link topics}. */
export type Topic = (typeof topics)[number];

/** The URLs that notifications go to, by topic. A topic without a URL is absent. */
export interface Endpoints {
  /** The URL that notifications about bookings go to. */
  bookings?: string | undefined;
  /** The URL that notifications about listings go to. */
  listings?: string | undefined;
  /** The URL that notifications about messages go to. */
  messages?: string | undefined;
}

/**
 * The webhook configuration of the account.
 *
 * The object also has every further field that the platform sent.
 */
export interface WebhookConfig {
  /** Whether the platform sends notifications. */
  isActive: boolean;
  /** The URLs of the topics that this package knows. */
  endpoints: Endpoints;
  /** The URLs of further topics. Absent where there is none. */
  otherEndpoints?: Record<string, string | null> | undefined;
}

// See `BookingSchema`.
type WebhookConfigSchema = ZodObject<{
  isActive: ZodBoolean;
  endpoints: ZodType<Endpoints>;
  otherEndpoints: ZodOptional<ZodType<Record<string, string | null>>>;
}>;

/**
 * The zod schema of the webhook configuration, as the platform sends it: all topics stand in `endpoints`. A topic
 * whose URL is `null` or `""` is unset, and left out.
 */
export const WebhookConfig: WebhookConfigSchema = z
  .looseObject({
    isActive: z.boolean(),
    endpoints: z.record(z.string(), z.unknown()).nullable(),
    otherEndpoints: z.record(z.string(), z.unknown()).optional(),
  })
  // Not `transform`, whose result has no `extend`.
  .overwrite(({ otherEndpoints, ...config }) => {
    const urls = Object.entries({ ...otherEndpoints, ...config.endpoints });
    const set = urls.filter(([, url]) => url !== null && url !== undefined && url !== "");
    const others = set.filter(([topic]) => !isTopic(topic));
    return {
      ...config,
      endpoints: Object.fromEntries(set.filter(([topic]) => isTopic(topic))),
      ...(others.length > 0 && { otherEndpoints: Object.fromEntries(others) }),
    };
  }) as unknown as WebhookConfigSchema;

export function isTopic(name: string): name is Topic {
  return (topics as readonly string[]).includes(name);
}
