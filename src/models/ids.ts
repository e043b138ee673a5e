// The ids of records, as the platform sends them.

import { InvalidArgumentError } from "../errors.ts";

/**
 * Returns the id of a booking's listing as a number, even if the platform sent a string of digits.
 *
 * @throws InvalidArgumentError if `listingId` is absent or is not an integer
 */
export function listingIdOf(booking: {
  /** The booked listing. */
  readonly listingId?: unknown;
}): number {
  const value: unknown = booking?.listingId;
  return toInteger(value) ?? refuseField("listingId", value, "must be an integer");
}

/** Returns a safe integer from a number or a string of digits. Returns `undefined` for any other value. */
export function toInteger(value: unknown): number | undefined {
  const number = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value;
  return Number.isSafeInteger(number) ? (number as number) : undefined;
}

/** @throws InvalidArgumentError for the field. The error says `message`, or `absent` if there is no value */
export function refuseField(field: string, value: unknown, message: string, absent = "is absent"): never {
  const isAbsent = value === undefined || value === null;
  throw new InvalidArgumentError({ path: [field], message: isAbsent ? absent : message });
}
