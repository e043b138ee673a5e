import { InvalidArgumentError } from "../errors.ts";
import type { Stay } from "../models/dates.ts";
import { isObject } from "../models/is-object.ts";
import { bookingTable, GONE, knownStatus, type Status } from "../models/statuses.ts";
import { checkNoUnknown } from "../option-names.ts";
import type { PreviousRecord } from "./field-changes.ts";
import {
  hiddenStayOf,
  isKnown,
  isReadable,
  type KnownStay,
  stayFieldsOf,
  stayOf,
} from "./processing/known-stay.ts";

/** A stay of a booking at a listing. */
export interface BookingStay extends Stay {
  /** The code by which the platform names the booking, such as `HX3K9QWT`. */
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

/** The fields of a booking that {@link stayChange} reads. */
export interface StayBooking {
  /** The code by which the platform names the booking, such as `HX3K9QWT`. */
  readonly bookingCode: string;
  /** The status, or `gone`. */
  readonly status: string;
  /** The booked listing. */
  readonly listingId?: unknown;
  /** The day of arrival. */
  readonly checkIn?: unknown;
  /** The day of departure. */
  readonly checkOut?: unknown;
}

const HOLDS: readonly string[] = bookingTable
  .filter((status: Status) => status.holds)
  .map(({ name }) => name);

/**
 * Returns the stay that your side knows and the one that the platform has now, so that one function keeps a door, a
 * calendar or a cleaning right: end `from`, begin `to`.
 *
 * A stay holds while the booking's status is in `holds`. Every other status that this package knows ends the stay. A
 * status that this package does not know neither begins nor ends a stay: the stay that held before it still holds. If
 * the dates or the listing cannot be read, the stay that held before still holds, too, until they can be read again. A
 * booking that is gone has no stay.
 *
 * @param event - any event of a booking, also that of a timer
 * @throws InvalidArgumentError if the event has no booking, if `holds` is no array, or if a stay begins whose dates or
 * listing cannot be read
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
    readonly booking: StayBooking;
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
  const holding = holds.flatMap((each) => [each, knownStatus("booking", String(each))]);
  const status = knownStatus("booking", booking.status);
  const from = previous && stayBefore(booking.bookingCode, hiddenStayOf(previous), holding);
  const isHeld = isKnown(status, holding) ? status !== GONE && holding.includes(status) : from !== undefined;
  const to = isHeld ? stayNow(booking, from) : undefined;
  return { from, to, changed: !isSame(from, to) };
}

/**
 * Reads the stay as the platform sent it, because the user's model may leave out its fields. If the stay cannot be read,
 * the one before holds.
 */
function stayNow(booking: StayBooking, from: BookingStay | undefined): BookingStay {
  try {
    return { bookingCode: booking.bookingCode, ...stayOf(stayFieldsOf(booking)) };
  } catch (error) {
    if (from) return from;
    throw error;
  }
}

/** Returns `undefined` for a stay that cannot be read: your side cannot have handled such a stay. */
export function stayBefore(
  bookingCode: string,
  known: KnownStay,
  holds: readonly string[] = HOLDS,
): BookingStay | undefined {
  const status = known.statuses.findLast((each) => isKnown(each, holds)) ?? "";
  if (!holds.includes(status) || !isReadable(known)) return undefined;
  return { bookingCode, ...stayOf(known) };
}

function isSame(one: BookingStay | undefined, other: BookingStay | undefined): boolean {
  return (
    one?.listingId === other?.listingId &&
    one?.checkIn === other?.checkIn &&
    one?.checkOut === other?.checkOut
  );
}
