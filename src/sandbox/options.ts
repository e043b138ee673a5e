import * as z from "zod";
import { ACCOUNT_RULE, isAccount } from "../account.ts";
import { Log, type Logger } from "../logger.ts";
import { callable, logger, optionsObject } from "../options.ts";
import { check, msOrRange, type Range, type SandboxWait, share, toRange, wait } from "./checks.ts";
import { faultsSchema, type SandboxFault } from "./faults.ts";
import type { SandboxObservation } from "./observations.ts";
import { randomSeed } from "./random.ts";

/** Options of `createSandbox`. All have a default. */
export interface SandboxOptions {
  /**
   * An integer. The same seed and the same calls give the same codes, ids, order, delays and faults. Default: a
   * random integer, which you can read from `sandbox.seed`.
   */
  readonly seed?: number | undefined;
  /**
   * The bearer token of the API. Default `"sandbox-token"`, which works on loopback only. With `accounts`, the token of
   * account `a17` is this text with `-a17` behind it: `sandbox-token-a17`.
   */
  readonly accessToken?: string | undefined;
  /**
   * The ids of the accounts, such as `["a17", "b2"]`. Each account has a token, bookings, listings, a webhook configuration
   * and faults of its own: `sandbox.account("a17")`. Default: one account without an id, which is the sandbox itself.
   */
  readonly accounts?: readonly string[] | undefined;
  /** The delivery options. `sandbox.delivery.set` changes them. Default: one delivery without delay. */
  readonly delivery?: SandboxDeliveryOptions | undefined;
  /** The faults of the API. `sandbox.faults.set` changes them. Default: none. */
  readonly faults?: readonly SandboxFault[] | undefined;
  /** Gets a `debug` line for each request and delivery, and a `warn` line for each failed delivery. Default: none. */
  readonly logger?: Logger | undefined;
  /** Called after each answered request and after each delivery attempt. Must not throw. */
  readonly observe?: ((event: SandboxObservation) => void) | undefined;
}

/**
 * How the sandbox delivers notifications. The seed determines all random choices. A duration is a number of ms, or a
 * text such as `"30s"`.
 */
export type SandboxDeliveryOptions = {
  /** The number of extra deliveries of each notification, 0 to 100. With 1, each one arrives twice. Default 0. */
  readonly duplicates?: number | undefined;
  /**
   * The wait before each duplicate, in addition to `delay`. If you give a range, each duplicate has its own
   * random wait. `sandbox.advance` skips the wait. Default 0.
   */
  readonly duplicateAfter?: SandboxWait | readonly [min: SandboxWait, max: SandboxWait] | undefined;
  /**
   * The share of deliveries that the sandbox loses, from 0 to 1. The sandbox does not retry a lost delivery. Each
   * duplicate counts as a separate delivery. Default 0.
   */
  readonly drop?: number | undefined;
  /** Collects deliveries for this time, then sends them in random order. `true` means 100 ms. Default `false`. */
  readonly shuffle?: boolean | SandboxWait | undefined;
  /** The wait before each delivery. If you give a range, each delivery has its own random wait. Default 0. */
  readonly delay?: SandboxWait | readonly [min: SandboxWait, max: SandboxWait] | undefined;
  /** The longest wait for the endpoint's answer. A later answer counts as a failure. Default `"30s"`. */
  readonly timeout?: SandboxWait | undefined;
  /**
   * Retries a delivery if the answer is not 200, or if no answer comes. Default: no retries, because the platform
   * does not document when it retries.
   */
  readonly retry?:
    | {
        /** The wait before each retry. `["1s", "5s"]` makes two retries. */
        readonly schedule: readonly SandboxWait[];
      }
    | undefined;
};

/** {@link SandboxOptions} with the defaults filled in. */
export interface SandboxSettings {
  readonly seed: number;
  readonly accessToken: string;
  /** `undefined` stands for the one account of a sandbox without accounts. */
  readonly accounts: readonly [string | undefined, ...(string | undefined)[]];
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
  /** How long deliveries are collected before they are shuffled, ms. It is `undefined` without `shuffle`. */
  readonly shuffleWindow: number | undefined;
  readonly delay: Range;
  readonly timeout: number;
  /** The wait before each retry, ms. */
  readonly retrySchedule: readonly number[];
}

/** Fixed, so that the commands in the docs work. Not a word, because the client redacts the token in every message. */
export const defaultAccessToken = "sandbox-token";

export const deliverySchema = () =>
  optionsObject({
    duplicates: z
      .int({ error: "must be an integer" })
      .min(0, "must not be negative")
      .max(100, "must not be more than 100")
      .optional(),
    duplicateAfter: msOrRange.optional(),
    drop: share.optional(),
    shuffle: z
      .union([z.boolean(), wait], { error: 'must be true, false, a number of ms or a duration such as "1s"' })
      .optional(),
    delay: msOrRange.optional(),
    timeout: wait.refine((ms) => ms > 0, "must be more than 0").optional(),
    retry: optionsObject({
      schedule: z.array(wait, { error: 'must be a list of numbers of ms, or of durations such as "30s"' }),
    }).optional(),
  });

const sandboxSchema = () =>
  optionsObject({
    seed: z.int({ error: "must be an integer" }).optional(),
    accessToken: z
      .string({ error: "must be a string" })
      .regex(/^[\x21-\x7e]+$/, "must be printable ASCII, without spaces, and not empty")
      .optional(),
    accounts: z
      .array(z.custom<string>(isAccount, { error: `must be the id of an account: ${ACCOUNT_RULE}` }), {
        error: 'must be a list of ids, such as ["a17", "b2"]',
      })
      .min(1, "must not be empty")
      .refine((ids) => new Set(ids).size === ids.length, { error: "must have each id once" })
      .optional(),
    delivery: deliverySchema().optional(),
    faults: faultsSchema().optional(),
    observe: callable().optional(),
    logger: logger().optional(),
  });

/** @throws InvalidArgumentError naming each wrong option */
export function readOptions(options: SandboxOptions): SandboxSettings {
  const checked = check(sandboxSchema, options);
  const { seed = randomSeed(), accessToken = defaultAccessToken } = checked;
  const { delivery = {}, faults = [], observe = () => {} } = checked;
  const [first, ...others] = checked.accounts ?? [undefined];
  const accounts = [first, ...others] as const;
  return {
    seed,
    accessToken,
    accounts,
    log: new Log(options.logger ?? (() => {})),
    observe,
    delivery,
    faults,
  };
}

/** @param options - options that `check` has returned for `deliverySchema` */
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
    shuffleWindow: shuffle === true ? 100 : shuffle === false ? undefined : Number(shuffle),
    delay: toRange(delay),
    timeout: Number(timeout),
    retrySchedule: (retry?.schedule ?? []).map(Number),
  };
}
