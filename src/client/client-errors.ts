import { brand } from "../copies.ts";
import { setLogged } from "../error-text.ts";
import { describeIssue, type Issue, StayhookError } from "../errors.ts";

export { InvalidArgumentError, type Issue, StayhookError } from "../errors.ts";

/** The arguments for the constructor of {@link APIError}. */
export type APIErrorInit = Pick<APIError, "status" | "headers" | "body" | "method" | "path"> & {
  /** The detail in the error's message. Default: the message in the body. */
  readonly detail?: string | undefined;
  /** The detail that logs show. Default: none, because the words of the platform may name a guest. */
  readonly loggedDetail?: string | undefined;
};

/**
 * The platform's answer reports a failure. The common statuses have subclasses. You get `APIError` itself if no subclass has the
 * status, for a redirect that the client does not follow, and for a 2xx whose body reports a failure: `success: false`, or an
 * `error`; of a write, also `ok: false`, or a `status` or `code` that says so. The message then names the property.
 *
 * Look at `status`, `body` and `headers`, and give `requestId` to the platform's support. After a redirect, set `baseUrl` to its
 * target, because the client follows only redirects to URLs below the path of `baseUrl`.
 *
 * The error does not show the access token, even if the answer contains the token. The platform's words in `message` may name a
 * guest, so logs, histories and traces of this package leave them out.
 */
export class APIError extends StayhookError {
  static {
    brand(this, "APIError");
  }
  override name = "APIError";
  override readonly code: string = "api_error";
  /** The HTTP status. It is 0 if the runtime hides the status, as browsers do for redirects. */
  readonly status: number;
  /** The headers of the answer. Not enumerable, so that logs leave them out. */
  declare readonly headers: Headers;
  /**
   * The parsed JSON body, or the text of a body that is not JSON. `undefined` if the body is empty. A body over 64 KiB
   * is the start of its text. Not enumerable, so that logs leave it out.
   */
  declare readonly body: unknown;
  /** The request's id, from `x-request-id` or a similar header. The platform's support will ask for this id. */
  readonly requestId: string | undefined;
  /** The HTTP method of the request, in upper case. */
  readonly method: string;
  /** The path below the base URL, without the query. */
  readonly path: string;

  constructor(init: APIErrorInit) {
    const detail = init.detail ?? messageIn(init.body);
    const messageOf = (said: string | undefined) =>
      `${init.method} ${shorten(init.path)} was answered with ${init.status}${said === undefined ? "" : `: ${shorten(said)}`}`;
    super(messageOf(detail));
    setLogged(this, { message: messageOf(init.loggedDetail) });
    this.status = init.status;
    setHidden(this, { headers: init.headers, body: init.body });
    this.requestId = requestIdIn(init.headers);
    this.method = init.method;
    this.path = init.path;
  }

  /** Makes an error of the subclass for `init.status`. */
  static of(init: APIErrorInit): APIError {
    const { status } = init;
    const Class = status >= 500 ? InternalServerError : (classes.get(status) ?? APIError);
    return new Class(init);
  }
}

/**
 * The platform answered 400, because it could not use the request. For a call of `webhookConfig`, often the URL of an endpoint is
 * wrong. The platform's words are in `message` and `body`. Check the values that you passed.
 */
export class BadRequestError extends APIError {
  static {
    brand(this, "BadRequestError");
  }
  override name = "BadRequestError";
  override readonly code = "bad_request" as const;
}

/**
 * The platform answered 401: the access token is missing, wrong or no longer valid. If `accessToken` is a function, the client has
 * called it again with `reason: "unauthorized"`, and repeated the request, before you get this error.
 *
 * Check the token with `npx stayhook doctor`. If your tokens expire, pass a function that returns the current token. You need not
 * hurry, because the events wait in the store until the token works, for up to `giveUpAfter`.
 */
export class AuthenticationError extends APIError {
  static {
    brand(this, "AuthenticationError");
  }
  override name = "AuthenticationError";
  override readonly code = "unauthenticated" as const;
}

/**
 * The platform answered 403: the access token is valid, but has no right to read this record or to change the webhook
 * configuration. Or a firewall in front of the platform answered.
 *
 * Check the permissions and the account of the access token, and that the platform allows the IP address of your server.
 */
export class PermissionDeniedError extends APIError {
  static {
    brand(this, "PermissionDeniedError");
  }
  override name = "PermissionDeniedError";
  override readonly code = "permission_denied" as const;
}

/**
 * The record does not exist: the platform answered 404 or 410, or a 2xx whose body says so.
 *
 * If one record is missing, it may be deleted, or belong to another account, or a stranger may have invented the notification: set
 * `verify`. If all records are missing, check `baseUrl` with `npx stayhook doctor`. If `webhookConfig.update()` or
 * `webhookConfig.toggle()` rejects with this error, create a configuration with `ensure`.
 */
export class NotFoundError extends APIError {
  static {
    brand(this, "NotFoundError");
  }
  override name = "NotFoundError";
  override readonly code = "not_found" as const;
}

/**
 * The platform answered 409: a webhook configuration exists already, or another request changed it at the same time. Call
 * `webhookConfig.ensure` instead of `create`, because it updates a configuration that exists.
 */
export class ConflictError extends APIError {
  static {
    brand(this, "ConflictError");
  }
  override name = "ConflictError";
  override readonly code = "conflict" as const;
}

/**
 * The platform answered 422: it understood the request, but refuses its values. Read `body`. If you sent the URL of an endpoint,
 * check that it begins with `https:`, and that its host is public.
 */
export class UnprocessableEntityError extends APIError {
  static {
    brand(this, "UnprocessableEntityError");
  }
  override name = "UnprocessableEntityError";
  override readonly code = "unprocessable_entity" as const;
}

/**
 * The platform answered 429: too many requests. The client has waited as long as `Retry-After` says, and tried again up to
 * `maxRetries` times. If `Retry-After` is longer than a minute, you get this error at once.
 *
 * Wait for `retryAfter` seconds. If this error is frequent, lower the handler's `concurrency`, so that it reads fewer records at
 * once.
 */
export class RateLimitError extends APIError {
  static {
    brand(this, "RateLimitError");
  }
  override name = "RateLimitError";
  override readonly code = "rate_limited" as const;
  /** Seconds to wait after the answer. `undefined` if the answer has no valid `Retry-After` header. */
  readonly retryAfter: number | undefined;

  constructor(init: APIErrorInit) {
    super(init);
    const ms = retryAfterMs(init.headers);
    this.retryAfter = ms === undefined ? undefined : ms / 1000;
  }
}

/**
 * The platform answered 5xx, because it failed. If your own code sent an idempotent request, the client has already retried it up
 * to `maxRetries` times. The handler tries its events again until the platform answers, for up to `giveUpAfter`. Give `requestId`
 * to the platform's support.
 */
export class InternalServerError extends APIError {
  static {
    brand(this, "InternalServerError");
  }
  override name = "InternalServerError";
  override readonly code = "internal_server_error" as const;
}

const classes = new Map<number, new (init: APIErrorInit) => APIError>([
  [400, BadRequestError],
  [401, AuthenticationError],
  [403, PermissionDeniedError],
  [404, NotFoundError],
  [410, NotFoundError],
  [409, ConflictError],
  [422, UnprocessableEntityError],
  [429, RateLimitError],
]);

/**
 * The client could not reach the platform, or the connection broke before the answer was complete. The message names the host, and
 * `cause` is the error of the runtime.
 *
 * If the cause is `ECONNREFUSED` or `ENOTFOUND`, check `STAYHOOK_BASE_URL`. If it is `CERT_…`, a proxy may replace the platform's
 * certificate: set `NODE_EXTRA_CA_CERTS`.
 */
export class ConnectionError extends StayhookError {
  static {
    brand(this, "ConnectionError");
  }
  override name = "ConnectionError";
  override readonly code: string = "connection_failed";
}

/**
 * A request attempt took longer than the client's `timeout`, which covers the call of `accessToken`, redirects and the body of the
 * answer. Raise `timeout` if the platform answers, but slowly.
 */
export class ConnectionTimeoutError extends ConnectionError {
  static {
    brand(this, "ConnectionTimeoutError");
  }
  override name = "ConnectionTimeoutError";
  override readonly code = "connection_timeout" as const;
}

/**
 * The `signal` that you passed to the client aborted: your own code aborted the request, or the time of your
 * `AbortSignal.timeout` is over. `cause` is the reason of the signal.
 */
export class AbortError extends StayhookError {
  static {
    brand(this, "AbortError");
  }
  override name = "AbortError";
  override readonly code = "aborted" as const;
}

/**
 * Your `accessToken` function threw, which `cause` tells, or returned a value that no header can hold. Return a text that is not
 * empty, without line breaks and without characters beyond Latin-1. If the token is in a vault that is out of reach, do nothing,
 * because the events wait until the vault answers.
 */
export class AccessTokenError extends StayhookError {
  static {
    brand(this, "AccessTokenError");
  }
  override name = "AccessTokenError";
  override readonly code = "access_token_failed" as const;
}

/**
 * The platform answered with success, but with an unexpected body. It has one of six causes:
 *
 * - The body is not JSON, for example a login page or a JSON text that was cut off. The message shows its first 200 characters.
 * - The body has no record.
 * - The record does not match the model. If your own model causes the issue, make the field optional.
 * - The record is not the requested one.
 * - Two parts of the body look like the record, and differ. The issues have both paths.
 * - `webhookConfig.ensure` wrote the configuration, but the platform has another one. The issues have both. Call
 *   `webhookConfig.get()` some minutes later. If the platform still has another configuration, ask its support.
 *
 * After `listings.list()`, take the valid rows from `valid`.
 */
export class ResponseValidationError extends StayhookError {
  static {
    brand(this, "ResponseValidationError");
  }
  override name = "ResponseValidationError";
  override readonly code = "invalid_response" as const;
  /** The problems, one for each wrong part of the body. */
  readonly issues: readonly Issue[];
  /**
   * The parsed JSON body, or the text of a body that is not JSON. `undefined` if the body is empty. A body over 64 KiB
   * is the start of its text. Not enumerable, so that logs leave it out.
   */
  declare readonly body: unknown;
  /**
   * The valid rows of a list, in the form that `listings.list()` returns. Empty if the call reads no list. Not
   * enumerable, so that logs leave them out.
   */
  declare readonly valid: readonly unknown[];

  constructor(
    request: string,
    issues: readonly Issue[],
    body: unknown,
    {
      valid = [],
      logged,
      ...options
    }: {
      /** The error that caused this one. */
      readonly cause?: unknown;
      /** The valid rows of a list. */
      readonly valid?: readonly unknown[] | undefined;
      /** The problem that logs show in place of the issues, if these have words of the platform. */
      readonly logged?: string | undefined;
    } = {},
  ) {
    const all = issues.slice(0, 3).map(describeIssue).join("; ");
    const more = issues.length > 3 ? `; for ${issues.length - 3} more, see error.issues` : "";
    // The limit leaves room for the start of a body that is not JSON.
    const messageOf = (shown: string) =>
      `${shorten(request)} was answered with an unexpected body: ${shorten(shown, 600)}${more}`;
    super(messageOf(all), options);
    this.issues = issues;
    if (logged !== undefined)
      setLogged(this, { message: messageOf(logged), issues: [{ path: [], message: logged }] });
    setHidden(this, { body, valid });
  }
}

export function shorten(text: string, most = 200): string {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** Returns the error message from one of the usual fields of a JSON body. */
export function messageIn(body: unknown): string | undefined {
  if (typeof body !== "object" || body === null) return undefined;
  const { message, error, detail, title } = body as Record<string, unknown>;
  const nested =
    typeof error === "object" && error !== null ? (error as Record<string, unknown>).message : error;
  return [message, nested, detail, title].find((said) => typeof said === "string" && said !== "") as
    | string
    | undefined;
}

const requestIdHeaders =
  "x-request-id request-id x-requestid x-correlation-id x-amzn-requestid x-amz-request-id x-trace-id cf-ray".split(
    " ",
  );

function requestIdIn(headers: Headers): string | undefined {
  return requestIdHeaders.map((name) => headers.get(name)).find(Boolean) ?? undefined;
}

/** Sets properties that loggers leave out, because a log line would have the whole body. */
function setHidden(error: object, values: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(values)) Object.defineProperty(error, name, { value });
}

// The three forms of an HTTP date (RFC 9110, section 5.6.7).
const httpDate =
  /^(?:[a-z]{3}, \d\d [a-z]{3} \d{4} [\d:]{8} GMT|[a-z]{6,9}, \d\d-[a-z]{3}-\d\d [\d:]{8} GMT|[a-z]{3} [a-z]{3} [ \d]\d [\d:]{8} \d{4})$/i;

/**
 * Returns the wait that `Retry-After` asks for, ms, at least 0. `undefined` if the header is absent or invalid. A date
 * counts from the `Date` of the answer, because the clock of this machine may be off.
 */
export function retryAfterMs(headers: Headers): number | undefined {
  const value = headers.get("retry-after")?.trim();
  if (value === undefined) return undefined;
  if (/^\d+(?:\.\d+)?$/.test(value)) return Number(value) * 1000;
  const time = httpTime(value);
  return time === undefined
    ? undefined
    : Math.max(0, time - (httpTime(headers.get("date") ?? "") ?? Date.now()));
}

/** Returns the time of a date in a header of HTTP, epoch ms, or `undefined` if the date is in none of its forms. */
export function httpTime(date: string): number | undefined {
  if (!httpDate.test(date)) return undefined;
  // The oldest form has no time zone, so `Date.parse` would read the date as local time.
  const time = Date.parse(/GMT$/i.test(date) ? date : `${date} GMT`);
  return Number.isNaN(time) ? undefined : time;
}
