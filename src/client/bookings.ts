import type { Booking } from "../models/booking.ts";
import type { ApiPromise } from "./api-promise.ts";
import { callEndpoint } from "./endpoint.ts";
import type { Http } from "./http.ts";
import type { RequestOptions } from "./options.ts";
import { path } from "./path.ts";
import type { Reader } from "./readers.ts";

/** The bookings of the account: `client.bookings`. The platform has no list of them. */
export class Bookings<B extends Booking = Booking> {
  readonly #http: Http;
  readonly #booking: Reader<B>;

  constructor(http: Http, booking: Reader<B>) {
    this.#http = http;
    this.#booking = booking;
  }

  /** One booking, with all that the platform tells of it. */
  get(bookingCode: string, options?: RequestOptions): ApiPromise<B> {
    return callEndpoint(this.#http, "GET", path`/v2/bookings/${{ bookingCode }}`, this.#booking, options);
  }
}
