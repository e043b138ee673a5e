import type { Booking } from "../models/booking.ts";
import type { Listing } from "../models/listing.ts";
import { toInteger } from "../models/stay.ts";
import type { Model, Readers } from "./answers.ts";
import { type ApiPromise, apiPromise, callEndpoint, type Http } from "./http.ts";
import type { Query, RequestOptions, Settings } from "./options.ts";
import { readAll } from "./paging.ts";
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

/** The listings of the account: `client.listings`. */
export interface ListingsResource<out L extends Listing = Listing> {
  /**
   * Reads all listings of the account. With the client option `nextPage` it reads page after page, and
   * `withResponse()` gives the last page's answer.
   *
   * @throws ResponseValidationError where the answer holds no list or an invalid row (`error.valid` has the valid
   *   rows), where `nextPage` asks for the same page twice, and after 1,000 pages
   */
  list(options?: RequestOptions): ApiPromise<L[]>;
  /**
   * Reads one listing. The listing in the answer must have this id.
   *
   * @param listingId - an integer, or its digits
   * @throws NotFoundError where there is no such listing
   * @throws ResponseValidationError where the answer holds another listing, or none that is valid
   */
  get(listingId: number | string, options?: RequestOptions): ApiPromise<L>;
}

export function listingsResource<L extends Listing>(
  http: Http,
  readers: Readers,
  model: Model<L>,
  settings: Settings,
): ListingsResource<L> {
  const readPage = (options: RequestOptions | undefined, query: Query) =>
    callEndpoint(http, "GET", path`/v2/listings`, readers.page(model), options, { query }).withResponse();
  return {
    list: (options) => apiPromise(readAll((query) => readPage(options, query), options, settings)),
    get: (listingId, options) => {
      const id = toInteger(listingId) ?? Number.NaN;
      return callEndpoint(
        http,
        "GET",
        path`/v2/listings/${{ listingId: id }}`,
        readers.record(model, id),
        options,
      );
    },
  };
}
