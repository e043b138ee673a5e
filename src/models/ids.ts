// The ids of records, as the platform sends them.

import { InvalidArgumentError } from "../errors.ts";

/**
 * Returns the id of a booking's listing as a number, even if the platform sent a string of digits.
 *
 * @throws InvalidArgumentError if `listingId` is absent, is not an integer, or has more digits than a number can hold. The
 * error shows the digits
 */
export function listingIdOf(booking: {
  /** The id of the booked listing, a number or a text of digits. */
  readonly listingId?: unknown;
}): number {
  const value: unknown = booking?.listingId;
  return toInteger(value) ?? refuseField("listingId", value, problemWithId(value));
}

/** Says why a value is no id that a number can hold. */
export function problemWithId(value: unknown): string {
  if (typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER)
    return "is larger than a number can hold, so a JSON parser has rounded it";
  const id = toId(value);
  return typeof id === "string"
    ? `must be an integer that a number can hold, not ${id}`
    : "must be an integer";
}

/** The longest id, in digits. */
const MOST_DIGITS = 64;

/** Returns an id as a number, or as its digits if a number cannot hold it. Returns `undefined` for any other value. */
export function toId(value: unknown): number | string | undefined {
  const isLarge = typeof value === "string" && value.length <= MOST_DIGITS && /^-?\d+$/.test(value);
  return toInteger(value) ?? (isLarge ? value.replace(/^(-?)0+/, "$1") : undefined);
}

/** Returns a safe integer from a number or a string of digits. Returns `undefined` for any other value. */
export function toInteger(value: unknown): number | undefined {
  const number = typeof value === "string" && /^-?\d+$/.test(value) ? Number(value) : value;
  return Number.isSafeInteger(number) ? (number as number) : undefined;
}

/** @throws InvalidArgumentError for the field. The error says `message`, or `absent` if there is no value */
export function refuseField(field: string, value: unknown, message: string, absent = "is absent"): never {
  const isAbsent = value === undefined || value === null;
  throw new InvalidArgumentError({ path: [field], message: isAbsent ? absent : message });
}
