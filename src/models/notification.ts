import type { ZodObject, ZodOptional, ZodString, ZodType } from "zod";
import * as z from "zod";
import type { Issue } from "../errors.ts";
import { nearest } from "../option-names.ts";
import { isoTimestamp } from "./dates.ts";
import { toInteger } from "./ids.ts";
import { isObject } from "./is-object.ts";
import { integer, tolerant } from "./records.ts";
import { toIssues } from "./standard-schema.ts";

const string = z.string({
  error: (issue) => (issue.input === undefined ? "is missing" : "must be a string"),
});

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * The notification that the platform sends to a subscriber's endpoint. It names a booking or listing that has
 * changed, and the time of the change.
 *
 * The object also has every further field that the platform sent.
 */
export interface WebhookNotification {
  /** The id of the event: 8-4-4-4-12 hexadecimal digits, in upper or lower case. Each delivery has the same id. */
  eventId: string;
  /** The time of the event as the platform sent it. `event.timestamp` is the parsed time. */
  timestamp?: string | number | null | undefined;
  /** The code of the booking that the event is about. The schema converts a whole number to text. */
  bookingCode?: string | null | undefined;
  /** The id of the listing that the event is about. The schema converts a string of digits to a number. */
  listingId?: number | null | undefined;
}

// This type is written by hand. The comment on `BookingSchema` lists the reasons.
type NotificationSchema = ZodObject<{
  eventId: ZodString;
  timestamp: ZodOptional<ZodType<string | number | null>>;
  bookingCode: ZodOptional<ZodType<string | null>>;
  listingId: ZodOptional<ZodType<number | null>>;
}>;

/**
 * The zod schema of a notification. It keeps every further field. It accepts any `timestamp`, because a refused
 * notification may be lost.
 */
export const WebhookNotification: NotificationSchema = z.looseObject(
  {
    eventId: string.regex(uuid, "must be a UUID: 8-4-4-4-12 hexadecimal digits"),
    timestamp: tolerant(["string", "number", "null"]),
    bookingCode: z.preprocess(textOf, string.superRefine(checkBookingCode).nullish()),
    listingId: integer.nullish(),
  },
  { error: "must be a JSON object" },
) as unknown as NotificationSchema;

/** The fields of a valid notification, in normalized form. */
export interface ParsedNotification {
  readonly ok: true;
  /** The UUID in lower case. */
  readonly eventId: string;
  /** The time in ISO 8601. It is `undefined` if the notification has no readable time. */
  readonly timestamp: string | undefined;
  readonly bookingCode: string | null;
  readonly listingId: number | null;
  /** The key that probably stands for `bookingCode` or `listingId`, if the notification has neither of them. */
  readonly misspelt?: { readonly key: string; readonly meant: string } | undefined;
}

/**
 * Reads a notification from a parsed JSON value, or returns an issue for each wrong field. Does not throw. A blank
 * booking code becomes null if the listing id is usable, and a blank listing id becomes null if the booking code is
 * usable. Blank means `0`, `""` or white space.
 *
 * @param options.references - whether to read `bookingCode` and `listingId`. If false, they become null. Default true
 */
export function parseNotification(
  value: unknown,
  { references = true }: { readonly references?: boolean } = {},
): ParsedNotification | { readonly ok: false; readonly issues: Issue[] } {
  const given = isObject(value) ? counted(value, references) : value;
  const result = WebhookNotification.safeParse(given);
  if (!result.success) return { ok: false, issues: toIssues(result.error.issues) };
  const { eventId, timestamp, bookingCode = null, listingId = null } = result.data;
  const misspelt =
    references && bookingCode === null && listingId === null ? misspeltIn(given as object) : undefined;
  return {
    ok: true,
    eventId: eventId.toLowerCase(),
    timestamp: isoTimestamp(timestamp),
    bookingCode,
    listingId,
    ...(misspelt && { misspelt }),
  };
}

function misspeltIn(fields: object): ParsedNotification["misspelt"] {
  const known = ["eventId", "timestamp", "bookingCode", "listingId"];
  for (const key of Object.keys(fields).slice(0, 100)) {
    const meant = known.includes(key) ? undefined : nearest(key, ["bookingCode", "listingId"]);
    if (meant !== undefined) return { key: key.slice(0, 100), meant };
  }
  return undefined;
}

/** Converts a whole number to text, because a platform may send a code of digits as a number. */
function textOf(code: unknown): unknown {
  return Number.isSafeInteger(code) && (code as number) > 0 ? String(code) : code;
}

/** Returns the notification. A `bookingCode` or `listingId` that must be ignored becomes null. */
function counted(value: object, references: boolean): object {
  const { bookingCode, listingId } = value as { bookingCode?: unknown; listingId?: unknown };
  if (Array.isArray(value)) return value;
  if (!references) return { ...value, bookingCode: null, listingId: null };
  if (isBlank(listingId) && typeof textOf(bookingCode) === "string" && !isBlank(bookingCode))
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
  // Check the trimmed code, because the event's `ref` has the trimmed code.
  const code = given.trim() || given;
  if (code === "") refuse("must not be empty");
  else if (code === "." || code === "..") refuse("must not be `.` or `..`");
  // The first comparison refuses a huge text without counting characters. A character has at most two UTF-16 units.
  else if (code.length > 2 * maxBookingCode || [...code].length > maxBookingCode)
    refuse(`must not be longer than ${maxBookingCode} characters`);
  else if (/[\p{Cc}\p{Cs}]/u.test(code)) refuse("must not hold control characters or lone surrogates");
}
