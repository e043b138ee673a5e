import { InvalidArgumentError, type Issue } from "../errors.ts";
import type { BookingStatus, ListingStatus } from "../models/records.ts";
import type { Random } from "./random.ts";

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
  const bookings = createRecords<string, SandboxBooking, keyof typeof bookingMoves>(
    "booking",
    "bookingCode",
    bookingMoves,
  );

  const add = (fields: Fields, status: string): SandboxBooking => {
    const { bookingCode = bookings.freeId(() => drawCode(random)) } = fields;
    const { listingId = chooseListing(random, listings) } = fields;
    if (typeof bookingCode !== "string" || bookingCode === "")
      refuse("must be a string that is not empty", "bookingCode");
    const booking = { ...fields, bookingCode, status, listingId, ...chooseStay(random, fields) };
    return bookings.add(bookingCode, booking as SandboxBooking);
  };

  const notified = (booking: SandboxBooking): SandboxBooking => {
    notify(booking.bookingCode);
    return booking;
  };

  return {
    request: async (fields) => notified(add(withoutStatus(fields), "Request")),
    instantBook: async (fields) => notified(add(withoutStatus(fields), "Confirmed")),
    approve: async (code) => notified(bookings.move(code, "approve")),
    decline: async (code) => notified(bookings.move(code, "decline")),
    cancel: async (code) => notified(bookings.move(code, "cancel")),
    async alter(code, fields) {
      if ((fields as SandboxBookingFields)?.bookingCode !== undefined)
        refuse("cannot be changed", "bookingCode");
      return notified(bookings.change(code, withoutStatus(fields)));
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

// Without characters that sound or look alike, because people read codes aloud.
const codeCharacters = "ABCDEFGHJKMNPQRSTUVWXYZ23456789";

const drawCode = (random: Random): string =>
  Array.from({ length: 8 }, () => codeCharacters[random.integer(0, codeCharacters.length - 1)]).join("");

export const dayMs = 86_400_000;

/** The given dates in any format. Missing dates become a stay of one to seven nights within the next half year. */
function chooseStay(random: Random, { checkIn, checkOut }: Fields) {
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

export const toDate = (time: number): string => new Date(time).toISOString().slice(0, 10);

/** A listing as the sandbox's API shows it. */
export interface SandboxListing {
  /** The listing's unique id. */
  readonly listingId: number;
  /** The listing's name. */
  readonly listingName: string;
  /** The listing's status. */
  readonly status: string;
  readonly [field: string]: unknown;
}

/** The fields of a new listing. The sandbox keeps and shows further fields too. */
export interface SandboxListingFields {
  /** Default: a free id. */
  readonly listingId?: number | undefined;
  /** Default: a random name, such as `Harbour Loft`. */
  readonly listingName?: string | undefined;
  readonly [field: string]: unknown;
}

/**
 * The sandbox's listings. Each method that changes a listing resolves to a copy of it. If there is a notification, it is
 * queued by then. An impossible change rejects with an `InvalidArgumentError`.
 */
export interface SandboxListings {
  /** Makes a listing in `InReview`. Sends nothing: the platform describes no event for it. */
  submit(fields?: SandboxListingFields): Promise<SandboxListing>;
  /** `InReview` or `Hidden` becomes `Published`. Sends a notification the first time only. */
  publish(listingId: number): Promise<SandboxListing>;
  /** `InReview` or `Published` becomes `Hidden`. Sends nothing: the platform describes no event for it. */
  hide(listingId: number): Promise<SandboxListing>;
  /** Makes a listing in any status, even in one that the platform does not list. Sends nothing. */
  create(
    fields: SandboxListingFields & {
      /** The status that the listing has from the start. */
      readonly status: ListingStatus | (string & {});
    },
  ): Promise<SandboxListing>;
  /** Returns a copy of the listing, or `undefined`. */
  get(listingId: number): SandboxListing | undefined;
  /** Returns copies of all listings, the oldest first. */
  list(): SandboxListing[];
}

/** The changes of status that a listing can go through. */
export const listingMoves = {
  publish: { from: (status) => status === "InReview" || status === "Hidden", to: "Published" },
  hide: { from: (status) => status === "InReview" || status === "Published", to: "Hidden" },
} satisfies Record<string, Move>;

const places = ["Harbour", "Orchard", "Old Mill", "Lakeside", "Station", "Cathedral", "Vineyard"] as const;
const kinds = ["Loft", "Cottage", "Studio", "Apartment", "House", "Cabin"] as const;

/** @param notify - called when a listing is published for the first time */
export function createListings(random: Random, notify: (listingId: number) => void): SandboxListings {
  const listings = createRecords<number, SandboxListing, keyof typeof listingMoves>(
    "listing",
    "listingId",
    listingMoves,
  );
  /** The listings that were published before, or were created in a status that follows the review. */
  const accepted = new Set<number>();

  const add = (fields: Fields, status: string): SandboxListing => {
    const { listingId = listings.freeId(() => random.integer(10_000, 9_999_999)) } = fields;
    const { listingName = `${random.pick(places)} ${random.pick(kinds)}` } = fields;
    if (!Number.isSafeInteger(listingId)) refuse("must be an integer", "listingId");
    if (typeof listingName !== "string") refuse("must be a string", "listingName");
    const listing = { ...fields, listingId, listingName, status } as SandboxListing;
    return listings.add(listing.listingId, listing);
  };

  return {
    submit: async (fields) => add(withoutStatus(fields), "InReview"),
    async create(fields) {
      const [status, rest] = takeStatus(fields);
      const listing = add(rest, status);
      if (status !== "InReview") accepted.add(listing.listingId);
      return listing;
    },
    async publish(listingId) {
      const listing = listings.move(listingId, "publish");
      if (!accepted.has(listingId)) {
        accepted.add(listingId);
        notify(listingId);
      }
      return listing;
    },
    hide: async (listingId) => listings.move(listingId, "hide"),
    get: listings.get,
    list: listings.list,
  };
}

/** Throws the error for a wrong argument. */
export function refuse(message: string, ...path: Issue["path"]): never {
  throw new InvalidArgumentError({ path, message });
}

/** A copy by way of JSON, so that no caller can change the sandbox's own objects. */
export function copy<T>(value: T): T {
  try {
    return JSON.parse(JSON.stringify(value)) as T;
  } catch (error) {
    return refuse(`cannot be written as JSON: ${(error as Error).message}`);
  }
}

type Fields = Record<string, unknown>;

/** Checks and copies the fields that a caller gave. Fields that are `undefined` are left out. */
function toFields(fields: unknown): Fields {
  if (fields === undefined) return {};
  if (typeof fields !== "object" || fields === null || Array.isArray(fields)) refuse("must be an object");
  return copy(fields as Fields);
}

function withoutStatus(fields: unknown): Fields {
  if ((fields as Fields | undefined)?.status !== undefined)
    refuse("must be left out here; create() makes a record with any status", "status");
  return toFields(fields);
}

/** Takes `status` out of the fields of `create`. */
function takeStatus(fields: unknown): [status: string, rest: Fields] {
  const { status, ...rest } = toFields(fields);
  if (typeof status !== "string" || status === "") refuse("must be a status", "status");
  return [status, rest];
}

/** A change of status: the statuses that it starts from, and the one that it leads to. */
export interface Move {
  readonly from: (status: string) => boolean;
  readonly to: string;
}

/** The names of the moves that are possible from a status. */
export function possibleMoves<Name extends string>(
  moves: Readonly<Record<Name, Move>>,
  status: string,
): Name[] {
  return (Object.keys(moves) as Name[]).filter((name) => moves[name].from(status));
}

/** Keeps the bookings or the listings by their ids. Every record that it returns is a copy. */
function createRecords<
  Id extends string | number,
  R extends { readonly status: string },
  Name extends string,
>(kind: "booking" | "listing", idField: string, moves: Readonly<Record<Name, Move>>) {
  const records = new Map<Id, R>();
  const known = (id: Id): R => records.get(id) ?? refuse(`there is no ${kind} ${String(id)}`, idField);
  const put = (id: Id, record: R): R => {
    records.set(id, record);
    return copy(record);
  };
  const change = (id: Id, fields: object): R => put(id, { ...known(id), ...fields });
  return {
    /** The first id that `draw` makes and no record has. */
    freeId(draw: () => Id): Id {
      for (;;) {
        const id = draw();
        if (!records.has(id)) return id;
      }
    },
    get: (id: Id): R | undefined => (records.has(id) ? copy(known(id)) : undefined),
    list: (): R[] => [...records.values()].map(copy),
    add(id: Id, record: R): R {
      if (records.has(id)) refuse(`there is already a ${kind} ${id}`, idField);
      return put(id, record);
    },
    change,
    /** @throws InvalidArgumentError where the status does not allow the move; it names the possible ones */
    move(id: Id, name: Name): R {
      const { status } = known(id);
      const possible = possibleMoves(moves, status);
      if (!possible.includes(name))
        refuse(
          `cannot ${name} ${kind} ${id}, which is ${status}; ` +
            (possible.length === 0 ? "its status is final" : `possible: ${possible.join(", ")}`),
          "status",
        );
      return change(id, { status: moves[name].to });
    },
  };
}

/** Keeps the newest items of a list, so that a sandbox that runs for days does not fill the memory. */
export class Recent<T> {
  readonly #items: T[] = [];
  readonly #max: number;

  constructor(max = 100_000) {
    this.#max = max;
  }

  add(item: T): void {
    this.#items.push(item);
    // In blocks, because removing the first item of a long array is slow.
    if (this.#items.length >= 2 * this.#max) this.#items.splice(0, this.#items.length - this.#max);
  }

  /** The newest items, the oldest first. */
  list(limit: number = this.#max): T[] {
    return this.#items.slice(-Math.min(limit, this.#max));
  }
}
