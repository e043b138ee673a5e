// What an event of a booking tells of its stay: the one that the platform has now, and the one that the user's side knows.

import type { BookingStay } from "../models/booking-stay.ts";
import { bookingTable, GONE, holdsIn } from "../models/statuses.ts";
import { type HeldStay, readStay, type SentStay } from "./processing/known-stay.ts";

/** The stay that your side knows and the one that the platform has now: `event.stayChange`. */
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

/** The fields of every event about a booking. They are data, so a copy of them says the same. */
export interface StayFields {
  /**
   * The stay as the platform tells it now, whether it holds or not, with the days of `timeZone`. It is `undefined` if the
   * dates or the listing cannot be read, and if the booking is gone.
   */
  readonly stay: BookingStay | undefined;
  /**
   * The stay that your side knows, and the one that the platform has now, so that one callback keeps a door, a calendar or a
   * cleaning right: end `from`, begin `to`.
   *
   * A stay holds while the booking's status is in the option `holds`. Every other status that this package knows ends the
   * stay. A status that this package does not know neither begins nor ends a stay. If the dates or the listing cannot be
   * read, the stay that held before still holds, until they can be read again. If none held before, to read `stayChange`
   * throws an `InvalidArgumentError`, so that the event is tried again. A spread or JSON of the event reads it, too.
   *
   * @example
   * ```ts
   * const { from, to } = event.stayChange;
   * if (from && from.listingId !== to?.listingId) await closeDoor(from);
   * if (to) await openDoor(to);
   * ```
   */
  readonly stayChange: StayChange;
  /** The zone of the booking's days: what the option `timeZone` gave. */
  readonly timeZone: string | undefined;
}

/** Only the event of a booking has these fields. They are declared as `undefined`, so that `fallback` can destructure them. */
export interface WithoutStay {
  /** Only the event of a booking has a stay. */
  readonly stay?: undefined;
  /** Only the event of a booking has a stay. */
  readonly stayChange?: undefined;
  /** Only the event of a booking has days. */
  readonly timeZone?: undefined;
}

/** What an event of a booking tells of its stay, timers and gone bookings included. */
export interface EventStays {
  /** What the handler's `timeZone` gave for the booking. */
  readonly timeZone: string | undefined;
  /** The stay as the platform tells it now. It is `undefined` if it cannot be read, or if the booking is gone. */
  readonly stay: BookingStay | undefined;
  readonly from: BookingStay | undefined;
  readonly to: BookingStay | undefined;
  /** Why the stay that holds cannot be read. If there is no `from` either, the event has no `stayChange`. */
  readonly problem: Error | undefined;
}

/** A booking as it was read, or as it was known before it was gone. */
interface StayLook {
  readonly bookingCode: string;
  readonly status: string;
  /** The fields of the stay, with days of `timeZone`. */
  readonly fields: SentStay;
  readonly timeZone: string | undefined;
}

/**
 * Finds out which stay begins and which one ends, as {@link StayFields.stayChange} says. A booking that is gone has no stay.
 *
 * @param known - the stay that the user's side knows
 */
export function staysOf(look: StayLook, known: HeldStay | undefined, holds: readonly string[]): EventStays {
  const { bookingCode, status, timeZone } = look;
  const from = known && { bookingCode, ...readStay(known) };
  const isKnown = status === GONE || bookingTable.some(({ name }) => name === status);
  const isHeld = holdsIn(status, holds) || (!isKnown && from !== undefined);
  const none = { timeZone, stay: undefined, from, to: undefined, problem: undefined };
  if (status === GONE) return none;
  try {
    const stay = { bookingCode, ...readStay(look.fields) };
    return { ...none, stay, to: isHeld ? stay : undefined };
  } catch (error) {
    return isHeld ? { ...none, to: from, problem: error as Error } : none;
  }
}

/**
 * Adds the fields of a stay to an event. If the first stay of a booking cannot be read, `stayChange` throws, so that an
 * event that needs it is tried again.
 */
export function withStays<E extends object>(event: E, stays: EventStays): E {
  const { timeZone, stay, from, to, problem } = stays;
  Object.assign(event, { timeZone, stay });
  if (problem && !from)
    return Object.defineProperty(event, "stayChange", {
      enumerable: true,
      configurable: true,
      get: () => {
        throw problem;
      },
    });
  return Object.assign(event, { stayChange: { from, to, changed: !isSame(from, to) } satisfies StayChange });
}

function isSame(one: BookingStay | undefined, other: BookingStay | undefined): boolean {
  return (
    one?.listingId === other?.listingId &&
    one?.checkIn === other?.checkIn &&
    one?.checkOut === other?.checkOut
  );
}
