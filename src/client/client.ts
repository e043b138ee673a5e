import { InvalidArgumentError, type Issue } from "../errors.ts";
import { Booking, bookingKinds } from "../models/booking.ts";
import { unforeseen } from "../models/kinds.ts";
import { Listing, listingKinds } from "../models/listing.ts";
import type { StandardSchema } from "../models/standard-schema.ts";
import { WebhookConfig } from "../models/webhook-config.ts";
import type { ApiPromise } from "./api-promise.ts";
import { Bookings } from "./bookings.ts";
import { callEndpoint } from "./endpoint.ts";
import { Http, type Method, methods } from "./http.ts";
import { Listings } from "./listings.ts";
import { type ClientOptions, checkOptions, isSchema, type RequestOptions } from "./options.ts";
import { givenPath } from "./path.ts";
import { asItCame, by, type Model, Readers } from "./readers.ts";
import { WebhookConfigs } from "./webhook-config.ts";

/**
 * The platform's configuration and read endpoints, one method each.
 *
 * @typeParam B - what `models.booking` gives
 * @typeParam L - what `models.listing` gives
 * @throws InvalidArgumentError where an option is wrong
 * @example
 * ```ts
 * const client = new StayhookClient({ baseUrl: "https://api.example.com", accessToken });
 * const booking = await client.bookings.get("HX3K9");
 * ```
 */
export class StayhookClient<B extends Booking = Booking, L extends Listing = Listing> {
  readonly webhookConfig: WebhookConfigs;
  readonly listings: Listings<L>;
  readonly bookings: Bookings<B>;
  readonly #http: Http;

  constructor(options: ClientOptions<B, L>) {
    const settings = checkOptions(options);
    const readers = new Readers(settings.logger);
    const booking = bookingModel(options.models?.booking);
    const listing = listingModel(options.models?.listing);
    this.#http = new Http(settings);
    this.webhookConfig = new WebhookConfigs(
      this.#http,
      settings.baseUrl,
      readers.recordIfShown(configModel),
      readers.recordOrNone(configModel),
    );
    this.listings = new Listings(this.#http, readers.record(listing), readers.list(listing));
    this.bookings = new Bookings(this.#http, readers.record(booking));
  }

  /**
   * Anything else below the base URL. Resolves to the parsed JSON (`undefined` where there is none), or to what
   * `schema`, any Standard Schema, makes of it.
   *
   * @param path - begins with `/`; may have a query
   * @example
   * ```ts
   * const rates = await client.request("GET", "/v2/rates", { query: { listingId: 7 }, schema: Rates });
   * ```
   */
  request<T>(
    method: Method,
    path: string,
    options: CustomOptions & { schema: StandardSchema<T> },
  ): ApiPromise<T>;
  request(
    method: Method,
    path: string,
    options?: CustomOptions & { schema?: undefined },
  ): ApiPromise<unknown>;
  request(method: Method, path: string, options?: CustomOptions & { schema?: StandardSchema | undefined }) {
    const { body, schema, ...rest } = options ?? {};
    const read = schema === undefined ? asItCame : by(schema);
    return callEndpoint(this.#http, method, givenPath(path), read, rest, {
      body: () => checkCustom(method, schema, body),
    });
  }
}

/** What {@link StayhookClient.request} takes last. */
export interface CustomOptions extends RequestOptions {
  /** Sent as JSON. */
  body?: unknown;
}

function checkCustom(method: unknown, schema: unknown, body: unknown): unknown {
  const issues: Issue[] = [];
  if (!methods.includes(method as Method))
    issues.push({ path: ["method"], message: `must be one of ${methods.join(", ")}` });
  if (schema !== undefined && !isSchema(schema))
    issues.push({ path: ["schema"], message: "must be a Standard Schema, such as zod's" });
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  return body;
}

const configModel: Model<WebhookConfig> = {
  name: "configuration",
  schema: WebhookConfig,
  required: ["isActive", "endpoints"],
  surprises: ({ endpoints }) =>
    Object.keys(endpoints)
      .filter((topic) => typeof endpoints[topic] !== "string")
      .map((topic) => `endpoints.${topic}`),
};

function bookingModel<B extends Booking>(schema: StandardSchema<B> | undefined): Model<B> {
  return {
    name: "booking",
    // Without a schema of the user's, B is Booking itself.
    schema: schema ?? (Booking as unknown as StandardSchema<B>),
    required: ["bookingCode", "status"],
    surprises: (booking) => unforeseen(booking, bookingKinds),
  };
}

function listingModel<L extends Listing>(schema: StandardSchema<L> | undefined): Model<L> {
  return {
    name: "listing",
    schema: schema ?? (Listing as unknown as StandardSchema<L>),
    required: ["listingId", "status"],
    surprises: (listing) => unforeseen(listing, listingKinds),
  };
}
