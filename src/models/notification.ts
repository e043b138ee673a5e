import type { ZodObject, ZodOptional, ZodString, ZodType } from "zod";
import * as z from "zod";
import type { Issue } from "../errors.ts";
import { integer, tolerant } from "./fields.ts";
import { toIssues } from "./standard-schema.ts";
import { toInteger } from "./stay.ts";
import { readTimestamp } from "./timestamp.ts";

const string = z.string({
  error: (issue) => (issue.input === undefined ? "is missing" : "must be a string"),
});

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
    eventId: string.regex(
      /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i,
      "must be a UUID: 8-4-4-4-12 hexadecimal digits",
    ),
    timestamp: tolerant(z.union([z.string(), z.number()])),
    bookingCode: string.superRefine(checkBookingCode).nullish(),
    listingId: integer.nullish(),
  },
  { error: "must be a JSON object" },
) as unknown as NotificationSchema;

/** A notification that was read, and what its fields mean. */
export interface ParsedNotification {
  readonly ok: true;
  /** With every further field as it came. */
  readonly notification: WebhookNotification;
  /** In lower case. */
  readonly eventId: string;
  /** `undefined` where the time is missing or cannot be read. */
  readonly timestamp: Date | undefined;
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
  const result = WebhookNotification.safeParse(
    Object(value) === value ? counted(value as object, references) : value,
  );
  if (!result.success) return { ok: false, issues: toIssues(result.error.issues) };
  const { eventId, timestamp, bookingCode = null, listingId = null } = result.data;
  // Spread from the value: zod leaves out a field called `__proto__`.
  const notification: WebhookNotification = { ...(value as WebhookNotification) };
  if (listingId !== null) notification.listingId = listingId;
  return {
    ok: true,
    notification,
    eventId: eventId.toLowerCase(),
    timestamp: readTimestamp(timestamp),
    bookingCode,
    listingId,
  };
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
