import type { ZodObject, ZodOptional, ZodString, ZodType } from "zod";
import * as z from "zod";
import type { Issue } from "../errors.ts";
import { nearest } from "../option-names.ts";
import { isoTimestamp } from "./dates.ts";
import { problemWithId, toId } from "./ids.ts";
import { isObject } from "./is-object.ts";
import { codeOf, tolerant } from "./records.ts";
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
  /**
   * The id of the listing that the event is about. The schema converts a string of digits to a number. An id that a number
   * cannot hold is a string of its digits.
   */
  listingId?: number | string | null | undefined;
}

// This type is written by hand. The comment on `BookingSchema` lists the reasons.
type NotificationSchema = ZodObject<{
  /** The id of the event. It is the same in repeated deliveries of the event. */
  eventId: ZodString;
  /** When the event happened, as the platform sent it. */
  timestamp: ZodOptional<ZodType<string | number | null>>;
  /** The code of the booking that the event is about. */
  bookingCode: ZodOptional<ZodType<string | null>>;
  /** The id of the listing that the event is about. */
  listingId: ZodOptional<ZodType<number | string | null>>;
}>;

const listingId = z
  .custom((value) => toId(value) !== undefined, { error: ({ input }) => problemWithId(input) })
  .transform((value) => toId(value) as number | string)
  .meta({ type: ["number", "string"] });

/**
 * The zod schema of a notification. It keeps every further field. It accepts any `timestamp`, because a refused
 * notification may be lost.
 */
export const WebhookNotification: NotificationSchema = z.looseObject(
  {
    eventId: string.regex(uuid, "must be a UUID: 8-4-4-4-12 hexadecimal digits"),
    timestamp: tolerant(["string", "number", "null"]),
    bookingCode: z.preprocess(codeOf, string.superRefine(checkBookingCode).nullish()),
    listingId: listingId.nullish(),
  },
  { error: "must be a JSON object" },
) as unknown as NotificationSchema;

/** The fields of a valid notification, in normalized form. */
export interface ParsedNotification {
  readonly ok: true;
  /** The id of the notification: a UUID, which the handler writes in lower case. */
  readonly eventId: string;
  /** The time in ISO 8601. It is `undefined` if the notification has no readable time. */
  readonly timestamp: string | undefined;
  readonly bookingCode: string | null;
  readonly listingId: number | string | null;
  /** The reference that is unusable, if the other one is usable. */
  readonly unusable?: "bookingCode" | "listingId" | undefined;
  /** The key that probably stands for `bookingCode` or `listingId`, if the notification has neither of them. */
  readonly misspelt?: { readonly key: string; readonly meant: string } | undefined;
}

/**
 * Reads a notification from a parsed JSON value, or returns an issue for each wrong field. Does not throw. If one of
 * booking code and listing id is usable, the other one becomes null if it is unusable or blank. Blank means `0`, `""` or
 * white space.
 *
 * @param options.isMessage - whether only a usable `bookingCode` is read. An unusable one and `listingId` become null
 */
export function parseNotification(
  value: unknown,
  { isMessage = false }: { readonly isMessage?: boolean } = {},
): ParsedNotification | { readonly ok: false; readonly issues: Issue[] } {
  const { given, unusable } = isObject(value) ? counted(value, isMessage) : { given: value };
  const result = WebhookNotification.safeParse(given);
  if (!result.success) return { ok: false, issues: toIssues(result.error.issues) };
  const { eventId, timestamp, bookingCode = null, listingId = null } = result.data;
  const misspelt =
    !isMessage && bookingCode === null && listingId === null ? misspeltIn(given as object) : undefined;
  return {
    ok: true,
    eventId: eventId.toLowerCase(),
    timestamp: isoTimestamp(timestamp),
    bookingCode,
    listingId,
    ...(unusable && { unusable }),
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

interface Counted {
  readonly given: unknown;
  readonly unusable?: ParsedNotification["unusable"];
}

/** Returns the notification. A `bookingCode` or `listingId` that must be ignored becomes null. */
function counted(value: object, isMessage: boolean): Counted {
  if (Array.isArray(value)) return { given: value };
  const fields = value as { readonly bookingCode?: unknown; readonly listingId?: unknown };
  if (isMessage) {
    const bookingCode = isCode(fields.bookingCode) ? fields.bookingCode : null;
    return { given: { ...value, bookingCode, listingId: null } };
  }
  const ignored = ignoredOf(fields.bookingCode, fields.listingId);
  if (ignored === undefined) return { given: value };
  const given = { ...value, [ignored]: null };
  return isBlank(fields[ignored]) ? { given } : { given, unusable: ignored };
}

/** Returns the reference that does not count, because only the other one is usable. */
function ignoredOf(bookingCode: unknown, listing: unknown): ParsedNotification["unusable"] {
  const isAbsent = (reference: unknown) => reference === null || reference === undefined;
  // The usual notification has one reference.
  if (isAbsent(bookingCode) || isAbsent(listing)) return undefined;
  const hasCode = isCode(bookingCode);
  const hasId = !isBlank(listing) && WebhookNotification.shape.listingId.safeParse(listing).success;
  if (hasCode === hasId) return undefined;
  return hasCode ? "listingId" : "bookingCode";
}

function isCode(bookingCode: unknown): boolean {
  return !isBlank(bookingCode) && WebhookNotification.shape.bookingCode.safeParse(bookingCode).success;
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
