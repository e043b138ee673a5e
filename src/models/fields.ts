import * as z from "zod";
import { toInteger } from "./stay.ts";

/** An integer, also one that comes as a string of digits. */
export const integer: z.ZodType<number> = z
  .union([z.number(), z.string()], { error: "must be an integer" })
  .transform((value, context) => {
    const number = toInteger(value);
    if (number !== undefined) return number;
    context.issues.push({ code: "custom", message: "must be an integer", input: value });
    return z.NEVER;
  });

/** A field that fails no record: a `T`, `null` or absent. Any other value is passed on unchanged. */
export function tolerant<T>(type: z.ZodType<T>): z.ZodType<T | null | undefined> {
  return type.nullish().catch((context) => context.value as T);
}

/** The types that a field of a record may have, as `typeof` names them, and `null`. Each field may be absent. */
export type FieldTypes = Readonly<Record<string, readonly ("string" | "number" | "null")[]>>;

/** The names of the fields whose values have none of their types. */
export function unexpectedFields(record: object, types: FieldTypes): string[] {
  const fields = record as Readonly<Record<string, unknown>>;
  return Object.keys(types).filter((name) => {
    const value = fields[name];
    const type = value === null ? "null" : typeof value;
    return value !== undefined && !(types[name] as readonly string[]).includes(type);
  });
}
