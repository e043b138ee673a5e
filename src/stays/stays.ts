import { InvalidArgumentError, type Issue } from "../errors.ts";
import { isObject } from "../models/is-object.ts";
import type { Booking } from "../models/records.ts";
import { checkNoUnknown } from "../option-names.ts";
import { type AnyOptions, DECLARED } from "./declared.ts";
import type { Hold, HoldOptions, Once, OnceOptions, Stays, StaysOptions } from "./types.ts";

export type { BookingStay } from "../models/booking-stay.ts";
export type { Json } from "./ledger.ts";
export type {
  Hold,
  HoldFunctions,
  HoldOptions,
  HoldThing,
  HoldValue,
  Once,
  OnceOptions,
  OnceThing,
  Stays,
  StaysOptions,
  Thing,
  WantContext,
} from "./types.ts";

/**
 * Asks for a thing that exists from `from` until `until`, as long as its stay holds: blocked nights, a door code.
 *
 * `begin` of `apply` is called at `from`. `end` is called at `until`, or at once if the stay no longer holds, moves to another
 * house or to other days, is gone, or `want` no longer names the hold.
 *
 * @param name - a key of `apply`: lower-case letters, digits and hyphens, 64 characters at most
 * @example
 * ```ts
 * import { createStays, hold } from "stayhook/stays";
 *
 * export const stays = createStays({
 *   want: ({ checkIn, checkOut }, { at }) => [
 *     hold("door-code", { from: at(checkIn, "15:00"), until: at(checkOut, "11:00") }),
 *   ],
 *   apply: {
 *     "door-code": {
 *       begin: async ({ stay, from, until, id }) => console.log("open", stay.listingId, from, until, id),
 *       end: async ({ stay, id }) => console.log("close", stay.listingId, id),
 *     },
 *   },
 * });
 * ```
 */
export function hold<H extends string>(name: H, options: HoldOptions = {}): Hold<H> {
  checkNoUnknown(options, ["from", "until", "data"]);
  return { ...options, hold: name };
}

/**
 * Asks for a thing that is done once, at a time: a mail, a cleaning.
 *
 * If the stay moves to another house, or to other days with another time, it runs again. A new time for the same house and
 * days moves it only while it waits.
 *
 * @param name - a key of `apply`: lower-case letters, digits and hyphens, 64 characters at most
 * @example
 * ```ts
 * import { createStays, once } from "stayhook/stays";
 *
 * export const stays = createStays({
 *   want: ({ checkIn, checkOut }, { at }) => [
 *     once("directions", { at: at(checkIn, "09:00", { days: -2 }), until: at(checkIn, "15:00") }),
 *     once("cleaning", { at: at(checkOut, "11:00"), owedFrom: at(checkIn, "15:00") }),
 *   ],
 *   apply: {
 *     directions: ({ stay, id }) => console.log("mail", stay.bookingCode, id),
 *     cleaning: ({ stay, id, isEarly }) => console.log("clean", stay.listingId, id, isEarly),
 *   },
 * });
 * ```
 */
export function once<O extends string>(name: O, options: OnceOptions): Once<O> {
  checkNoUnknown(options, ["at", "until", "owedFrom", "data"]);
  return { ...options, once: name };
}

/**
 * Declares what should exist for a stay, in the place of callbacks, timers and comparisons: which things a stay needs, and
 * when, and what each does. The handler then keeps all of it right, whatever happens to the stay.
 *
 * Each event of a booking makes a plan, and calls nothing. Each thing at each house acts in an event of its own, of the type
 * `booking.thing.<name>`, which is retried, parked and replayed by itself. What has begun, or may have begun, is ended at its
 * own house, also after a crash.
 *
 * @throws InvalidArgumentError naming each option that is wrong
 * @example
 * ```ts
 * import { createWebhookHandler, memoryStore, sharedSecret, StayhookClient } from "stayhook";
 * import { createStays, hold, once } from "stayhook/stays";
 *
 * const zones = new Map([[1042, "Europe/Lisbon"]]);
 * const stays = createStays({
 *   want: ({ checkIn, checkOut }, { at }) => [
 *     hold("nights"),
 *     hold("door-code", { from: at(checkIn, "15:00"), until: at(checkOut, "11:00") }),
 *     once("welcome", { at: at(checkIn, "15:00"), until: at(checkOut, "11:00") }),
 *     once("cleaning", { at: at(checkOut, "11:00"), owedFrom: at(checkIn, "15:00") }),
 *   ],
 *   apply: {
 *     nights: { begin: ({ stay }) => calendar.block(stay), end: ({ stay }) => calendar.release(stay) },
 *     "door-code": {
 *       begin: async ({ stay, id }) => (await lock.add(stay, id)).code,
 *       end: ({ value, id }) => lock.remove(value, id),
 *     },
 *     welcome: ({ stay, id, values }) => mail(stay, `Your code is ${values["door-code"]}`, id),
 *     cleaning: ({ stay, id }) => crew.order(stay, id),
 *   },
 * });
 * export const webhooks = createWebhookHandler({
 *   client: new StayhookClient(),
 *   store: memoryStore(),
 *   verify: sharedSecret({ query: "key", secret: process.env.WEBHOOK_SECRET }),
 *   timeZone: ({ listingId }) => zones.get(Number(listingId)),
 *   stays,
 *   on: {},
 * });
 * ```
 */
export function createStays<
  H extends string = never,
  O extends string = never,
  B extends Booking = Booking,
  A extends boolean = false,
>(options: StaysOptions<H, O, B, A>): Stays<B, A> {
  if (options === undefined)
    throw new InvalidArgumentError({ path: [], message: "createStays needs the options { want, apply }" });
  checkNoUnknown(options, ["accounts", "want", "apply"]);
  const issues = problemsWith(options as unknown as Readonly<Record<string, unknown>>);
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  const declared = options as unknown as AnyOptions;
  const stays: Stays<B, A> = { accounts: (declared.accounts ?? false) as A };
  return Object.defineProperty(stays, DECLARED, { value: { ...declared, apply: { ...declared.apply } } });
}

function problemsWith({ accounts, want, apply }: Readonly<Record<string, unknown>>): Issue[] {
  const issues: Issue[] = [];
  if (accounts !== undefined && typeof accounts !== "boolean")
    issues.push({ path: ["accounts"], message: "must be true or false" });
  if (typeof want !== "function") issues.push({ path: ["want"], message: "must be a function" });
  if (!isObject(apply)) return [...issues, { path: ["apply"], message: "must be an object of things" }];
  for (const [name, thing] of Object.entries(apply)) {
    const isHold = isObject(thing) && typeof thing.begin === "function" && typeof thing.end === "function";
    if (!isHold && typeof thing !== "function")
      issues.push({
        path: ["apply", name],
        message: "must be { begin, end } for a hold, or a function for a once",
      });
  }
  return issues;
}
