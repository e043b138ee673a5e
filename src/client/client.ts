import * as z from "zod";
import { checkAccount } from "../account.ts";
import { brand } from "../copies.ts";
import { InvalidArgumentError } from "../errors.ts";
import { toId } from "../models/ids.ts";
import {
  Booking,
  bookingFieldTypes,
  Listing,
  listingFieldTypes,
  unexpectedFields,
} from "../models/records.ts";
import { isSchema, type StandardSchema } from "../models/standard-schema.ts";
import { check, option, optionsObject } from "../options.ts";
import { type Model, parseWith, Readers, rawJson } from "./answer-body.ts";
import { type ApiPromise, callEndpoint } from "./api-promise.ts";
import {
  type ClientOptions,
  checkOptions,
  type QueryInput,
  type RequestOptions,
  requestShape,
  type Settings,
} from "./client-options.ts";
import { requiredFields } from "./find-in-body.ts";
import { Http, type HttpMethod, methods } from "./http.ts";
import { type ListPromise, listPromise } from "./paging.ts";
import { path, rawPath } from "./urls.ts";
import { type WebhookConfigResource, webhookConfigResource } from "./webhook-config.ts";

/** What a client shares with its clients of accounts. */
interface Shared {
  readonly settings: Settings;
  readonly readers: Readers;
  /** Sends requests for no account. */
  readonly http: Http;
}

function sharedOf<B extends Booking, L extends Listing>(options: ClientOptions<B, L>): Shared {
  const settings = checkOptions(options);
  return { settings, readers: new Readers(settings.log), http: new Http(settings) };
}

/** What a client that another one makes gets from it. */
interface Heritage {
  readonly accountId?: string | undefined;
  readonly shared?: Shared | undefined;
}

// Not an argument of the constructor, because the constructor of a subclass would not pass it on.
let heritage: Heritage = {};

function inherit<C>(given: Heritage, make: () => C): C {
  heritage = given;
  try {
    return make();
  } finally {
    heritage = {};
  }
}

function takeHeritage(): Heritage {
  const taken = heritage;
  heritage = {};
  return taken;
}

/** @throws InvalidArgumentError if the token is a text, with which all accounts would be read */
function checkRefreshable(accessToken: unknown): void {
  if (typeof accessToken === "function") return;
  throw new InvalidArgumentError({
    path: ["accessToken"],
    message:
      "must be a function that gives the token of an account, ({ account }) => token. A text would be the token of all accounts",
  });
}

/**
 * A client for the platform's endpoints for the webhook configuration, listings and bookings. Each endpoint has one
 * method.
 *
 * @typeParam B - the output of `models.booking`
 * @typeParam L - the output of `models.listing`
 * @throws InvalidArgumentError naming each option that is wrong
 * @example
 * ```ts
 * const client = new StayhookClient({ baseUrl: "https://api.example.com", accessToken });
 * const booking = await client.bookings.get("HX3K9");
 * ```
 */
export class StayhookClient<out B extends Booking = Booking, out L extends Listing = Listing> {
  static {
    brand(this, "StayhookClient");
  }
  /** The webhook configuration of the account. */
  readonly webhookConfig: WebhookConfigResource;
  /** The listings of the account. */
  readonly listings: ListingsResource<L>;
  /** The bookings of the account. */
  readonly bookings: BookingsResource<B>;
  /** The account that this client is bound to by {@link account}. It is `undefined` for any other client. */
  readonly accountId: string | undefined;
  readonly #options: ClientOptions<B, L>;
  readonly #shared: Shared;
  readonly #http: Http;

  constructor(options: ClientOptions<B, L> = {}) {
    const { accountId, shared = sharedOf(options) } = takeHeritage();
    const { settings, readers } = shared;
    if (accountId !== undefined) checkRefreshable(settings.accessToken);
    this.accountId = accountId;
    // The environment, or the caller's object, may change before the next `withOptions`.
    this.#options = settings.given as ClientOptions<B, L>;
    this.#shared = shared;
    const { booking, listing } = this.#options.models ?? {};
    this.#http = accountId === undefined ? shared.http : shared.http.of(accountId);
    this.webhookConfig = webhookConfigResource(this.#http, readers, {
      baseUrl: settings.baseUrl,
      log: settings.log,
      account: accountId,
    });
    this.listings = listingsResource(this.#http, readers, listing, settings);
    this.bookings = bookingsResource(this.#http, readers, booking);
    // The methods also work alone, as in `const { request } = client`, and through a Proxy around the client.
    for (const name of ["account", "withOptions", "request"] as const)
      Object.defineProperty(this, name, {
        value: (this[name] as () => unknown).bind(this),
        writable: true,
        configurable: true,
      });
  }

  /**
   * Makes a client of one account: `accessToken` gets the account's id, and gives the account's token. Such a client is
   * cheap, so make one wherever you need it. All clients of one account share a refresh of its token.
   *
   * @param id - your own id of the account: letters, digits, `_`, `.` and `-`, 1 to 64 characters. Case counts
   * @throws InvalidArgumentError if `id` is something else, or if the option `accessToken` is no function
   * @example
   * ```ts
   * const client = new StayhookClient({ baseUrl, accessToken: ({ account }) => tokens.get(account) });
   * await client.account("a17").webhookConfig.ensure({ endpoints: url });
   * ```
   */
  account(id: string): this {
    const accountId = checkAccount(id, ["id"]);
    const Class = this.constructor as new (options: ClientOptions<B, L>) => this;
    return inherit({ accountId, shared: this.#shared }, () => new Class(this.#options));
  }

  /**
   * Makes a client with the options of this client, of which the given options replace some. An option that is
   * `undefined` gets its default, except `baseUrl` and `accessToken`, for which `undefined` is an error.
   *
   * @throws InvalidArgumentError naming each option that is wrong
   * @example
   * ```ts
   * const patient = client.withOptions({ timeout: 60_000, maxRetries: 5 });
   * ```
   */
  withOptions<B2 extends Booking = B, L2 extends Listing = L>(
    options: ClientOptions<B2, L2>,
  ): StayhookClient<B2, L2> {
    const models = { ...this.#options.models, ...options?.models };
    // The cast is safe: a model that is not given stays, and its type is the default of the type parameter.
    const all = { ...this.#options, ...options, models } as ClientOptions<B2, L2>;
    const { accountId } = this;
    return inherit({ accountId }, () => new StayhookClient(all));
  }

  /**
   * Calls any endpoint below the base URL. Resolves to the output of `schema`. An integer that a number cannot hold is a
   * string of its digits, also in what `schema` gets.
   *
   * @param path - must begin with `/`, and may have a query
   * @example
   * ```ts
   * const rates = await client.request("GET", "/v2/rates", { query: { listingId: 7 }, schema: Rates });
   * ```
   */
  request<T>(
    method: HttpMethod,
    path: string,
    options: CustomOptions & {
      /** Validates the parsed JSON. The call resolves to the schema's output. */
      schema: StandardSchema<T>;
    },
  ): ApiPromise<T>;
  /** Calls any endpoint below the base URL. Resolves to the parsed JSON, or `undefined` if the answer has no JSON. */
  request(
    method: HttpMethod,
    path: string,
    options?: CustomOptions & {
      /** Absent, so nothing validates the parsed JSON. */
      schema?: undefined;
    },
  ): ApiPromise<unknown>;
  request(
    method: HttpMethod,
    path: string,
    options?: CustomOptions & { schema?: StandardSchema | undefined },
  ) {
    const { body, schema, ...rest } = Object(options) as NonNullable<typeof options>;
    const read = schema === undefined ? rawJson : parseWith(schema);
    return callEndpoint(this.#http, method, rawPath(path), read, rest, {
      body: () => {
        checkCustom(method, options);
        return body;
      },
    });
  }
}

/** The options of {@link StayhookClient.request}. */
export type CustomOptions = RequestOptions & {
  /** The body, which the client sends as JSON. */
  body?: unknown;
};

const customSchema = () =>
  optionsObject({
    ...requestShape(),
    body: z.unknown().optional(),
    schema: option((schema) =>
      isSchema(schema) ? undefined : "must be a Standard Schema, such as a zod schema",
    ).optional(),
  });

function checkCustom(method: unknown, options: unknown): void {
  const isMethod = methods.includes(method as HttpMethod);
  const wrongMethod = { path: ["method"], message: `must be one of ${methods.join(", ")}` };
  check(customSchema, options ?? {}, { before: isMethod ? [] : [wrongMethod] });
}

/** The bookings of the account: `client.bookings`. The platform has no endpoint that lists bookings. */
export interface BookingsResource<out B extends Booking = Booking> {
  /**
   * Reads one booking. The code in the answer may differ from `bookingCode` in letter case and outer white space.
   *
   * @throws NotFoundError if the booking does not exist
   * @throws ResponseValidationError if the answer holds another booking, or no valid booking
   */
  get(bookingCode: string, options?: RequestOptions): ApiPromise<B>;
}

function bookingsResource<B extends Booking>(
  http: Http,
  readers: Readers,
  schema: StandardSchema<B> | undefined,
): BookingsResource<B> {
  const model: Model<B> = {
    name: "booking",
    // The cast is safe: if the user gives no schema, `B` is `Booking`.
    schema: schema ?? (Booking as unknown as StandardSchema<B>),
    required: requiredFields.booking,
    unexpected: (booking) => unexpectedFields(booking, bookingFieldTypes),
  };
  return {
    get: (bookingCode, options) => {
      const read = readers.record(model, bookingCode);
      return callEndpoint(http, "GET", path`/v2/bookings/${{ bookingCode }}`, read, options);
    },
  };
}

/** The listings of the account: `client.listings`. */
export interface ListingsResource<out L extends Listing = Listing> {
  /**
   * Reads all listings of the account. Await the result for an array, or loop over it with `for await`, which gives
   * the rows of each page as it arrives. With the client option `nextPage`, reads one page after the other, and
   * `withResponse()` gives the answer of the last page. An invalid row throws after the last page.
   *
   * @throws ResponseValidationError if the answer has an invalid row or no list. `error.valid` has the valid rows
   * @throws ResponseValidationError if `nextPage` fails, repeats a query, or asks for more than 1,000 pages
   * @example
   * ```ts
   * for await (const listing of client.listings.list()) console.log(listing.listingId);
   * ```
   */
  list(options?: RequestOptions): ListPromise<L>;
  /**
   * Reads one listing.
   *
   * @param listingId - an integer, or its digits as a string
   * @throws NotFoundError if the listing does not exist
   * @throws ResponseValidationError if the answer holds another listing, or no valid listing
   */
  get(listingId: number | string, options?: RequestOptions): ApiPromise<L>;
}

function listingsResource<L extends Listing>(
  http: Http,
  readers: Readers,
  schema: StandardSchema<L> | undefined,
  settings: Settings,
): ListingsResource<L> {
  const model: Model<L> = {
    name: "listing",
    schema: schema ?? (Listing as unknown as StandardSchema<L>),
    required: requiredFields.listing,
    unexpected: (listing) => unexpectedFields(listing, listingFieldTypes),
  };
  const readPage = (options: RequestOptions | undefined, query: QueryInput) =>
    callEndpoint(http, "GET", path`/v2/listings`, readers.page(model), options, { query }).withResponse();
  return {
    list: (options) => listPromise(readPage, options, settings),
    get: (listingId, options) => {
      const read = readers.record(model, toId(listingId) ?? Number.NaN);
      return callEndpoint(http, "GET", path`/v2/listings/${{ listingId }}`, read, options);
    },
  };
}
