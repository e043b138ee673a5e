import * as z from "zod";
import { isLogger, Log, type Logger, loggerProblem } from "../logger.ts";
import type { SandboxRequest } from "./api.ts";
import type { SandboxDelivery } from "./delivery.ts";
import { deliverySchema, type SandboxDeliveryOptions } from "./delivery-options.ts";
import { faultsSchema, type SandboxFault } from "./faults.ts";
import { check, describeObject } from "./option-kinds.ts";
import { randomSeed } from "./random.ts";

/** Options of `createSandbox`. */
export interface SandboxOptions {
  /** An integer. The same seed and the same calls give the same codes, ids, order, delays and faults. Default: a random one. */
  readonly seed?: number | undefined;
  /** What the API takes as bearer token. Default `"sandbox"`. */
  readonly accessToken?: string | undefined;
  /** How notifications are delivered; `sandbox.delivery.set` switches it. */
  readonly delivery?: SandboxDeliveryOptions | undefined;
  /** What goes wrong with requests to the API; `sandbox.faults.set` switches them. Default: nothing. */
  readonly faults?: readonly SandboxFault[] | undefined;
  /** Told of each request (`debug`), each delivery (`debug`), and each that failed (`warn`). Default: silent. */
  readonly logger?: Logger | undefined;
  /** Told of each request that was answered, and of each delivery once it is over. Must not throw. */
  readonly observe?: ((event: SandboxObservation) => void) | undefined;
}

/** What `observe` is told; `kind` tells which. */
export type SandboxObservation =
  | ({ readonly kind: "request" } & SandboxRequest)
  | ({ readonly kind: "delivery" } & SandboxDelivery);

/** {@link SandboxOptions} with the defaults filled in. */
export interface SandboxSettings {
  readonly seed: number;
  readonly accessToken: string;
  readonly log: Log;
  readonly observe: (event: SandboxObservation) => void;
  readonly delivery: SandboxDeliveryOptions;
  readonly faults: readonly SandboxFault[];
}

const schema = z.strictObject(
  {
    seed: z.int({ error: "must be an integer" }).optional(),
    accessToken: z
      .string({ error: "must be a string" })
      .regex(/^[\x21-\x7e]+$/, "must be printable ASCII, without spaces, and not empty")
      .optional(),
    delivery: deliverySchema.optional(),
    faults: faultsSchema.optional(),
    observe: z
      .custom<SandboxOptions["observe"]>((value) => typeof value === "function", {
        error: "must be a function",
      })
      .optional(),
    logger: z.custom<Logger>(isLogger, { error: loggerProblem }).optional(),
  },
  { error: describeObject },
);

/** @throws InvalidArgumentError naming each option that cannot be used */
export function readOptions(options: SandboxOptions): SandboxSettings {
  check(schema, options);
  const { seed = randomSeed(), accessToken = "sandbox", logger = () => {} } = options;
  const { delivery = {}, faults = [], observe = () => {} } = options;
  return {
    seed,
    accessToken,
    log: new Log(logger),
    observe,
    delivery,
    faults,
  };
}
