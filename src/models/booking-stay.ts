import type { Stay } from "./dates.ts";

/** A stay of a booking at a listing. */
export interface BookingStay extends Stay {
  /** The code by which the platform names the booking, such as `HX3K9QWT`. */
  readonly bookingCode: string;
  /** The listing that the guest stays at. */
  readonly listingId: number;
}
