import * as z from "zod";
import { InvalidArgumentError } from "../errors.ts";
import { type Logger, silentLogger } from "../logger.ts";
import { toIssues } from "../models/issues.ts";
import { randomSeed } from "./random.ts";

/** How notifications are delivered. Everything random in it is drawn from the seed. */
export interface SandboxDeliveryOptions {
  /** How many more times each notification is delivered: 1 lets everything arrive twice. Default 0. */
  readonly duplicates?: number | undefined;
  /**
   * Lets deliveries go out in another order than that of their events. They are collected for this many ms
   * from the first one on, 100 for `true`, and then sent in a random order. Default `false`.
   */
  readonly shuffle?: boolean | number | undefined;
  /** ms before each delivery, or the least and the most, between which each delivery has its own. Default 0. */
  readonly delay?: number | readonly [min: number, max: number] | undefined;
  /**
   * Delivers again what was not answered with exactly 200 within 30 s: after the first of these waits, in ms,
   * then after the second, and so on, until one is answered 200 or there are none left. By default nothing is
   * delivered again, as nobody knows the platform's own schedule.
   */
  readonly retry?: { readonly schedule: readonly number[] } | undefined;
}

/** Options of `createSandbox`. */
export interface SandboxOptions {
  /** An integer. The same seed and the same calls give the same codes, ids, order and delays. Default: a random one. */
  readonly seed?: number | undefined;
  /** What the API takes as bearer token. Default `"sandbox"`. */
  readonly accessToken?: string | undefined;
  readonly delivery?: SandboxDeliveryOptions | undefined;
  /** Told of each request (`debug`), each delivery (`debug`), and each that failed (`warn`). Default: silent. */
  readonly logger?: Logger | undefined;
}

/** {@link SandboxOptions} with the defaults filled in. */
export interface SandboxSettings {
  readonly seed: number;
  readonly accessToken: string;
  readonly logger: Logger;
  readonly delivery: DeliverySettings;
}

export interface DeliverySettings {
  readonly duplicates: number;
  /** ms for which deliveries are collected; `undefined` where they are not. */
  readonly shuffleWindow: number | undefined;
  readonly delay: readonly [min: number, max: number];
  /** ms before the second attempt, the third, ... */
  readonly retrySchedule: readonly number[];
}

// What setTimeout can wait; it takes more for none at all.
const longestWait = 2 ** 31 - 1;
const wait = z
  .number({ error: "must be a number of ms" })
  .min(0, "must not be negative")
  .max(longestWait, `must not be more than ${longestWait} ms`);

const schema = z.strictObject(
  {
    seed: z.int({ error: "must be an integer" }).optional(),
    accessToken: z
      .string({ error: "must be a string" })
      .regex(/^[\x21-\x7e]+$/, "must be printable ASCII, without spaces, and not empty")
      .optional(),
    delivery: z
      .strictObject(
        {
          duplicates: z
            .int({ error: "must be an integer" })
            .min(0, "must not be negative")
            .max(100, "must not be more than 100")
            .optional(),
          shuffle: z
            .union([z.boolean(), wait], { error: "must be true, false or a number of ms" })
            .optional(),
          delay: z
            .union([wait, z.tuple([wait, wait]).refine(([min, max]) => min <= max)], {
              error: "must be a number of ms, or [min, max]",
            })
            .optional(),
          retry: z
            .strictObject(
              { schedule: z.array(wait, { error: "must be a list of numbers of ms" }) },
              { error: describeObject },
            )
            .optional(),
        },
        { error: describeObject },
      )
      .optional(),
    logger: z.custom<Logger>(isLogger, { error: "must have debug, info, warn and error" }).optional(),
  },
  { error: describeObject },
);

/** @throws InvalidArgumentError naming each option that cannot be used */
export function readOptions(options: SandboxOptions): SandboxSettings {
  const { success, error } = schema.safeParse(options);
  if (!success) throw new InvalidArgumentError(toIssues(error.issues));
  const { seed = randomSeed(), accessToken = "sandbox", logger = silentLogger, delivery = {} } = options;
  const { duplicates = 0, shuffle = false, delay = 0, retry } = delivery;
  return {
    seed,
    accessToken,
    logger,
    delivery: {
      duplicates,
      shuffleWindow: shuffle === true ? 100 : shuffle === false ? undefined : shuffle,
      delay: typeof delay === "number" ? [delay, delay] : delay,
      retrySchedule: [...(retry?.schedule ?? [])],
    },
  };
}

function isLogger(value: unknown): boolean {
  const logger = value as Partial<Record<keyof Logger, unknown>> | null;
  return (["debug", "info", "warn", "error"] as const).every(
    (level) => typeof logger?.[level] === "function",
  );
}

function describeObject(issue: { readonly code?: string; readonly keys?: readonly string[] }): string {
  return issue.code === "unrecognized_keys" ? `has no option ${issue.keys?.join(", ")}` : "must be an object";
}
