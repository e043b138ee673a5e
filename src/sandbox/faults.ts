import { check, faultsSchema, type SandboxFault, toRange } from "./options.ts";
import { routeMatcher } from "./platform.ts";
import { createRandom, type Random } from "./random.ts";
import { copy } from "./records.ts";

/** The faults of the sandbox's API. They can change while it runs. */
export interface SandboxFaults {
  /**
   * Replaces all faults. The first fault that strikes a request decides its answer.
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
  /** Ends all faults. */
  clear(): void;
  /** Returns a copy of the faults that were set. Faults that have ended by `times` are among them. */
  list(): SandboxFault[];
}

/** A fault that strikes a request. */
export interface Strike {
  readonly fault: SandboxFault;
  /** ms */
  readonly delay: number;
}

interface ArmedFault {
  readonly fault: SandboxFault;
  readonly matches: (method: string, path: string) => boolean;
  /** Each fault has its own stream, so that adding another fault does not change its draws. */
  readonly random: Random;
  left: number;
}

/** The faults as users set them, with the method that the API calls for each request. */
export interface FaultInjector extends SandboxFaults {
  strike(method: string, path: string): Strike | undefined;
}

/** @param initial - checked */
export function createFaults(seed: number, initial: readonly SandboxFault[]): FaultInjector {
  const arm = (fault: SandboxFault, index: number): ArmedFault => ({
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
