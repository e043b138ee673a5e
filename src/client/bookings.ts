import type { Booking } from "../models/booking.ts";
import { type ApiPromise, callEndpoint, type Http } from "./http.ts";
import type { RequestOptions } from "./options.ts";
import type { Model, Readers } from "./readers.ts";
import { path } from "./urls.ts";

/** The bookings of the account: `client.bookings`. The platform has no list of them. */
export interface BookingsResource<out B extends Booking = Booking> {
  /**
   * Reads one booking.
   *
   * The booking in the answer must have this code. It may differ in outer white space and in letter case.
   *
   * @throws NotFoundError where there is no such booking
   * @throws ResponseValidationError where the answer holds another booking, or none that is valid
   */
  get(bookingCode: string, options?: RequestOptions): ApiPromise<B>;
}

export function bookingsResource<B extends Booking>(
  http: Http,
  readers: Readers,
  model: Model<B>,
): BookingsResource<B> {
  return {
    get: (bookingCode, options) =>
      callEndpoint(
        http,
        "GET",
        path`/v2/bookings/${{ bookingCode }}`,
        readers.record(model, bookingCode),
        options,
      ),
  };
}
