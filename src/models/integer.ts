import * as z from "zod";

/** The safe integer that a value is, or is written as in decimal digits; `undefined` for anything else. */
export function toInteger(value: unknown): number | undefined {
  const number = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value;
  return Number.isSafeInteger(number) ? (number as number) : undefined;
}

/** An integer, also where it comes as a string of digits. */
export const integer = z
  .union([z.number(), z.string()], { error: "must be an integer" })
  .transform((value, context) => {
    const number = toInteger(value);
    if (number !== undefined) return number;
    context.issues.push({ code: "custom", message: "must be an integer", input: value });
    return z.NEVER;
  });
