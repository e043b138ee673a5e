import * as z from "zod";
import type { Issue } from "../errors.ts";
import { integer } from "./fields.ts";
import { toIssues } from "./issues.ts";
import { parseTimestamp } from "./timestamp.ts";

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
  /** The time of the event in ISO 8601. A time without an offset is in UTC. */
  timestamp: string;
  /** The booking that the event is about. */
  bookingCode?: string | null | undefined;
  /** The listing that the event is about. An id that came as digits is a number here. */
  listingId?: number | null | undefined;
}

type Nullish<T extends z.ZodType> = z.ZodOptional<z.ZodNullable<T>>;
type NotificationSchema = z.ZodObject<{
  eventId: z.ZodString;
  timestamp: z.ZodString;
  bookingCode: Nullish<z.ZodString>;
  listingId: Nullish<z.ZodType<number>>;
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
    timestamp: string.refine(
      (text) => parseTimestamp(text) !== undefined,
      "must be an ISO 8601 date and time",
    ),
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
  readonly timestamp: Date;
  readonly bookingCode: string | null;
  readonly listingId: number | null;
}

/** Reads a parsed JSON value as a notification, or says of each field what is wrong with it. Does not throw. */
export function parseNotification(
  value: unknown,
): ParsedNotification | { readonly ok: false; readonly issues: Issue[] } {
  const result = WebhookNotification.safeParse(value);
  if (!result.success) return { ok: false, issues: toIssues(result.error.issues) };
  const { eventId, timestamp, bookingCode = null, listingId = null } = result.data;
  // Spread from the value: zod leaves out a field called `__proto__`.
  const notification: WebhookNotification = { ...(value as WebhookNotification) };
  if (listingId !== null) notification.listingId = listingId;
  return {
    ok: true,
    notification,
    eventId: eventId.toLowerCase(),
    timestamp: parseTimestamp(timestamp) as Date,
    bookingCode,
    listingId,
  };
}

const maxBookingCode = 256;

function checkBookingCode(code: string, context: z.RefinementCtx): void {
  const refuse = (message: string): void => context.addIssue({ code: "custom", message });
  if (code === "") refuse("must not be empty");
  else if (code === "." || code === "..") refuse("must not be a path segment of dots");
  // Twice the length first: counting the characters of a megabyte is for nobody's good.
  else if (code.length > 2 * maxBookingCode || [...code].length > maxBookingCode)
    refuse(`must not be longer than ${maxBookingCode} characters`);
  else if (/[\p{Cc}\p{Cs}]/u.test(code)) refuse("must not hold control characters or lone surrogates");
}
