// The stay that the user's side knows. A snapshot keeps it, because the last handled event may be older than the snapshot.

import { asSent } from "../../models/as-sent.ts";
import { dayOf } from "../../models/dates.ts";
import { toInteger } from "../../models/ids.ts";
import { bookingStatuses } from "../../models/records.ts";
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
}

/** The names of {@link StayFields}. */
export const STAY: readonly string[] = ["checkIn", "checkOut", "listingId"];
/** The number of statuses to keep, and the number of characters of the longest status that is kept. */
const [MOST_STATUSES, LONGEST_STATUS] = [10, 100];

/** Reads a booking's stay as the platform sent it. Takes the model's value for a field that the platform did not send. */
export function stayFieldsOf(booking: object): Required<StayFields> {
  const value = (name: string): unknown => read(asSent(booking), name) ?? read(booking, name);
  const listingId = value("listingId");
  return {
    checkIn: day(value("checkIn")),
    checkOut: day(value("checkOut")),
    listingId: toInteger(listingId) ?? listingId,
  };
}

/** Returns `null` if the property is a getter that throws. A model that keeps the platform's object may add such getters. */
export function read(record: object, name: string): unknown {
  try {
    return (record as Readonly<Record<string, unknown>>)[name] ?? null;
  } catch {
    return null;
  }
}

function day(value: unknown): unknown {
  return dayOf(value) ?? value;
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
 */
export function withKnownStay(
  snapshot: Snapshot,
  stay: StayFields,
  previous: Snapshot | undefined,
  handled: boolean,
): Snapshot {
  const before = previous && knownStayOf(previous);
  // A callback that did not run has changed nothing at the user's side.
  const next =
    before?.handled && !handled
      ? before
      : { statuses: statusesAfter(before?.statuses ?? [], snapshot.status), ...stay, handled };
  const known = JSON.stringify(next);
  return known === JSON.stringify(knownStayOf(snapshot)) ? snapshot : { ...snapshot, known };
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
  return (bookingStatuses as readonly string[]).includes(status) || holds.includes(status);
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
