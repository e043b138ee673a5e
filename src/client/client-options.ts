import * as z from "zod";
import { MAX_TIMER } from "../async.ts";
import { Log, type Logger } from "../logger.ts";
import type { Booking, Listing } from "../models/records.ts";
import { isSchema, mixesZod, type StandardSchema } from "../models/standard-schema.ts";
import {
  abortSignal,
  callable,
  check,
  integerFrom,
  logger,
  numberFrom,
  option,
  optionsObject,
} from "../options.ts";
import type { StayhookError } from "./client-errors.ts";
import { checkBaseUrl } from "./urls.ts";

/** Headers by name. A header that is `undefined` is left out. */
export type HeadersInput =
  | Headers
  | readonly [string, string][]
  | Readonly<Record<string, string | undefined>>;

/**
 * The access token, or a function that gives it. The client calls the function before each attempt (`initial`), and
 * once more in a call whose token the platform refused (`unauthorized`). The function may cache its tokens.
 */
export type AccessToken =
  | string
  | ((request: {
      /** Why the client asks: for an attempt, or because the platform refused the token. */
      readonly reason: "initial" | "unauthorized";
    }) => string | Promise<string>);

/** Query parameters by name. One that is `undefined` or `null` is left out. A list repeats its parameter. */
export type Query = Readonly<Record<string, QueryValue | readonly QueryValue[] | null | undefined>>;
type QueryValue = string | number | boolean;

/** A function that sends a request, as `fetch` does. The client calls it with the URL as text. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** A request that the client is about to send. */
export interface RequestObservation {
  /** The HTTP method. */
  readonly method: string;
  /** The path with the names of its parameters: `/v2/bookings/{bookingCode}`. For `client.request` the path as given. */
  readonly route: string;
  /** The path with the values of its parameters, without the query. */
  readonly path: string;
  /** 1 for the first attempt. A request that is sent again with a new token, or redirected, is of the same attempt. */
  readonly attempt: number;
}

/** The end of a request: a `status`, or an `error` where no complete answer came. */
export type ResponseObservation = RequestObservation & {
  /** ms from the request to the end of the body. */
  readonly duration: number;
} & (
    | {
        /** The HTTP status of the answer. */
        readonly status: number;
        /** Absent: the request got a complete answer. */
        readonly error?: undefined;
      }
    | {
        /** The error of a request that got no complete answer. */
        readonly error: StayhookError;
        /** Absent: the request got no complete answer. */
        readonly status?: undefined;
      }
  );

/** The functions that the client calls for each request that it sends. It logs the errors that they throw. */
export interface Observers {
  /** Called before each request. */
  readonly onRequest?: ((request: RequestObservation) => unknown) | undefined;
  /** Called at the end of each request. */
  readonly onResponse?: ((response: ResponseObservation) => unknown) | undefined;
}

/** A request to the platform, as {@link RequestTelemetry} gets it. */
export interface TracedRequest extends RequestObservation {
  /** The URL without its query. It shows no secret. */
  readonly url: string;
  /** How often the call has been sent before: by a retry, with a new token, or before a redirect. */
  readonly resendCount: number;
}

/** The part of a `Telemetry` that the client uses. */
export interface RequestTelemetry {
  /**
   * Wraps a request. Has to call `run` once and to resolve to its result.
   *
   * @param run - sends the request and reads the answer. Rejects where there is no complete answer
   */
  request<R extends { readonly status: number }>(info: TracedRequest, run: () => Promise<R>): Promise<R>;
}

/** One page of a list, as {@link ClientOptions.nextPage} gets it. */
export interface ListPage {
  /** The parsed JSON of the page. */
  readonly body: unknown;
  /** The status and headers of the page. */
  readonly response: Response;
  /** The query that `nextPage` gave for this page; `{}` for the first page. */
  readonly query: Query;
}

/** The options of {@link StayhookClient}. */
export interface ClientOptions<B extends Booking = Booking, L extends Listing = Listing> extends Observers {
  /**
   * The URL of the platform's API: https, or http on a loopback host. A path is kept as a prefix. By convention it comes
   * from the environment variable `STAYHOOK_BASE_URL`, which the command line tool reads as well.
   *
   * @example
   * ```ts
   * baseUrl: process.env.STAYHOOK_BASE_URL ?? "",
   * ```
   */
  baseUrl: string | URL;
  /** Allows http for any host. Default `false`, because others on the way could read the access token. */
  allowInsecureHttp?: boolean | undefined;
  /**
   * The token, or a function that gives it. The client and its errors never show it. By convention it comes from the
   * environment variable `STAYHOOK_ACCESS_TOKEN`, which the command line tool reads as well.
   *
   * @example
   * ```ts
   * accessToken: process.env.STAYHOOK_ACCESS_TOKEN ?? "",
   * ```
   */
  accessToken: AccessToken;
  /**
   * Your own schemas for records, with fields that you know of. Any library that follows Standard Schema will do.
   * Their output has to extend {@link Booking} and {@link Listing}.
   */
  models?:
    | {
        /** The schema of bookings. Default: `Booking`. */
        booking?: StandardSchema<B> | undefined;
        /** The schema of listings. Default: `Listing`. */
        listing?: StandardSchema<L> | undefined;
      }
    | undefined;
  /** The time limit of each attempt, with its token, redirects and body. ms, default 10,000. */
  timeout?: number | undefined;
  /** How often the client tries a request again. Default 2. */
  maxRetries?: number | undefined;
  /**
   * Gives the query of the page after this one, or `undefined` after the last page. `listings.list()` then reads all
   * pages, 1,000 at most. Default: only the first page is read, and a warning says if there seem to be more.
   *
   * @example
   * ```ts
   * nextPage: ({ body }) => {
   *   const { next } = body as { next?: string };
   *   return next ? { cursor: next } : undefined;
   * }
   * ```
   */
  nextPage?: ((page: ListPage) => Query | undefined | Promise<Query | undefined>) | undefined;
  /** Sends the requests in place of the runtime's own `fetch`. */
  fetch?: Fetch | undefined;
  /** Headers for every request. They may replace any header but `authorization`. */
  headers?: HeadersInput | undefined;
  /** Makes a span of each request: `telemetry()` of `stayhook/otel`, or your own. Default: none. */
  telemetry?: RequestTelemetry | undefined;
  /** Writes the log lines of the client. Default: warnings go to the console. */
  logger?: Logger | undefined;
}

/** The options of a single call. */
export interface RequestOptions {
  /** Ends the call when it aborts. The call then rejects with an `AbortError`. */
  signal?: AbortSignal | undefined;
  /** The time limit of each attempt, ms. Default: the client's. */
  timeout?: number | undefined;
  /** How often the client tries the request again. Default: the client's. */
  maxRetries?: number | undefined;
  /** Headers for this call. They win over the client's. */
  headers?: HeadersInput | undefined;
  /** Query parameters for this call. */
  query?: Query | undefined;
}

/** The client's options after the check, with their defaults. */
export interface Settings {
  readonly baseUrl: URL;
  readonly accessToken: AccessToken;
  readonly timeout: number;
  readonly maxRetries: number;
  readonly fetch: Fetch;
  readonly headers: Headers | undefined;
  readonly log: Log;
  readonly observers: Observers;
  readonly telemetry: RequestTelemetry | undefined;
  readonly nextPage: ClientOptions["nextPage"];
}

/** Why a value cannot be sent as a bearer token; `undefined` if it can. It does not show the value. */
export function problemWithToken(token: unknown): string | undefined {
  if (typeof token !== "string") return "must be a string";
  if (token.trim() === "") return "must not be empty";
  // Checked here, because the runtime's message would show the token.
  return /[^\t\x20-\x7e\x80-\xff]/.test(token)
    ? "must hold only what a header can: no line breaks, no characters beyond Latin-1"
    : undefined;
}

const telemetryFunctions = ["recorded", "process", "request", "observe", "watch"] as const;

/** Checks the option `telemetry`, and returns its problem. Each of its functions may be missing. */
export function problemWithTelemetry(given: unknown): string | undefined {
  if (typeof given !== "object" || given === null) return "must be an object, such as telemetry() makes";
  const functions = given as Readonly<Record<string, unknown>>;
  const wrong = telemetryFunctions.find(
    (name) => !["function", "undefined"].includes(typeof functions[name]),
  );
  return wrong && `must have functions, but \`${wrong}\` is none`;
}

function model(name: "booking" | "listing") {
  return option((schema) => {
    if (!isSchema(schema)) return "must be a Standard Schema, such as zod's";
    return mixesZod(schema)
      ? `\`models.${name}\` mixes zod 3 and zod 4. Make all of its parts with zod 4`
      : undefined;
  }).optional();
}

const limits = () => ({
  timeout: numberFrom(
    Number.MIN_VALUE,
    MAX_TIMER,
    `must be a number of ms, above 0 and up to ${MAX_TIMER}`,
  ).optional(),
  maxRetries: integerFrom(0, Number.MAX_SAFE_INTEGER, "must be an integer from 0").optional(),
  headers: z.unknown().optional().transform(toHeaders),
});

const clientSchema = () =>
  optionsObject({
    baseUrl: z.unknown().optional(),
    allowInsecureHttp: z.unknown().optional(),
    accessToken: option<AccessToken>((given) =>
      typeof given === "function"
        ? undefined
        : problemWithToken(given)?.replace("a string", "a string or a function"),
    ),
    models: optionsObject({ booking: model("booking"), listing: model("listing") }).optional(),
    ...limits(),
    nextPage: callable<NonNullable<ClientOptions["nextPage"]>>().optional(),
    fetch: callable<Fetch>().optional(),
    logger: logger().optional(),
    onRequest: callable<NonNullable<ClientOptions["onRequest"]>>().optional(),
    onResponse: callable<NonNullable<ClientOptions["onResponse"]>>().optional(),
    telemetry: option<RequestTelemetry>(problemWithTelemetry).optional(),
  });

/** @throws InvalidArgumentError naming each option that is wrong */
export function checkOptions<B extends Booking, L extends Listing>(options: ClientOptions<B, L>): Settings {
  const given: ClientOptions<B, L> = Object(options);
  const baseUrl = checkBaseUrl(given.baseUrl, given.allowInsecureHttp === true);
  const before = typeof baseUrl === "string" ? [{ path: ["baseUrl"], message: baseUrl }] : [];
  const checked = check(clientSchema, options, { before });
  const { accessToken, timeout = 10_000, maxRetries = 2, headers, telemetry, nextPage } = checked;
  return {
    baseUrl: baseUrl as URL,
    accessToken,
    timeout,
    maxRetries,
    // Looked up at each call, because tests and tracing replace it later.
    fetch: checked.fetch ?? ((url, init) => globalThis.fetch(url, init)),
    headers,
    log: new Log(checked.logger),
    observers: { onRequest: checked.onRequest, onResponse: checked.onResponse },
    telemetry,
    nextPage,
  };
}

export const requestShape = () => ({
  ...limits(),
  signal: abortSignal().optional(),
  query: querySchema(),
});
const requestSchema = () => optionsObject(requestShape());

/** The options of a call without options, which need no check. */
export const noOptions: RequestOptions = {};

/** @throws InvalidArgumentError naming each option that is wrong */
export function checkRequestOptions(options: RequestOptions): { readonly headers?: Headers | undefined } {
  return options === noOptions ? {} : check(requestSchema, options);
}

export const querySchema = () =>
  z
    .unknown()
    .optional()
    .superRefine((query, context) => {
      if (query === undefined) return;
      if (typeof query !== "object" || query === null) return context.addIssue("must be an object");
      for (const [name, value] of Object.entries(query))
        if (![value].flat().every(isSendable))
          context.addIssue({
            code: "custom",
            path: [name],
            message: "must be a string, a number, a boolean or a list of them",
          });
    });

function isSendable(value: unknown): boolean {
  return ["string", "number", "boolean", "undefined"].includes(typeof value) || value === null;
}

/** Returns `undefined` for none: a `Headers` costs more than the other checks of a call together. */
function toHeaders(given: unknown, context: z.RefinementCtx): Headers | undefined {
  if (given === undefined) return undefined;
  const headers = new Headers();
  if (typeof given !== "object" || given === null) {
    context.addIssue("must be an object");
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
      context.addIssue({ code: "custom", path: [name], message: "must be a header's name and value" });
    }
  }
  return headers;
}

/** Calls an observer, which can neither delay nor break the request. */
export function notify<T>(observer: ((info: T) => unknown) | undefined, info: T, log: Log): void {
  if (!observer) return;
  const failed = (error: unknown): void =>
    log.warn("the client's `onRequest` or `onResponse` threw", { error, fromUserCode: true });
  try {
    Promise.resolve(observer(info)).catch(failed);
  } catch (error) {
    failed(error);
  }
}
