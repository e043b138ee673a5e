import ky, { TimeoutError } from "ky";
import { InvalidArgumentError, type Issue } from "../errors.ts";
import { version } from "../version.ts";
import { attempt, type Exchange, type Outgoing } from "./attempt.ts";
import { APIError, ResponseValidationError } from "./errors.ts";
import { failureOf } from "./failure.ts";
import { checkRequestOptions, type Query, type RequestOptions, type Settings } from "./options.ts";
import type { Path } from "./path.ts";
import { maxBodyBytes } from "./read-body.ts";
import { redactor } from "./redact.ts";
import { describeRedirect } from "./redirect.ts";
import { retryDelay } from "./retry.ts";
import { TokenSource } from "./token.ts";

export const methods = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH"] as const;
export type Method = (typeof methods)[number];

/** One call to the platform. */
export interface Call {
  readonly method: Method;
  readonly path: Path;
  /** Parameters that belong to the endpoint; before those in `options`. */
  readonly query?: Query | undefined;
  /** What is sent as JSON. */
  readonly body?: unknown;
  /** What in the body no error may show, even if the platform echoes it. */
  readonly secrets?: readonly string[] | undefined;
  /** Doing it twice is the same as doing it once. Default: by its method. */
  readonly repeatable?: boolean | undefined;
  /** A 404 is an answer, not an error. */
  readonly mayBeMissing?: boolean | undefined;
  readonly options: RequestOptions;
}

/** The platform's answer to a call, after retries; a success, or a 404 that means there is none. */
export interface Answer extends Exchange {
  readonly missing: boolean;
  /** The error to throw where the body is not what was asked for. */
  invalid(issues: readonly Issue[], cause?: unknown): ResponseValidationError;
}

/** Sends calls. The one place that knows ky, which carries the retries and the timer. */
export class Http {
  readonly #settings: Settings;
  readonly #tokens: TokenSource;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#tokens = new TokenSource(settings.accessToken);
  }

  async send(call: Call): Promise<Answer> {
    const { signal, timeout = this.#settings.timeout, maxRetries = this.#settings.maxRetries } = call.options;
    const outgoing = this.#outgoing(call);
    const repeatable = call.repeatable ?? (call.method !== "POST" && call.method !== "PATCH");
    const failure = (error: unknown) => failureOf(error, outgoing, error instanceof TimeoutError);
    let attempts = 0;
    let wait = 0;
    let answer: Answer | undefined;
    try {
      if (signal?.aborted) throw signal.reason;
      await ky(outgoing.url, {
        method: call.method,
        timeout,
        signal: signal ?? null,
        throwHttpErrors: false,
        retry: {
          limit: maxRetries,
          methods: [call.method.toLowerCase() as "get"],
          shouldRetry: ({ error, retryCount }) => {
            const delay = retryDelay(failure(error), repeatable, retryCount);
            wait = delay ?? 0;
            return delay !== undefined;
          },
          delay: () => wait,
        },
        fetch: async (request) => {
          const number = ++attempts;
          const attemptSignal = (request as Request).signal;
          const exchange = await attempt(outgoing, number, attemptSignal, this.#settings, this.#tokens);
          answer = answerOf(exchange, outgoing, call, number);
          return exchange.response;
        },
      });
    } catch (error) {
      throw failure(error);
    }
    return answer as Answer;
  }

  /** @throws InvalidArgumentError before anything is sent */
  #outgoing(call: Call): Outgoing {
    const { headers: given } = checkRequestOptions(call.options);
    const { path, query } = call.path.build();
    const body = bodyOf(call);
    const headers = new Headers({ accept: "application/json", "user-agent": `stayhook/${version}` });
    if (body !== undefined) headers.set("content-type", "application/json");
    for (const [name, value] of [...this.#settings.headers, ...given]) headers.set(name, value);
    const { baseUrl } = this.#settings;
    const search = [query, searchOf({ ...call.options.query, ...call.query })]
      .filter((part) => part !== "")
      .join("&");
    const url = new URL(baseUrl.origin + baseUrl.pathname.replace(/\/$/, "") + path);
    url.search = search;
    const secrets = new Set<string>(call.secrets);
    const { method, options } = call;
    const { route } = call.path;
    return {
      method,
      url,
      route,
      path,
      headers,
      body,
      signal: options.signal,
      secrets,
      redact: redactor(secrets),
    };
  }
}

function answerOf(exchange: Exchange, outgoing: Outgoing, call: Call, attempts: number): Answer {
  const { response, body } = exchange;
  const { method, path, redact } = outgoing;
  // A DELETE that is tried again finds gone what its first attempt has deleted.
  const missing =
    response.status === 404 && (call.mayBeMissing === true || (method === "DELETE" && attempts > 1));
  const success = response.status >= 200 && response.status <= 299;
  if (!success && !missing) {
    const redirect = describeRedirect(response);
    throw APIError.of({
      status: response.status,
      headers: redact.headers(response.headers),
      body: redact.json(body.value),
      method,
      path,
      detail: redirect === undefined ? undefined : redact.text(redirect),
    });
  }
  return {
    ...exchange,
    missing,
    invalid: (issues, cause) =>
      new ResponseValidationError(
        `${method} ${path}`,
        body.truncated
          ? [{ path: [], message: `is longer than ${maxBodyBytes} bytes` }]
          : redact.issues(issues),
        redact.json(body.value),
        cause === undefined ? undefined : { cause: redact.cause(cause) },
      ),
  };
}

function bodyOf(call: Call): string | undefined {
  if (call.body === undefined) return undefined;
  const refusal = (message: string): Error => new InvalidArgumentError({ path: ["body"], message });
  if (call.method === "GET" || call.method === "HEAD") throw refusal(`cannot be sent with ${call.method}`);
  let text: string | undefined;
  try {
    text = JSON.stringify(call.body);
  } catch {
    // A circle or a bigint: the same as what has no JSON at all.
  }
  if (text === undefined) throw refusal("cannot be written as JSON");
  return text;
}

function searchOf(query: Query): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    for (const one of Array.isArray(value) ? value : [value])
      if (one !== undefined && one !== null) search.append(name, String(one));
  return search.toString();
}
