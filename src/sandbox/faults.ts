import * as z from "zod";
import { copy } from "./fields.ts";
import { check, describeObject, msOrRange, rate, toRange } from "./option-kinds.ts";
import { createRandom, type Random } from "./random.ts";
import { routeMatcher, routeNames } from "./route-names.ts";

/** What goes wrong with requests to the sandbox's API. At least one of `status`, `delay` and `cutOff` is needed. */
export interface SandboxFault {
  /**
   * The requests that it is for: `GET /v2/bookings/{bookingCode}`, or `GET /v2/bookings/HX3K9` for one record,
   * or `/v2/listings` for any method. Default: all.
   */
  readonly route?: string | undefined;
  /** The share of these requests that it strikes, from 0 to 1, drawn from the seed. Default 1. */
  readonly rate?: number | undefined;
  /** How many requests it strikes before it is over. Default: no end. */
  readonly times?: number | undefined;
  /** Answers with this status, from 300 to 599, without acting on the request. */
  readonly status?: number | undefined;
  /** The `Retry-After` header of that answer: seconds, or a text such as an HTTP date. */
  readonly retryAfter?: number | string | undefined;
  /** ms before the answer, or the least and the most of it. */
  readonly delay?: number | readonly [min: number, max: number] | undefined;
  /** Destroys the connection in the middle of the answer's body. The request, a write too, has been acted on. */
  readonly cutOff?: boolean | undefined;
}

/** The faults of the sandbox's API, to be switched while it runs. */
export interface SandboxFaults {
  /**
   * Puts these in the place of all that there are, and begins their draws anew. Of several that are for a
   * request, the first that strikes decides.
   *
   * @throws InvalidArgumentError naming each field that cannot be used, or a route that there is none of
   * @example
   * ```ts
   * sandbox.faults.set([
   *   { route: "GET /v2/bookings/{bookingCode}", status: 503, rate: 0.3, retryAfter: 2, times: 5 },
   *   { route: "GET /v2/listings", delay: [100, 2000] },
   * ]);
   * ```
   */
  set(faults: readonly SandboxFault[]): void;
  /** Ends them all. */
  clear(): void;
  /** A copy of those that were set, whether they are over or not. */
  list(): SandboxFault[];
}

/** A fault that struck. */
export interface Strike {
  readonly fault: SandboxFault;
  /** ms */
  readonly delay: number;
}

const faultSchema = z
  .strictObject(
    {
      route: z
        .string({ error: "must be a route, such as GET /v2/listings" })
        .refine((route) => routeMatcher(route) !== undefined, {
          error: `must be one of ${routeNames.join(", ")}; a path alone is for any method`,
        })
        .optional(),
      rate: rate.optional(),
      times: z.int({ error: "must be an integer" }).min(1, "must be at least 1").optional(),
      status: z
        .int({ error: "must be a status" })
        .min(300, "must be a status from 300 to 599")
        .max(599, "must be a status from 300 to 599")
        .optional(),
      retryAfter: z
        .union([z.number().min(0), z.string().regex(/^[\x20-\x7e]+$/)], {
          error: "must be a number of seconds, or what the header says",
        })
        .optional(),
      delay: msOrRange.optional(),
      cutOff: z.boolean({ error: "must be true or false" }).optional(),
    },
    { error: describeObject },
  )
  .refine(
    ({ status, delay, cutOff }) => status !== undefined || delay !== undefined || cutOff === true,
    "must have a status, a delay or cutOff: true",
  )
  .refine(({ status, retryAfter }) => retryAfter === undefined || status !== undefined, {
    error: "goes with a status",
    path: ["retryAfter"],
  });

export const faultsSchema = z.array(faultSchema, { error: "must be a list of faults" });

interface Armed {
  readonly fault: SandboxFault;
  readonly matches: (method: string, path: string) => boolean;
  /** Of its own, so that what is set beside it leaves its draws as they were. */
  readonly random: Random;
  left: number;
}

/** The control that users have, and what the API asks for each request. */
export interface FaultControl extends SandboxFaults {
  strike(method: string, path: string): Strike | undefined;
}

/** @param initial - checked */
export function createFaults(seed: number, initial: readonly SandboxFault[]): FaultControl {
  const arm = (fault: SandboxFault, index: number): Armed => ({
    fault,
    matches: fault.route === undefined ? () => true : routeMatcher(fault.route)!,
    random: createRandom(seed, `fault ${index}`),
    left: fault.times ?? Number.POSITIVE_INFINITY,
  });
  let armed = copy(initial).map(arm);

  return {
    set(faults) {
      check(faultsSchema, faults, ["faults"]);
      armed = copy(faults).map(arm);
    },
    clear() {
      armed = [];
    },
    list: () => copy(armed.map(({ fault }) => fault)),
    strike(method, path) {
      for (const one of armed) {
        const { fault, random } = one;
        if (one.left === 0 || !one.matches(method, path)) continue;
        if (fault.rate !== undefined && random.next() >= fault.rate) continue;
        one.left--;
        return { fault, delay: random.integer(...toRange(fault.delay)) };
      }
      return undefined;
    },
  };
}
