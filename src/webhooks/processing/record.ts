// Compares a record with its last snapshot.

import {
  AccessTokenError,
  APIError,
  ConnectionError,
  NotFoundError,
  ResponseValidationError,
  retryAfterMs,
} from "../../client/client-errors.ts";
import { errorText } from "../../error-text.ts";
import { InvalidArgumentError, StayhookError } from "../../errors.ts";
import { asSent, rememberAsSent } from "../../models/as-sent.ts";
import { dayOf, daysIn, timeZoneOf } from "../../models/dates.ts";
import { isObject } from "../../models/is-object.ts";
import type { Booking, Listing } from "../../models/records.ts";
import type { WorkFailure } from "../../queue/work.ts";
import type { Snapshot, TrackedValue } from "../../stores/snapshot.ts";
import type { ClaimedEvent } from "../../stores/stored-event.ts";
import type { FieldChange, FieldChanges, PreviousRecord } from "../field-changes.ts";
import { serialise } from "../receiving/body.ts";
import { bookingRef, listingRef } from "../refs.ts";
import { hideKnownStay, read, STAY, type StayFields, stayFieldsOf } from "./known-stay.ts";
import { withKnownStatus } from "./read-record.ts";
import type { RecordContext, ZoneSetter } from "./time-zone.ts";

/** The fields of a record that the handler compares to find a change. `undefined` counts as `null`. */
export type Tracked<F extends string = string> = Record<string, TrackedValue | undefined> & {
  readonly [Field in F]?: TrackedValue | undefined;
};

/** Functions that choose the fields of a record's snapshot. */
export interface Track<
  B extends Booking = Booking,
  L extends Listing = Listing,
  FB extends string = string,
  FL extends string = string,
  A = unknown,
> {
  /**
   * Chooses a booking's fields. Default: `checkIn`, `checkOut` and `listingId`. A date that can be read becomes
   * `YYYY-MM-DD`. With `accountFrom`, `context.account` is the booking's account.
   */
  readonly booking?: ((booking: B, context: RecordContext & A) => Tracked<FB>) | undefined;
  /** Chooses a listing's fields. Default: `listingName`. With `accountFrom`, `context.account` is its account. */
  readonly listing?: ((listing: L, context: RecordContext & A) => Tracked<FL>) | undefined;
}

/**
 * A snapshot, and the names of its tracked fields. A booking's snapshot contains its stay even if the stay is not
 * tracked, because the reconciler and `stayChange` need it.
 */
export interface TrackedSnapshot {
  readonly snapshot: Snapshot;
  readonly tracked: readonly string[];
  /** A booking's stay in the platform's form. `track` may keep fields with the same names in a form of the user's. */
  readonly stay: StayFields;
}

/** Makes the snapshot of a record. With `accountFrom`, it needs the record's account. */
export type SnapshotOf = (
  kind: "booking" | "listing",
  record: Booking | Listing,
  account?: string,
) => TrackedSnapshot;

/** How a record differs from the store's snapshot. */
export interface Comparison {
  readonly changed: boolean;
  readonly changes: FieldChanges<string>;
  readonly previous: PreviousRecord<string> | undefined;
}

/** The size limit for a snapshot's status and tracked fields, in bytes of JSON. */
const MAX_BYTES = 4096;
/** If a value does not fit into a snapshot, its JSON is cut to this number of characters. */
const MAX_CUT = 200;

/**
 * Returns a function that makes a record's snapshot. It throws if `track` or `setZone` throws, or if `track` returns
 * invalid values.
 *
 * @param setZone - gives a booking the time zone of its days
 */
export function snapshots<B extends Booking, L extends Listing>(
  track: Track<B, L> = {},
  setZone: ZoneSetter = () => {},
): SnapshotOf {
  return (kind, given, account) => {
    const record = withKnownStatus(kind, given);
    if (kind === "booking") setZone(record as Booking, { account });
    const own = track[kind] as ((record: object, context: RecordContext) => Tracked) | undefined;
    const { status } = record;
    const stay = kind === "booking" ? fitting("", stayFieldsOf(record)) : {};
    if (!own) {
      const fields = kind === "booking" ? stay : fitting(status, defaultsOfListing(record));
      return { snapshot: { status, fields }, tracked: Object.keys(fields), stay };
    }
    let chosen: Tracked;
    try {
      chosen = own(record, { account });
    } catch (cause) {
      throw new StayhookError(
        `track.${kind} threw for ${kind === "booking" ? bookingRef((record as Booking).bookingCode, account) : listingRef((record as Listing).listingId, account)}: ${errorText(cause)}`,
        { cause },
      );
    }
    const fields = checked(withoutDates(chosen, record), status, `track.${kind}`);
    return { snapshot: { status, fields: { ...stay, ...fields } }, tracked: Object.keys(fields), stay };
  };
}

/** Compares a record with its previous snapshot. Ignores tracked fields that the previous snapshot does not have. */
export function compare(
  previous: Snapshot | undefined,
  { snapshot, tracked }: Pick<TrackedSnapshot, "snapshot" | "tracked">,
): Comparison {
  const changes: Record<string, FieldChange> = {};
  const note = (name: string, from: TrackedValue | undefined, to: TrackedValue) => {
    if (from !== to) changes[name] = { from, to };
  };
  note("status", previous?.status, snapshot.status);
  for (const name of tracked) {
    if (!previous || Object.hasOwn(previous.fields, name))
      note(name, previous?.fields[name], snapshot.fields[name] as TrackedValue);
  }
  return {
    changed: Object.keys(changes).length > 0,
    changes,
    previous: previous && shown(previous, tracked),
  };
}

/** Returns JSON with sorted keys, so that equal snapshots from different stores have the same text. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([one], [other]) => (one < other ? -1 : 1)))
      : part,
  );
}

/** Leaves out the parts of a stay that the user does not track. */
function shown(snapshot: Snapshot, tracked: readonly string[]): PreviousRecord {
  const { status, fields } = snapshot;
  const visible = Object.entries(fields).filter(([name]) => !STAY.includes(name) || tracked.includes(name));
  return hideKnownStay({ status, ...Object.fromEntries(visible) }, snapshot);
}

/** Turns each `Date` that a model made into the day of a stay, or into a time as text. */
function withoutDates(chosen: unknown, record: object): unknown {
  if (!isObject(chosen) || !Object.values(chosen).some((value) => value instanceof Date)) return chosen;
  const dayIn = daysIn(timeZoneOf(record));
  const textOf = (name: string, date: Date) =>
    (STAY.includes(name) ? dayOf(date, dayIn) : undefined) ?? date.toJSON();
  return Object.fromEntries(
    Object.entries(chosen).map(([name, value]) => [
      name,
      value instanceof Date ? textOf(name, value) : value,
    ]),
  );
}

type Fields = Record<string, TrackedValue>;

function defaultsOfListing(listing: object): Record<string, unknown> {
  return { listingName: read(asSent(listing), "listingName") };
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

function checked(given: unknown, status: string, name: string): Fields {
  const refuse = (problem: string): never => {
    throw new StayhookError(`${name} ${problem}`);
  };
  if (typeof given !== "object" || given === null || Array.isArray(given))
    return refuse("must return an object of fields");
  if (typeof (given as { then?: unknown }).then === "function") return refuse("must not return a promise");
  const fields: Fields = {};
  for (const [field, value = null] of Object.entries(given as Record<string, unknown>)) {
    const shownName = JSON.stringify(field.slice(0, 100));
    if (field === "status" || field === "__proto__") return refuse(`must not return a field named ${field}`);
    if (value !== null && !["string", "number", "boolean"].includes(typeof value))
      return refuse(
        `returned a value of type ${typeof value} for the field ${shownName}. Return a string, a number, a boolean or null`,
      );
    if (typeof value === "number" && !Number.isFinite(value))
      return refuse(`returned ${value} for the field ${shownName}. Return a finite number or null`);
    fields[field] = value as TrackedValue;
  }
  const size = sizeOf({ status, fields });
  if (size > MAX_BYTES)
    return refuse(
      `returned too much: the snapshot has ${size} bytes of JSON. The limit is ${MAX_BYTES} bytes`,
    );
  return fields;
}

function sizeOf(snapshot: Snapshot): number {
  return new TextEncoder().encode(JSON.stringify(snapshot)).length;
}

/** How long an answer of the platform may be reused, ms. */
const LIFETIME = 10_000;
/** The largest number of answers that are retained. */
const MOST = 1000;

interface RecentAnswer {
  /** A copy, because a callback may change the object that it gets. */
  readonly record: Booking | Listing;
  /** The claim time of the event that caused the read, by the store's clock. */
  readonly claimedAt: number;
  /** When the answer was retained, by `performance.now()`. */
  readonly keptAt: number;
}

/**
 * Retains the platform's last answer for each record, so that one read serves all waiting events of the record. An
 * event may use an answer only if the read began after the event was recorded.
 */
export class RecentAnswers {
  // Sorted by age. The oldest answer is first.
  readonly #answers = new Map<string, RecentAnswer>();

  /** Returns a copy of the record if an answer is fresh enough for this attempt. */
  find(claim: ClaimedEvent): Booking | Listing | undefined {
    const answer = claim.ref === null ? undefined : this.#answers.get(claim.ref);
    if (!answer) return undefined;
    const isFirst = claim.attempts === 1 && claim.outages === 0;
    if (claim.source !== "webhook" || claim.replayed || !isFirst) return undefined;
    // The second comparison is false if the store's clock was set back.
    const isFresh = claim.receivedAt < answer.claimedAt && claim.claimedAt >= answer.claimedAt;
    return isFresh && !isOver(answer) ? copyOf(answer.record) : undefined;
  }

  /** Retains a copy of an answer. Skips a record that is not plain data, because its copy could behave differently. */
  keep({ ref, claimedAt }: ClaimedEvent, record: Booking | Listing): void {
    if (ref === null) return;
    this.#answers.delete(ref);
    for (const [oldest, answer] of this.#answers) {
      if (this.#answers.size < MOST && !isOver(answer)) break;
      this.#answers.delete(oldest);
    }
    const copy = copyOf(record);
    if (copy) this.#answers.set(ref, { record: copy, claimedAt, keptAt: performance.now() });
  }

  drop(ref: string | null): void {
    if (ref !== null) this.#answers.delete(ref);
  }
}

function isOver({ keptAt }: RecentAnswer): boolean {
  return performance.now() - keptAt > LIFETIME;
}

/** Returns `undefined` if the record is not plain data, or is nested too deeply. */
function copyOf<T extends object>(record: T): T | undefined {
  try {
    const copy = copyOfPlain(record) as T;
    const original = asSent(record);
    if (original !== record) rememberAsSent(copy, original);
    return copy;
  } catch {
    return undefined;
  }
}

function copyOfPlain(value: unknown): unknown {
  if (isPrimitive(value)) return value;
  if (typeof value !== "object" || value === null) throw new TypeError("not plain");
  if (Array.isArray(value)) return value.map(copyOfPlain);
  if (value instanceof Date) return new Date(value);
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw new TypeError("not plain");
  // Each answer is copied, so speed matters: a spread is much faster than copying each property.
  const copy: Record<string, unknown> = { ...value };
  for (const key of Object.keys(copy)) {
    const each = copy[key];
    if (!isPrimitive(each)) copy[key] = copyOfPlain(each);
  }
  return copy;
}

function isPrimitive(value: unknown): boolean {
  const type = typeof value;
  return value === null || (type !== "object" && type !== "function" && type !== "symbol");
}

/** An event is parked after this many attempts if the platform does not find its record or denies access to it. */
const REFUSED_ATTEMPTS = 5;

/** Maps the error of a read to a failure, which decides about retries. docs/how-it-works.md has a table of failures. */
export function fetchFailure(error: unknown): WorkFailure {
  if (error instanceof APIError) return answerFailure(error);
  if (error instanceof ResponseValidationError) return { reason: "invalid-record", error };
  if (error instanceof AccessTokenError) return outOfReach(error, { everything: true });
  if (error instanceof ConnectionError) return outOfReach(error, { everything: false });
  if (error instanceof InvalidArgumentError)
    return { reason: "denied", error, maxAttempts: REFUSED_ATTEMPTS };
  // The user's own schema or `fetch` threw.
  return { reason: "callback", error };
}

function answerFailure(error: APIError): WorkFailure {
  const { status } = error;
  const retryAfter = retryAfterMs(error.headers);
  // A 2xx whose body reports a failure is an answer about this record, not an outage.
  const isAnswer = (status >= 200 && status <= 299) || (status >= 400 && status <= 499 && status !== 401);
  // Some platforms tell a rate limit as 403, or as an error in a 200. Only a wait that they ask for shows it.
  const isLimit = status === 429 || (isAnswer && status !== 408 && retryAfter !== undefined);
  if (isLimit) return outOfReach(error, { everything: true, limited: true, retryAfter });
  if (error instanceof NotFoundError) return refused("not-found", error);
  if (isAnswer && status !== 408) return refused("denied", error);
  return outOfReach(error, { everything: status === 401, retryAfter });
}

function refused(reason: "not-found" | "denied", error: unknown): WorkFailure {
  return { reason, error, refused: true, maxAttempts: REFUSED_ATTEMPTS };
}

function outOfReach(error: unknown, outage: WorkFailure["outage"]): WorkFailure {
  return { reason: "unavailable", error, outage };
}
