import * as z from "zod";
import { MAX_TIMER } from "../async.ts";
import { InvalidArgumentError } from "../errors.ts";
import { toIssues } from "../models/standard-schema.ts";

/** ms that a timer can wait. */
export const wait = z
  .number({ error: "must be a number of ms" })
  .min(0, "must not be negative")
  .max(MAX_TIMER, `must not be more than ${MAX_TIMER} ms`);

export const msOrRange = z.union([wait, z.tuple([wait, wait]).refine(([min, max]) => min <= max)], {
  error: "must be a number of ms, or [min, max]",
});

/** A share of all there are. */
export const rate = z
  .number({ error: "must be a number from 0 to 1" })
  .min(0, "must be from 0 to 1")
  .max(1, "must be from 0 to 1");

export type Range = readonly [min: number, max: number];

export function toRange(ms: number | Range = 0): Range {
  return typeof ms === "number" ? [ms, ms] : [ms[0], ms[1]];
}

export function describeObject(issue: {
  readonly code?: string | undefined;
  readonly keys?: readonly string[];
}): string {
  return issue.code === "unrecognized_keys" ? `has no option ${issue.keys?.join(", ")}` : "must be an object";
}

/**
 * @param at - where the value stands in what the user gave
 * @throws InvalidArgumentError naming each field that cannot be used
 */
export function check(schema: z.ZodType, value: unknown, at: readonly (string | number)[] = []): void {
  const { success, error } = schema.safeParse(value);
  if (success) return;
  throw new InvalidArgumentError(
    toIssues(error.issues).map(({ path, message }) => ({ path: [...at, ...path], message })),
  );
}
