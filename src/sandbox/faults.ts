import * as z from "zod";
import { inAccount } from "../account.ts";
import { optionsObject } from "../options.ts";
import { check, msOrRange, type SandboxWait, share, toRange } from "./checks.ts";
import { routeMatcher, routeNames } from "./platform.ts";
import { createRandom } from "./random.ts";
import { copy } from "./sandbox-records.ts";

/** A fault of the sandbox's API. It needs at least one of `status`, `delay` and `cutOff`. */
export interface SandboxFault {
  /**
   * The requests that get the fault, such as `GET /v2/bookings/{bookingCode}`. `GET /v2/bookings/HX3K9` selects one
   * record. Without a method, as in `/v2/listings`, the route selects all methods. Default: all requests.
   */
  readonly route?: string | undefined;
  /** The share of the requests to `route` that get the fault, from 0 to 1. Default 1. */
  readonly rate?: number | undefined;
  /** The number of requests that get the fault before the fault ends. Default: no limit. */
  readonly times?: number | undefined;
  /** The status of the answer, from 300 to 599. With `status`, the sandbox does not execute the request. */
  readonly status?: number | undefined;
  /** The `Retry-After` header of an answer with `status`: seconds, or a text such as an HTTP date. */
  readonly retryAfter?: number | string | undefined;
  /**
   * The wait before the answer: ms, or a text such as `"3s"`. If you give a range, each request has its own random wait.
   */
  readonly delay?: SandboxWait | readonly [min: SandboxWait, max: SandboxWait] | undefined;
  /** Breaks the connection in the middle of the answer's body. Without `status`, the request still takes effect. */
  readonly cutOff?: boolean | undefined;
}

const statusError = "must be a status from 300 to 599";

export const faultsSchema = () =>
  z.array(
    optionsObject({
      route: z
        .string({ error: "must be a route, such as GET /v2/listings" })
        .refine((route) => routeMatcher(route) !== undefined, {
          error: `must be one of ${routeNames.join(", ")}. A path without a method matches all methods`,
        })
        .optional(),
      rate: share.optional(),
      times: z.int({ error: "must be an integer" }).min(1, "must be at least 1").optional(),
      status: z.int({ error: statusError }).min(300, statusError).max(599, statusError).optional(),
      retryAfter: z
        .union([z.number().min(0), z.string().regex(/^[\x20-\x7e]+$/)], {
          error: "must be a number of seconds, or the text of the Retry-After header",
        })
        .optional(),
      delay: msOrRange.optional(),
      cutOff: z.boolean({ error: "must be true or false" }).optional(),
    })
      .refine(
        ({ status, delay, cutOff }) => status !== undefined || delay !== undefined || cutOff === true,
        "must have a `status`, a `delay`, or `cutOff` set to true",
      )
      .refine(({ status, retryAfter }) => retryAfter === undefined || status !== undefined, {
        error: "can be set only if the fault has a `status`",
        path: ["retryAfter"],
      }),
    { error: "must be a list of faults" },
  );

/** The faults of the sandbox's API. You can change them at any time. */
export interface SandboxFaults {
  /**
   * Replaces all faults. If several faults apply to a request, the request gets only the first of them.
   *
   * @throws InvalidArgumentError naming each wrong field and each unknown route
   * @example
   * ```ts
   * sandbox.faults.set([
   *   { route: "GET /v2/bookings/{bookingCode}", status: 503, rate: 0.3, retryAfter: 2, times: 5 },
   *   { route: "GET /v2/listings", delay: [100, 2000] },
   * ]);
   * ```
   */
  set(faults: readonly SandboxFault[]): void;
  /** Removes all faults. */
  clear(): void;
  /** Returns a copy of the list of faults, including faults that have already reached their `times`. */
  list(): SandboxFault[];
}

/** The user's faults, and the method that the API calls for each request. */
export interface FaultInjector extends SandboxFaults {
  /** Chooses the fault for a request, and counts this use of the fault. The returned `delay` is in ms. */
  strike(method: string, path: string): { readonly fault: SandboxFault; readonly delay: number } | undefined;
}

/** @param initial - faults that `readOptions` has already checked */
export function createFaults(
  seed: number,
  initial: readonly SandboxFault[],
  account?: string | undefined,
): FaultInjector {
  const arm = (fault: SandboxFault, index: number) => ({
    fault,
    matches: fault.route === undefined ? () => true : routeMatcher(fault.route)!,
    // Each fault has its own random stream, so that a fault added at the end changes no draws of the other faults.
    random: createRandom(seed, inAccount(account, `fault ${index}`)),
    left: fault.times ?? Number.POSITIVE_INFINITY,
  });
  let armed = copy(initial).map(arm);

  return {
    set(faults) {
      armed = copy(check(faultsSchema, faults, ["faults"])).map(arm);
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
