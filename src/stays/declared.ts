// What the handler reads of `createStays`. The rest of that file is not in the bundle of an app without `stays`.

import type { BookingStay } from "../models/booking-stay.ts";
import { isObject } from "../models/is-object.ts";
import type { Booking } from "../models/records.ts";
import type { HoldFunctions, OnceThing, WantContext } from "./types.ts";

/** The options without the types of their names, as the engine reads them. */
export interface AnyOptions {
  readonly accounts?: boolean | undefined;
  want(stay: BookingStay, context: WantContext<Booking, boolean>): unknown;
  readonly apply: Readonly<Record<string, HoldFunctions | ((thing: OnceThing) => unknown)>>;
}

// `import` and `require` load separate copies of the package. `Symbol.for` gives the same symbol to each copy.
export const DECLARED = Symbol.for("stayhook.stays");

/** Returns what `createStays` was called with. It is `undefined` for any other value. */
export function declaredIn(stays: unknown): AnyOptions | undefined {
  return isObject(stays) ? (stays as { readonly [DECLARED]?: AnyOptions })[DECLARED] : undefined;
}
