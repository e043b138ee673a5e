import type { Issue } from "../errors.ts";
import { toIssues } from "../models/standard-schema.ts";
import type { SandboxBookings } from "./bookings.ts";
import type { SandboxListings } from "./listings.ts";
import { type SandboxWebhookConfig, webhookConfigBody } from "./webhook-config.ts";

/** A request to the platform's API, whatever carried it here. */
export interface PlatformRequest {
  readonly method: string;
  /** Path and query, below the base URL. */
  readonly target: string;
  readonly authorization: string | undefined;
  readonly body: string;
}

/** An answer in the platform's own terms. A `Render` gives it its form. */
export interface PlatformResponse {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly shape: "write" | "config" | "no-config" | "booking" | "listing" | "listings" | "error";
  /** What is shown; `undefined` where there is nothing to show. */
  readonly body?: unknown;
}

/** What the routes read and change. */
export interface PlatformState {
  readonly accessToken: string;
  readonly bookings: Pick<SandboxBookings, "get">;
  readonly listings: Pick<SandboxListings, "get" | "list">;
  webhookConfig: SandboxWebhookConfig | undefined;
}

interface Call {
  readonly state: PlatformState;
  /** What stands in the place of the path's parameter, decoded. */
  readonly parameter: string;
  readonly query: URLSearchParams;
  readonly body: string;
}

type Routes = readonly [pattern: RegExp, methods: Readonly<Record<string, (call: Call) => PlatformResponse>>];

const routes: readonly Routes[] = [
  [
    /^\/v2\/webhooks\/config$/,
    {
      POST: (call) => (call.state.webhookConfig ? alreadyThere() : writeConfig(call, 201)),
      PUT: (call) => (call.state.webhookConfig ? writeConfig(call, 200) : noConfig()),
      GET: ({ state }) =>
        state.webhookConfig ? ok("config", state.webhookConfig) : { ...noConfig(), shape: "no-config" },
      DELETE: deleteConfig,
    },
  ],
  [/^\/v2\/webhooks\/config\/toggle$/, { PATCH: toggleConfig }],
  [/^\/v2\/listings$/, { GET: ({ state }) => ok("listings", state.listings.list()) }],
  [/^\/v2\/listings\/([^/]+)$/, { GET: getListing }],
  [/^\/v2\/bookings\/([^/]+)$/, { GET: getBooking }],
];

/** Answers one request. Changes the state where the request does, and nothing else. */
export function answer(state: PlatformState, request: PlatformRequest): PlatformResponse {
  if (!isAuthorized(request.authorization, state.accessToken))
    return {
      ...failure(401, "unauthorized", "The Authorization header must be Bearer and the access token."),
      headers: { "www-authenticate": "Bearer" },
    };

  const [path = "", query = ""] = request.target.split(/\?(.*)/s);
  for (const [pattern, methods] of routes) {
    const match = pattern.exec(path);
    if (!match) continue;
    if (!Object.hasOwn(methods, request.method)) return methodNotAllowed(Object.keys(methods));
    const parameter = decode(match[1] ?? "");
    if (parameter === undefined) return failure(400, "bad_request", "The path is not percent-encoded UTF-8.");
    const call = { state, parameter, query: new URLSearchParams(query), body: request.body };
    return methods[request.method]!(call);
  }
  return failure(404, "not_found", "There is no such path.");
}

/** An error's body is `{ code, message, issues? }`, before it is put in a form. */
export function failure(
  status: number,
  code: string,
  message: string,
  issues?: readonly Issue[],
): PlatformResponse {
  return { status, shape: "error", body: { code, message, ...(issues && { issues }) } };
}

const ok = (shape: PlatformResponse["shape"], body: unknown): PlatformResponse => ({
  status: 200,
  shape,
  body,
});

const noConfig = (): PlatformResponse => failure(404, "not_found", "There is no webhook configuration.");

const alreadyThere = (): PlatformResponse =>
  failure(409, "conflict", "There is a webhook configuration already; PUT replaces it.");

const methodNotAllowed = (methods: readonly string[]): PlatformResponse => ({
  ...failure(405, "method_not_allowed", `This path takes ${methods.join(", ")}.`),
  headers: { allow: methods.join(", ") },
});

// The scheme's name is read in any case, as HTTP says.
function isAuthorized(authorization: string | undefined, accessToken: string): boolean {
  const [scheme, token] = authorization?.split(/ +(.*)/s) ?? [];
  return scheme?.toLowerCase() === "bearer" && token === accessToken;
}

function writeConfig({ state, body }: Call, status: number): PlatformResponse {
  const json = parseJson(body);
  if (json === undefined) return failure(400, "bad_request", "The body is not JSON.");
  const { success, data, error } = webhookConfigBody.safeParse(json.value);
  if (!success)
    return failure(400, "bad_request", "The body is not a webhook configuration.", toIssues(error.issues));
  state.webhookConfig = data;
  return { status, shape: "write", body: data };
}

function toggleConfig({ state, query }: Call): PlatformResponse {
  const [value, ...others] = query.getAll("isActive");
  if ((value !== "true" && value !== "false") || others.length > 0)
    return failure(400, "bad_request", "The query does not say what to switch to.", [
      { path: ["isActive"], message: "must be given once, as true or false" },
    ]);
  if (!state.webhookConfig) return noConfig();
  state.webhookConfig = { ...state.webhookConfig, isActive: value === "true" };
  return { status: 200, shape: "write", body: state.webhookConfig };
}

function deleteConfig({ state }: Call): PlatformResponse {
  if (!state.webhookConfig) return noConfig();
  state.webhookConfig = undefined;
  return { status: 200, shape: "write" };
}

function getListing({ state, parameter }: Call): PlatformResponse {
  const listing = /^\d+$/.test(parameter) ? state.listings.get(Number(parameter)) : undefined;
  return listing ? ok("listing", listing) : failure(404, "not_found", "There is no such listing.");
}

function getBooking({ state, parameter }: Call): PlatformResponse {
  const booking = state.bookings.get(parameter);
  return booking ? ok("booking", booking) : failure(404, "not_found", "There is no such booking.");
}

function parseJson(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
