// Makes the snapshot of a record, which the handler compares with the record's last one.

import { errorText } from "../../error-text.ts";
import { StayhookError } from "../../errors.ts";
import type { Log } from "../../logger.ts";
import type { BookingStay } from "../../models/booking-stay.ts";
import { dayOf, daysIn } from "../../models/dates.ts";
import { isObject } from "../../models/is-object.ts";
import type { Booking, Listing } from "../../models/records.ts";
import type { Snapshot, TrackedValue } from "../../stores/snapshot.ts";
import { serialise } from "../receiving/body.ts";
import { bookingRef, listingRef } from "../refs.ts";
import { readStay, stayFieldsOf } from "./known-stay.ts";
import { type ReadRecord, read } from "./read-record.ts";
import type { RecordContext, ZoneOf } from "./time-zone.ts";

/** The fields that `track` adds to those that the handler always compares. `undefined` counts as `null`. */
export type Tracked<F extends string = string> = Record<string, TrackedValue | undefined> & {
  readonly [Field in F]?: TrackedValue | undefined;
};

/** What the option `track` gets beside a booking. */
export interface BookingContext extends RecordContext {
  /** The booking's time zone, as the option `timeZone` gave it. */
  readonly timeZone: string | undefined;
  /** The booking's stay as the platform tells it now. It is `undefined` if it cannot be read. */
  readonly stay: BookingStay | undefined;
}

/** Functions that add fields to a record's snapshot, so that a change of one of them is found. */
export interface Track<
  B extends Booking = Booking,
  L extends Listing = Listing,
  FB extends string = string,
  FL extends string = string,
  A = unknown,
> {
  /**
   * Adds fields of a booking to its status, `checkIn`, `checkOut` and `listingId`. A field with one of these names shows in a
   * form of its own, that of the status as a text.
   */
  readonly booking?: ((booking: B, context: BookingContext & A) => Tracked<FB>) | undefined;
  /** Adds fields of a listing to its status and `listingName`. */
  readonly listing?: ((listing: L, context: RecordContext & A) => Tracked<FL>) | undefined;
}

type Fields = Record<string, TrackedValue>;

/** What was read of a record. */
export interface Look {
  readonly record: Booking | Listing;
  /** The snapshot without what the user's side knows. */
  readonly snapshot: Snapshot;
  /** The fields that are always compared, in the platform's form. `track` may have given them another form. */
  readonly base: Fields;
  /** The time zone of a booking's days. */
  readonly timeZone: string | undefined;
  /** Why it has no time zone. Only a handler with `stays` goes on then. */
  readonly zoneProblem?: unknown;
}

/**
 * Looks at a record that was read. With `accountFrom`, it needs the record's account.
 *
 * @param isTracked - if `false`, without the option `track`
 * @throws StayhookError if `track` or `timeZone` throws, or returns something invalid
 */
export type LookAt = (
  kind: "booking" | "listing",
  given: ReadRecord,
  account: string | undefined,
  isTracked?: boolean,
) => Promise<Look>;

/** The size limit for a snapshot's status and tracked fields, in bytes of JSON. */
const MAX_BYTES = 4096;
/** If a value does not fit into a snapshot, its JSON is cut to this number of characters. */
const MAX_CUT = 200;
/** The number of names that a handler remembers. A `track` that makes names of its records' values must not fill memory. */
const MOST_NAMES = 100;

/** Makes the function that looks at records as the options `track` and `timeZone` say. */
export function lookerAt<B extends Booking, L extends Listing>(
  track: Track<B, L>,
  zoneOf: ZoneOf,
  log: Log,
  hasThings = false,
): LookAt {
  const names = { booking: new TrackedNames("booking", log), listing: new TrackedNames("listing", log) };
  const zoneIn = async (kind: "booking" | "listing", given: ReadRecord, account: string | undefined) => {
    if (kind === "listing") return { timeZone: undefined };
    try {
      return { timeZone: await zoneOf(given as ReadRecord<Booking>, { account }) };
    } catch (zoneProblem) {
      // An event of its own tells of it, and nothing else of the booking waits.
      if (!hasThings) throw zoneProblem;
      return { timeZone: undefined, zoneProblem };
    }
  };
  return async (kind, given, account, isTracked = true) => {
    const { timeZone, zoneProblem } = await zoneIn(kind, given, account);
    const look = lookAt(kind, given, timeZone, zoneProblem);
    const own = track[kind] as ((record: object, context: RecordContext) => Tracked) | undefined;
    if (!own || !isTracked) return look;
    const { record, base } = look;
    const context = kind === "booking" ? { account, timeZone, stay: stayIn(record, base) } : { account };
    let chosen: Tracked;
    try {
      chosen = own(record, context);
    } catch (cause) {
      throw new StayhookError(
        `track.${kind} threw for ${refOf(kind, record, account)}: ${errorText(cause)}`,
        { cause },
      );
    }
    const tracked = checked(withoutDates(chosen, base, timeZone), record.status, `track.${kind}`);
    const added = namedBy(base, tracked);
    const snapshot = { status: record.status, fields: { ...base, ...added } };
    const leftOut = names[kind].leftOut(added, base);
    return { ...look, snapshot: withFields(snapshot, leftOut) };
  };
}

/** Looks at a record without the option `track`. */
export function lookAt(
  kind: "booking" | "listing",
  given: ReadRecord,
  timeZone?: string | undefined,
  zoneProblem?: unknown,
): Look {
  const { record } = given;
  const { status } = record;
  const base =
    kind === "listing"
      ? fitting(status, listingFieldsOf(given))
      : fitting("", stayFieldsOf(given, timeZone, zoneProblem === undefined));
  return { record, snapshot: { status, fields: base }, base, timeZone, zoneProblem };
}

/** The names that `track` has returned in this process. */
class TrackedNames {
  readonly #kind: string;
  readonly #log: Log;
  readonly #seen = new Set<string>();
  readonly #told = new Set<string>();

  constructor(kind: string, log: Log) {
    this.#kind = kind;
    this.#log = log;
  }

  /**
   * Remembers the names, and returns `null` for each name that `track` returned before and leaves out now. Without it, a
   * field that comes and goes would be compared with nothing. Says so once.
   */
  leftOut(added: Fields, base: Fields): Fields {
    const isAlwaysThere = (name: string) => name === "status" || Object.hasOwn(base, name);
    const names = [...this.#seen].filter((name) => !Object.hasOwn(added, name) && !isAlwaysThere(name));
    const news = names.filter((name) => !this.#told.has(name));
    for (const name of news) this.#told.add(name);
    if (news.length > 0)
      this.#log.warn(
        `track.${this.#kind} left out ${news.join(", ")}, which it has returned for another ${this.#kind}. A field that is left out counts as null. Return null for it, so that each ${this.#kind} has the same fields`,
      );
    for (const name of Object.keys(added)) if (this.#seen.size < MOST_NAMES) this.#seen.add(name);
    return Object.fromEntries(names.map((name) => [name, null]));
  }
}

/** Leaves out the fields that are always compared, if `track` has no form for them: a model may have dropped them. */
function namedBy(base: Fields, tracked: Record<string, TrackedValue | undefined>): Fields {
  return Object.fromEntries(
    Object.entries(tracked)
      .filter(([name, value]) => value !== undefined || !Object.hasOwn(base, name))
      .map(([name, value = null]) => [name, value]),
  );
}

/** Adds further fields to a snapshot, as many as its size allows. */
export function withFields(snapshot: Snapshot, further: Snapshot["fields"]): Snapshot {
  const added = Object.entries(further);
  if (added.length === 0) return snapshot;
  let size = sizeOf(snapshot);
  const fields = { ...snapshot.fields };
  for (const [name, value] of added) {
    const more = sizeOf({ [name]: value });
    if (size + more > MAX_BYTES) continue;
    size += more;
    fields[name] = value;
  }
  return { ...snapshot, fields };
}

/** Returns `undefined` if the stay cannot be read. */
function stayIn(record: Booking | Listing, base: Fields): BookingStay | undefined {
  try {
    return { bookingCode: (record as Booking).bookingCode, ...readStay(base) };
  } catch {
    return undefined;
  }
}

function refOf(kind: "booking" | "listing", record: Booking | Listing, account: string | undefined): string {
  return kind === "booking"
    ? bookingRef((record as Booking).bookingCode, account)
    : listingRef((record as Listing).listingId, account);
}

/** Turns each `Date` that a model made into the day of a stay, or into a time as text. */
function withoutDates(chosen: unknown, base: Fields, timeZone: string | undefined): unknown {
  if (!isObject(chosen) || !Object.values(chosen).some((value) => value instanceof Date)) return chosen;
  const dayIn = daysIn(timeZone);
  const textOf = (name: string, date: Date) =>
    (Object.hasOwn(base, name) ? dayOf(date, dayIn) : undefined) ?? date.toJSON();
  return Object.fromEntries(
    Object.entries(chosen).map(([name, value]) => [
      name,
      value instanceof Date ? textOf(name, value) : value,
    ]),
  );
}

function listingFieldsOf({ record, sent }: ReadRecord): Record<string, unknown> {
  return { listingName: sent.listingName ?? read(record, "listingName") };
}

/** Turns values that are not allowed in a snapshot into short texts. Cuts long texts if the snapshot is too large. */
function fitting(status: string, values: Readonly<Record<string, unknown>>): Fields {
  const keepable = (value: unknown): value is TrackedValue =>
    value === null ||
    typeof value === "boolean" ||
    typeof value === "string" ||
    (typeof value === "number" && Number.isFinite(value));
  const mapped = (map: (value: unknown) => TrackedValue): Fields =>
    Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value)]));
  const fields = mapped((value) => (keepable(value) ? value : cut(value)));
  // A UTF-16 unit takes at most 3 bytes in UTF-8, so most records need no exact count of bytes.
  if (3 * JSON.stringify({ status, fields }).length <= MAX_BYTES || sizeOf({ status, fields }) <= MAX_BYTES)
    return fields;
  return mapped((value) => (keepable(value) && typeof value !== "string" ? value : shortened(value)));
}

function shortened(value: unknown): TrackedValue {
  return typeof value === "string" && value.length <= MAX_CUT ? value : cut(value);
}

function cut(value: unknown): string | null {
  // Do not cut a surrogate pair in half: some stores change a half, and the stored snapshot would differ.
  const json = serialise(value, Number.POSITIVE_INFINITY)?.slice(0, 2 * MAX_CUT);
  return json === undefined ? null : [...json].slice(0, MAX_CUT).join("");
}

function checked(given: unknown, status: string, name: string): Record<string, TrackedValue | undefined> {
  const refuse = (problem: string): never => {
    throw new StayhookError(`${name} ${problem}`);
  };
  if (typeof given !== "object" || given === null || Array.isArray(given))
    return refuse("must return an object of fields");
  if (typeof (given as { then?: unknown }).then === "function") return refuse("must not return a promise");
  const fields: Record<string, TrackedValue | undefined> = {};
  for (const [field, value] of Object.entries(given as Record<string, unknown>)) {
    const shownName = JSON.stringify(field.slice(0, 100));
    if (field === "__proto__") return refuse("must not return a field named __proto__");
    if (field === "status" && value === undefined) continue;
    if (field === "status" && typeof value !== "string")
      return refuse(`returned a value of type ${typeof value} for the field "status". Return a text`);
    if (value !== null && !["undefined", "string", "number", "boolean"].includes(typeof value))
      return refuse(
        `returned a value of type ${typeof value} for the field ${shownName}. Return a string, a number, a boolean or null`,
      );
    if (typeof value === "number" && !Number.isFinite(value))
      return refuse(`returned ${value} for the field ${shownName}. Return a finite number or null`);
    fields[field] = value as TrackedValue | undefined;
  }
  const size = sizeOf({ status, fields });
  if (size > MAX_BYTES)
    return refuse(
      `returned too much: the snapshot has ${size} bytes of JSON. The limit is ${MAX_BYTES} bytes`,
    );
  return fields;
}

function sizeOf(snapshot: object): number {
  return new TextEncoder().encode(JSON.stringify(snapshot)).length;
}
