// The names of records and of their events: `booking:HX3K9`, `booking.Confirmed`. With accounts: `a17/booking:HX3K9`.

import { inAccount, splitKey } from "../account.ts";
import { InvalidArgumentError } from "../errors.ts";
import { toId } from "../models/ids.ts";
import { bookingStatuses, listingStatuses } from "../models/records.ts";
import { GONE } from "../models/statuses.ts";
import type { Lane } from "../queue/work.ts";

/** The record that an event is about, as parsed from the event's `ref`. */
export type Subject = {
  /** The account of the record. It is `undefined` in a handler without `accountFrom`. */
  readonly account: string | undefined;
} & (
  | { readonly kind: "booking"; readonly bookingCode: string }
  | { readonly kind: "listing"; readonly listingId: number | string }
);

/** Trims the code, unless the code is only white space. */
export function bookingRef(bookingCode: string, account?: string): string {
  return inAccount(account, `booking:${bookingCode.trim() || bookingCode}`);
}

export function listingRef(listingId: number | string, account?: string): string {
  return inAccount(account, `listing:${listingId}`);
}

export function parseRef(ref: string | null): Subject | undefined {
  if (ref === null) return undefined;
  const { account, rest } = splitKey(ref);
  if (rest.startsWith("booking:"))
    return { account, kind: "booking", bookingCode: rest.slice("booking:".length) };
  if (rest.startsWith("listing:"))
    return { account, kind: "listing", listingId: toId(rest.slice("listing:".length)) ?? Number.NaN };
  return undefined;
}

/**
 * Returns the record that a user names.
 *
 * @throws InvalidArgumentError if `ref` is not the ref of a record of these kinds, with an account only if there are accounts
 */
export function checkRef(
  ref: unknown,
  hasAccounts: boolean,
  kinds: readonly Subject["kind"][] = ["booking", "listing"],
): Subject {
  const subject = typeof ref === "string" ? parseRef(ref) : undefined;
  const isOfAccount = subject?.account !== undefined;
  if (subject && kinds.includes(subject.kind) && isOfAccount === hasAccounts && ref === exactRefOf(subject))
    return subject;
  const names = { booking: "booking:<code>", listing: "listing:<id>" };
  const forms = kinds.map((kind) => inAccount(hasAccounts ? "<account>" : undefined, names[kind]));
  throw new InvalidArgumentError({ path: ["ref"], message: `must be ${forms.join(" or ")}` });
}

/** Returns the ref that the events of a record have, or `undefined` if no record has such a code or id. */
function exactRefOf(subject: Subject): string | undefined {
  if (subject.kind === "listing")
    return toId(subject.listingId) === undefined ? undefined : listingRef(subject.listingId, subject.account);
  const code = subject.bookingCode.trim();
  return code === "" ? undefined : bookingRef(code, subject.account);
}

/** Returns the lane of an event. A message, and an event without a record, read nothing, so their lane has no kind. */
export function laneOf({ ref, eventId }: { readonly ref: string | null; readonly eventId: string }): Lane {
  const { account, rest } = splitKey(ref ?? eventId);
  const kind = rest.startsWith("booking:")
    ? "bookings"
    : rest.startsWith("listing:")
      ? "listings"
      : undefined;
  return { account, kind };
}

/** Returns how the refs of a lane begin, or, without a kind, all refs and event ids of an account. */
export function beginningOf({ account, kind }: Lane): string {
  const kindOfRef = { bookings: "booking:", listings: "listing:" } as const;
  return inAccount(account, kind === undefined ? "" : kindOfRef[kind]);
}

/** The keys of `on` whose callback runs for every event of a booking or listing that has no callback of its own. */
export const kindsOfRecords: readonly string[] = ["booking", "listing"];

/** Returns the event type for a record that the platform no longer returns. */
export function goneType(kind: Subject["kind"]): `${Subject["kind"]}.gone` {
  return `${kind}.${GONE}`;
}

/** Returns the event type for a record of this kind and status. */
export function eventType(kind: Subject["kind"], status: string): string {
  const statuses: readonly string[] = kind === "booking" ? bookingStatuses : listingStatuses;
  return `${kind}.${statuses.includes(status) ? status : "unknown"}`;
}
