// The schemas and the check that the options of all parts share.

import * as z from "zod";
import { MAX_TIMER } from "./async.ts";
import { parseDuration } from "./duration.ts";
import { InvalidArgumentError, type Issue } from "./errors.ts";
import { isLogger, type Logger } from "./logger.ts";
import { describeUnknown, unknownNames } from "./option-names.ts";

const NOT_OBJECT = "must be an object";

/**
 * Makes a schema for an object that has only the options in `shape`. Inherited properties may have any names.
 *
 * @param notObject - the message for a value that is not an object
 * @param hint - the end of the message for an unknown option
 */
export function optionsObject<Shape extends z.core.$ZodLooseShape>(
  shape: Shape,
  { notObject = NOT_OBJECT, hint = "" } = {},
) {
  const options = z.object(shape);
  const known = Object.keys(shape);
  return z.unknown().transform((given, context): z.output<typeof options> => {
    if (typeof given !== "object" || given === null || Array.isArray(given)) {
      context.addIssue(notObject);
      return z.NEVER;
    }
    const unknown = unknownNames(given, known);
    // A client or pool in the place of the options would cause an issue for each of its fields.
    if (isInstance(given) && unknown.length > Object.keys(given).length / 2) {
      context.addIssue(notObject);
      return z.NEVER;
    }
    // `check` writes the message, because only `check` knows the full path.
    if (unknown.length > 0) context.addIssue({ code: "custom", params: { unknown, known, hint } });
    const { data, error } = options.safeParse(given);
    for (const issue of error?.issues ?? []) context.addIssue(issue as z.core.$ZodSuperRefineIssue);
    return data ?? z.NEVER;
  });
}

/** Whether a class other than `Object` made the value. */
function isInstance(given: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(given);
  return prototype !== null && (prototype as Partial<object>).constructor?.name !== "Object";
}

/** Makes a schema for an option. `problem` returns the problem with a value, or `undefined` for a valid value. */
export function option<T>(problem: (value: unknown) => string | undefined) {
  return z.custom<T>((value) => problem(value) === undefined, { error: ({ input }) => problem(input) });
}

export function callable<T>(error = "must be a function") {
  return z.custom<T>((value) => typeof value === "function", { error });
}

export function oneOf<const T extends string | boolean>(...values: readonly T[]) {
  const error = `must be ${values.map((value) => JSON.stringify(value)).join(" or ")}`;
  return z.custom<T>((value) => values.includes(value as T), { error });
}

/** Makes a schema for a number from `least` to `most`. Unlike `z.number()`, it allows `Infinity`. */
export function numberFrom(least: number, most: number, error: string) {
  return z.custom<number>((value) => typeof value === "number" && value >= least && value <= most, { error });
}

export function integerFrom(least: number, most: number, error: string) {
  return numberFrom(least, most, error).refine(Number.isInteger, { error });
}

/**
 * Makes a schema for a duration: a number of ms from `least` to `most`, or a text such as `"30s"`. Gives the ms. Unlike
 * `z.number()`, it allows `Infinity`.
 *
 * @param problem - what is wrong with a number outside the limits
 */
export function durationFrom(least: number, most: number, problem = `must be ms from ${least} to ${most}`) {
  return z.unknown().transform((given, context): number => {
    const ms = typeof given === "string" ? parseDuration(given) : given;
    if (typeof ms === "number" && ms >= least && ms <= most) return ms;
    context.addIssue(`${problem}, or a duration such as "30s", "24h" or "7d"`);
    return z.NEVER;
  });
}

/** Makes a schema for an option that may be left out or `null`. */
export function or<T>(schema: z.ZodType<T>, byDefault: T) {
  return schema.nullish().transform((given) => given ?? byDefault);
}

/** Makes a schema for a duration of at least 1 ms for which a timer can wait. Gives whole ms. */
export function timerFrom(byDefault: number) {
  return durationFrom(1, MAX_TIMER).transform(Math.round).default(byDefault);
}

export function abortSignal() {
  return z.custom<AbortSignal>((value) => typeof Object(value).addEventListener === "function", {
    error: "must be an AbortSignal",
  });
}

export function logger() {
  return z.custom<Logger>(isLogger, {
    error: "must be a function, or an object with the functions debug, info, warn and error",
  });
}

export interface CheckOptions {
  /** The path of the value in the caller's arguments. */
  readonly at?: Issue["path"];
  /** The issues of other arguments. They are listed before the issues of this value. */
  readonly before?: readonly Issue[];
  /** Whether to report all unknown options of an object in one issue, at the path of the object. */
  readonly together?: boolean;
}

const schemas = new WeakMap<() => z.ZodType, z.ZodType>();

/**
 * Checks a value, and returns it with the schema's defaults filled in.
 *
 * @param make - makes the schema. Called only at the first check, because a schema that is made at import costs time
 * and bundle size
 * @throws InvalidArgumentError naming each wrong field
 */
export function check<T>(make: () => z.ZodType<T>, value: unknown, how: CheckOptions = {}): T {
  const schema = (schemas.get(make) as z.ZodType<T> | undefined) ?? make();
  schemas.set(make, schema);
  const { data, error } = schema.safeParse(value);
  const issues = [...(how.before ?? []), ...(error?.issues ?? []).flatMap((issue) => issuesOf(issue, how))];
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  return data as T;
}

function issuesOf(issue: z.core.$ZodIssue, { at = [], together = false }: CheckOptions): Issue[] {
  const path = [...at, ...issue.path.map((key) => (typeof key === "symbol" ? String(key) : key))];
  const { unknown, known, hint } = ((issue.code === "custom" && issue.params) || {}) as Partial<Unknown>;
  if (!unknown || !known) {
    const isWhole = path.length === 0 && issue.message === NOT_OBJECT;
    return [{ path, message: isWhole ? `the options ${NOT_OBJECT}` : issue.message }];
  }
  if (together) return [{ path, message: unknown.map((name) => describeUnknown(name, known)).join("; ") }];
  return unknown.map((name) => ({
    path: [...path, name],
    message: `${describeUnknown(name, known, path)}${hint}`,
  }));
}

interface Unknown {
  readonly unknown: readonly string[];
  readonly known: readonly string[];
  readonly hint: string;
}
