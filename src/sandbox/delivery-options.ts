import * as z from "zod";
import { describeObject, msOrRange, rate, toRange, wait } from "./option-kinds.ts";

/** How notifications are delivered. Everything random in it is drawn from the seed. */
export interface SandboxDeliveryOptions {
  /** How many more times each notification is delivered: 1 lets everything arrive twice. Default 0. */
  readonly duplicates?: number | undefined;
  /**
   * ms after the first delivery at which its duplicates follow, or the least and the most of it: hours, say. They
   * come when that time has passed, or when `sandbox.advance` lets it pass. Default 0.
   */
  readonly duplicateAfter?: number | readonly [min: number, max: number] | undefined;
  /**
   * The share of deliveries that get lost, from 0 to 1: they are never sent, nor retried. A duplicate may be lost
   * where the first is not. Default 0.
   */
  readonly drop?: number | undefined;
  /**
   * Lets deliveries go out in another order than that of their events. They are collected for this many ms
   * from the first one on, 100 for `true`, and then sent in a random order. Default `false`.
   */
  readonly shuffle?: boolean | number | undefined;
  /** ms before each delivery, or the least and the most, between which each delivery has its own. Default 0. */
  readonly delay?: number | readonly [min: number, max: number] | undefined;
  /** ms within which the endpoint must answer; after that the delivery has failed. Default 30,000. */
  readonly timeout?: number | undefined;
  /**
   * Delivers again what was not answered with exactly 200 within the `timeout`: after the first of these waits,
   * in ms, then after the second, and so on, until one is answered 200 or there are none left. By default
   * nothing is delivered again, as nobody knows the platform's own schedule.
   */
  readonly retry?: { readonly schedule: readonly number[] } | undefined;
}

/** {@link SandboxDeliveryOptions} with the defaults filled in. */
export interface DeliverySettings {
  readonly duplicates: number;
  readonly duplicateAfter: readonly [min: number, max: number];
  readonly drop: number;
  /** ms for which deliveries are collected; `undefined` where they are not. */
  readonly shuffleWindow: number | undefined;
  readonly delay: readonly [min: number, max: number];
  readonly timeout: number;
  /** ms before the second attempt, the third, ... */
  readonly retrySchedule: readonly number[];
}

export const deliverySchema = z.strictObject(
  {
    duplicates: z
      .int({ error: "must be an integer" })
      .min(0, "must not be negative")
      .max(100, "must not be more than 100")
      .optional(),
    duplicateAfter: msOrRange.optional(),
    drop: rate.optional(),
    shuffle: z.union([z.boolean(), wait], { error: "must be true, false or a number of ms" }).optional(),
    delay: msOrRange.optional(),
    timeout: wait.gt(0, "must be more than 0").optional(),
    retry: z
      .strictObject(
        { schedule: z.array(wait, { error: "must be a list of numbers of ms" }) },
        { error: describeObject },
      )
      .optional(),
  },
  { error: describeObject },
);

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
