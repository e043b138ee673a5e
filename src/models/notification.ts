import * as z from "zod";
import type { Issue } from "../errors.ts";
import { integer } from "./integer.ts";
import { toIssues } from "./issues.ts";
import { parseTimestamp } from "./timestamp.ts";

const string = z.string({
  error: (issue) => (issue.input === undefined ? "is missing" : "must be a string"),
});

/**
 * What the platform sends to a subscriber's endpoint: that something happened, when, and to which booking or
 * listing. Fields that are not known here are kept.
 *
 * Read tolerantly, as an event that is refused may be lost: see each field.
 */
export const Notification = z.looseObject(
  {
    /** The event's id, unique to it; the same in every delivery of it. Any 8-4-4-4-12 hexadecimal digits, in either case. */
    eventId: string.regex(
      /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i,
      "must be a UUID: 8-4-4-4-12 hexadecimal digits",
    ),
    /** When it happened, in ISO 8601; with no offset it is meant in UTC. */
    timestamp: string.refine(
      (text) => parseTimestamp(text) !== undefined,
      "must be an ISO 8601 date and time",
    ),
    /** The booking it is about, if it is about one. */
    bookingCode: string.superRefine(checkBookingCode).nullish(),
    /** The listing it is about, if it is about one. */
    listingId: integer.nullish(),
  },
  { error: "must be a JSON object" },
);
export type Notification = z.output<typeof Notification>;

/** A notification that was read, and what its fields mean. */
export interface ParsedNotification {
  readonly ok: true;
  /** With every further field as it came. */
  readonly notification: Notification;
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
  const result = Notification.safeParse(value);
  if (!result.success) return { ok: false, issues: toIssues(result.error.issues) };
  const { eventId, timestamp, bookingCode = null, listingId = null } = result.data;
  // Spread from the value: zod leaves out a field called `__proto__`.
  const notification: Notification = { ...(value as Notification) };
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
