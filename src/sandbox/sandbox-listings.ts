import type { ListingStatus } from "../models/records.ts";
import { listingTable } from "../models/statuses.ts";
import type { Random } from "./random.ts";
import {
  createRecords,
  type Fields,
  forEachVerb,
  movesOf,
  takeStatus,
  throwInvalid,
  withoutStatus,
} from "./sandbox-records.ts";

/** A listing as the sandbox's API shows it. */
export interface SandboxListing {
  /** The id by which the API and notifications name the listing. The sandbox chooses it unless `create` gets one. */
  readonly listingId: number;
  /** The name of the listing. `create` makes one up unless it gets one. */
  readonly listingName: string;
  /** The status in the platform's spelling, such as `Published`, or any other text that `create` got. */
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
      /** The status of the new listing, also one that the platform does not know. */
      readonly status: ListingStatus | (string & {});
    },
  ): Promise<SandboxListing>;
  /** Returns a copy of the listing, or `undefined` if no listing has this id. */
  get(listingId: number): SandboxListing | undefined;
  /** Returns copies of all listings, the oldest first. */
  list(): SandboxListing[];
}

/** The changes of status that a listing can go through, by verb. */
export const listingMoves = movesOf(listingTable);

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
    if (!Number.isSafeInteger(listingId)) throwInvalid("must be an integer", "listingId");
    if (typeof listingName !== "string") throwInvalid("must be a string", "listingName");
    const listing = { ...fields, listingId, listingName, status } as SandboxListing;
    return listings.add(listing.listingId, listing);
  };

  return {
    ...forEachVerb(listingMoves, (verb) => async (listingId: number) => listings.move(listingId, verb)),
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
    get: listings.get,
    list: listings.list,
  };
}
