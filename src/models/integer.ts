/**
 * The safe integer that a value is, or that its text writes in decimal digits; `undefined` for anything else.
 *
 * This file does not import zod, so that a bundle with `listingIdOf` alone stays small.
 */
export function toInteger(value: unknown): number | undefined {
  const number = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value;
  return Number.isSafeInteger(number) ? (number as number) : undefined;
}
