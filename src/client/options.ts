import { InvalidArgumentError, type Issue } from "../errors.ts";
import { type Logger, logLevels, safeLogger, silentLogger } from "../logger.ts";
import type { Booking } from "../models/booking.ts";
import type { Listing } from "../models/listing.ts";
import type { StandardSchema } from "../models/standard-schema.ts";
import type { Observers } from "./observers.ts";
import { type AccessToken, problemWithToken } from "./token.ts";
import { checkBaseUrl } from "./url-rules.ts";

/** Headers by name; one that is `undefined` is left out. */
export type HeadersInput =
  | Headers
  | readonly [string, string][]
  | Readonly<Record<string, string | undefined>>;

/** Query parameters by name; one that is `undefined` or `null` is left out, a list is repeated. */
export type Query = Readonly<Record<string, QueryValue | readonly QueryValue[] | null | undefined>>;
type QueryValue = string | number | boolean;

/** How the platform's answers are fetched: `fetch`, called with a URL as text. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** What {@link StayhookClient} is made with. */
export interface ClientOptions<B extends Booking = Booking, L extends Listing = Listing> extends Observers {
  /** Where the platform's API is: https, or http on a loopback host. A path is kept as a prefix. */
  baseUrl: string | URL;
  /** Allows http for any host. Default `false`: the access token would be readable on the way. */
  allowInsecureHttp?: boolean | undefined;
  /** The token, or a function that gives it; never shown by the client or by an error. */
  accessToken: AccessToken;
  /**
   * Your own schemas for records, by any library that follows Standard Schema, for fields that you know of.
   * Their output has to extend {@link Booking} and {@link Listing}.
   */
  models?: { booking?: StandardSchema<B> | undefined; listing?: StandardSchema<L> | undefined } | undefined;
  /** ms, for each attempt: token, redirects and body included. Default 10 000. */
  timeout?: number | undefined;
  /** How often a request is tried again. Default 2. */
  maxRetries?: number | undefined;
  /** In place of the runtime's own `fetch`. */
  fetch?: Fetch | undefined;
  /** Added to every request; may replace any but `authorization`. */
  headers?: HeadersInput | undefined;
  /** Where warnings go. Default: nowhere. */
  logger?: Logger | undefined;
}

/** What every method takes last. */
export interface RequestOptions {
  /** Ends the call; it rejects with an `AbortError`. */
  signal?: AbortSignal | undefined;
  /** ms, for each attempt; in place of the client's. */
  timeout?: number | undefined;
  /** In place of the client's. */
  maxRetries?: number | undefined;
  /** Beside the client's, and before them. */
  headers?: HeadersInput | undefined;
  query?: Query | undefined;
}

/** The client's options, checked, with defaults. */
export interface Settings {
  readonly baseUrl: URL;
  readonly accessToken: AccessToken;
  readonly timeout: number;
  readonly maxRetries: number;
  readonly fetch: Fetch;
  readonly headers: Headers;
  readonly logger: Logger;
  readonly observers: Observers;
}

/** @throws InvalidArgumentError naming each option that is wrong */
export function checkOptions<B extends Booking, L extends Listing>(options: ClientOptions<B, L>): Settings {
  if (typeof options !== "object" || options === null)
    throw new InvalidArgumentError({ path: [], message: "the options must be an object" });
  const issues: Issue[] = [];
  const refuse = (name: string, message: string | undefined): void => {
    if (message !== undefined) issues.push({ path: [name], message });
  };
  const { accessToken, fetch, logger, onRequest, onResponse, models } = options;

  const baseUrl = checkBaseUrl(options.baseUrl, options.allowInsecureHttp === true);
  if (typeof baseUrl === "string") refuse("baseUrl", baseUrl);
  if (typeof accessToken !== "function")
    refuse("accessToken", problemWithToken(accessToken)?.replace("a string", "a string or a function"));
  for (const [name, value] of Object.entries({ fetch, onRequest, onResponse }))
    if (value !== undefined && typeof value !== "function") refuse(name, "must be a function");
  for (const level of logLevels)
    if (logger !== undefined && typeof logger?.[level] !== "function")
      issues.push({ path: ["logger", level], message: "must be a function" });
  for (const name of Object.keys(models ?? {}))
    if (name !== "booking" && name !== "listing")
      issues.push({ path: ["models", name], message: "is no model; there are booking and listing" });
  for (const name of ["booking", "listing"] as const)
    if (models?.[name] !== undefined && !isSchema(models[name]))
      issues.push({ path: ["models", name], message: "must be a Standard Schema, such as zod's" });
  issues.push(...problemsWithLimits(options));
  const headers = checkHeaders(options.headers, issues);

  if (issues.length > 0 || typeof baseUrl === "string") throw new InvalidArgumentError(issues);
  return {
    baseUrl,
    accessToken,
    timeout: options.timeout ?? 10_000,
    maxRetries: options.maxRetries ?? 2,
    // Looked up at each call: what tests and tracing put in its place later has to be seen.
    fetch: fetch ?? ((url, init) => globalThis.fetch(url, init)),
    headers,
    logger: logger ? safeLogger(logger) : silentLogger,
    observers: { onRequest, onResponse },
  };
}

/** @throws InvalidArgumentError naming each option that is wrong */
export function checkRequestOptions(options: RequestOptions): { readonly headers: Headers } {
  if (typeof options !== "object" || options === null)
    throw new InvalidArgumentError({ path: [], message: "the options must be an object" });
  const { signal, query } = options;
  const issues = problemsWithLimits(options);
  if (signal !== undefined && typeof signal?.addEventListener !== "function")
    issues.push({ path: ["signal"], message: "must be an AbortSignal" });
  issues.push(...problemsWithQuery(query));
  const headers = checkHeaders(options.headers, issues);
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  return { headers };
}

export function isSchema(value: unknown): value is StandardSchema {
  // arktype's schemas are functions.
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return false;
  return typeof (value as Partial<StandardSchema>)["~standard"]?.validate === "function";
}

// The largest that timers take; beyond it they fire at once.
const maxTimeout = 2 ** 31 - 1;

function problemsWithLimits({ timeout, maxRetries }: RequestOptions): Issue[] {
  const issues: Issue[] = [];
  if (timeout !== undefined && !(typeof timeout === "number" && timeout > 0 && timeout <= maxTimeout))
    issues.push({ path: ["timeout"], message: `must be a number of ms, above 0 and up to ${maxTimeout}` });
  if (maxRetries !== undefined && !(Number.isSafeInteger(maxRetries) && maxRetries >= 0))
    issues.push({ path: ["maxRetries"], message: "must be an integer from 0" });
  return issues;
}

function problemsWithQuery(query: unknown): Issue[] {
  if (query === undefined) return [];
  if (typeof query !== "object" || query === null) return [{ path: ["query"], message: "must be an object" }];
  const sendable = (value: unknown) =>
    ["string", "number", "boolean", "undefined"].includes(typeof value) || value === null;
  return Object.entries(query)
    .filter(([, value]) => !(Array.isArray(value) ? value.every(sendable) : sendable(value)))
    .map(([name]) => ({
      path: ["query", name],
      message: "must be a string, a number, a boolean or a list of them",
    }));
}

function checkHeaders(given: HeadersInput | undefined, issues: Issue[]): Headers {
  const headers = new Headers();
  if (given === undefined) return headers;
  if (typeof given !== "object" || given === null) {
    issues.push({ path: ["headers"], message: "must be an object" });
    return headers;
  }
  const entries: Iterable<[string, string | undefined]> =
    given instanceof Headers || Array.isArray(given) ? given : Object.entries(given);
  for (const [name, value] of entries) {
    if (value === undefined) continue;
    try {
      headers.set(name, value);
    } catch {
      // The runtime's own message would quote the value.
      issues.push({ path: ["headers", name], message: "must be a header's name and value" });
    }
  }
  return headers;
}
