import type { BookingStatus } from "../models/booking.ts";
import { copy, refuse, toFields } from "./fields.ts";
import type { SandboxListings } from "./listings.ts";
import { checkMove, type Move } from "./moves.ts";
import type { Random } from "./random.ts";
import { chooseStay } from "./stays.ts";

/** A booking as the sandbox's API shows it. */
export interface SandboxBooking {
  readonly bookingCode: string;
  readonly status: string;
  readonly listingId: number;
  /** `YYYY-MM-DD`, unless it was given otherwise. */
  readonly checkIn: string;
  /** `YYYY-MM-DD`, unless it was given otherwise. */
  readonly checkOut: string;
  readonly [field: string]: unknown;
}

/** What may be given for a new booking; any further field is kept and shown. */
export interface SandboxBookingFields {
  /** Default: a free one. */
  readonly bookingCode?: string | undefined;
  /** Default: one of the listings that are `Published`, else any listing, else one that does not exist. */
  readonly listingId?: number | undefined;
  /** Default: a day within the next half year. */
  readonly checkIn?: string | undefined;
  /** Default: one to seven nights after `checkIn`. */
  readonly checkOut?: string | undefined;
  readonly [field: string]: unknown;
}

/**
 * The sandbox's bookings. What moves one resolves to a copy of it once it is moved and its notification is
 * queued, not when that has arrived (see `settled`); an impossible move rejects with an `InvalidArgumentError`.
 */
export interface SandboxBookings {
  /** A guest asks for a stay: a new booking in `Request`. Booking Requested. */
  request(fields?: SandboxBookingFields): Promise<SandboxBooking>;
  /** A guest books at once: a new booking in `Confirmed`. Booking Confirmed. */
  instantBook(fields?: SandboxBookingFields): Promise<SandboxBooking>;
  /** `Request` -> `Confirmed`. Booking Approved. */
  approve(bookingCode: string): Promise<SandboxBooking>;
  /** `Request` -> `Declined`. Booking Declined. */
  decline(bookingCode: string): Promise<SandboxBooking>;
  /** Any status but `Declined` and `Cancelled` -> `Cancelled`. Booking Cancelled. */
  cancel(bookingCode: string): Promise<SandboxBooking>;
  /** Changes any fields but the code and the status, such as the nights, and sends a notification. */
  alter(bookingCode: string, fields: Omit<SandboxBookingFields, "bookingCode">): Promise<SandboxBooking>;
  /** A new booking in any status, one that the platform does not list too. Sends nothing. */
  create(
    fields: SandboxBookingFields & {
      readonly status: BookingStatus | (string & {});
    },
  ): Promise<SandboxBooking>;
  /** A copy. */
  get(bookingCode: string): SandboxBooking | undefined;
  /** Copies, in the order in which they were made. */
  list(): SandboxBooking[];
}

const moves = {
  approve: { from: (status) => status === "Request", to: "Confirmed" },
  decline: { from: (status) => status === "Request", to: "Declined" },
  cancel: { from: (status) => status !== "Declined" && status !== "Cancelled", to: "Cancelled" },
} satisfies Record<string, Move>;

/** @param onEvent - called for each move that is one of the platform's booking events */
export function createBookings(
  random: Random,
  listings: SandboxListings,
  onEvent: (bookingCode: string) => void,
): SandboxBookings {
  const bookings = new Map<string, SandboxBooking>();

  const add = (fields: Record<string, unknown>, status: string): SandboxBooking => {
    const { bookingCode = freeCode(), listingId = chooseListing(random, listings) } = fields;
    if (typeof bookingCode !== "string" || bookingCode === "")
      refuse("must be a string that is not empty", "bookingCode");
    if (bookings.has(bookingCode)) refuse(`there is a booking ${bookingCode} already`, "bookingCode");
    const booking = { ...fields, bookingCode, status, listingId, ...chooseStay(random, fields) };
    bookings.set(bookingCode, booking as SandboxBooking);
    return copy(booking as SandboxBooking);
  };

  const freeCode = (): string => {
    for (;;) {
      const code = bookingCode(random);
      if (!bookings.has(code)) return code;
    }
  };

  const begin = async (fields: SandboxBookingFields | undefined, status: string): Promise<SandboxBooking> => {
    const booking = add(toFields(fields, ["status"]), status);
    onEvent(booking.bookingCode);
    return booking;
  };

  const known = (code: string): SandboxBooking =>
    bookings.get(code) ?? refuse(`there is no booking ${String(code)}`, "bookingCode");

  const change = (booking: SandboxBooking, fields: Record<string, unknown>): SandboxBooking => {
    const changed = { ...booking, ...fields };
    bookings.set(booking.bookingCode, changed);
    onEvent(booking.bookingCode);
    return copy(changed);
  };

  const move = async (code: string, name: keyof typeof moves): Promise<SandboxBooking> => {
    const booking = known(code);
    checkMove(moves, name, { kind: "booking", id: code, status: booking.status });
    return change(booking, { status: moves[name].to });
  };

  return {
    request: (fields) => begin(fields, "Request"),
    instantBook: (fields) => begin(fields, "Confirmed"),
    approve: (code) => move(code, "approve"),
    decline: (code) => move(code, "decline"),
    cancel: (code) => move(code, "cancel"),
    async alter(code, fields) {
      if ((fields as SandboxBookingFields)?.bookingCode !== undefined)
        refuse("must stay as it is", "bookingCode");
      return change(known(code), toFields(fields, ["status"]));
    },
    async create(fields) {
      const { status, ...rest } = toFields(fields);
      if (typeof status !== "string" || status === "") refuse("must be a status", "status");
      return add(rest, status);
    },
    get: (code) => copyOf(bookings.get(code)),
    list: () => [...bookings.values()].map(copy),
  };
}

const copyOf = (booking: SandboxBooking | undefined): SandboxBooking | undefined => booking && copy(booking);

function chooseListing(random: Random, listings: SandboxListings): number {
  const all = listings.list();
  const published = all.filter((listing) => listing.status === "Published");
  const [first, ...others] = published.length > 0 ? published : all;
  return first ? random.pick([first, ...others]).listingId : random.integer(10_000, 9_999_999);
}

// Without letters and digits that are taken for each other when read aloud.
const letters = "ABCDEFGHJKMNPQRSTUVWXYZ23456789";

const bookingCode = (random: Random): string =>
  Array.from({ length: 8 }, () => letters[random.integer(0, letters.length - 1)]).join("");
