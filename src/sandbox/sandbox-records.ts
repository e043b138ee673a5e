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
 * with an `InvalidArgumentError`.
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
      /** The status of the new booking. */
      readonly status: BookingStatus | (string & {});
    },
  ): Promise<SandboxBooking>;
  /** Returns a copy of the booking, or `undefined` if no booking has this code. */
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
      refuse("must be a string that is not empty", "bookingCode");
    const booking = { ...fields, bookingCode, status, listingId, ...chooseStay(random, fields) };
    return bookings.add(bookingCode, booking as SandboxBooking);
  };

  const notified = (booking: SandboxBooking): SandboxBooking => {
    on.notify(booking.bookingCode);
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

// I, L, O, 0 and 1 are left out, because they look alike.
const codeCharacters = "ABCDEFGHJKMNPQRSTUVWXYZ23456789";

const drawCode = (random: Random): string =>
  Array.from({ length: 8 }, () => codeCharacters[random.integer(0, codeCharacters.length - 1)]).join("");

export const dayMs = 86_400_000;

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

/** The fields of a new listing. The sandbox also stores and returns further fields. */
export interface SandboxListingFields {
  /** Default: a random id that no other listing has. */
  readonly listingId?: number | undefined;
  /** Default: a random name, such as `Harbour Loft`. */
  readonly listingName?: string | undefined;
  readonly [field: string]: unknown;
}

/**
 * The sandbox's listings. A method that changes a listing resolves to a copy of the listing. Only `publish` sends a
 * notification. An impossible change rejects with an `InvalidArgumentError`.
 */
export interface SandboxListings {
  /** Makes an `InReview` listing. Sends no notification: the platform documents no event for a new listing. */
  submit(fields?: SandboxListingFields): Promise<SandboxListing>;
  /** Changes `InReview` or `Hidden` to `Published`. Sends a notification the first time only. */
  publish(listingId: number): Promise<SandboxListing>;
  /** Changes `InReview` or `Published` to `Hidden`. Sends no notification: the platform documents no such event. */
  hide(listingId: number): Promise<SandboxListing>;
  /** Makes a listing in any status, even a status that the platform does not list. Sends no notification. */
  create(
    fields: SandboxListingFields & {
      /** The status of the new listing. */
      readonly status: ListingStatus | (string & {});
    },
  ): Promise<SandboxListing>;
  /** Returns a copy of the listing, or `undefined` if no listing has this id. */
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

/**
 * @param given - the listings of an earlier sandbox
 * @param accepted - the listings for which `publish` sends no notification: published before, or not created as
 *   `InReview`. This function adds to the set
 * @param on.notify - called when a listing is published for the first time
 * @param on.change - called after each change
 */
export function createListings(
  random: Random,
  given: readonly SandboxListing[],
  accepted: Set<number>,
  on: { readonly notify: (listingId: number) => void; readonly change: () => void },
): SandboxListings {
  const listings = createRecords<number, SandboxListing, keyof typeof listingMoves>(
    "listing",
    "listingId",
    listingMoves,
    given,
    on.change,
  );

  const accept = (listingId: number): void => {
    accepted.add(listingId);
    on.change();
  };

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
      if (status !== "InReview") accept(listing.listingId);
      return listing;
    },
    async publish(listingId) {
      const listing = listings.move(listingId, "publish");
      if (!accepted.has(listingId)) {
        accept(listingId);
        on.notify(listingId);
      }
      return listing;
    },
    hide: async (listingId) => listings.move(listingId, "hide"),
    get: listings.get,
    list: listings.list,
  };
}

export function refuse(message: string, ...path: Issue["path"]): never {
  throw new InvalidArgumentError({ path, message });
}

/** Copies a value by JSON, so that callers cannot change the sandbox's own objects. */
export function copy<T>(value: T, name = "a value passed to the sandbox"): T {
  try {
    return JSON.parse(JSON.stringify(value)) as T;
  } catch (error) {
    return refuse(`${name} cannot be written as JSON: ${(error as Error).message}`);
  }
}

type Fields = Record<string, unknown>;

/** Checks and copies the fields that a caller gave. Fields that are `undefined` are left out. */
function toFields(fields: unknown): Fields {
  if (fields === undefined) return {};
  if (typeof fields !== "object" || fields === null || Array.isArray(fields))
    refuse("the fields of a booking or listing must be an object");
  return copy(fields as Fields, "the fields of a booking or listing");
}

function withoutStatus(fields: unknown): Fields {
  if ((fields as Fields | undefined)?.status !== undefined)
    refuse("can be given only to create(), which makes a record with any status", "status");
  return toFields(fields);
}

/** Separates `status` from the other fields of `create`. */
function takeStatus(fields: unknown): [status: string, rest: Fields] {
  const { status, ...rest } = toFields(fields);
  if (typeof status !== "string" || status === "") refuse("must be a string that is not empty", "status");
  return [status, rest];
}

/** A status change. `from` tells whether a status allows the change, and `to` is the new status. */
export interface Move {
  readonly from: (status: string) => boolean;
  readonly to: string;
}

/** Returns the names of the moves that the status allows. */
export function possibleMoves<Name extends string>(
  moves: Readonly<Record<Name, Move>>,
  status: string,
): Name[] {
  return (Object.keys(moves) as Name[]).filter((name) => moves[name].from(status));
}

/** Stores the bookings or the listings by id. The methods return copies of the records. */
function createRecords<
  Id extends string | number,
  R extends { readonly status: string },
  Name extends string,
>(
  kind: "booking" | "listing",
  idField: string & keyof R,
  moves: Readonly<Record<Name, Move>>,
  given: readonly R[],
  changed: () => void,
) {
  const records = new Map(given.map((record) => [record[idField] as Id, record]));
  const known = (id: Id): R => records.get(id) ?? refuse(`there is no ${kind} ${String(id)}`, idField);
  const put = (id: Id, record: R): R => {
    records.set(id, record);
    changed();
    return copy(record);
  };
  const change = (id: Id, fields: object): R => put(id, { ...known(id), ...fields });
  return {
    /** Calls `draw` until it returns an id that no record has. */
    freeId(draw: () => Id): Id {
      for (;;) {
        const id = draw();
        if (!records.has(id)) return id;
      }
    },
    get: (id: Id): R | undefined => (records.has(id) ? copy(known(id)) : undefined),
    list: (): R[] => [...records.values()].map((each) => copy(each)),
    add(id: Id, record: R): R {
      if (records.has(id)) refuse(`there is already a ${kind} ${id}`, idField);
      return put(id, record);
    },
    change,
    /** @throws InvalidArgumentError if the status does not allow the move. The message names the possible moves. */
    move(id: Id, name: Name): R {
      const { status } = known(id);
      const possible = possibleMoves(moves, status);
      if (!possible.includes(name))
        refuse(
          `cannot ${name} ${kind} ${id}, which is ${status}. ` +
            (possible.length === 0 ? "This status is final" : `Possible changes: ${possible.join(", ")}`),
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
    // Remove old items in blocks. To remove one item of a long array at each `add` would be slow.
    if (this.#items.length >= 2 * this.#max) this.#items.splice(0, this.#items.length - this.#max);
  }

  /** Returns the last `limit` items, the oldest first. */
  list(limit: number = this.#max): T[] {
    return this.#items.slice(-Math.min(limit, this.#max));
  }
}
