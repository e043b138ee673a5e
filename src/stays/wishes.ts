// Asks `want` what a stay needs, and checks its answer.

import { describeKind, InvalidArgumentError, type Issue } from "../errors.ts";
import { localTime } from "../local-time.ts";
import type { BookingStay } from "../models/booking-stay.ts";
import { isObject } from "../models/is-object.ts";
import type { Booking } from "../models/records.ts";
import type { AnyOptions } from "./declared.ts";
import type { HoldWant, Json, OnceWant, Wanted } from "./ledger.ts";
import { REMEMBERED } from "./rules.ts";
import type { Hold, Once, WantContext } from "./types.ts";

/** The longest `data` and `value`, in bytes of JSON. */
const MOST_BYTES = 2048;
/** The farthest time of a thing, epoch ms: the year 5138, the last one that every store keeps. */
const FARTHEST = 1e14;
const NAME = /^[a-z0-9-]{1,64}$/;

/** What `want` is asked with, beside the stay. */
export interface Asked extends Pick<WantContext<Booking, boolean>, "booking" | "account"> {
  readonly timeZone: string | undefined;
}

/**
 * Asks `want` what a stay needs.
 *
 * @throws the error of `want`, or an InvalidArgumentError naming each thing that is wrong
 */
export function wishesOf(
  { want, apply }: AnyOptions,
  to: BookingStay,
  { timeZone, ...asked }: Asked,
): Wanted[] {
  const { bookingCode, listingId, checkIn, checkOut, nights } = to;
  // Equal ledgers have equal JSON.
  const stay: BookingStay = { bookingCode, listingId, checkIn, checkOut, nights };
  const at: WantContext["at"] = (day, time, offset) => {
    if (timeZone === undefined)
      throw new InvalidArgumentError({
        path: ["timeZone"],
        message: `gives no time zone for listing ${stay.listingId}, so that at() knows no local time`,
      });
    return localTime(day, time, timeZone, offset);
  };
  const things: unknown = want(stay, { ...asked, at });
  if (!Array.isArray(things))
    throw new InvalidArgumentError({
      path: ["want"],
      message: `must return an array of hold(…) and once(…), not ${describeKind(things)}`,
    });
  const issues: Issue[] = [];
  const names = new Set<string>();
  const wanted = things.flatMap((given: unknown, index) => {
    if (!isObject(given)) {
      issues.push({
        path: ["want", index],
        message: `must be a hold(…) or a once(…), not ${describeKind(given)}`,
      });
      return [];
    }
    const thing = given as unknown as Hold | Once;
    const name = "hold" in thing ? thing.hold : thing.once;
    const refuse = (message: string) =>
      issues.push({ path: ["want", index], message: `${name}: ${message}` });
    if (typeof name !== "string" || !NAME.test(name))
      refuse("a name has lower-case letters, digits and hyphens, 64 characters at most");
    else if (!Object.hasOwn(apply, name)) refuse("`apply` has no such thing");
    else if ((typeof apply[name] === "function") === "hold" in thing)
      refuse(
        "hold" in thing ? "a hold needs { begin, end } in `apply`" : "a once needs a function in `apply`",
      );
    if (names.has(name)) refuse("this name is there twice");
    names.add(name);
    return "hold" in thing ? holdOf(thing, stay, refuse) : onceOf(thing, stay, refuse);
  });
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  return wanted;
}

type Refuse = (message: string) => void;

function holdOf({ hold, from, until, data }: Hold, stay: BookingStay, refuse: Refuse): Wanted {
  const want: HoldWant = {
    stay,
    ...(from !== undefined && { from: msOf("from", from, refuse) }),
    ...(until === undefined
      ? { until: Date.parse(stay.checkOut) + REMEMBERED, isOpenEnded: true }
      : { until: msOf("until", until, refuse) }),
    ...(data !== undefined && { data: keptJson("data", data, refuse) }),
  };
  return { kind: "hold", name: hold, want };
}

function onceOf({ once, at, until, owedFrom, data }: Once, stay: BookingStay, refuse: Refuse): Wanted {
  const want: OnceWant = {
    stay,
    at: msOf("at", at, refuse),
    ...(until !== undefined && { until: msOf("until", until, refuse) }),
    ...(owedFrom !== undefined && { owedFrom: msOf("owedFrom", owedFrom, refuse) }),
    ...(data !== undefined && { data: keptJson("data", data, refuse) }),
  };
  return { kind: "once", name: once, want };
}

function msOf(field: string, time: unknown, refuse: Refuse): number {
  const ms = time instanceof Date ? time.getTime() : Number.NaN;
  if (!(Math.abs(ms) < FARTHEST)) refuse(`\`${field}\` must be a valid Date, not ${describeKind(time)}`);
  return ms;
}

/** Returns what a ledger keeps of a value: equal values have equal JSON. */
export function keptJson(field: string, value: unknown, refuse: Refuse): Json | undefined {
  let json: string | undefined;
  try {
    json = JSON.stringify(value, sorted);
  } catch (error) {
    refuse(`\`${field}\` must be JSON: ${error instanceof Error ? error.message : error}`);
    return undefined;
  }
  if (json === undefined) refuse(`\`${field}\` must be JSON, not ${describeKind(value)}`);
  const bytes = new TextEncoder().encode(json ?? "").length;
  if (bytes > MOST_BYTES)
    refuse(
      `\`${field}\` has ${bytes} bytes of JSON, and at most ${MOST_BYTES} are kept. Keep the rest in a table of yours`,
    );
  return json === undefined ? undefined : (JSON.parse(json) as Json);
}

function sorted(_: string, part: unknown): unknown {
  if (typeof part !== "object" || part === null || Array.isArray(part)) return part;
  return Object.fromEntries(Object.entries(part).sort(([one], [other]) => (one < other ? -1 : 1)));
}
