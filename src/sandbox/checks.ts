// The checks that the options, the faults and the deliveries of the sandbox share.

import * as z from "zod";
import { MAX_TIMER } from "../async.ts";
import { check as checkOptions, durationFrom } from "../options.ts";

/** ms, or a text such as `"30s"`. */
export type SandboxWait = number | string;

export type Range = readonly [min: number, max: number];

/** @param wait - a wait that {@link check} has returned, in ms */
export function toRange(wait: SandboxWait | readonly [min: SandboxWait, max: SandboxWait] = 0): Range {
  const [min, max = min] = typeof wait === "object" ? wait : [wait];
  return [Number(min), Number(max)];
}

const NUMBER = `must be a number of ms from 0 to ${MAX_TIMER}`;
export const wait = durationFrom(0, MAX_TIMER, NUMBER);

export const msOrRange = z.union([wait, z.tuple([wait, wait]).refine(([min, max]) => min <= max)], {
  error: `${NUMBER}, a duration such as "30s", or [min, max]`,
});

export const share = z
  .number({ error: "must be a number from 0 to 1" })
  .min(0, "must be from 0 to 1")
  .max(1, "must be from 0 to 1");

/**
 * Checks a value, and returns it with all waits in ms.
 *
 * @param at - the path of the value in the caller's arguments
 * @throws InvalidArgumentError naming each wrong field
 */
export function check<T>(schema: () => z.ZodType, value: T, at: readonly (string | number)[] = []): T {
  return checkOptions(schema, value, { at, together: true }) as T;
}
