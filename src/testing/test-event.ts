import { v4 } from "uuid";
import { checkAccount, inAccount, messagesOf, splitKey } from "../account.ts";
import { describeKind, StayhookError } from "../errors.ts";
import { eventTypes } from "../models/event-types.ts";
import { isObject } from "../models/is-object.ts";
import { type Booking, bookingStatuses, type Listing, listingStatuses } from "../models/records.ts";
import { HOLDS, knownStatus } from "../models/statuses.ts";
import { nearest } from "../option-names.ts";
import { dayMs, throwInvalid, toDate } from "../sandbox/sandbox-records.ts";
import { firingId } from "../stores/firing-id.ts";
import type { Snapshot } from "../stores/snapshot.ts";
import type { FieldChanges, PreviousRecord } from "../webhooks/field-changes.ts";
import { decisionDeadline } from "../webhooks/processing/event-times.ts";
import { knownOf } from "../webhooks/processing/known-stay.ts";
import { readFrom } from "../webhooks/processing/read-record.ts";
import { compare } from "../webhooks/processing/record.ts";
import { lookAt } from "../webhooks/processing/snapshots.ts";
import { bookingRef, goneType } from "../webhooks/refs.ts";
import { staysOf, withStays } from "../webhooks/stay-change.ts";
import {
  checkTimerName,
  checkTimerTime,
  type FiredTimer,
  timerId,
  timerNameIn,
} from "../webhooks/timer-rules.ts";
import { type EventTimers, isSkipped } from "../webhooks/timers.ts";
import type {
  BookingEventType,
  ListingEventType,
  TestAccount,
  TestBookingFields,
  TestEvent,
  TestEventFields,
  TestListingFields,
  TimerEventType,
} from "./test-event-types.ts";

type Given = Readonly<Record<string, unknown>>;
type RecordKind = "booking" | "listing";

interface TestRecord {
  readonly status: string;
  readonly bookingCode?: unknown;
  readonly listingId?: unknown;
}

const commonFields = [
  "eventId",
  "account",
  "timestamp",
  "receivedAt",
  "source",
  "notification",
  "topic",
  "attempt",
  "signal",
  "tx",
  "atomically",
];
const recordFields = ["status", "previous", "changed", "changes", "timers"];
const bookingFields = ["stay", "stayChange", "timeZone"];

/**
 * Makes an event for the unit test of a callback. Each missing field has a default. TypeScript infers the types of
 * `booking` and `listing` from the fields that you give.
 *
 * @throws InvalidArgumentError for an unknown type, an unknown field, or a status that contradicts the type
 * @example
 * ```ts
 * await onConfirmed(createTestEvent("booking.Confirmed", { booking: { bookingCode: "HX3K9", guestName: "Ada" } }));
 *
 * const event = createTestEvent("booking.Cancelled", { previous: { status: "Confirmed" }, tx: db });
 * await onCancelled(event);
 * await event.commit(); // runs the functions that the callback passed to event.atomically
 *
 * const timers = new Map<string, Date>();
 * await onConfirmed(createTestEvent("booking.Confirmed", { timers }));
 * timers.get("door-code"); // the time that the callback has set
 * await onDoorCode(createTestEvent("booking.timer.door-code", { timer: { at: new Date() } }));
 * ```
 */
// `NoInfer`: TypeScript must infer the model from `fields`, not from the callback that gets the event.
// `L = never`: without a `client` field, a booking event fits a callback for any listing model. In the same way,
// listing events use `B = never`.
// If no overload fits, TypeScript shows the error of the last one, so that of bookings comes last.
export function createTestEvent<
  const T extends "message" | "unknown",
  B extends Booking = never,
  L extends Listing = never,
  Tx = never,
  A extends string = never,
>(type: T, fields?: TestEventFields<Tx, A>): TestEvent<T, B, L, NoInfer<Tx>, TestAccount<A>>;
export function createTestEvent<
  const T extends ListingEventType | TimerEventType<"listing">,
  L extends object = object,
  B extends Booking = never,
  Tx = never,
  A extends string = never,
>(
  type: T,
  fields?: TestEventFields<Tx, A> & TestListingFields<T, L>,
): TestEvent<T, B, Listing & NoInfer<L>, NoInfer<Tx>, TestAccount<A>>;
export function createTestEvent<
  const T extends BookingEventType | TimerEventType<"booking">,
  B extends object = object,
  L extends Listing = never,
  Tx = never,
  A extends string = never,
>(
  type: T,
  fields?: TestEventFields<Tx, A> & TestBookingFields<T, B>,
): TestEvent<T, Booking & NoInfer<B>, L, NoInfer<Tx>, TestAccount<A>>;
export function createTestEvent(type: string, given: unknown = {}): unknown {
  const timerName = timerNameIn(type);
  if (timerName !== undefined) checkTimerName(timerName);
  else if (!eventTypes.includes(type)) throwInvalid(wrongType(type), "type");
  if (typeof given !== "object" || given === null) throwInvalid("must be an object", "fields");
  const fields = given as Given;
  const [kind, name] = type.split(".") as [string, string | undefined];
  const subject: RecordKind | undefined = kind === "booking" || kind === "listing" ? kind : undefined;
  checkNames(type, subject, fields);

  const { at } = Object(fields.timer) as Partial<FiredTimer>;
  const { timestamp = at ?? new Date(), source = timerName === undefined ? "webhook" : "timer" } = fields;
  const { topic = type === "message" ? "messages" : undefined } = fields;
  checkTimes({ timestamp, "timer.at": at ?? timestamp });
  const now = timestamp as Date;
  const record =
    subject &&
    testRecord(subject, statusOf(subject, name, fields), recordFieldsOf(type, subject, fields), now);
  const account = fields.account === undefined ? undefined : checkAccount(fields.account);
  const ref = refOf(type, record, account, fields.notification);
  const id = (name: string) => ({ eventId: timerId(ref ?? "", name), timestamp: (at ?? now).toISOString() });
  const { eventId: givenId = timerName === undefined ? v4() : firingId(id(timerName)) } = fields;
  const platformId = account === undefined ? givenId : splitKey(String(givenId)).rest;
  const eventId = account === undefined ? givenId : inAccount(account, String(platformId));
  const { receivedAt = timestamp, attempt = 1, signal = new AbortController().signal } = fields;
  const notification = {
    eventId: platformId,
    timestamp: now.toISOString(),
    bookingCode: record?.bookingCode ?? null,
    listingId: subject === "listing" ? record?.listingId : null,
  };
  const told = subject && record && differences(subject, type, record, fields);
  const { decideBy = decisionDeadline(now.getTime(), Number(receivedAt)) } = fields;
  const event = {
    type,
    ...(subject && record && { status: record.status, [subject]: record }),
    ...told?.compared,
    ...(subject && { timers: collecting(fields.timers) }),
    ...(timerName !== undefined && {
      changed: false,
      changes: {},
      timer: { name: timerName, at: at ?? timestamp },
    }),
    eventId,
    ref,
    ...(account !== undefined && { account }),
    timestamp,
    receivedAt,
    source,
    notification: fields.notification ?? (source === "webhook" ? notification : undefined),
    ...(topic !== undefined && { topic }),
    ...(type === "booking.Request" && { decideBy }),
    attempt,
    signal,
  };
  const whole = withWrites(event, fields);
  return told?.stays ? withGiven(withStays(whole, told.stays), fields) : whole;
}

function checkTimes(times: Given): void {
  for (const [field, time] of Object.entries(times))
    if (!(time instanceof Date && !Number.isNaN(time.getTime()))) throwInvalid("must be a valid Date", field);
}

/** Replaces the stays of an event by those that the test has given. */
function withGiven<E extends object>(event: E, fields: Given): E {
  for (const field of ["stay", "stayChange"])
    if (fields[field] !== undefined) Object.defineProperty(event, field, { value: fields[field] });
  return event;
}

function wrongType(type: unknown): string {
  const list = `must be one of ${eventTypes.join(", ")}, or booking.timer.<name> or listing.timer.<name>`;
  if (typeof type !== "string") return `${list}, not ${describeKind(type)}`;
  // Neither a name that several types contain, such as `booking`, nor a timer without a name says which type is meant.
  const isUnclear =
    /\.timer\b/.test(type) || eventTypes.filter((each) => each.startsWith(`${type}.`)).length > 1;
  const near = isUnclear ? undefined : nearest(type, eventTypes);
  return near === undefined ? list : `${list}. Did you mean ${near}?`;
}

function checkNames(type: string, subject: RecordKind | undefined, fields: Given): void {
  const known = [...commonFields];
  if (subject) known.push(subject, ...recordFields);
  if (subject === "booking") known.push(...bookingFields);
  if (subject) known.push(...(timerNameIn(type) === undefined ? ["changed", "changes"] : ["timer"]));
  if (type === "booking.Request") known.push("decideBy");
  for (const [field, value] of Object.entries(fields))
    if (value !== undefined && !known.includes(field)) throwInvalid(`is not a field of ${type}`, field);
}

/** Makes `event.timers`, which collects in `given` what a callback sets. */
function collecting(given: unknown): EventTimers {
  if (given !== undefined && !(given instanceof Map)) throwInvalid("must be a Map", "timers");
  const timers = (given ?? new Map()) as Map<string, Date>;
  return {
    set: (name, at, options) => {
      checkTimerName(name);
      checkTimerTime(name, at);
      if (isSkipped(at, options)) timers.delete(name);
      else timers.set(name, new Date(at));
    },
    clear: (name) => {
      if (name === undefined) return timers.clear();
      checkTimerName(name);
      timers.delete(name);
    },
  };
}

/**
 * Compares the record with `previous`. Compares only the fields that a handler always compares. Your side knows the
 * stay of `previous`; a field that `previous` does not name is that of the record.
 */
function differences(kind: RecordKind, type: string, record: TestRecord, fields: Given) {
  const timeZone = fields.timeZone as string | undefined;
  const look = lookAt(kind, readFrom(kind, record as unknown as Booking | Listing), timeZone);
  const given = previousOf(kind, type, record, fields);
  const { status = "", ...own } = given ?? {};
  const kept = Object.keys(own).length > 0 ? own : look.snapshot.fields;
  const snapshot = given && { status, fields: kept as Snapshot["fields"] };
  const found = compare(snapshot, look);
  const { changes = fields.changed === false ? {} : found.changes } = fields;
  const { changed = Object.keys(changes as FieldChanges).length > 0 } = fields;
  const compared = { changed, changes, previous: found.previous };
  if (kind !== "booking") return { compared, stays: undefined };
  const { bookingCode } = record as unknown as Booking;
  const known =
    given && knownOf({ status, fields: { ...look.snapshot.fields, ...own } as Snapshot["fields"] });
  const now = { bookingCode, status: record.status, fields: look.base, timeZone };
  return { compared, stays: staysOf(now, known?.stay, HOLDS) };
}

/** Returns the given fields of a record. What is known of a gone record is what was known before. */
function recordFieldsOf(type: string, kind: RecordKind, fields: Given): unknown {
  const given = fields[kind];
  if (type !== goneType(kind) || !isObject(fields.previous ?? {}) || !isObject(given ?? {})) return given;
  const { status, ...known } = { ...(fields.previous as Given | undefined) };
  return { ...known, ...(given as Given | undefined) };
}

/** Only a record with a snapshot can be gone, and a real timer comes after the event that set it. */
function previousOf(kind: RecordKind, type: string, { status }: TestRecord, { previous }: Given) {
  if (previous !== undefined) return previous as PreviousRecord;
  if (type === goneType(kind)) return { status: kind === "booking" ? "Confirmed" : "Published" };
  return timerNameIn(type) === undefined ? undefined : { status };
}

/**
 * Returns the status that the event type names, such as `Confirmed` in `booking.Confirmed`. If the type ends with
 * `.unknown`, returns the given status or `"OnHold"`.
 */
function statusOf(kind: RecordKind, name: string | undefined, fields: Given): string {
  const { status: ofRecord } = Object(fields[kind]) as Given;
  const { status = ofRecord } = fields;
  if (ofRecord !== undefined && status !== ofRecord)
    throwInvalid(`must be the same as ${kind}.status`, "status");
  const listed: readonly unknown[] = kind === "booking" ? bookingStatuses : listingStatuses;
  if (name === "timer") return String(status ?? (kind === "booking" ? "Confirmed" : "Published"));
  if (name !== "unknown") {
    if (status !== undefined && status !== name)
      throwInvalid(`must be ${name}, because the event's type is ${kind}.${name}`, "status");
    return name as string;
  }
  if (status === undefined) return "OnHold";
  if (typeof status !== "string") throwInvalid("must be a string", "status");
  const known = knownStatus(kind, status);
  if (listed.includes(known))
    throwInvalid(
      `is a known status, so the type ${kind}.unknown is wrong. Make a ${kind}.${known} event`,
      "status",
    );
  return status;
}

/** Adds `atomically`, which collects functions, and `commit`, which runs the collected functions. */
function withWrites<E extends object>(event: E, { tx, atomically }: Given): E {
  const writes: ((tx: unknown) => unknown)[] = [];
  const collect = (write: unknown): void => {
    if (tx === undefined)
      throw new StayhookError(
        "The test event has no transaction. Give createTestEvent the field `tx`: a transaction for the functions passed to event.atomically.",
      );
    if (typeof write !== "function") throw new TypeError("event.atomically() takes a function");
    writes.push(write as (tx: unknown) => unknown);
  };
  const commit = async (): Promise<void> => {
    for (const write of writes.splice(0)) await write(tx);
  };
  // Make `commit` non-enumerable, so that a test event has the same enumerable fields as a handler's event.
  return Object.defineProperty({ ...event, atomically: atomically ?? collect }, "commit", { value: commit });
}

/** Makes a booking or listing from the given fields. Missing fields have defaults. */
function testRecord(kind: RecordKind, status: string, given: unknown, now: Date): TestRecord {
  if (given !== undefined && (typeof given !== "object" || given === null))
    throwInvalid("must be an object", kind);
  const fields = Object.fromEntries(Object.entries(given ?? {}).filter(([, value]) => value !== undefined));
  const defaults =
    kind === "booking" ? defaultBooking(fields, now) : { listingId: 5717008, listingName: "Harbour Loft" };
  return { ...defaults, ...fields, status };
}

/** Makes a booking of three nights. Without `checkIn` and `checkOut`, the stay starts two weeks after `now`. */
function defaultBooking({ checkIn, checkOut }: Given, now: Date) {
  const arrival = toTime(checkIn) ?? toTime(checkOut, -3) ?? now.getTime() + 14 * dayMs;
  return {
    bookingCode: "HX3K9",
    listingId: 5717008,
    checkIn: toDate(arrival),
    checkOut: toDate(arrival + 3 * dayMs),
  };
}

function toTime(date: unknown, shiftDays = 0): number | undefined {
  const time = typeof date === "string" ? Date.parse(date.slice(0, 10)) + shiftDays * dayMs : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

/** A message has the ref that its notification gives it, as at a handler. */
function refOf(
  type: string,
  record: TestRecord | undefined,
  account: string | undefined,
  notification: unknown,
): string | null {
  if (!record) {
    const { bookingCode } = Object(notification) as Given;
    const isAbout = type === "message" && typeof bookingCode === "string" && bookingCode !== "";
    return isAbout ? messagesOf(bookingRef(bookingCode, account))! : null;
  }
  const { bookingCode, listingId } = record;
  return inAccount(account, bookingCode === undefined ? `listing:${listingId}` : `booking:${bookingCode}`);
}
