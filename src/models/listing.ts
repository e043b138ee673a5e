import type { ZodObject, ZodOptional, ZodString, ZodType } from "zod";
import * as z from "zod";
import { type FieldTypes, integer, tolerant } from "./fields.ts";

/** The statuses of a listing that the platform lists. */
export const listingStatuses = ["InReview", "Published", "Hidden"] as const;
/** One of {@link listingStatuses}. */
export type ListingStatus = (typeof listingStatuses)[number];

/**
 * A listing. The id and the status are always there.
 *
 * The object also has every further field that the platform sent. Give the client a model to have them typed, or
 * read them with `listing as Listing & Record<string, unknown>`.
 */
export interface Listing {
  /** The listing's unique id. An id that came as digits is a number here. */
  listingId: number;
  /** One of {@link listingStatuses}, or a status that is newer than this package. */
  status: string;
  /** The listing's name. */
  listingName?: string | null | undefined;
}

// See `BookingSchema`.
type ListingSchema = ZodObject<{
  /** The listing's unique id. */
  listingId: ZodType<number>;
  /** The listing's status. */
  status: ZodString;
  /** The listing's name. */
  listingName: ZodOptional<ZodType<string | null>>;
}>;

/** The zod schema of a listing. It requires the id and the status, and keeps every further field. */
export const Listing: ListingSchema = z.looseObject({
  listingId: integer,
  status: z.string(),
  listingName: tolerant(z.string()),
}) as unknown as ListingSchema;

export const listingFieldTypes: FieldTypes = { listingName: ["string", "null"] };
