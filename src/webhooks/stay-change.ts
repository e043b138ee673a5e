import { InvalidArgumentError } from "../errors.ts";
import { type Stay, stay } from "../models/dates.ts";
import { listingIdOf, toInteger } from "../models/ids.ts";
import { isObject } from "../models/is-object.ts";
import type { Booking } from "../models/records.ts";
import { bookingTable, type Status } from "../models/statuses.ts";
import { checkNoUnknown } from "../option-names.ts";
import type { PreviousRecord } from "./field-changes.ts";
import { hiddenStayOf, isKnown, type KnownStay, stayFieldsOf } from "./processing/known-stay.ts";

/** A stay of a booking at a listing. */
export interface BookingStay extends Stay {
  /** The booking's unique code. */
  readonly bookingCode: string;
  /** The listing that the guest stays at. */
  readonly listingId: number;
}

/** What {@link stayChange} returns. */
export interface StayChange {
  /**
   * The stay that your side knows: the one of the last event that a callback handled with success. It is `undefined` if
   * your side knows none. As long as no callback has handled an event of the booking, its last event counts.
   */
  readonly from: BookingStay | undefined;
  /** The stay that the platform has now. It is `undefined` if no stay holds any more, or not yet. */
  readonly to: BookingStay | undefined;
  /** Whether `from` and `to` differ. */
  readonly changed: boolean;
}

/** The options of {@link stayChange}. */
export interface StayChangeOptions {
  /** The statuses in which a stay holds. Default `["Confirmed"]`. */
  readonly holds?: readonly string[] | undefined;
}

const HOLDS: readonly string[] = bookingTable
  .filter((status: Status) => status.holds)
  .map(({ name }) => name);

/**
 * Returns the stay that your side knows and the one that the platform has now, so that one function keeps a door, a
 * calendar or a cleaning right: end `from`, begin `to`.
 *
 * A stay holds while the booking's status is in `holds`. Every other status that this package knows ends the stay. A
 * status that this package does not know neither begins nor ends a stay: the stay that held before it still holds.
 *
 * @param event - any event of a booking, also that of a timer
 * @throws InvalidArgumentError if the event has no booking, if `holds` is no array, or if a stay holds and the booking's
 * dates or listing cannot be read
 * @example
 * ```ts
 * const { from, to } = stayChange(event);
 * if (from && from.listingId !== to?.listingId) await closeDoor(from);
 * if (to) await openDoor(to);
 * ```
 */
export function stayChange(
  event: {
    /** The booking, as it was read for the event. */
    readonly booking: Booking;
    /** The booking in its last handled event. */
    readonly previous?: PreviousRecord | undefined;
  },
  options?: StayChangeOptions,
): StayChange {
  checkNoUnknown(options, ["holds"]);
  const holds = options?.holds ?? HOLDS;
  if (!Array.isArray(holds))
    throw new InvalidArgumentError({ path: ["holds"], message: 'must be an array, as in ["Confirmed"]' });
  if (!isObject(event?.booking))
    throw new InvalidArgumentError({ path: ["event"], message: "must be an event of a booking" });
  const { booking, previous } = event;
  const from = previous && stayBefore(booking.bookingCode, hiddenStayOf(previous), holds);
  const isHeld = isKnown(booking.status, holds) ? holds.includes(booking.status) : from !== undefined;
  const to = isHeld ? stayNow(booking) : undefined;
  return { from, to, changed: !isSame(from, to) };
}

/** Reads the stay as the platform sent it, because the user's model may leave out its fields. */
function stayNow(booking: Booking): BookingStay {
  const fields = stayFieldsOf(booking);
  return { bookingCode: booking.bookingCode, listingId: listingIdOf(fields), ...stay(fields) };
}

/** Returns `undefined` for a stay that cannot be read: your side cannot have handled such a stay. */
function stayBefore(
  bookingCode: string,
  { statuses, checkIn, checkOut, listingId }: KnownStay,
  holds: readonly string[],
): BookingStay | undefined {
  const status = statuses.findLast((each) => isKnown(each, holds)) ?? "";
  const id = toInteger(listingId);
  if (!holds.includes(status) || id === undefined) return undefined;
  try {
    return { bookingCode, listingId: id, ...stay({ checkIn, checkOut }) };
  } catch {
    return undefined;
  }
}

function isSame(one: BookingStay | undefined, other: BookingStay | undefined): boolean {
  return (
    one?.listingId === other?.listingId &&
    one?.checkIn === other?.checkIn &&
    one?.checkOut === other?.checkOut
  );
}
