// The time zone of a booking's days: the handler's option `timeZone`.

import { shared } from "../../copies.ts";
import { errorText } from "../../error-text.ts";
import { describeKind, StayhookError } from "../../errors.ts";
import type { Log } from "../../logger.ts";
import { isInstant, setTimeZone } from "../../models/dates.ts";
import type { Booking } from "../../models/records.ts";
import { bookingRef } from "../refs.ts";
import { stayValuesOf } from "./known-stay.ts";

/** What the functions of the options `track` and `timeZone` get beside the record. */
export interface RecordContext {
  /** The record's account, in a handler with `accountFrom`. Two accounts may have listings with the same id. */
  readonly account: string | undefined;
}

/** The option `timeZone`: an IANA name, or a function that returns the name for a booking. */
export type TimeZone<B extends Booking = Booking> =
  | string
  | ((booking: B, context: RecordContext) => string | undefined);

/** Gives a booking its time zone, which `stay(booking)` then uses. */
export type ZoneSetter = (booking: Booking, context: RecordContext) => void;

/** Whether this process has warned of instants without a zone. A process may make a handler for each request. */
const warning = shared("zoneWarning", () => ({ isTold: false }));

/** Makes the function that gives each booking its time zone. Warns once a process of instants without a zone. */
export function zoneSetter<B extends Booking>(timeZone: TimeZone<B> | undefined, log: Log): ZoneSetter {
  return (booking, context) => {
    const ref = bookingRef(booking.bookingCode, context.account);
    const zone =
      typeof timeZone === "function" ? zoneFrom(() => timeZone(booking as B, context), ref) : timeZone;
    if (zone !== undefined) return setZone(booking, zone, ref);
    if (warning.isTold) return;
    const { checkIn, checkOut } = stayValuesOf(booking);
    if (!isInstant(checkIn) && !isInstant(checkOut)) return;
    warning.isTold = true;
    log.warn(
      `${ref} has times in place of dates, and their days depend on the time zone. Set the handler's option timeZone to the zone of your listings, such as "Europe/Paris"`,
      { ref },
    );
  };
}

function zoneFrom(timeZone: () => unknown, ref: string): string | undefined {
  let zone: unknown;
  try {
    zone = timeZone();
  } catch (cause) {
    throw new StayhookError(`timeZone threw for ${ref}: ${errorText(cause)}`, { cause });
  }
  if (zone === undefined || typeof zone === "string") return zone;
  throw new StayhookError(
    `timeZone must return an IANA time zone, such as Europe/Paris, or undefined. For ${ref} it returned ${describeKind(zone)}`,
  );
}

function setZone(booking: Booking, zone: string, ref: string): void {
  try {
    setTimeZone(booking, zone);
  } catch (cause) {
    throw new StayhookError(
      `timeZone returned ${JSON.stringify(zone.slice(0, 100))} for ${ref}, which is not an IANA time zone, such as Europe/Paris`,
      { cause },
    );
  }
}
