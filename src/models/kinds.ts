import type * as z from "zod";

/** What a field of a record may be, in the words of `typeof`, `null` beside them; absent is always fine. */
export type Kind = "string" | "number" | "null";

/** For each field that the platform's interface names, and that nothing may fail for: what it may be. */
export type Kinds = Readonly<Record<string, readonly Kind[]>>;

/** A field that may be a `T`, `null` or absent, and that is passed on as it came if it is something else. */
export function tolerant<T>(kind: z.ZodType<T>): z.ZodCatch<z.ZodOptional<z.ZodNullable<z.ZodType<T>>>> {
  return kind.nullish().catch((context) => context.value as T);
}

/** Names of the fields whose values are of a kind that was not foreseen. */
export function unforeseen(record: unknown, kinds: Kinds): string[] {
  if (typeof record !== "object" || record === null) return [];
  return Object.keys(kinds).filter((field) => {
    const value = (record as Record<string, unknown>)[field];
    if (value === undefined) return false;
    return !kinds[field]?.includes((value === null ? "null" : typeof value) as Kind);
  });
}
