import type { BookingStatus } from "../models/records.ts";
import { bookingTable } from "../models/statuses.ts";
import type { Random } from "./random.ts";
import type { SandboxListings } from "./sandbox-listings.ts";
import {
  createRecords,
  dayMs,
  type Fields,
  forEachVerb,
  movesOf,
  takeStatus,
  throwInvalid,
  toDate,
  withoutStatus,
} from "./sandbox-records.ts";

/** A booking as the sandbox's API shows it. */
export interface SandboxBooking {
  /** The code by which the API and notifications name the booking, such as `HX3K9QWT`. */
  readonly bookingCode: string;
  /** The status in the platform's spelling, such as `Confirmed`, or any other text that `create` got. */
  readonly status: string;
  /** The id of the booked listing. Unless `create` gets one, it is one of the listings of the sandbox, or random if there is none. */
  readonly listingId: number;
  /** The day of arrival, as `YYYY-MM-DD` unless you gave another format. */
  readonly checkIn: string;
  /** The day of departure, as `YYYY-MM-DD` unless you gave another format. */
  readonly checkOut: string;
  readonly [field: string]: unknown;
}

/** The fields of a new booking. The sandbox also stores and returns further fields. */
export interface SandboxBookingFields {
  /** Default: a random code that no other booking has. */
  readonly bookingCode?: string | undefined;
  /** Default: the id of a random `Published` listing, else of any listing. Without listings, a random id. */
  readonly listingId?: number | undefined;
  /** Default: one to seven nights before `checkOut`. Without `checkOut`, a random day within the next half year. */
  readonly checkIn?: string | undefined;
  /** Default: one to seven nights after `checkIn`. */
  readonly checkOut?: string | undefined;
  readonly [field: string]: unknown;
}

/**
 * The sandbox's bookings. A method that changes a booking resolves to a copy of the booking, without waiting for the
 * delivery of the notification. To wait for the delivery, await `sandbox.settled()`. An impossible change rejects
 * with an `InvalidArgumentError`, as does a `checkOut` before the `checkIn`, but for `create`.
 */
export interface SandboxBookings {
  /** Makes a booking in status `Request`, as when a guest asks for a stay. Sends a notification. */
  request(fields?: SandboxBookingFields): Promise<SandboxBooking>;
  /** Makes a booking in status `Confirmed`, as when a guest books without asking. Sends a notification. */
  instantBook(fields?: SandboxBookingFields): Promise<SandboxBooking>;
  /** Changes the status from `Request` to `Confirmed`, as when the host approves. Sends a notification. */
  approve(bookingCode: string): Promise<SandboxBooking>;
  /** Changes the status from `Request` to `Declined`, as when the host declines. Sends a notification. */
  decline(bookingCode: string): Promise<SandboxBooking>;
  /** Changes any status except `Declined` and `Cancelled` to `Cancelled`. Sends a notification. */
  cancel(bookingCode: string): Promise<SandboxBooking>;
  /** Changes fields of a booking, such as its dates, but not its code or status. Sends a notification. */
  alter(bookingCode: string, fields: Omit<SandboxBookingFields, "bookingCode">): Promise<SandboxBooking>;
  /** Makes a booking in any status, even a status that the platform does not list. Sends no notification. */
  create(
    fields: SandboxBookingFields & {
      /** The status of the new booking, also one that the platform does not know. */
      readonly status: BookingStatus | (string & {});
    },
  ): Promise<SandboxBooking>;
  /** Returns a copy of the booking, or `undefined` if no booking has this code. */
  get(bookingCode: string): SandboxBooking | undefined;
  /** Returns copies of all bookings, the oldest first. */
  list(): SandboxBooking[];
}

/** The changes of status that a booking can go through, by verb. */
export const bookingMoves = movesOf(bookingTable);

/**
 * @param given - the bookings of an earlier sandbox
 * @param on.notify - called after each change that causes a notification
 * @param on.change - called after each change
 */
export function createBookings(
  random: Random,
  listings: SandboxListings,
  given: readonly SandboxBooking[],
  on: { readonly notify: (bookingCode: string) => void; readonly change: () => void },
): SandboxBookings {
  const bookings = createRecords<string, SandboxBooking, keyof typeof bookingMoves>(
    "booking",
    "bookingCode",
    bookingMoves,
    given,
    on.change,
  );

  const add = (fields: Fields, status: string): SandboxBooking => {
    const { bookingCode = bookings.freeId(() => drawCode(random)) } = fields;
    const { listingId = chooseListing(random, listings) } = fields;
    if (typeof bookingCode !== "string" || bookingCode === "")
      throwInvalid("must be a string that is not empty", "bookingCode");
    const booking = { ...fields, bookingCode, status, listingId, ...chooseStay(random, fields) };
    return bookings.add(bookingCode, booking as SandboxBooking);
  };

  const notified = (booking: SandboxBooking): SandboxBooking => {
    on.notify(booking.bookingCode);
    return booking;
  };

  return {
    request: async (fields) => notified(add(checkStay(withoutStatus(fields)), "Request")),
    instantBook: async (fields) => notified(add(checkStay(withoutStatus(fields)), "Confirmed")),
    ...forEachVerb(bookingMoves, (verb) => async (code: string) => notified(bookings.move(code, verb))),
    async alter(code, fields) {
      if ((fields as SandboxBookingFields)?.bookingCode !== undefined)
        throwInvalid("cannot be changed", "bookingCode");
      return notified(bookings.change(code, checkStay(withoutStatus(fields))));
    },
    async create(fields) {
      const [status, rest] = takeStatus(fields);
      return add(rest, status);
    },
    get: bookings.get,
    list: bookings.list,
  };
}

function chooseListing(random: Random, listings: SandboxListings): number {
  const all = listings.list();
  const published = all.filter((listing) => listing.status === "Published");
  const [first, ...others] = published.length > 0 ? published : all;
  return first ? random.pick([first, ...others]).listingId : random.integer(10_000, 9_999_999);
}

// I, L, O, 0 and 1 are left out, because they look alike.
const codeCharacters = "ABCDEFGHJKMNPQRSTUVWXYZ23456789";

const drawCode = (random: Random): string =>
  Array.from({ length: 8 }, () => codeCharacters[random.integer(0, codeCharacters.length - 1)]).join("");

const day = /^\d{4}-\d\d-\d\d$/;

/** @throws InvalidArgumentError if both days are given and the departure is before the arrival */
export function checkStay(fields: Fields): Fields {
  const { checkIn, checkOut } = fields;
  const [arrival, departure] = [String(checkIn), String(checkOut)];
  if (day.test(arrival) && day.test(departure) && departure < arrival)
    throwInvalid(`must not be before checkIn: ${departure} is before ${arrival}`, "checkOut");
  return fields;
}

/** Keeps given dates, in any format. Fills in missing dates, so that the stay has one to seven nights. */
function chooseStay(random: Random, { checkIn, checkOut }: Fields) {
  // Make the random draws even if both dates are given. Otherwise given dates would change later draws of the seed.
  const today = Math.floor(Date.now() / dayMs) * dayMs;
  const start = today + random.integer(1, 180) * dayMs;
  const length = random.integer(1, 7) * dayMs;
  const arrival = toTime(checkIn) ?? toTime(checkOut, -length) ?? start;
  return {
    checkIn: checkIn === undefined ? toDate(arrival) : checkIn,
    checkOut: checkOut === undefined ? toDate(arrival + length) : checkOut,
  };
}

/** Returns `undefined` if the value is not a date, or if the year has too many digits for `YYYY-MM-DD`. */
function toTime(date: unknown, shift = 0): number | undefined {
  if (typeof date !== "string") return undefined;
  const time = Date.parse(date) + shift;
  return Math.abs(time) < 2.5e14 ? time : undefined;
}
