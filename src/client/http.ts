import { InvalidArgumentError, type Issue } from "../errors.ts";
import { version } from "../version.ts";
import {
  APIError,
  type APIErrorInit,
  ConnectionError,
  messageIn,
  NotFoundError,
  ResponseValidationError,
  retryAfterMs,
} from "./client-errors.ts";
import {
  checkRequestOptions,
  noOptions,
  type Query,
  type RequestOptions,
  type Settings,
} from "./client-options.ts";
import {
  attempt,
  type Body,
  describeRedirect,
  type Exchange,
  failureOf,
  maxBodyBytes,
  type Outgoing,
  TokenSource,
} from "./http-attempt.ts";
import { redactor } from "./redact.ts";
import type { Path } from "./urls.ts";

export const methods = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH"] as const;
export type Method = (typeof methods)[number];

/** The data of an answer, and the HTTP response. */
export interface WithResponse<out T> {
  /** The data that the call resolves to without `withResponse()`. */
  readonly data: T;
  /** The HTTP response. Its body has already been read: use the property `body` instead. */
  readonly response: Response;
  /** The parsed JSON body, or the text of a body that is not JSON. `undefined` if the body is empty. */
  readonly body: unknown;
}

/** A promise of an answer's data. Its method `withResponse` also gives the HTTP response. */
export interface ApiPromise<out T> extends Promise<T> {
  /**
   * Gives the data together with the HTTP response.
   *
   * @example
   * ```ts
   * const { data, response } = await client.bookings.get("HX3K9").withResponse();
   * console.log(response.headers.get("x-ratelimit-remaining"));
   * ```
   */
  withResponse(): Promise<WithResponse<T>>;
}

export function apiPromise<T>(answered: Promise<WithResponse<T>>): ApiPromise<T> {
  const data = answered.then((answer) => answer.data);
  return Object.assign(data, {
    withResponse: () => {
      // Mark the rejection of `data` as handled, because the caller gets the error from the returned promise.
      data.catch(() => {});
      return answered.then((answer) => answer);
    },
  });
}

/** One call to the platform. */
export interface Call {
  readonly method: Method;
  readonly path: Path;
  /** The query parameters of the endpoint. They override the query in `options`. */
  readonly query?: Query | undefined;
  /** The body, which the client sends as JSON. */
  readonly body?: unknown;
  /** The parts of the body that no error may show, even if the platform's answer contains these parts. */
  readonly secrets?: readonly string[] | undefined;
  /** Whether the call is idempotent. Default: `true` for all methods except POST and PATCH. */
  readonly repeatable?: boolean | undefined;
  /** Whether 404 and 410 are valid answers instead of errors. */
  readonly mayBeMissing?: boolean | undefined;
  readonly options: RequestOptions;
}

type Extras = Pick<Call, "query" | "repeatable" | "mayBeMissing"> & {
  /** Makes the body. If this function throws because of a bad argument, the call rejects. */
  readonly body?: () => unknown;
  readonly secrets?: (body: unknown) => string[];
};

export function callEndpoint<T>(
  http: Http,
  method: Method,
  path: Path,
  read: Reader<T>,
  options: RequestOptions | undefined,
  { body: makeBody, secrets, ...extras }: Extras = {},
): ApiPromise<T> {
  const answered = async () => {
    const body = makeBody?.();
    const call: Call = {
      method,
      path,
      options: options ?? noOptions,
      body,
      secrets: secrets?.(body),
      ...extras,
    };
    const answer = await http.send(call);
    return { data: await read(answer), response: answer.response, body: answer.body.value };
  };
  return apiPromise(answered());
}

/**
 * The library ky, which is imported only for a retry. The import takes 40 ms, and a call takes a third longer with ky
 * than without ky.
 */
let ky: typeof import("ky") | undefined;

/** Sends calls. The retries use the library ky, which no other file imports. */
export class Http {
  readonly #settings: Settings;
  readonly #tokens: TokenSource;
  readonly #base: string;
  readonly #headers: Headers;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#tokens = new TokenSource(settings.accessToken);
    const { baseUrl } = settings;
    this.#base = baseUrl.origin + baseUrl.pathname.replace(/\/$/, "");
    this.#headers = new Headers({ accept: "application/json", "user-agent": `stayhook/${version}` });
    for (const [name, value] of settings.headers ?? []) this.#headers.set(name, value);
  }

  async send(call: Call): Promise<Answer> {
    const outgoing = this.#outgoing(call);
    const limit = call.options.maxRetries ?? this.#settings.maxRetries;
    try {
      return await this.#sendOnce(call, outgoing);
    } catch (failure) {
      if (limit === 0 || retryDelay(failure, isRepeatable(call), 1) === undefined) throw failure;
      return await this.#retry(call, outgoing, limit, failure);
    }
  }

  /** @throws StayhookError */
  async #sendOnce(call: Call, outgoing: Outgoing): Promise<Answer> {
    const { signal, timeout } = outgoing;
    const ending = new AbortController();
    const abort = (): void => ending.abort(signal?.reason);
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      ending.abort();
    }, timeout);
    try {
      if (signal?.aborted) throw signal.reason;
      signal?.addEventListener("abort", abort);
      return await this.#attempt(call, outgoing, 1, ending.signal);
    } catch (error) {
      throw failureOf(error, outgoing, timedOut);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }

  /** @param first - the failure of the first attempt */
  async #retry(call: Call, outgoing: Outgoing, limit: number, first: unknown): Promise<Answer> {
    ky ??= await import("ky");
    const { default: send, TimeoutError } = ky;
    const failure = (error: unknown) => failureOf(error, outgoing, error instanceof TimeoutError);
    let attempts = 0;
    let wait = 0;
    let answer: Answer | undefined;
    try {
      await send(outgoing.url, {
        method: call.method,
        timeout: outgoing.timeout,
        signal: outgoing.signal ?? null,
        throwHttpErrors: false,
        retry: {
          limit,
          methods: [call.method.toLowerCase() as "get"],
          shouldRetry: ({ error, retryCount }) => {
            const delay = retryDelay(failure(error), isRepeatable(call), retryCount);
            wait = delay ?? 0;
            return delay !== undefined;
          },
          delay: () => wait,
        },
        fetch: async (request) => {
          attempts += 1;
          if (attempts === 1) throw first;
          answer = await this.#attempt(call, outgoing, attempts, (request as Request).signal);
          return answer.response;
        },
      });
    } catch (error) {
      throw failure(error);
    }
    return answer as Answer;
  }

  async #attempt(call: Call, outgoing: Outgoing, number: number, signal: AbortSignal): Promise<Answer> {
    const exchange = await attempt(outgoing, number, signal, this.#settings, this.#tokens);
    // A retried DELETE may get a 404, because an earlier attempt deleted the record.
    const mayBeMissing = call.mayBeMissing === true || (call.method === "DELETE" && number > 1);
    return new Answer(exchange, outgoing, mayBeMissing);
  }

  /** @throws InvalidArgumentError if an argument is invalid, before the client sends anything */
  #outgoing(call: Call): Outgoing {
    const { method, options } = call;
    const { headers: given } = checkRequestOptions(options);
    const { path, query } = call.path.build();
    const body = bodyOf(call);
    const url = new URL(this.#base + path);
    const search = [query, searchOf({ ...options.query, ...call.query })].filter(Boolean).join("&");
    if (search !== "") url.search = search;
    const secrets = new Set<string>(call.secrets);
    return {
      method,
      url,
      route: call.path.route,
      path,
      headers: this.#headersOf(given, body !== undefined),
      body,
      signal: options.signal,
      timeout: options.timeout ?? this.#settings.timeout,
      secrets,
      redact: redactor(secrets),
      sends: 0,
    };
  }

  /** Merges the client's headers with the headers of one call. Makes no copy if the call adds no header. */
  #headersOf(given: Headers | undefined, hasBody: boolean): Headers {
    const own = [...(given ?? [])];
    if (own.length === 0 && !hasBody) return this.#headers;
    const headers = new Headers(this.#headers);
    if (hasBody && !headers.has("content-type")) headers.set("content-type", "application/json");
    for (const [name, value] of own) headers.set(name, value);
    return headers;
  }
}

function isRepeatable({ method, repeatable = method !== "POST" && method !== "PATCH" }: Call): boolean {
  return repeatable;
}

/** Reads the data from an answer, or throws the error that the answer reports. */
export type Reader<T> = (answer: Answer) => T | Promise<T>;

/** The answer to a call: a 2xx, or a 404 or 410 if `mayBeMissing` allows these statuses. */
export class Answer implements Exchange {
  readonly response: Response;
  readonly body: Body;
  readonly mayBeMissing: boolean;
  /** Whether the status is 404 or 410. */
  readonly missing: boolean;
  readonly #outgoing: Outgoing;

  /** @throws APIError if the status is not 2xx. If `mayBeMissing` is set, 404 and 410 do not throw */
  constructor({ response, body }: Exchange, outgoing: Outgoing, mayBeMissing: boolean) {
    const { status } = response;
    this.response = response;
    this.body = body;
    this.mayBeMissing = mayBeMissing;
    this.missing = mayBeMissing && (status === 404 || status === 410);
    this.#outgoing = outgoing;
    if (!this.missing && (status < 200 || status > 299))
      throw APIError.of(this.#errorInit(describeRedirect(response)));
  }

  /** Makes the error for an unexpected body. */
  invalid(
    issues: readonly Issue[],
    { cause, valid }: { readonly cause?: unknown; readonly valid?: readonly unknown[] } = {},
  ): ResponseValidationError {
    const { method, path, redact } = this.#outgoing;
    return new ResponseValidationError(
      `${method} ${path}`,
      this.body.truncated
        ? [{ path: [], message: `the body is longer than ${maxBodyBytes} bytes` }]
        : redact.issues(issues),
      redact.json(this.body.value),
      { valid, ...(cause !== undefined && { cause: redact.cause(cause) }) },
    );
  }

  /** Makes the error for a body that reports a missing record. */
  notFound(): NotFoundError {
    return new NotFoundError(this.#errorInit(messageIn(this.body.value) ?? "there is no such record"));
  }

  /** Makes the error for a body that reports a failure. */
  failed(): APIError {
    return new APIError(this.#errorInit(messageIn(this.body.value) ?? "the answer reports a failure"));
  }

  #errorInit(detail: string | undefined): APIErrorInit {
    const { method, path, redact } = this.#outgoing;
    return {
      status: this.response.status,
      headers: redact.headers(this.response.headers),
      body: redact.json(this.body.value),
      method,
      path,
      detail: detail === undefined ? undefined : redact.text(detail),
    };
  }
}

function bodyOf(call: Call): string | undefined {
  if (call.body === undefined) return undefined;
  const refusal = (message: string): Error => new InvalidArgumentError({ path: ["body"], message });
  if (call.method === "GET" || call.method === "HEAD") throw refusal(`cannot be sent with ${call.method}`);
  let text: string | undefined;
  try {
    text = JSON.stringify(call.body);
  } catch {
    // The body has a circular object or a bigint. The check of `text` below throws.
  }
  if (text === undefined) throw refusal("cannot be written as JSON");
  return text;
}

/** Encodes a query for a URL. */
export function searchOf(query: Query): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    for (const one of Array.isArray(value) ? value : [value])
      if (one !== undefined && one !== null) search.append(name, String(one));
  return search.toString();
}

/** The longest wait before a retry, ms. If `Retry-After` asks for a longer wait, the client does not retry. */
const maxWait = 60_000;

/**
 * Returns the wait before a retry, ms, or `undefined` if the client must not retry the call.
 *
 * @param repeatable - whether the call is idempotent
 * @param retry - the number of the retry, from 1
 */
function retryDelay(error: unknown, repeatable: boolean, retry: number): number | undefined {
  const asked = error instanceof APIError ? retryAfterMs(error.headers) : undefined;
  if (!(repeatable ? isTransient(error) : hadNoEffect(error, asked))) return undefined;
  const wait = asked ?? backoff(retry);
  return wait > maxWait ? undefined : wait;
}

function isTransient(error: unknown): boolean {
  if (!(error instanceof APIError)) return error instanceof ConnectionError;
  return error.status === 408 || error.status === 429 || error.status >= 500;
}

function hadNoEffect(error: unknown, asked: number | undefined): boolean {
  if (!(error instanceof APIError)) return false;
  return error.status === 429 || (error.status === 503 && asked !== undefined);
}

/** Returns the wait, ms: 500, doubled for each further retry up to 8000. Jitter subtracts up to half of the wait. */
function backoff(retry: number): number {
  return Math.min(500 * 2 ** (retry - 1), 8000) * (1 - Math.random() / 2);
}
