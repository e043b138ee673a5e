import { toInteger } from "../models/integer.ts";
import type { Listing } from "../models/listing.ts";
import type { ApiPromise } from "./api-promise.ts";
import { callEndpoint } from "./endpoint.ts";
import type { Http } from "./http.ts";
import type { RequestOptions } from "./options.ts";
import { path } from "./path.ts";
import type { Reader } from "./readers.ts";

/** The listings of the account: `client.listings`. */
export class Listings<L extends Listing = Listing> {
  readonly #http: Http;
  readonly #listing: Reader<L>;
  readonly #listings: Reader<L[]>;

  constructor(http: Http, listing: Reader<L>, listings: Reader<L[]>) {
    this.#http = http;
    this.#listing = listing;
    this.#listings = listings;
  }

  /** All listings of the account. Rejects where the answer holds no list, or a row that is no listing. */
  list(options?: RequestOptions): ApiPromise<L[]> {
    return callEndpoint(this.#http, "GET", path`/v2/listings`, this.#listings, options);
  }

  /** One listing, with all that the platform tells of it. */
  get(listingId: number, options?: RequestOptions): ApiPromise<L> {
    const id = toInteger(listingId) ?? Number.NaN;
    return callEndpoint(this.#http, "GET", path`/v2/listings/${{ listingId: id }}`, this.#listing, options);
  }
}
