// The time zone of a booking's days: the handler's option `timeZone`.

import { isThenable, withTimeout } from "../../async.ts";
import { shared } from "../../copies.ts";
import { errorText } from "../../error-text.ts";
import { describeKind, StayhookError } from "../../errors.ts";
import type { Log } from "../../logger.ts";
import { daysIn, isInstant } from "../../models/dates.ts";
import type { Booking } from "../../models/records.ts";
import { bookingRef } from "../refs.ts";
import { stayValuesOf } from "./known-stay.ts";
import type { ReadRecord } from "./read-record.ts";

/** What the functions of the options `track` and `timeZone` get beside the record. */
export type RecordContext = {
  /** The record's account, in a handler with `accountFrom`. Two accounts may have listings with the same id. */
  readonly account: string | undefined;
};

/** The option `timeZone`: an IANA name, or a function that returns the name for a booking. */
export type TimeZone<B extends Booking = Booking> =
  | string
  | ((booking: B, context: RecordContext) => string | undefined | PromiseLike<string | undefined>);

/**
 * Asks for the time zone of a booking.
 *
 * @throws StayhookError if the function of the option throws, returns no zone, or takes too long
 */
export type ZoneOf = (read: ReadRecord<Booking>, context: RecordContext) => Promise<string | undefined>;

/** Whether this process has warned of instants without a zone. A process may make a handler for each request. */
const warning = shared("zoneWarning", () => ({ isTold: false }));

/**
 * Makes the function that asks for a booking's time zone. Warns once a process of instants without a zone.
 *
 * @param limit - how long a promise of the option's function may take, ms. A pass of the reconciler has no other limit
 */
export function zonesOf<B extends Booking>(
  timeZone: TimeZone<B> | undefined,
  log: Log,
  limit: number,
): ZoneOf {
  return async (read, context) => {
    const { record } = read;
    const ref = bookingRef(record.bookingCode, context.account);
    const zone =
      typeof timeZone === "function"
        ? await zoneFrom(() => timeZone(record as B, context), ref, limit)
        : timeZone;
    if (zone !== undefined || warning.isTold) return zone;
    if (!hasInstants(read)) return undefined;
    warning.isTold = true;
    log.warn(
      `${ref} has times in place of dates, and their days depend on the time zone. Set the handler's option timeZone to the zone of your listings, such as "Europe/Paris"`,
      { ref },
    );
    return undefined;
  };
}

async function zoneFrom(timeZone: () => unknown, ref: string, limit: number): Promise<string | undefined> {
  let answer: { readonly zone: unknown } | undefined;
  try {
    const given = timeZone();
    answer = isThenable(given)
      ? await withTimeout(
          limit,
          Promise.resolve(given).then((zone) => ({ zone })),
        )
      : { zone: given };
  } catch (cause) {
    throw new StayhookError(`timeZone threw for ${ref}: ${errorText(cause)}`, { cause });
  }
  if (!answer)
    throw new StayhookError(`timeZone gave no zone for ${ref} within ${limit} ms (half of attemptTimeout)`);
  const { zone } = answer;
  if (zone === undefined) return undefined;
  if (typeof zone !== "string")
    throw new StayhookError(
      `timeZone must return an IANA time zone, such as Europe/Paris, or undefined. For ${ref} it returned ${describeKind(zone)}`,
    );
  try {
    daysIn(zone);
    return zone;
  } catch (cause) {
    throw new StayhookError(
      `timeZone returned ${JSON.stringify(zone.slice(0, 100))} for ${ref}, which is not an IANA time zone, such as Europe/Paris`,
      { cause },
    );
  }
}

/** Whether a booking has times in the place of days, which depend on the time zone. */
function hasInstants(read: ReadRecord): boolean {
  const { checkIn, checkOut } = stayValuesOf(read);
  return isInstant(checkIn) || isInstant(checkOut);
}
