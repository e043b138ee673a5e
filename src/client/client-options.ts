import * as z from "zod";
import { MAX_TIMER } from "../async.ts";
import { environmentVariable, IS_UNSET } from "../environment.ts";
import type { Issue } from "../errors.ts";
import { Log, type Logger } from "../logger.ts";
import type { Booking, Listing } from "../models/records.ts";
import { isSchema, mixesZod, type StandardSchema } from "../models/standard-schema.ts";
import { callable, check, durationFrom, integerFrom, logger, option, optionsObject } from "../options.ts";
import { type Observers, observersOf } from "./observers.ts";
import { checkBaseUrl } from "./urls.ts";

/** Headers by name, or pairs of names and values, such as `Headers` or a `Map`. The client omits `undefined`. */
export type HeadersInput =
  | Headers
  | Iterable<readonly [string, string]>
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
/** The value of a query parameter. The client sends its text. */
export type QueryValue = string | number | boolean;
/** Query parameters as pairs of names and values, such as `URLSearchParams` or a `Map`. */
export type QueryPairs = URLSearchParams | Iterable<readonly [string, QueryInput[string]]>;

/** The part of a `Response` that the client needs. The responses of undici and node-fetch have it, too. */
export type FetchResponse = {
  /** The HTTP status. */
  readonly status: number;
  /** The headers of the answer. */
  readonly headers: {
    /** Returns the value of a header, or `null`. */
    get(name: string): string | null;
    /** Calls the function for each header. */
    forEach(callback: (value: string, name: string) => void): void;
  };
  /** Reads the body as text. */
  text(): Promise<string>;
};

/** The request that a {@link Fetch} sends. It is an `init` of every `fetch`, also of undici's and node-fetch's. */
export type FetchInit = {
  /** The HTTP method in upper case. */
  method?: string;
  /** The headers by name in lower case. `authorization` has the access token. */
  headers?: Record<string, string>;
  /** The JSON. Absent if the request has no body. */
  body?: string;
  /** `manual`, because the client follows redirects itself. */
  redirect?: "manual";
  /** Aborts at the time limit of the attempt, or when the signal of the call aborts. */
  signal?: AbortSignal;
  /** Absent in runtimes that do not know it. */
  cache?: "no-store";
};

/** A function that sends a request, like `fetch`. Its first argument is the URL as text. */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchResponse>;

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
  nextPage?:
    | ((page: ListPage) => QueryInput | QueryPairs | undefined | Promise<QueryInput | QueryPairs | undefined>)
    | undefined;
  /**
   * The longest body that the client reads, in bytes. A longer one is an error. Default 10,485,760 (10 MiB).
   */
  maxResponseBytes?: number | undefined;
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
  query?: QueryInput | QueryPairs | undefined;
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
    maxResponseBytes: integerFrom(
      1,
      Number.MAX_SAFE_INTEGER,
      "must be a number of bytes, 1 or more",
    ).optional(),
    fetch: callable<Fetch>().optional(),
    logger: logger().optional(),
    onRequest: callable<NonNullable<ClientOptions["onRequest"]>>().optional(),
    onResponse: callable<NonNullable<ClientOptions["onResponse"]>>().optional(),
    telemetry: option<Observers>(problemWithTelemetry).optional(),
  });

/** The environment variables that are the defaults of options. */
const variables = { baseUrl: "STAYHOOK_BASE_URL", accessToken: "STAYHOOK_ACCESS_TOKEN" } as const;
type Variable = keyof typeof variables;

/** Reads an option, or its variable if the option is left out. */
function read(given: Readonly<Record<string, unknown>>, option: Variable): unknown {
  return option in given ? given[option] : environmentVariable(variables[option]);
}

/** Returns the issue of such an option, with the way out. */
function issuesOf(given: Readonly<Record<string, unknown>>, option: Variable, problem?: string): Issue[] {
  if (problem === undefined) return [];
  const variable = variables[option];
  const issue = (wayOut: string): Issue[] => [{ path: [option], message: problem + wayOut }];
  if (!(option in given)) return issue(`. Or set ${variable}`);
  // A misspelt environment variable must not become the default, which may belong to another account.
  if (given[option] === undefined)
    return issue(
      `, not undefined. Is the name of your environment variable right? To use ${variable}, leave the option out`,
    );
  return issue(given[option] === "" ? ` ${IS_UNSET}` : "");
}

/** @throws InvalidArgumentError naming each option that is wrong */
export function checkOptions<B extends Booking, L extends Listing>(options: ClientOptions<B, L>) {
  const own: Readonly<Record<string, unknown>> = Object(options);
  const accessToken = read(own, "accessToken");
  const url = checkBaseUrl(read(own, "baseUrl"), own.allowInsecureHttp === true);
  const problem = typeof accessToken === "function" ? undefined : problemWithToken(accessToken);
  const before = [
    ...issuesOf(own, "baseUrl", typeof url === "string" ? url : undefined),
    ...issuesOf(own, "accessToken", problem?.replace("a string", "a string or a function")),
  ];
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
    maxResponseBytes: checked.maxResponseBytes ?? 10 * 1024 * 1024,
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
  // `fetch` refuses the signals of other implementations.
  signal: z
    .custom<AbortSignal>((signal) => signal instanceof AbortSignal, {
      error: "must be an AbortSignal of this runtime",
    })
    .optional(),
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
  readonly query?: QueryInput | undefined;
} {
  return options === noOptions ? {} : check(requestSchema, options);
}

export const querySchema = () => z.unknown().optional().transform(toQuery);

/** Returns the query as an object, in which a name that occurs several times has a list. */
function toQuery(given: unknown, context: z.RefinementCtx): QueryInput | undefined {
  if (given === undefined) return undefined;
  const entries = entriesOf(given);
  if (entries === undefined) {
    context.addIssue("must be an object, such as { page: 2 }, or pairs, such as URLSearchParams");
    return undefined;
  }
  const query: Record<string, QueryInput[string]> = Object.create(null);
  for (const [name, value] of entries) {
    const values = [value].flat();
    if (values.every(isSendable))
      query[name] = (name in query ? [query[name], values].flat() : value) as QueryValue[];
    else
      context.addIssue({
        code: "custom",
        path: [name],
        message: "must be a string, a number, a boolean or a list of such values",
      });
  }
  return isIterable(given as object) ? query : (given as QueryInput);
}

function isSendable(value: unknown): boolean {
  return ["string", "number", "boolean", "undefined"].includes(typeof value) || value === null;
}

export function isIterable(value: object): value is Iterable<unknown> {
  return Symbol.iterator in value;
}

/** Whether an object keeps its content out of sight, as a `Blob` does: `Object.entries` finds nothing in it. */
export function isOpaque(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  // The objects of other realms have a prototype of their own, which has none.
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  return !isPlain && Object.keys(value).length === 0;
}

/** Returns the names and values of an object, or of an iterable of pairs. `undefined` for anything else. */
function entriesOf(given: unknown): readonly (readonly [string, unknown])[] | undefined {
  if (typeof given !== "object" || given === null) return undefined;
  if (!isIterable(given)) return isOpaque(given) ? undefined : Object.entries(given);
  const pairs = [...given];
  const isPair = (pair: unknown) => Array.isArray(pair) && pair.length === 2 && typeof pair[0] === "string";
  return pairs.every(isPair) ? (pairs as [string, unknown][]) : undefined;
}

/** Returns `undefined` if no headers are given: `new Headers()` takes longer than all other checks of a call. */
function toHeaders(given: unknown, context: z.RefinementCtx): Headers | undefined {
  if (given === undefined) return undefined;
  const headers = new Headers();
  const entries = entriesOf(given);
  if (entries === undefined)
    context.addIssue("must be a Headers object, an object of header names and values, or pairs of them");
  for (const [name, value] of entries ?? []) {
    const values = [value].flat().filter((each) => each !== undefined);
    try {
      if (!values.every((each) => each !== null && isSendable(each))) throw new TypeError("not a text");
      for (const each of values) headers.append(name, String(each));
    } catch {
      // The runtime's message would show the value, which may be a secret.
      context.addIssue({ code: "custom", path: [name], message: "must have a valid header name and value" });
    }
  }
  return headers;
}
