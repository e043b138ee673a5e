import type { BookingStatus } from "../models/records.ts";
import type { SandboxListings } from "./listings.ts";
import type { Random } from "./random.ts";
import { type Move, Records, refuse, takeStatus, toFields } from "./records.ts";

/** A booking as the sandbox's API shows it. */
export interface SandboxBooking {
  /** The booking's unique code. */
  readonly bookingCode: string;
  /** The booking's status. */
  readonly status: string;
  /** The id of the booked listing. */
  readonly listingId: number;
  /** `YYYY-MM-DD`, unless you gave another format. */
  readonly checkIn: string;
  /** `YYYY-MM-DD`, unless you gave another format. */
  readonly checkOut: string;
  readonly [field: string]: unknown;
}

/** The fields of a new booking. The sandbox keeps and shows further fields too. */
export interface SandboxBookingFields {
  /** Default: a free code. */
  readonly bookingCode?: string | undefined;
  /** Default: a `Published` listing; without one, any listing; without listings, an id that does not exist. */
  readonly listingId?: number | undefined;
  /** Default: a day within the next half year. */
  readonly checkIn?: string | undefined;
  /** Default: one to seven nights after `checkIn`. */
  readonly checkOut?: string | undefined;
  readonly [field: string]: unknown;
}

/**
 * The sandbox's bookings. Each method that changes a booking resolves to a copy of it. The notification is queued by
 * then, but not yet delivered: await `sandbox.settled()` for that. An impossible change rejects with an
 * `InvalidArgumentError`.
 */
export interface SandboxBookings {
  /** A guest asks for a stay: makes a booking in `Request`. Sends a notification. */
  request(fields?: SandboxBookingFields): Promise<SandboxBooking>;
  /** A guest books without asking: makes a booking in `Confirmed`. Sends a notification. */
  instantBook(fields?: SandboxBookingFields): Promise<SandboxBooking>;
  /** The host approves: `Request` becomes `Confirmed`. Sends a notification. */
  approve(bookingCode: string): Promise<SandboxBooking>;
  /** The host declines: `Request` becomes `Declined`. Sends a notification. */
  decline(bookingCode: string): Promise<SandboxBooking>;
  /** Any status but `Declined` and `Cancelled` becomes `Cancelled`. Sends a notification. */
  cancel(bookingCode: string): Promise<SandboxBooking>;
  /** Changes fields of a booking, such as its nights, but not its code or status. Sends a notification. */
  alter(bookingCode: string, fields: Omit<SandboxBookingFields, "bookingCode">): Promise<SandboxBooking>;
  /** Makes a booking in any status, even in one that the platform does not list. Sends nothing. */
  create(
    fields: SandboxBookingFields & {
      /** The status that the booking has from the start. */
      readonly status: BookingStatus | (string & {});
    },
  ): Promise<SandboxBooking>;
  /** Returns a copy of the booking, or `undefined`. */
  get(bookingCode: string): SandboxBooking | undefined;
  /** Returns copies of all bookings, the oldest first. */
  list(): SandboxBooking[];
}

/** The changes of status that a booking can go through. */
export const bookingMoves = {
  approve: { from: (status) => status === "Request", to: "Confirmed" },
  decline: { from: (status) => status === "Request", to: "Declined" },
  cancel: { from: (status) => status !== "Declined" && status !== "Cancelled", to: "Cancelled" },
} satisfies Record<string, Move>;

/** @param notify - called after each change that the platform sends a notification for */
export function createBookings(
  random: Random,
  listings: SandboxListings,
  notify: (bookingCode: string) => void,
): SandboxBookings {
  const bookings = new Records<string, SandboxBooking, keyof typeof bookingMoves>(
    "booking",
    "bookingCode",
    bookingMoves,
  );

  const add = (fields: Record<string, unknown>, status: string): SandboxBooking => {
    const { bookingCode = freeCode(), listingId = chooseListing(random, listings) } = fields;
    if (typeof bookingCode !== "string" || bookingCode === "")
      refuse("must be a string that is not empty", "bookingCode");
    const booking = { ...fields, bookingCode, status, listingId, ...chooseStay(random, fields) };
    return bookings.add(bookingCode, booking as SandboxBooking);
  };

  const freeCode = (): string => {
    for (;;) {
      const code = drawCode(random);
      if (!bookings.has(code)) return code;
    }
  };

  const notified = (booking: SandboxBooking): SandboxBooking => {
    notify(booking.bookingCode);
    return booking;
  };

  return {
    request: async (fields) => notified(add(toFields(fields, ["status"]), "Request")),
    instantBook: async (fields) => notified(add(toFields(fields, ["status"]), "Confirmed")),
    approve: async (code) => notified(bookings.move(code, "approve")),
    decline: async (code) => notified(bookings.move(code, "decline")),
    cancel: async (code) => notified(bookings.move(code, "cancel")),
    async alter(code, fields) {
      if ((fields as SandboxBookingFields)?.bookingCode !== undefined)
        refuse("cannot be changed", "bookingCode");
      return notified(bookings.change(code, toFields(fields, ["status"])));
    },
    async create(fields) {
      const { status, rest } = takeStatus(fields);
      return add(rest, status);
    },
    get: (code) => bookings.get(code),
    list: () => bookings.list(),
  };
}

function chooseListing(random: Random, listings: SandboxListings): number {
  const all = listings.list();
  const published = all.filter((listing) => listing.status === "Published");
  const [first, ...others] = published.length > 0 ? published : all;
  return first ? random.pick([first, ...others]).listingId : random.integer(10_000, 9_999_999);
}

// Without characters that sound or look alike, because people read codes aloud.
const codeCharacters = "ABCDEFGHJKMNPQRSTUVWXYZ23456789";

const drawCode = (random: Random): string =>
  Array.from({ length: 8 }, () => codeCharacters[random.integer(0, codeCharacters.length - 1)]).join("");

const dayMs = 86_400_000;

/** The given dates in any format. Missing dates become a stay of one to seven nights within the next half year. */
function chooseStay(random: Random, { checkIn, checkOut }: Record<string, unknown>) {
  // Draw always: a given date must not change the later draws of a seed.
  const today = Math.floor(Date.now() / dayMs) * dayMs;
  const start = today + random.integer(1, 180) * dayMs;
  const length = random.integer(1, 7) * dayMs;
  const arrival = toTime(checkIn) ?? toTime(checkOut, -length) ?? start;
  return {
    checkIn: checkIn === undefined ? toDate(arrival) : checkIn,
    checkOut: checkOut === undefined ? toDate(arrival + length) : checkOut,
  };
}

/** `undefined` for a text that is not a date, and for a year of more than four digits. */
function toTime(date: unknown, shift = 0): number | undefined {
  if (typeof date !== "string") return undefined;
  const time = Date.parse(date) + shift;
  return Math.abs(time) < 2.5e14 ? time : undefined;
}

const toDate = (time: number): string => new Date(time).toISOString().slice(0, 10);
