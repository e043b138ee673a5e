// The stay that the user's side knows. A snapshot keeps it, because the last handled event may be older than the snapshot.

import { asSent } from "../../models/as-sent.ts";
import { dayOf, daysIn, type Stay, stay, timeZoneOf } from "../../models/dates.ts";
import { listingIdOf, toInteger } from "../../models/ids.ts";
import { bookingStatuses } from "../../models/records.ts";
import { bookingTable, GONE, type Status } from "../../models/statuses.ts";
import type { Snapshot } from "../../stores/snapshot.ts";
import type { PreviousRecord } from "../field-changes.ts";

/** The fields of a stay in the platform's form, even if the user's model converts them. */
export interface StayFields {
  readonly checkIn?: unknown;
  readonly checkOut?: unknown;
  readonly listingId?: unknown;
}

/** The stay in the last event that a callback handled. */
export interface KnownStay extends StayFields {
  /**
   * The statuses of the handled events, oldest first, each once. A status that this package knows comes first only,
   * because it says whether a stay holds. The user's `holds` may name the others.
   */
  readonly statuses: readonly string[];
  /** Whether a callback has handled an event of the booking. If none has, the last snapshot counts as known. */
  readonly handled: boolean;
  /** Since when the booking is a request, epoch ms. Only a booking with the status `Request` has it. */
  readonly requestedAt?: number | undefined;
}

/** The names of {@link StayFields}. */
export const STAY: readonly string[] = ["checkIn", "checkOut", "listingId"];
/** The number of statuses to keep, and the number of characters of the longest status that is kept. */
const [MOST_STATUSES, LONGEST_STATUS] = [10, 100];

/**
 * Returns the fields of a booking's stay as the platform sent them. Takes the model's value for a field that the platform
 * did not send, or that only the model's value can be read of.
 */
export function stayValuesOf(booking: object): Required<StayFields> {
  const sent = asSent(booking);
  const value = (name: string, isReadable: (value: unknown) => boolean): unknown => {
    const given = read(sent, name);
    if (sent === booking || isReadable(given)) return given;
    const made = read(booking, name);
    return isReadable(made) ? made : (given ?? made);
  };
  const isDay = (date: unknown) => dayOf(date) !== undefined;
  return {
    checkIn: value("checkIn", isDay),
    checkOut: value("checkOut", isDay),
    listingId: value("listingId", (id) => toInteger(id) !== undefined),
  };
}

/** Returns the fields of a booking's stay. Each field that can be read has one form, whatever the platform's. */
export function stayFieldsOf(booking: object): Required<StayFields> {
  const dayIn = daysIn(timeZoneOf(booking));
  const { checkIn, checkOut, listingId } = stayValuesOf(booking);
  return {
    checkIn: dayOf(checkIn, dayIn) ?? checkIn,
    checkOut: dayOf(checkOut, dayIn) ?? checkOut,
    listingId: toInteger(listingId) ?? listingId,
  };
}

/** @throws InvalidArgumentError if the stay cannot be read */
export function stayOf(fields: StayFields): Stay & { readonly listingId: number } {
  return { listingId: listingIdOf(fields), ...stay(fields) };
}

export function isReadable(fields: StayFields): boolean {
  try {
    stayOf(fields);
    return true;
  } catch {
    return false;
  }
}

/** Returns `null` if the property is a getter that throws. A model that keeps the platform's object may add such getters. */
export function read(record: object, name: string): unknown {
  try {
    return (record as Readonly<Record<string, unknown>>)[name] ?? null;
  } catch {
    return null;
  }
}

/** Returns the stay that the user's side knows after the snapshot's event. */
export function knownStayOf({ status, fields, known }: Snapshot): KnownStay {
  if (known !== undefined) return JSON.parse(known) as KnownStay;
  const { checkIn = null, checkOut = null, listingId = null } = fields;
  return { statuses: [status], checkIn, checkOut, listingId, handled: true };
}

/**
 * Adds to a booking's snapshot what the user's side knows, if the snapshot does not say it itself.
 *
 * @param handled - whether a callback has handled the event
 * @param requestedAt - since when the booking is a request, epoch ms, if it is one
 */
export function withKnownStay(
  snapshot: Snapshot,
  stay: StayFields,
  previous: Snapshot | undefined,
  handled: boolean,
  requestedAt?: number,
): Snapshot {
  const after = knownAfter(snapshot.status, stay, previous && knownStayOf(previous), handled);
  const known = JSON.stringify({ ...after, requestedAt });
  return known === JSON.stringify(knownStayOf(snapshot)) ? snapshot : { ...snapshot, known };
}

function knownAfter(
  status: string,
  stay: StayFields,
  before: KnownStay | undefined,
  handled: boolean,
): KnownStay {
  // A callback that did not run has changed nothing at the user's side.
  if (before?.handled && !handled) return before;
  const statuses = statusesAfter(before?.statuses ?? [], status);
  if (!before || isReadable(stay) || !isReadable(before)) return { statuses, ...stay, handled };
  // A stay that cannot be read moves none. Only a status that ends a stay counts then.
  return endsStay(status) ? { ...before, statuses, handled } : { ...before, handled };
}

/** Whether a status means that no stay holds. */
export function endsStay(status: string): boolean {
  return status === GONE || bookingTable.some((known: Status) => known.name === status && !known.holds);
}

function statusesAfter(earlier: readonly string[], status: string): readonly string[] {
  if (isKnown(status)) return [status];
  if (status.length > LONGEST_STATUS) return earlier;
  const all = [...earlier.filter((each) => each !== status), status];
  // The first status may be one that this package knows. It decides if `holds` names none of the others.
  return all.length > MOST_STATUSES ? [...all.slice(0, 1), ...all.slice(2)] : all;
}

/** Whether this package, or the user's `holds`, knows what a status means for a stay. */
export function isKnown(status: string, holds: readonly string[] = []): boolean {
  return status === GONE || (bookingStatuses as readonly string[]).includes(status) || holds.includes(status);
}

/** The key of what `event.previous` does not show. */
const KNOWN = Symbol.for("stayhook.known");

/** Hides the known stay in `event.previous`, which shows only the status and the tracked fields. */
export function hideKnownStay(previous: PreviousRecord, snapshot: Snapshot): PreviousRecord {
  return Object.defineProperty(previous, KNOWN, { value: knownStayOf(snapshot) });
}

/** Returns the stay that the user's side knows. A test may have written `previous` by hand. */
export function hiddenStayOf(previous: PreviousRecord): KnownStay {
  const { [KNOWN]: known } = previous as { readonly [KNOWN]?: KnownStay };
  const { status, checkIn, checkOut, listingId } = previous as PreviousRecord & StayFields;
  return known ?? { statuses: [status], checkIn, checkOut, listingId, handled: true };
}
