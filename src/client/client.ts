import { InvalidArgumentError } from "../errors.ts";
import { Booking, bookingFieldTypes } from "../models/booking.ts";
import { unexpectedFields } from "../models/fields.ts";
import { Listing, listingFieldTypes } from "../models/listing.ts";
import { isSchema, type StandardSchema } from "../models/standard-schema.ts";
import { WebhookConfig } from "../models/webhook-config.ts";
import { unknownOptions } from "../options.ts";
import { type Model, parseWith, Readers, rawJson } from "./answers.ts";
import { type ApiPromise, callEndpoint, Http, type Method, methods } from "./http.ts";
import { type ClientOptions, checkOptions, type RequestOptions, requestOptions } from "./options.ts";
import {
  type BookingsResource,
  bookingsResource,
  type ListingsResource,
  listingsResource,
} from "./records.ts";
import { rawPath } from "./urls.ts";
import { type WebhookConfigResource, webhookConfigResource } from "./webhook-config.ts";

/**
 * The client of the platform's configuration and read endpoints, with one method for each.
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
  /** The webhook configuration of the account. */
  readonly webhookConfig: WebhookConfigResource;
  /** The listings of the account. */
  readonly listings: ListingsResource<L>;
  /** The bookings of the account. */
  readonly bookings: BookingsResource<B>;
  readonly #http: Http;

  constructor(options: ClientOptions<B, L>) {
    const settings = checkOptions(options);
    const readers = new Readers(settings.log);
    const { booking, listing } = options.models ?? {};
    this.#http = new Http(settings);
    this.webhookConfig = webhookConfigResource(this.#http, readers, configModel, settings.baseUrl);
    this.listings = listingsResource(this.#http, readers, listingModel(listing), settings);
    this.bookings = bookingsResource(this.#http, readers, bookingModel(booking));
  }

  /**
   * Calls any other endpoint below the base URL. Resolves to the parsed JSON as it came (`undefined` if the answer has
   * none), or to the output of `schema`.
   *
   * @param path - begins with `/`, and may have a query
   * @example
   * ```ts
   * const rates = await client.request("GET", "/v2/rates", { query: { listingId: 7 }, schema: Rates });
   * ```
   */
  request<T>(
    method: Method,
    path: string,
    options: CustomOptions & {
      /** Validates the parsed JSON. The call resolves to its output. */
      schema: StandardSchema<T>;
    },
  ): ApiPromise<T>;
  /** Calls any other endpoint below the base URL. Resolves to the parsed JSON as it came. */
  request(
    method: Method,
    path: string,
    options?: CustomOptions & { schema?: undefined },
  ): ApiPromise<unknown>;
  request(method: Method, path: string, options?: CustomOptions & { schema?: StandardSchema | undefined }) {
    const { body, schema, ...rest } = Object(options) as NonNullable<typeof options>;
    const read = schema === undefined ? rawJson : parseWith(schema);
    return callEndpoint(this.#http, method, rawPath(path), read, rest, {
      body: () => {
        checkCustom(method, schema, options);
        return body;
      },
    });
  }
}

/** The options of {@link StayhookClient.request}. */
export interface CustomOptions extends RequestOptions {
  /** The body. The client sends it as JSON. */
  body?: unknown;
}

function checkCustom(method: unknown, schema: unknown, options: unknown): void {
  const issues = unknownOptions(options ?? undefined, [...requestOptions, "body", "schema"]);
  if (!methods.includes(method as Method))
    issues.push({ path: ["method"], message: `must be one of ${methods.join(", ")}` });
  if (schema !== undefined && !isSchema(schema))
    issues.push({ path: ["schema"], message: "must be a Standard Schema, such as zod's" });
  if (issues.length > 0) throw new InvalidArgumentError(issues);
}

const configModel: Model<WebhookConfig> = {
  name: "configuration",
  schema: WebhookConfig,
  required: ["isActive", "endpoints"],
  unexpected: ({ endpoints, otherEndpoints }) =>
    Object.entries({ ...endpoints, ...otherEndpoints })
      .filter(([, url]) => typeof url !== "string")
      .map(([topic]) => `endpoints.${topic}`),
};

function bookingModel<B extends Booking>(schema: StandardSchema<B> | undefined): Model<B> {
  return {
    name: "booking",
    // Without a schema of the user's, B is Booking itself.
    schema: schema ?? (Booking as unknown as StandardSchema<B>),
    required: ["bookingCode", "status"],
    unexpected: (booking) => unexpectedFields(booking, bookingFieldTypes),
  };
}

function listingModel<L extends Listing>(schema: StandardSchema<L> | undefined): Model<L> {
  return {
    name: "listing",
    schema: schema ?? (Listing as unknown as StandardSchema<L>),
    required: ["listingId", "status"],
    unexpected: (listing) => unexpectedFields(listing, listingFieldTypes),
  };
}
