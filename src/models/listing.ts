import * as z from "zod";
import { integer } from "./integer.ts";
import { type Kinds, tolerant } from "./kinds.ts";

/** The statuses of a listing that the platform lists. */
export const listingStatuses = ["InReview", "Published", "Hidden"] as const;
/** One of {@link listingStatuses}. */
export type ListingStatus = (typeof listingStatuses)[number];

/** A listing. The id and the status are required, and every further field is kept. */
export const Listing = z.looseObject({
  /** An integer, also where it comes as digits. */
  listingId: integer,
  /** One of {@link listingStatuses}, or one that is newer than this package. */
  status: z.string(),
  listingName: tolerant(z.string()),
});
export type Listing = z.output<typeof Listing>;

export const listingKinds: Kinds = { listingName: ["string", "null"] };
