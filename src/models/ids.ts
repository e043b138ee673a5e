import { InvalidArgumentError } from "../errors.ts";

/**
 * Reads the id of a booking's listing, also where the platform sent it as digits.
 *
 * @throws InvalidArgumentError where it is absent or no integer
 */
export function listingIdOf(booking: {
  /** The booked listing. */
  readonly listingId?: unknown;
}): number {
  const value: unknown = booking?.listingId;
  return toInteger(value) ?? refuseField("listingId", value, "must be an integer");
}

/** The safe integer that a value is, or that its text writes in decimal digits; `undefined` for anything else. */
export function toInteger(value: unknown): number | undefined {
  const number = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value;
  return Number.isSafeInteger(number) ? (number as number) : undefined;
}

/** @throws InvalidArgumentError naming the field of a record, and whether it is absent */
export function refuseField(field: string, value: unknown, message: string): never {
  const isAbsent = value === undefined || value === null;
  throw new InvalidArgumentError({ path: [field], message: isAbsent ? "is absent" : message });
}
