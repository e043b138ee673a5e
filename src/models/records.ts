import type { ZodBoolean, ZodObject, ZodOptional, ZodString, ZodType } from "zod";
import * as z from "zod";
import { problemWithId, toInteger } from "./ids.ts";
import { bookingTable, listingTable, type Status } from "./statuses.ts";
import { isTopic } from "./topics.ts";

// The schemas here avoid `z.number` and `z.record`, because each of them adds 1 kB (gzipped) to every bundle.

/** The schema of an integer. It converts a string of digits to a number. */
const integer = z
  .custom((value) => toInteger(value) !== undefined, { error: ({ input }) => problemWithId(input) })
  .transform((value) => toInteger(value) as number)
  .meta({ type: ["number", "string"] });

/** Converts a whole number to text, because a platform may send a code of digits as a number. */
export function codeOf(code: unknown): unknown {
  return Number.isSafeInteger(code) && (code as number) > 0 ? String(code) : code;
}

type FieldType = "string" | "number" | "null";

/** Maps each optional field of a record to the types that the field may have. */
export type FieldTypes = Readonly<Record<string, readonly FieldType[]>>;

/**
 * The schema of an optional field. It accepts any value, because a record with a value of an unexpected type is still
 * valid. So `types` are only for JSON Schema.
 */
export function tolerant(types: readonly FieldType[], schema: z.ZodType = z.unknown()) {
  return schema.optional().meta({ type: types });
}

/** Returns the names of the fields whose values have an unexpected type. */
export function unexpectedFields(record: object, types: FieldTypes): string[] {
  const fields = record as Readonly<Record<string, unknown>>;
  return Object.keys(types).filter((name) => {
    const value = fields[name];
    // A model made a `Date`: JSON has none.
    if (value instanceof Date) return false;
    const type = value === null ? "null" : typeof value;
    return value !== undefined && !(types[name] as readonly string[]).includes(type);
  });
}

/** The names of a table's statuses, as a tuple in the table's order. */
type Names<Table extends readonly Status[]> = { readonly [Index in keyof Table]: Table[Index]["name"] };

function namesOf<const Table extends readonly Status[]>(table: Table): Names<Table> {
  return table.map(({ name }) => name) as unknown as Names<Table>;
}

/** The statuses of a booking that this package knows. The platform may add others. */
export const bookingStatuses = namesOf(bookingTable);
/** One of {@link bookingStatuses}. */
export type BookingStatus = (typeof bookingStatuses)[number];

/**
 * A booking. The code and the status are always there.
 *
 * The object also has all further fields that the platform sent. To get types for these fields, give the client a
 * model. Without a model, read the fields with `booking as Booking & Record<string, unknown>`. An integer that a number
 * cannot hold is a string of its digits, in every field.
 */
export interface Booking {
  /** The code by which the platform names the booking, such as `HX3K9QWT`. */
  bookingCode: string;
  /**
   * One of {@link bookingStatuses}, or a status that is newer than this package. `client.bookings.get` gives it as it was
   * sent. `event.booking` has a known status in the spelling of {@link bookingStatuses}.
   */
  status: string;
  /**
   * The booked listing. `listingIdOf(booking)` gives the id as a number. An id that a number cannot hold is a string of its
   * digits.
   */
  listingId?: string | number | null | undefined;
  /** The day of arrival, in the platform's format. `stay(booking)` gives it as `YYYY-MM-DD`. */
  checkIn?: string | number | null | undefined;
  /** The day of departure, in the platform's format. `stay(booking)` gives it as `YYYY-MM-DD`. */
  checkOut?: string | number | null | undefined;
}

// This type is written by hand for these reasons:
// - zod's type of a loose object has an index signature, which would let the typo `booking.chekIn` compile.
// - This type names no types of this package, because a user's declaration file that exports `Booking.extend(...)`
//   could not import them.
// - This type uses named imports. If zod's types are CommonJS, a namespace import costs 1,800 type instantiations.
// - The fields of this type have TSDoc, which editors also show for the fields of a user's model.
type BookingSchema = ZodObject<{
  /** The code by which the platform names the booking, such as `HX3K9QWT`. */
  bookingCode: ZodString;
  /** The status as the platform sent it, which may be one that this version does not know. */
  status: ZodString;
  /** The booked listing. `listingIdOf(booking)` gives the id as a number. */
  listingId: ZodOptional<ZodType<string | number | null>>;
  /** The day of arrival. `stay(booking)` gives it as `YYYY-MM-DD`. */
  checkIn: ZodOptional<ZodType<string | number | null>>;
  /** The day of departure. `stay(booking)` gives it as `YYYY-MM-DD`. */
  checkOut: ZodOptional<ZodType<string | number | null>>;
}>;

export const bookingFieldTypes = {
  listingId: ["number", "string", "null"],
  checkIn: ["string", "number", "null"],
  checkOut: ["string", "number", "null"],
} as const satisfies FieldTypes;

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
  listingId: tolerant(
    bookingFieldTypes.listingId,
    z.unknown().transform((id) => toInteger(id) ?? id),
  ),
  checkIn: tolerant(bookingFieldTypes.checkIn),
  checkOut: tolerant(bookingFieldTypes.checkOut),
}) as unknown as BookingSchema;

/** The statuses of a listing that this package knows. The platform may add others. */
export const listingStatuses = namesOf(listingTable);
/** One of {@link listingStatuses}. */
export type ListingStatus = (typeof listingStatuses)[number];

/**
 * A listing. The id and the status are always there.
 *
 * The object also has all further fields that the platform sent. To get types for these fields, give the client a
 * model. Without a model, read the fields with `listing as Listing & Record<string, unknown>`. An integer that a number
 * cannot hold is a string of its digits, in every field.
 */
export interface Listing {
  /** The listing's unique id. The schema converts a string of digits to a number. */
  listingId: number;
  /** One of {@link listingStatuses}, or a status that is newer than this package. */
  status: string;
  /** The name of the listing. It is absent if the platform sends none. */
  listingName?: string | null | undefined;
}

// This type is written by hand. The comment on `BookingSchema` lists the reasons.
type ListingSchema = ZodObject<{
  /** The id by which the platform names the listing. */
  listingId: ZodType<number>;
  /** The status as the platform sent it, which may be one that this version does not know. */
  status: ZodString;
  /** The name of the listing. It is absent if the platform sends none. */
  listingName: ZodOptional<ZodType<string | null>>;
}>;

export const listingFieldTypes = { listingName: ["string", "null"] } as const satisfies FieldTypes;

/** The zod schema of a listing. It requires the id and the status, and keeps every further field. */
export const Listing: ListingSchema = z.looseObject({
  listingId: integer,
  status: z.string(),
  listingName: tolerant(listingFieldTypes.listingName),
}) as unknown as ListingSchema;

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
  /** The URLs of all other topics. It is absent if there are none. */
  otherEndpoints?: Record<string, string | null> | undefined;
}

// This type is written by hand. The comment on `BookingSchema` lists the reasons.
type WebhookConfigSchema = ZodObject<{
  /** Whether the platform sends notifications. */
  isActive: ZodBoolean;
  /** The URL of each topic that this version knows. */
  endpoints: ZodType<Endpoints>;
  /** The URLs of all other topics. It is absent if there are none. */
  otherEndpoints: ZodOptional<ZodType<Record<string, string | null>>>;
}>;

/**
 * The zod schema of the webhook configuration. The platform sends all topics in `endpoints`. The schema moves unknown
 * topics to `otherEndpoints`, and leaves out topics whose URL is `null` or `""`.
 */
export const WebhookConfig: WebhookConfigSchema = z
  .looseObject({
    isActive: z.boolean(),
    endpoints: z.looseObject({}).nullable(),
    otherEndpoints: z.looseObject({}).optional(),
  })
  // Do not use `transform`: it would return a schema without `extend`.
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
