import { describeIssue, type Issue, StayhookError } from "../errors.ts";

export { InvalidArgumentError, type Issue, StayhookError } from "../errors.ts";

/** The parts of an {@link APIError}. */
export interface APIErrorInit {
  /** The HTTP status. */
  readonly status: number;
  /** The headers of the answer. */
  readonly headers: Headers;
  /** The parsed JSON, or the text of any other body; `undefined` for an empty body. */
  readonly body: unknown;
  /** The HTTP method of the request. */
  readonly method: string;
  /** The path below the base URL, without the query. */
  readonly path: string;
  /** The reason in the message. Default: the message in the body. */
  readonly detail?: string | undefined;
}

/**
 * The platform answered, but not with success. The subclasses tell the common statuses apart. A redirect that the
 * client did not follow is an `APIError` too, as is a 2xx answer that reports a failure in its body.
 *
 * The error does not show the access token, even if the platform echoed it.
 */
export class APIError extends StayhookError {
  /** The HTTP status. 0 where the runtime hides it, as browsers do with redirects. */
  readonly status: number;
  /** The headers of the answer. */
  readonly headers: Headers;
  /** The parsed JSON, or the text of any other body; `undefined` for an empty body. */
  readonly body: unknown;
  /** The platform's id of the request, from `x-request-id` and similar headers. Its support will ask for it. */
  readonly requestId: string | undefined;
  /** The HTTP method of the request. */
  readonly method: string;
  /** The path below the base URL, without the query. */
  readonly path: string;

  constructor(init: APIErrorInit) {
    const detail = init.detail ?? messageIn(init.body);
    const said = detail === undefined ? "" : `: ${shorten(detail)}`;
    super(`${init.method} ${shorten(init.path)} was answered ${init.status}${said}`);
    this.name = "APIError";
    this.status = init.status;
    this.headers = init.headers;
    this.body = init.body;
    this.requestId = requestIdIn(init.headers);
    this.method = init.method;
    this.path = init.path;
  }

  /** Makes an error of the class that belongs to its status. */
  static of(init: APIErrorInit): APIError {
    const { status } = init;
    const Class = status >= 500 ? InternalServerError : (classes.get(status) ?? APIError);
    return new Class(init);
  }
}

/** The platform answered 400. */
export class BadRequestError extends APIError {
  constructor(init: APIErrorInit) {
    super(init);
    this.name = "BadRequestError";
  }
}

/** The platform answered 401: the access token is missing, wrong or no longer valid. */
export class AuthenticationError extends APIError {
  constructor(init: APIErrorInit) {
    super(init);
    this.name = "AuthenticationError";
  }
}

/** The platform answered 403. */
export class PermissionDeniedError extends APIError {
  constructor(init: APIErrorInit) {
    super(init);
    this.name = "PermissionDeniedError";
  }
}

/** There is no such record: the platform answered 404, 410, or a 2xx whose body says so. */
export class NotFoundError extends APIError {
  constructor(init: APIErrorInit) {
    super(init);
    this.name = "NotFoundError";
  }
}

/** The platform answered 409. */
export class ConflictError extends APIError {
  constructor(init: APIErrorInit) {
    super(init);
    this.name = "ConflictError";
  }
}

/** The platform answered 422. */
export class UnprocessableEntityError extends APIError {
  constructor(init: APIErrorInit) {
    super(init);
    this.name = "UnprocessableEntityError";
  }
}

/** The platform answered 429: it limits the rate of requests. */
export class RateLimitError extends APIError {
  /** Seconds to wait from the time of the answer; `undefined` where the answer did not say. */
  readonly retryAfter: number | undefined;

  constructor(init: APIErrorInit) {
    super(init);
    this.name = "RateLimitError";
    const ms = retryAfterMs(init.headers);
    this.retryAfter = ms === undefined ? undefined : ms / 1000;
  }
}

/** The platform answered 5xx. */
export class InternalServerError extends APIError {
  constructor(init: APIErrorInit) {
    super(init);
    this.name = "InternalServerError";
  }
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

/** No complete answer came: the platform could not be reached. `cause` is the error of the runtime. */
export class ConnectionError extends StayhookError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ConnectionError";
  }
}

/** An attempt took longer than `timeout`, with its token, redirects and body. */
export class ConnectionTimeoutError extends ConnectionError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ConnectionTimeoutError";
  }
}

/** The caller's `signal` aborted. `cause` is the reason of the signal. `AbortSignal.timeout` counts as an abort too. */
export class AbortError extends StayhookError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "AbortError";
  }
}

/** The `accessToken` function threw, or gave a value that no header can hold. `cause` is the error that it threw. */
export class AccessTokenError extends StayhookError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "AccessTokenError";
  }
}

/** The platform answered with success, but its body is not the one that was asked for. */
export class ResponseValidationError extends StayhookError {
  /** Each part of the body that is wrong. */
  readonly issues: readonly Issue[];
  /** The parsed JSON, or the text of any other body; `undefined` for an empty body. */
  readonly body: unknown;
  /** The rows of a list that are valid, as `listings.list()` would have given them. Empty for anything else. */
  readonly valid: readonly unknown[];

  constructor(
    request: string,
    issues: readonly Issue[],
    body: unknown,
    {
      valid = [],
      ...options
    }: ErrorOptions & {
      /** The rows of a list that are valid. */
      readonly valid?: readonly unknown[] | undefined;
    } = {},
  ) {
    const shown = issues.slice(0, 3).map(describeIssue).join("; ");
    const more = issues.length > 3 ? `; and ${issues.length - 3} more, see issues` : "";
    super(`${shorten(request)} was answered with an unexpected body: ${shorten(shown)}${more}`, options);
    this.name = "ResponseValidationError";
    this.issues = issues;
    this.body = body;
    this.valid = valid;
  }
}

const maxDetail = 200;

export function shorten(text: string): string {
  return text.length > maxDetail ? `${text.slice(0, maxDetail)}…` : text;
}

/** The error message in a JSON body, if it stands in one of the usual fields. */
export function messageIn(body: unknown): string | undefined {
  if (typeof body !== "object" || body === null) return undefined;
  const { message, error, detail, title } = body as Record<string, unknown>;
  const nested =
    typeof error === "object" && error !== null ? (error as Record<string, unknown>).message : error;
  return [message, nested, detail, title].find((said) => typeof said === "string" && said !== "") as
    | string
    | undefined;
}

const requestIdHeaders = [
  "x-request-id",
  "request-id",
  "x-requestid",
  "x-correlation-id",
  "x-amzn-requestid",
  "x-amz-request-id",
  "x-trace-id",
  "cf-ray",
];

function requestIdIn(headers: Headers): string | undefined {
  for (const name of requestIdHeaders) {
    const id = headers.get(name);
    if (id !== null && id !== "") return id;
  }
  return undefined;
}

// The three forms of an HTTP date (RFC 9110, section 5.6.7).
const httpDate =
  /^(?:[a-z]{3}, \d\d [a-z]{3} \d{4} [\d:]{8} GMT|[a-z]{6,9}, \d\d-[a-z]{3}-\d\d [\d:]{8} GMT|[a-z]{3} [a-z]{3} [ \d]\d [\d:]{8} \d{4})$/i;

/**
 * The wait that the `Retry-After` header asks for, in ms and never below 0; `undefined` where the header is absent,
 * or neither a number of seconds nor an HTTP date.
 */
export function retryAfterMs(headers: Headers, now: number = Date.now()): number | undefined {
  const value = headers.get("retry-after")?.trim();
  if (value === undefined) return undefined;
  if (/^\d+(?:\.\d+)?$/.test(value)) return Number(value) * 1000;
  if (!httpDate.test(value)) return undefined;
  // The oldest form names no zone. Date.parse would read it as local time.
  const time = Date.parse(value.endsWith("GMT") ? value : `${value} GMT`);
  return Number.isNaN(time) ? undefined : Math.max(0, time - now);
}
