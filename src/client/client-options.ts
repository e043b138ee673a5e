import * as z from "zod";
import { MAX_TIMER } from "../async.ts";
import { environmentVariable, IS_UNSET } from "../environment.ts";
import type { Issue } from "../errors.ts";
import { Log, type Logger } from "../logger.ts";
import type { Booking, Listing } from "../models/records.ts";
import { isSchema, mixesZod, type StandardSchema } from "../models/standard-schema.ts";
import {
  abortSignal,
  callable,
  check,
  durationFrom,
  integerFrom,
  logger,
  option,
  optionsObject,
} from "../options.ts";
import { type Observers, observersOf } from "./observers.ts";
import { checkBaseUrl } from "./urls.ts";

/** Headers by name. The client omits a header that is `undefined`. */
export type HeadersInput =
  | Headers
  | readonly [string, string][]
  | Readonly<Record<string, string | undefined>>;

/**
 * The access token, or a function that gives it. The function may cache tokens. The client calls the function before
 * each attempt of an API call. After the first 401, the client calls the function again, and uses the new token until
 * the API call ends.
 */
export type AccessToken =
  | string
  | ((request: {
      /** The account of a client from `client.account(id)`. It is `undefined` for any other client. */
      readonly account: string | undefined;
      /** The reason for the call: `initial` before an attempt, or `unauthorized` after a 401. */
      readonly reason: "initial" | "unauthorized";
    }) => string | Promise<string>);

/** Query parameters by name. The client omits `undefined` and `null`. `{ id: [1, 2] }` becomes `id=1&id=2`. */
export type QueryInput = Readonly<Record<string, QueryValue | readonly QueryValue[] | null | undefined>>;
/** The value of a query parameter. */
export type QueryValue = string | number | boolean;

/** A function that sends a request, like `fetch`. Its first argument is the URL as text. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** One page of a list, as {@link ClientOptions.nextPage} gets it. */
export interface ListPage {
  /** The parsed JSON of the page. */
  readonly body: unknown;
  /** The status and headers of the page. */
  readonly response: Response;
  /** The query that `nextPage` gave for this page; `{}` for the first page. */
  readonly query: QueryInput;
}

/** The options of {@link StayhookClient}. */
export interface ClientOptions<B extends Booking = Booking, L extends Listing = Listing> extends Observers {
  /**
   * The URL of the platform's API: https, or http on a loopback host. A path in the URL is a prefix for all requests.
   * Must not end in `/v2`, which the client adds. Default, only if you leave the option out: the environment variable
   * `STAYHOOK_BASE_URL`.
   */
  baseUrl?: string | URL;
  /** Allows http for any host. Default `false`: with http, anyone on the network path could read the token. */
  allowInsecureHttp?: boolean | undefined;
  /**
   * The token, or a function that gives it. The client and its errors never show the token. Default, only if you leave
   * the option out: the environment variable `STAYHOOK_ACCESS_TOKEN`. `undefined` is an error, because it is probably the
   * value of a misspelt environment variable.
   */
  accessToken?: AccessToken;
  /**
   * Your own schemas for records, for example with more fields. Any library that follows Standard Schema works. The
   * outputs of the schemas must extend {@link Booking} and {@link Listing}.
   */
  models?:
    | {
        /** The schema of bookings. Default: `Booking`. */
        booking?: StandardSchema<B> | undefined;
        /** The schema of listings. Default: `Listing`. */
        listing?: StandardSchema<L> | undefined;
      }
    | undefined;
  /**
   * The time limit of each attempt, including the token, redirects and the body: ms, or a text such as `"30s"`. Default
   * `"10s"`.
   */
  timeout?: number | string | undefined;
  /** The largest number of retries of a request. Default 2. */
  maxRetries?: number | undefined;
  /**
   * Gives the query of the next page, or `undefined` after the last page. With `nextPage`, `listings.list()` reads
   * all pages, at most 1,000. Default: the client reads only the first page, and logs a warning if the answer hints
   * at more pages.
   *
   * @example
   * ```ts
   * nextPage: ({ body }) => {
   *   const { next } = body as { next?: string };
   *   return next ? { cursor: next } : undefined;
   * }
   * ```
   */
  nextPage?: ((page: ListPage) => QueryInput | undefined | Promise<QueryInput | undefined>) | undefined;
  /** Sends the requests in place of the runtime's own `fetch`. */
  fetch?: Fetch | undefined;
  /** Headers for every request. They may replace any header except `authorization`. */
  headers?: HeadersInput | undefined;
  /**
   * Further observers of each request: `telemetry()` of `stayhook/otel`, which makes a span for each request, or your
   * own object. Default: none.
   */
  telemetry?: Observers | undefined;
  /** Writes the log lines of the client, with a debug line for each request. Default: warnings go to the console. */
  logger?: Logger | undefined;
}

/** The options of a single call. */
export interface RequestOptions {
  /** When this signal aborts, the call rejects with an `AbortError`. */
  signal?: AbortSignal | undefined;
  /** The time limit of each attempt: ms, or a text such as `"30s"`. Default: the client's `timeout`. */
  timeout?: number | string | undefined;
  /** The largest number of retries. Default: the client's `maxRetries`. */
  maxRetries?: number | undefined;
  /** Headers for this call. They override the client's headers. */
  headers?: HeadersInput | undefined;
  /** Query parameters for this call. */
  query?: QueryInput | undefined;
}

/** The client's checked options, with the defaults filled in. */
export type Settings = ReturnType<typeof checkOptions>;

/** Returns the problem with a bearer token, or `undefined` if the token is valid. Never shows the token. */
export function problemWithToken(token: unknown): string | undefined {
  if (typeof token !== "string") return "must be a string";
  if (token.trim() === "") return "must not be empty";
  // Check the characters here, because the runtime's error message would show the token.
  if (/[^\t\x20-\x7e\x80-\xff]/.test(token))
    return "must not have control characters, line breaks or characters beyond Latin-1";
  // `fetch` removes the white space. The platform's echo of the token would then differ, and errors would show the echo.
  if (token.trim() !== token) return "must not begin or end with white space";
  return /^bearer\s/i.test(token) ? "must not begin with `Bearer`, which the client adds" : undefined;
}

const telemetryFunctions = ["recorded", "process", "onRequest", "onResponse", "observe", "watch"] as const;

/** Returns the problem with the option `telemetry`, or `undefined`. Each function of the object may be missing. */
export function problemWithTelemetry(given: unknown): string | undefined {
  if (typeof given !== "object" || given === null)
    return "must be an object, such as the result of telemetry()";
  const functions = given as Readonly<Record<string, unknown>>;
  const wrong = telemetryFunctions.find(
    (name) => !["function", "undefined"].includes(typeof functions[name]),
  );
  return wrong && `\`${wrong}\` must be a function`;
}

function model(name: "booking" | "listing") {
  return option((schema) => {
    if (!isSchema(schema)) return "must be a Standard Schema, such as a zod schema";
    return mixesZod(schema)
      ? `\`models.${name}\` mixes zod 3 and zod 4. Make all parts of the schema with zod 4`
      : undefined;
  }).optional();
}

const limits = () => ({
  timeout: durationFrom(
    Number.MIN_VALUE,
    MAX_TIMER,
    `must be a number of ms, above 0 and up to ${MAX_TIMER}`,
  ).optional(),
  maxRetries: integerFrom(0, Number.MAX_SAFE_INTEGER, "must be an integer, 0 or more").optional(),
  headers: z.unknown().optional().transform(toHeaders),
});

const clientSchema = () =>
  optionsObject({
    baseUrl: z.unknown().optional(),
    allowInsecureHttp: z.unknown().optional(),
    accessToken: z.unknown().optional(),
    models: optionsObject({ booking: model("booking"), listing: model("listing") }).optional(),
    ...limits(),
    nextPage: callable<NonNullable<ClientOptions["nextPage"]>>().optional(),
    fetch: callable<Fetch>().optional(),
    logger: logger().optional(),
    onRequest: callable<NonNullable<ClientOptions["onRequest"]>>().optional(),
    onResponse: callable<NonNullable<ClientOptions["onResponse"]>>().optional(),
    telemetry: option<Observers>(problemWithTelemetry).optional(),
  });

/**
 * Makes the issue of an option that may also come from an environment variable.
 *
 * @param given - the options, or `{}`
 */
function issueOf(option: "baseUrl" | "accessToken", given: object, problem: string, variable: string): Issue {
  if (!(option in given)) return { path: [option], message: `${problem}. Or set ${variable}` };
  // A misspelt environment variable must not become the default, which may belong to another account.
  if (isUndefined(given, option))
    return { path: [option], message: `${problem}, not undefined. ${leaveOut(variable)}` };
  const isEmpty = (given as Readonly<Record<string, unknown>>)[option] === "";
  return { path: [option], message: isEmpty ? `${problem} ${IS_UNSET}` : problem };
}

const leaveOut = (variable: string) =>
  `Is the name of your environment variable right? To use ${variable}, leave the option out`;

const isUndefined = (given: object, option: string) =>
  option in given && (given as Readonly<Record<string, unknown>>)[option] === undefined;

/** @throws InvalidArgumentError naming each option that is wrong */
export function checkOptions<B extends Booking, L extends Listing>(options: ClientOptions<B, L>) {
  const own: ClientOptions<B, L> = Object(options);
  // Only an option that is left out has its default in the environment.
  const orVariable = <T>(option: "baseUrl" | "accessToken", value: T, variable: string) =>
    option in own ? value : environmentVariable(variable);
  const baseUrl = orVariable("baseUrl", own.baseUrl, "STAYHOOK_BASE_URL");
  const accessToken = orVariable("accessToken", own.accessToken, "STAYHOOK_ACCESS_TOKEN");
  const url = checkBaseUrl(baseUrl, own.allowInsecureHttp === true);
  const problem = typeof accessToken === "function" ? undefined : problemWithToken(accessToken);
  const before: Issue[] = [];
  if (typeof url === "string") before.push(issueOf("baseUrl", own, url, "STAYHOOK_BASE_URL"));
  if (problem !== undefined)
    before.push(
      issueOf(
        "accessToken",
        own,
        problem.replace("a string", "a string or a function"),
        "STAYHOOK_ACCESS_TOKEN",
      ),
    );
  const checked = check(clientSchema, options ?? {}, { before });
  const log = new Log(checked.logger);
  const given = { ...checked, baseUrl: url as URL, accessToken: accessToken as AccessToken };
  return {
    /** The options as they were read, which a clone begins with. */
    given: given as ClientOptions<B, L>,
    baseUrl: url as URL,
    accessToken: accessToken as AccessToken,
    timeout: checked.timeout ?? 10_000,
    maxRetries: checked.maxRetries ?? 2,
    // Look up `fetch` at each call, because tests and tracing may replace it later.
    fetch: checked.fetch ?? ((input, init) => globalThis.fetch(input, init)),
    headers: checked.headers,
    log,
    observers: observersOf(checked, checked.telemetry, log),
    nextPage: checked.nextPage,
  };
}

export const requestShape = () => ({
  ...limits(),
  signal: abortSignal().optional(),
  query: querySchema(),
});
const requestSchema = () => optionsObject(requestShape());

/** Stands for the options of a call without options. `checkRequestOptions` does not check this object. */
export const noOptions: RequestOptions = {};

/** @throws InvalidArgumentError naming each option that is wrong */
export function checkRequestOptions(options: RequestOptions): {
  readonly headers?: Headers | undefined;
  /** ms. */
  readonly timeout?: number | undefined;
} {
  return options === noOptions ? {} : check(requestSchema, options);
}

export const querySchema = () =>
  z
    .unknown()
    .optional()
    .superRefine((query, context) => {
      if (query === undefined) return;
      if (typeof query !== "object" || query === null)
        return context.addIssue("must be an object, such as { page: 2 }");
      for (const [name, value] of Object.entries(query))
        if (![value].flat().every(isSendable))
          context.addIssue({
            code: "custom",
            path: [name],
            message: "must be a string, a number, a boolean or a list of such values",
          });
    });

function isSendable(value: unknown): boolean {
  return ["string", "number", "boolean", "undefined"].includes(typeof value) || value === null;
}

/** Returns `undefined` if no headers are given: `new Headers()` takes longer than all other checks of a call. */
function toHeaders(given: unknown, context: z.RefinementCtx): Headers | undefined {
  if (given === undefined) return undefined;
  const headers = new Headers();
  if (typeof given !== "object" || given === null) {
    context.addIssue("must be a Headers object, or an object of header names and values");
    return headers;
  }
  const entries: Iterable<[string, string | undefined]> =
    given instanceof Headers || Array.isArray(given) ? given : Object.entries(given);
  for (const [name, value] of entries) {
    if (value === undefined) continue;
    try {
      headers.set(name, value);
    } catch {
      // The runtime's message would show the value, which may be a secret.
      context.addIssue({ code: "custom", path: [name], message: "must have a valid header name and value" });
    }
  }
  return headers;
}
