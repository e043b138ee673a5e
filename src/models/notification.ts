import type { ZodObject, ZodOptional, ZodString, ZodType } from "zod";
import * as z from "zod";
import type { Issue } from "../errors.ts";
import { isoTimestamp } from "./dates.ts";
import { toInteger } from "./ids.ts";
import { integer, tolerant } from "./records.ts";
import { toIssues } from "./standard-schema.ts";

const string = z.string({
  error: (issue) => (issue.input === undefined ? "is missing" : "must be a string"),
});

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * The notification that the platform sends to a subscriber's endpoint. It says that a booking or listing has
 * changed, and when.
 *
 * The object also has every further field that the platform sent.
 */
export interface WebhookNotification {
  /** The id of the event: 8-4-4-4-12 hexadecimal digits, in either case. Each delivery of the event has the same id. */
  eventId: string;
  /** The time of the event as the platform wrote it. `event.timestamp` is the time that was read from it. */
  timestamp?: string | number | null | undefined;
  /** The booking that the event is about. */
  bookingCode?: string | null | undefined;
  /** The listing that the event is about. An id that came as digits is a number here. */
  listingId?: number | null | undefined;
}

// See `BookingSchema`.
type NotificationSchema = ZodObject<{
  eventId: ZodString;
  timestamp: ZodOptional<ZodType<string | number | null>>;
  bookingCode: ZodOptional<ZodType<string | null>>;
  listingId: ZodOptional<ZodType<number | null>>;
}>;

/**
 * The zod schema of a notification. It is tolerant, because a refused notification may be lost, and it keeps every
 * further field.
 */
export const WebhookNotification: NotificationSchema = z.looseObject(
  {
    eventId: string.regex(uuid, "must be a UUID: 8-4-4-4-12 hexadecimal digits"),
    timestamp: tolerant(z.union([z.string(), z.number()])),
    bookingCode: string.superRefine(checkBookingCode).nullish(),
    listingId: integer.nullish(),
  },
  { error: "must be a JSON object" },
) as unknown as NotificationSchema;

/** The fields of a notification, with their meaning. */
export interface ParsedNotification {
  readonly ok: true;
  /** In lower case. */
  readonly eventId: string;
  /** In ISO 8601; `undefined` where the time is missing or cannot be read. */
  readonly timestamp: string | undefined;
  readonly bookingCode: string | null;
  readonly listingId: number | null;
}

/**
 * Reads a parsed JSON value as a notification, or says of each field what is wrong with it. Does not throw. A reference
 * that is `0`, `""` or white space counts as null beside a usable one.
 *
 * @param options.references - whether to read the references; without them they count as null. Default true
 */
export function parseNotification(
  value: unknown,
  { references = true }: { readonly references?: boolean } = {},
): ParsedNotification | { readonly ok: false; readonly issues: Issue[] } {
  const given = isObject(value) ? counted(value, references) : value;
  let fields = usualFields(given);
  if (!fields) {
    const result = WebhookNotification.safeParse(given);
    if (!result.success) return { ok: false, issues: toIssues(result.error.issues) };
    fields = result.data;
  }
  const { eventId, timestamp, bookingCode = null, listingId = null } = fields;
  return {
    ok: true,
    eventId: eventId.toLowerCase(),
    timestamp: isoTimestamp(timestamp),
    bookingCode,
    listingId,
  };
}

/**
 * Reads a notification in the usual form, in a third of the schema's time. Returns `undefined` for any other form, and the
 * schema decides then. A test checks that both give the same result.
 */
export function usualFields(value: unknown): WebhookNotification | undefined {
  if (!isObject(value) || Array.isArray(value)) return undefined;
  const {
    eventId,
    timestamp,
    bookingCode = null,
    listingId = null,
  } = value as Partial<Record<string, unknown>>;
  if (typeof eventId !== "string" || !uuid.test(eventId) || typeof timestamp !== "string") return undefined;
  if (bookingCode !== null && !(typeof bookingCode === "string" && /^[\w-]{1,64}$/.test(bookingCode)))
    return undefined;
  if (listingId !== null && !Number.isSafeInteger(listingId)) return undefined;
  return { eventId, timestamp, bookingCode, listingId: listingId as number | null };
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** The notification without the references that do not count. */
function counted(value: object, references: boolean): object {
  const { bookingCode, listingId } = value as { bookingCode?: unknown; listingId?: unknown };
  if (Array.isArray(value)) return value;
  if (!references) return { ...value, bookingCode: null, listingId: null };
  if (isBlank(listingId) && typeof bookingCode === "string" && !isBlank(bookingCode))
    return { ...value, listingId: null };
  if (isBlank(bookingCode) && toInteger(listingId) !== undefined && !isBlank(listingId))
    return { ...value, bookingCode: null };
  return value;
}

function isBlank(reference: unknown): boolean {
  return reference === 0 || (typeof reference === "string" && /^0*$/.test(reference.trim()));
}

const maxBookingCode = 256;

function checkBookingCode(given: string, context: z.RefinementCtx): void {
  const refuse = (message: string): void => context.addIssue({ code: "custom", message });
  // Refs are made of the code without outer white space.
  const code = given.trim() || given;
  if (code === "") refuse("must not be empty");
  else if (code === "." || code === "..") refuse("must not be a path segment of dots");
  // Twice the length first, so that nobody counts the characters of a megabyte.
  else if (code.length > 2 * maxBookingCode || [...code].length > maxBookingCode)
    refuse(`must not be longer than ${maxBookingCode} characters`);
  else if (/[\p{Cc}\p{Cs}]/u.test(code)) refuse("must not hold control characters or lone surrogates");
}
