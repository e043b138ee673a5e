import { brand } from "../copies.ts";
import { describeIssue, type Issue, StayhookError } from "../errors.ts";

export { InvalidArgumentError, type Issue, StayhookError } from "../errors.ts";

/** The arguments for the constructor of {@link APIError}. */
export interface APIErrorInit extends Pick<APIError, "status" | "headers" | "body" | "method" | "path"> {
  /** The detail in the error's message. Default: the message in the body. */
  readonly detail?: string | undefined;
}

/**
 * The platform answered with a failure. The common statuses have subclasses. The failure may also be a redirect that
 * the client did not follow, or a 2xx answer whose body reports a failure.
 *
 * The error does not show the access token, even if the answer contains the token.
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
    const said = detail === undefined ? "" : `: ${shorten(detail)}`;
    super(`${init.method} ${shorten(init.path)} was answered with ${init.status}${said}`);
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

/** The platform answered 400. */
export class BadRequestError extends APIError {
  static {
    brand(this, "BadRequestError");
  }
  override name = "BadRequestError";
  override readonly code = "bad_request" as const;
}

/** The platform answered 401: the access token is missing, wrong or no longer valid. */
export class AuthenticationError extends APIError {
  static {
    brand(this, "AuthenticationError");
  }
  override name = "AuthenticationError";
  override readonly code = "unauthenticated" as const;
}

/** The platform answered 403. */
export class PermissionDeniedError extends APIError {
  static {
    brand(this, "PermissionDeniedError");
  }
  override name = "PermissionDeniedError";
  override readonly code = "permission_denied" as const;
}

/** The record does not exist. The platform answered 404 or 410, or a 2xx whose body reports a missing record. */
export class NotFoundError extends APIError {
  static {
    brand(this, "NotFoundError");
  }
  override name = "NotFoundError";
  override readonly code = "not_found" as const;
}

/** The platform answered 409. */
export class ConflictError extends APIError {
  static {
    brand(this, "ConflictError");
  }
  override name = "ConflictError";
  override readonly code = "conflict" as const;
}

/** The platform answered 422. */
export class UnprocessableEntityError extends APIError {
  static {
    brand(this, "UnprocessableEntityError");
  }
  override name = "UnprocessableEntityError";
  override readonly code = "unprocessable_entity" as const;
}

/** The platform answered 429: too many requests. */
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

/** The platform answered 5xx. */
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

/** The client could not reach the platform, or got an incomplete answer. `cause` is the error of the runtime. */
export class ConnectionError extends StayhookError {
  static {
    brand(this, "ConnectionError");
  }
  override name = "ConnectionError";
  override readonly code: string = "connection_failed";
}

/** An attempt took longer than `timeout`. The time includes the token, redirects and the body. */
export class ConnectionTimeoutError extends ConnectionError {
  static {
    brand(this, "ConnectionTimeoutError");
  }
  override name = "ConnectionTimeoutError";
  override readonly code = "connection_timeout" as const;
}

/** The caller's `signal` aborted, for example by `AbortSignal.timeout`. `cause` is the reason of the signal. */
export class AbortError extends StayhookError {
  static {
    brand(this, "AbortError");
  }
  override name = "AbortError";
  override readonly code = "aborted" as const;
}

/** The `accessToken` function threw, or returned a value that no header can hold. `cause` is the thrown error. */
export class AccessTokenError extends StayhookError {
  static {
    brand(this, "AccessTokenError");
  }
  override name = "AccessTokenError";
  override readonly code = "access_token_failed" as const;
}

/** The platform answered with success, but with an unexpected body. */
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
      ...options
    }: {
      /** The error that caused this one. */
      readonly cause?: unknown;
      /** The valid rows of a list. */
      readonly valid?: readonly unknown[] | undefined;
    } = {},
  ) {
    const shown = issues.slice(0, 3).map(describeIssue).join("; ");
    const more = issues.length > 3 ? `; for ${issues.length - 3} more, see error.issues` : "";
    // The limit leaves room for the start of a body that is not JSON.
    super(`${shorten(request)} was answered with an unexpected body: ${shorten(shown, 600)}${more}`, options);
    this.issues = issues;
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
  const time = timeOf(value);
  return time === undefined
    ? undefined
    : Math.max(0, time - (timeOf(headers.get("date") ?? "") ?? Date.now()));
}

function timeOf(date: string): number | undefined {
  if (!httpDate.test(date)) return undefined;
  // The oldest form has no time zone, so `Date.parse` would read the date as local time.
  const time = Date.parse(/GMT$/i.test(date) ? date : `${date} GMT`);
  return Number.isNaN(time) ? undefined : time;
}
