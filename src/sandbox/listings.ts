import type { ListingStatus } from "../models/records.ts";
import type { Random } from "./random.ts";
import { type Move, Records, refuse, takeStatus, toFields } from "./records.ts";

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
  const listings = new Records<number, SandboxListing, keyof typeof listingMoves>(
    "listing",
    "listingId",
    listingMoves,
  );
  /** The listings that were published before, or were created in a status that follows the review. */
  const accepted = new Set<number>();

  const add = (fields: Record<string, unknown>, status: string): SandboxListing => {
    const { listingId = freeId(), listingName = `${random.pick(places)} ${random.pick(kinds)}` } = fields;
    if (!Number.isSafeInteger(listingId)) refuse("must be an integer", "listingId");
    if (typeof listingName !== "string") refuse("must be a string", "listingName");
    const listing = { ...fields, listingId, listingName, status } as SandboxListing;
    return listings.add(listing.listingId, listing);
  };

  const freeId = (): number => {
    for (;;) {
      const id = random.integer(10_000, 9_999_999);
      if (!listings.has(id)) return id;
    }
  };

  return {
    submit: async (fields) => add(toFields(fields, ["status"]), "InReview"),
    async create(fields) {
      const { status, rest } = takeStatus(fields);
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
    get: (listingId) => listings.get(listingId),
    list: () => listings.list(),
  };
}
