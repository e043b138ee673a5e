// The state of the platform, the notifications of its changes, and the routes of its API.

import * as z from "zod";
import { inAccount } from "../account.ts";
import { isLoopback, parseUrl } from "../client/urls.ts";
import type { Issue } from "../errors.ts";
import { toIssues } from "../models/standard-schema.ts";
import { createRandom } from "./random.ts";
import { createBookings, type SandboxBooking, type SandboxBookings } from "./sandbox-bookings.ts";
import { createListings, type SandboxListing, type SandboxListings } from "./sandbox-listings.ts";

/** The webhook configuration that the sandbox holds. */
export type SandboxWebhookConfig = {
  /** Whether the sandbox sends notifications. */
  readonly isActive: boolean;
  /** The URL of each topic. */
  readonly endpoints: Readonly<Record<string, string>>;
};

/** What a sandbox can keep in a file, so that a later sandbox continues with it. */
export interface SandboxState {
  readonly bookings: readonly SandboxBooking[];
  readonly listings: readonly SandboxListing[];
  /** The ids of the listings for which `publish` sends no notification any more. */
  readonly accepted: readonly number[];
  readonly webhookConfig: SandboxWebhookConfig | null;
}

/** A notification in the format of the platform. */
export interface SandboxNotification {
  readonly eventId: string;
  readonly timestamp: string;
  readonly bookingCode: string | null;
  readonly listingId: number | null;
}

/** A request to the platform's API, over HTTP or by `sandbox.fetch`. */
export interface PlatformRequest {
  readonly method: string;
  /** The path below the base URL, and the query. */
  readonly target: string;
  readonly authorization: string | undefined;
  readonly body: string;
}

/** An answer. The API writes its body as JSON. */
export interface PlatformResponse {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** `undefined` for an answer without a body. */
  readonly body?: unknown;
}

/** The platform in memory: its records, its webhook configuration and its API. It uses no network and no timers. */
export interface Platform {
  readonly bookings: SandboxBookings;
  readonly listings: SandboxListings;
  readonly webhookConfig: SandboxWebhookConfig | undefined;
  /** Makes the webhook configuration active, and sets these URLs. Keeps those of other topics. */
  configure(endpoints: SandboxWebhookConfig["endpoints"]): void;
  /** A copy of everything that a later sandbox needs to continue. */
  state(): SandboxState;
  answer(request: PlatformRequest): PlatformResponse;
  /** Whether the value of an `Authorization` header has the token of this account. */
  knows(authorization: string | undefined): boolean;
  /** Returns the endpoint URL of a topic, or `undefined` if no active webhook configuration has the topic. */
  endpointOf(topic: string): string | undefined;
}

interface PlatformOptions {
  readonly seed: number;
  /** The id of the account. It is `undefined` in a sandbox without accounts. */
  readonly account: string | undefined;
  readonly accessToken: string;
  /** ms since 1970 */
  readonly now: () => number;
  /** Called for each notification, as soon as its event happens. */
  readonly deliver: (topic: string, url: string, notification: SandboxNotification) => void;
  /** The state of an earlier sandbox. */
  readonly given?: SandboxState | undefined;
  /** Called after each change of the state. */
  readonly changed: () => void;
}

export function createPlatform(options: PlatformOptions): Platform {
  const { seed, account, given, changed } = options;
  const randomFor = (purpose: string) => createRandom(seed, inAccount(account, purpose));
  const ids = randomFor("eventId");

  const endpointOf = (topic: string): string | undefined => {
    const { isActive = false, endpoints = {} } = state.webhookConfig ?? {};
    return isActive && Object.hasOwn(endpoints, topic) ? endpoints[topic] : undefined;
  };

  const notify = (topic: string, bookingCode: string | null, listingId: number | null): void => {
    // Draw the id even without an endpoint: with the same seed, the ids must not depend on the webhook configuration.
    const timestamp = new Date(options.now()).toISOString();
    const notification = { eventId: ids.uuid(), timestamp, bookingCode, listingId };
    const url = endpointOf(topic);
    if (url !== undefined) options.deliver(topic, url, notification);
  };

  const accepted = new Set(given?.accepted);
  const listings = createListings(randomFor("listings"), given?.listings ?? [], accepted, {
    notify: (id) => notify("listings", null, id),
    change: changed,
  });
  const bookings = createBookings(randomFor("bookings"), listings, given?.bookings ?? [], {
    notify: (code) => notify("bookings", code, null),
    change: changed,
  });
  const { accessToken } = options;
  const webhookConfig = given?.webhookConfig ?? undefined;
  const state: PlatformState = { accessToken, bookings, listings, webhookConfig };

  return {
    bookings,
    listings,
    get webhookConfig() {
      return state.webhookConfig;
    },
    state: () => ({
      bookings: bookings.list(),
      listings: listings.list(),
      accepted: [...accepted],
      webhookConfig: state.webhookConfig ?? null,
    }),
    configure(endpoints) {
      state.webhookConfig = {
        isActive: true,
        endpoints: { ...state.webhookConfig?.endpoints, ...endpoints },
      };
      changed();
    },
    answer(request) {
      const before = state.webhookConfig;
      const answered = answer(state, request);
      if (state.webhookConfig !== before) changed();
      return answered;
    },
    knows: (authorization) => refusalOf(authorization, accessToken) === undefined,
    endpointOf,
  };
}

interface PlatformState {
  readonly accessToken: string;
  readonly bookings: SandboxBookings;
  readonly listings: SandboxListings;
  webhookConfig: SandboxWebhookConfig | undefined;
}

interface Call {
  readonly state: PlatformState;
  /** The decoded parameter of the path. */
  readonly parameter: string;
  readonly query: URLSearchParams;
  readonly body: string;
}

const routes = {
  "POST /v2/webhooks/config": (call) =>
    call.state.webhookConfig
      ? failure(
          409,
          "conflict",
          "A webhook configuration exists already. Use PUT to replace the configuration.",
        )
      : writeConfig(call, 201),
  "PUT /v2/webhooks/config": (call) => (call.state.webhookConfig ? writeConfig(call, 200) : noConfig()),
  "GET /v2/webhooks/config": ({ state }) => (state.webhookConfig ? ok(state.webhookConfig) : noConfig()),
  "DELETE /v2/webhooks/config": deleteConfig,
  "PATCH /v2/webhooks/config/toggle": toggleConfig,
  "GET /v2/listings": ({ state }) => ok(state.listings.list()),
  "GET /v2/listings/{listingId}": getListing,
  "GET /v2/bookings/{bookingCode}": getBooking,
} satisfies Record<string, (call: Call) => PlatformResponse>;

/** The API's routes in the notation of the platform's documentation, such as `GET /v2/listings`. */
export const routeNames = Object.keys(routes);

const endpoints = Object.entries<(call: Call) => PlatformResponse>(routes).map(([name, respond]) => {
  const [method = "", path = ""] = name.split(" ");
  return { method, path, pattern: toPattern(path), respond };
});

/**
 * Returns a function that tells whether a request matches a route. A route without a method matches any method.
 * A parameter such as `{listingId}` matches any path segment.
 *
 * @returns `undefined` if the API has no such route
 */
export function routeMatcher(route: string): ((method: string, path: string) => boolean) | undefined {
  const match = /^(?:([A-Z]+) )?(\/\S*)$/.exec(route);
  if (!match) return undefined;
  const [, wanted, path = ""] = match;
  const pattern = toPattern(path);
  const known = endpoints.some(
    (endpoint) =>
      (wanted === undefined || endpoint.method === wanted) &&
      (endpoint.pattern.test(path) || pattern.test(endpoint.path)),
  );
  if (!known) return undefined;
  return (method, asked) => (wanted === undefined || method === wanted) && pattern.test(asked);
}

function toPattern(path: string): RegExp {
  const parts = path.split(/\{[^/{}]*\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join("([^/]+)")}$`);
}

function answer(state: PlatformState, request: PlatformRequest): PlatformResponse {
  const { method, target, body } = request;
  const refusal = refusalOf(request.authorization, state.accessToken);
  if (refusal !== undefined)
    return { ...failure(401, "unauthorized", refusal), headers: { "www-authenticate": "Bearer" } };

  const [path = "", query = ""] = target.split(/\?(.*)/s);
  const found = endpoints.filter(({ pattern }) => pattern.test(path));
  if (found.length === 0) return failure(404, "not_found", "The API has no such path.");
  const endpoint = found.find((one) => one.method === method);
  if (!endpoint) {
    const allow = found.map((one) => one.method).join(", ");
    return { ...failure(405, "method_not_allowed", `This path allows only ${allow}.`), headers: { allow } };
  }
  let parameter: string;
  try {
    parameter = decodeURIComponent(endpoint.pattern.exec(path)?.[1] ?? "");
  } catch {
    return failure(400, "bad_request", "The path is not percent-encoded UTF-8.");
  }
  return endpoint.respond({ state, parameter, query: new URLSearchParams(query), body });
}

/** Makes an error answer with the body `{ error: { code, message, issues? } }`. */
export function failure(
  status: number,
  code: string,
  message: string,
  issues?: readonly Issue[],
): PlatformResponse {
  return { status, body: { error: { code, message, ...(issues && { issues }) } } };
}

const ok = (body: unknown): PlatformResponse => ({ status: 200, body });

const noConfig = (): PlatformResponse => failure(404, "not_found", "There is no webhook configuration.");

// RFC 9110: the name of the authentication scheme is case-insensitive.
function refusalOf(authorization: string | undefined, accessToken: string): string | undefined {
  const [scheme, token] = authorization?.split(/ +(.*)/s) ?? [];
  if (scheme?.toLowerCase() !== "bearer" || !token)
    return "The Authorization header must be Bearer <access token>.";
  return token === accessToken ? undefined : "The sandbox does not know this access token.";
}

const missingOr =
  (message: string) =>
  ({ input }: { readonly input?: unknown }): string =>
    input === undefined ? "is missing" : message;

/** The body of POST and PUT. `endpoints` may have any topics. */
const webhookConfigBody = z.object(
  {
    isActive: z.boolean({ error: missingOr("must be true or false") }),
    endpoints: z.record(
      z.string(),
      z.string({ error: "must be a URL" }).superRefine((url, context) => {
        const message = problemWithUrl(url);
        if (message !== undefined) context.addIssue({ code: "custom", message });
      }),
      { error: missingOr("must be an object with a URL for each topic") },
    ),
  },
  { error: "the body must be an object" },
);

/** Returns the reason why a URL cannot be an endpoint, or `undefined` if the URL is valid. */
export function problemWithUrl(text: string): string | undefined {
  const url = parseUrl(text);
  if (!url) return "must be a URL";
  if (url.protocol !== "https:" && !isLoopback(url))
    return "must be an https URL, or an http URL on a loopback host";
  if (url.username !== "" || url.password !== "") return "must not hold a user name or password";
  return undefined;
}

function writeConfig({ state, body }: Call, status: number): PlatformResponse {
  let json: unknown;
  try {
    json = JSON.parse(body);
  } catch {
    return failure(400, "bad_request", "The body is not JSON.");
  }
  const { success, data, error } = webhookConfigBody.safeParse(json);
  if (!success)
    return failure(400, "bad_request", "The body is not a webhook configuration.", toIssues(error.issues));
  state.webhookConfig = data;
  return { status, body: data };
}

function toggleConfig({ state, query }: Call): PlatformResponse {
  const [value, ...others] = query.getAll("isActive");
  if ((value !== "true" && value !== "false") || others.length > 0)
    return failure(400, "bad_request", "The query must have isActive=true or isActive=false.", [
      { path: ["isActive"], message: "must be given once, as true or false" },
    ]);
  if (!state.webhookConfig) return noConfig();
  state.webhookConfig = { ...state.webhookConfig, isActive: value === "true" };
  return ok(state.webhookConfig);
}

function deleteConfig({ state }: Call): PlatformResponse {
  if (!state.webhookConfig) return noConfig();
  state.webhookConfig = undefined;
  return { status: 204 };
}

function getListing({ state, parameter }: Call): PlatformResponse {
  const listing = /^\d+$/.test(parameter) ? state.listings.get(Number(parameter)) : undefined;
  return listing ? ok(listing) : failure(404, "not_found", "There is no such listing.");
}

function getBooking({ state, parameter }: Call): PlatformResponse {
  const booking = state.bookings.get(parameter);
  return booking ? ok(booking) : failure(404, "not_found", "There is no such booking.");
}
