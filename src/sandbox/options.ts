import * as z from "zod";
import { MAX_TIMER } from "../async.ts";
import { Log, type Logger } from "../logger.ts";
import { callable, check as checkOptions, logger, optionsObject } from "../options.ts";
import type { SandboxRequest } from "./api.ts";
import type { SandboxDelivery } from "./deliveries.ts";
import { routeMatcher, routeNames } from "./platform.ts";
import { randomSeed } from "./random.ts";

/** Options of `createSandbox`. */
export interface SandboxOptions {
  /**
   * An integer. The same seed and the same calls give the same codes, ids, order, delays and faults. Default: a random
   * one, which `sandbox.seed` tells.
   */
  readonly seed?: number | undefined;
  /** The bearer token of the API. Default `"sandbox"`, which works on loopback only. */
  readonly accessToken?: string | undefined;
  /** How notifications are delivered. `sandbox.delivery.set` changes it. Default: once, at once. */
  readonly delivery?: SandboxDeliveryOptions | undefined;
  /** The faults of the API. `sandbox.faults.set` changes them. Default: none. */
  readonly faults?: readonly SandboxFault[] | undefined;
  /** Gets a `debug` line for each request and delivery, and a `warn` line for each failed delivery. Default: silent. */
  readonly logger?: Logger | undefined;
  /** Called after each answered request and after each delivery attempt. Must not throw. */
  readonly observe?: ((event: SandboxObservation) => void) | undefined;
}

/** The argument of `observe`. */
export type SandboxObservation =
  | (SandboxRequest & {
      /** The API answered a request. */
      readonly kind: "request";
    })
  | (SandboxDelivery & {
      /** A delivery is over. */
      readonly kind: "delivery";
    });

/** How notifications are delivered. Everything random in it is drawn from the seed. */
export interface SandboxDeliveryOptions {
  /** How many more times each notification is delivered: with 1, everything arrives twice. 0 to 100. Default 0. */
  readonly duplicates?: number | undefined;
  /**
   * The time in ms from the first delivery to its duplicates, or the range of it. Real time or `sandbox.advance` brings
   * them. Default 0.
   */
  readonly duplicateAfter?: number | readonly [min: number, max: number] | undefined;
  /**
   * The share of deliveries that are lost, from 0 to 1. A lost delivery is not retried. Each duplicate is drawn on its
   * own. Default 0.
   */
  readonly drop?: number | undefined;
  /**
   * Delivers in random order. Deliveries are collected for this many ms, 100 for `true`, and then sent. Default `false`.
   */
  readonly shuffle?: boolean | number | undefined;
  /** The time in ms before each delivery, or the range from which each delivery draws its own. Default 0. */
  readonly delay?: number | readonly [min: number, max: number] | undefined;
  /** The time in ms that the endpoint has to answer. A later answer is a failure. Default 30,000. */
  readonly timeout?: number | undefined;
  /**
   * The waits in ms before the second attempt, the third and so on. Every answer but 200 is retried, as is no answer.
   * Default: no retries, because the platform does not say when it retries.
   */
  readonly retry?:
    | {
        /** The wait before each retry, ms. */
        readonly schedule: readonly number[];
      }
    | undefined;
}

/** A fault of the sandbox's API. It needs at least one of `status`, `delay` and `cutOff`. */
export interface SandboxFault {
  /**
   * The requests that it strikes: `GET /v2/bookings/{bookingCode}`, `GET /v2/bookings/HX3K9` for one record, or
   * `/v2/listings` for any method. Default: all requests.
   */
  readonly route?: string | undefined;
  /** The share of these requests that it strikes, from 0 to 1. Default 1. */
  readonly rate?: number | undefined;
  /** The number of requests after which it ends. Default: it does not end. */
  readonly times?: number | undefined;
  /** The status of the answer, from 300 to 599. The sandbox does not act on the request. */
  readonly status?: number | undefined;
  /** The `Retry-After` header of that answer: seconds, or a text such as an HTTP date. */
  readonly retryAfter?: number | string | undefined;
  /** The time in ms before the answer, or the range of it. */
  readonly delay?: number | readonly [min: number, max: number] | undefined;
  /** Breaks the connection in the middle of the answer's body. The sandbox has acted on the request by then. */
  readonly cutOff?: boolean | undefined;
}

/** {@link SandboxOptions} with the defaults filled in. */
export interface SandboxSettings {
  readonly seed: number;
  readonly accessToken: string;
  readonly log: Log;
  readonly observe: (event: SandboxObservation) => void;
  readonly delivery: SandboxDeliveryOptions;
  readonly faults: readonly SandboxFault[];
}

/** {@link SandboxDeliveryOptions} with the defaults filled in. */
export interface DeliverySettings {
  readonly duplicates: number;
  readonly duplicateAfter: Range;
  readonly drop: number;
  /** ms for which deliveries are collected; `undefined`: they are not. */
  readonly shuffleWindow: number | undefined;
  readonly delay: Range;
  readonly timeout: number;
  /** ms before the second attempt, the third, ... */
  readonly retrySchedule: readonly number[];
}

export const defaultAccessToken = "sandbox";

export type Range = readonly [min: number, max: number];

export function toRange(ms: number | Range = 0): Range {
  return typeof ms === "number" ? [ms, ms] : [ms[0], ms[1]];
}

const wait = z
  .number({ error: "must be a number of ms" })
  .min(0, "must not be negative")
  .max(MAX_TIMER, `must not be more than ${MAX_TIMER} ms`);

const msOrRange = z.union([wait, z.tuple([wait, wait]).refine(([min, max]) => min <= max)], {
  error: "must be a number of ms, or [min, max]",
});

/** A number from 0 to 1. */
const share = z
  .number({ error: "must be a number from 0 to 1" })
  .min(0, "must be from 0 to 1")
  .max(1, "must be from 0 to 1");

/**
 * @param at - the path of the value in the caller's arguments
 * @throws InvalidArgumentError naming each wrong field
 */
export function check(schema: () => z.ZodType, value: unknown, at: readonly (string | number)[] = []): void {
  checkOptions(schema, value, { at, together: true });
}

export const deliverySchema = () =>
  optionsObject({
    duplicates: z
      .int({ error: "must be an integer" })
      .min(0, "must not be negative")
      .max(100, "must not be more than 100")
      .optional(),
    duplicateAfter: msOrRange.optional(),
    drop: share.optional(),
    shuffle: z.union([z.boolean(), wait], { error: "must be true, false or a number of ms" }).optional(),
    delay: msOrRange.optional(),
    timeout: wait.gt(0, "must be more than 0").optional(),
    retry: optionsObject({
      schedule: z.array(wait, { error: "must be a list of numbers of ms" }),
    }).optional(),
  });

const statusError = "must be a status from 300 to 599";

export const faultsSchema = () =>
  z.array(
    optionsObject({
      route: z
        .string({ error: "must be a route, such as GET /v2/listings" })
        .refine((route) => routeMatcher(route) !== undefined, {
          error: `must be one of ${routeNames.join(", ")}; a path alone is for any method`,
        })
        .optional(),
      rate: share.optional(),
      times: z.int({ error: "must be an integer" }).min(1, "must be at least 1").optional(),
      status: z.int({ error: statusError }).min(300, statusError).max(599, statusError).optional(),
      retryAfter: z
        .union([z.number().min(0), z.string().regex(/^[\x20-\x7e]+$/)], {
          error: "must be a number of seconds, or the text of the header",
        })
        .optional(),
      delay: msOrRange.optional(),
      cutOff: z.boolean({ error: "must be true or false" }).optional(),
    })
      .refine(
        ({ status, delay, cutOff }) => status !== undefined || delay !== undefined || cutOff === true,
        "needs a status, a delay or cutOff: true",
      )
      .refine(({ status, retryAfter }) => retryAfter === undefined || status !== undefined, {
        error: "needs a status",
        path: ["retryAfter"],
      }),
    { error: "must be a list of faults" },
  );

const sandboxSchema = () =>
  optionsObject({
    seed: z.int({ error: "must be an integer" }).optional(),
    accessToken: z
      .string({ error: "must be a string" })
      .regex(/^[\x21-\x7e]+$/, "must be printable ASCII, without spaces, and not empty")
      .optional(),
    delivery: deliverySchema().optional(),
    faults: faultsSchema().optional(),
    observe: callable().optional(),
    logger: logger().optional(),
  });

/** @throws InvalidArgumentError naming each wrong option */
export function readOptions(options: SandboxOptions): SandboxSettings {
  check(sandboxSchema, options);
  const { seed = randomSeed(), accessToken = defaultAccessToken } = options;
  const { delivery = {}, faults = [], observe = () => {} } = options;
  return { seed, accessToken, log: new Log(options.logger ?? (() => {})), observe, delivery, faults };
}

/** @param options - checked */
export function toDeliverySettings(options: SandboxDeliveryOptions): DeliverySettings {
  const {
    duplicates = 0,
    duplicateAfter,
    drop = 0,
    shuffle = false,
    delay,
    timeout = 30_000,
    retry,
  } = options;
  return {
    duplicates,
    duplicateAfter: toRange(duplicateAfter),
    drop,
    shuffleWindow: shuffle === true ? 100 : shuffle === false ? undefined : shuffle,
    delay: toRange(delay),
    timeout,
    retrySchedule: [...(retry?.schedule ?? [])],
  };
}
