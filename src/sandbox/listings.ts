import type { ListingStatus } from "../models/listing.ts";
import { copy, refuse, toFields } from "./fields.ts";
import { checkMove, type Move } from "./moves.ts";
import type { Random } from "./random.ts";

/** A listing as the sandbox's API shows it. */
export interface SandboxListing {
  readonly listingId: number;
  readonly listingName: string;
  readonly status: string;
  readonly [field: string]: unknown;
}

/** What may be given for a new listing; any further field is kept and shown. */
export interface SandboxListingFields {
  /** Default: a free one. */
  readonly listingId?: number | undefined;
  readonly listingName?: string | undefined;
  readonly [field: string]: unknown;
}

/**
 * The sandbox's listings. What moves one resolves to a copy of it once it is moved and its notification, if
 * there is one, is queued; an impossible move rejects with an `InvalidArgumentError`.
 */
export interface SandboxListings {
  /** A new listing in `InReview`. The platform has no event for it. */
  submit(fields?: SandboxListingFields): Promise<SandboxListing>;
  /** `InReview` or `Hidden` -> `Published`. The first time it is the Listing Created event; after that none is described. */
  publish(listingId: number): Promise<SandboxListing>;
  /** `InReview` or `Published` -> `Hidden`. No event is described for it. */
  hide(listingId: number): Promise<SandboxListing>;
  /** A new listing in any status, one that the platform does not list too. Sends nothing. */
  create(
    fields: SandboxListingFields & {
      readonly status: ListingStatus | (string & {});
    },
  ): Promise<SandboxListing>;
  /** A copy. */
  get(listingId: number): SandboxListing | undefined;
  /** Copies, in the order in which they were made. */
  list(): SandboxListing[];
}

const moves = {
  publish: { from: (status) => status === "InReview" || status === "Hidden", to: "Published" },
  hide: { from: (status) => status === "InReview" || status === "Published", to: "Hidden" },
} satisfies Record<string, Move>;

const places = ["Harbour", "Orchard", "Old Mill", "Lakeside", "Station", "Cathedral", "Vineyard"] as const;
const kinds = ["Loft", "Cottage", "Studio", "Apartment", "House", "Cabin"] as const;

/** @param onAccepted - called when a listing is published for the first time */
export function createListings(random: Random, onAccepted: (listingId: number) => void): SandboxListings {
  const listings = new Map<number, SandboxListing>();
  const accepted = new Set<number>();

  const add = (fields: Record<string, unknown>, status: string): SandboxListing => {
    const { listingId = freeId(), listingName = `${random.pick(places)} ${random.pick(kinds)}` } = fields;
    if (!Number.isSafeInteger(listingId)) refuse("must be an integer", "listingId");
    if (listings.has(listingId as number)) refuse(`there is a listing ${listingId} already`, "listingId");
    if (typeof listingName !== "string") refuse("must be a string", "listingName");
    const listing = { ...fields, listingId, listingName, status } as SandboxListing;
    listings.set(listing.listingId, listing);
    return copy(listing);
  };

  const freeId = (): number => {
    for (;;) {
      const id = random.integer(10_000, 9_999_999);
      if (!listings.has(id)) return id;
    }
  };

  const move = (listingId: number, name: keyof typeof moves): SandboxListing => {
    const listing =
      listings.get(listingId) ?? refuse(`there is no listing ${String(listingId)}`, "listingId");
    checkMove(moves, name, { kind: "listing", id: listingId, status: listing.status });
    const moved = { ...listing, status: moves[name].to };
    listings.set(listingId, moved);
    return copy(moved);
  };

  return {
    submit: async (fields) => add(toFields(fields, ["status"]), "InReview"),
    async create(fields) {
      const { status, ...rest } = toFields(fields);
      if (typeof status !== "string" || status === "") refuse("must be a status", "status");
      const listing = add(rest, status);
      // One that is live, or was, has been accepted before the sandbox came to know it.
      if (status !== "InReview") accepted.add(listing.listingId);
      return listing;
    },
    async publish(listingId) {
      const listing = move(listingId, "publish");
      if (!accepted.has(listingId)) {
        accepted.add(listingId);
        onAccepted(listingId);
      }
      return listing;
    },
    hide: async (listingId) => move(listingId, "hide"),
    get: (listingId) => copyOf(listings.get(listingId)),
    list: () => [...listings.values()].map(copy),
  };
}

const copyOf = (listing: SandboxListing | undefined): SandboxListing | undefined => listing && copy(listing);
