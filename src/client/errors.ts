import { describeIssue, type Issue, StayhookError } from "../errors.ts";
import { retryAfterMs } from "./retry-after.ts";

export { InvalidArgumentError, type Issue, StayhookError } from "../errors.ts";

/** What an {@link APIError} is made of. */
export interface APIErrorInit {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed where it is JSON, else its text; `undefined` where it is empty. */
  readonly body: unknown;
  readonly method: string;
  /** Below the base URL, without the query. */
  readonly path: string;
  /** Said in the message, instead of what the body says. */
  readonly detail?: string | undefined;
}

/**
 * The platform answered, and not with success. Its subclasses tell the common statuses apart; a redirect that
 * was not followed is an `APIError` too.
 *
 * The access token is blotted out wherever the platform may have echoed it.
 */
export class APIError extends StayhookError {
  /** HTTP status; 0 where the runtime hides it, as browsers do with redirects. */
  readonly status: number;
  readonly headers: Headers;
  /** Parsed where it is JSON, else its text; `undefined` where it was empty. */
  readonly body: unknown;
  /** The platform's id of the request, from `x-request-id` and the like: what its support will ask for. */
  readonly requestId: string | undefined;
  readonly method: string;
  /** Below the base URL, without the query. */
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

  /** The error of the class that its status has. */
  static of(init: APIErrorInit): APIError {
    const { status } = init;
    if (status >= 500) return new InternalServerError(init);
    const Class = classes.get(status) ?? APIError;
    return new Class(init);
  }
}

/** 400 */
export class BadRequestError extends APIError {
  constructor(init: APIErrorInit) {
    super(init);
    this.name = "BadRequestError";
  }
}

/** 401: the access token is missing, wrong or no longer valid. */
export class AuthenticationError extends APIError {
  constructor(init: APIErrorInit) {
    super(init);
    this.name = "AuthenticationError";
  }
}

/** 403 */
export class PermissionDeniedError extends APIError {
  constructor(init: APIErrorInit) {
    super(init);
    this.name = "PermissionDeniedError";
  }
}

/** 404 */
export class NotFoundError extends APIError {
  constructor(init: APIErrorInit) {
    super(init);
    this.name = "NotFoundError";
  }
}

/** 409 */
export class ConflictError extends APIError {
  constructor(init: APIErrorInit) {
    super(init);
    this.name = "ConflictError";
  }
}

/** 422 */
export class UnprocessableEntityError extends APIError {
  constructor(init: APIErrorInit) {
    super(init);
    this.name = "UnprocessableEntityError";
  }
}

/** 429 */
export class RateLimitError extends APIError {
  /** Seconds to wait, counted from when the answer came; `undefined` where it did not say. */
  readonly retryAfter: number | undefined;

  constructor(init: APIErrorInit) {
    super(init);
    this.name = "RateLimitError";
    const ms = retryAfterMs(init.headers);
    this.retryAfter = ms === undefined ? undefined : ms / 1000;
  }
}

/** 5xx */
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
  [409, ConflictError],
  [422, UnprocessableEntityError],
  [429, RateLimitError],
]);

/** No answer came, or it broke off: the platform could not be reached. `cause` is what the runtime reported. */
export class ConnectionError extends StayhookError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ConnectionError";
  }
}

/** An attempt took longer than `timeout`: token, redirects and body included. */
export class ConnectionTimeoutError extends ConnectionError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ConnectionTimeoutError";
  }
}

/** The caller's `signal` aborted, `AbortSignal.timeout` too. `cause` is the signal's reason. */
export class AbortError extends StayhookError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "AbortError";
  }
}

/** The `accessToken` function threw (`cause` is what it threw), or gave what cannot be sent in a header. */
export class AccessTokenError extends StayhookError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "AccessTokenError";
  }
}

/** The platform answered with success, and with a body that is not what was asked for. */
export class ResponseValidationError extends StayhookError {
  readonly issues: readonly Issue[];
  /** Parsed where it is JSON, else its text; `undefined` where it was empty. */
  readonly body: unknown;

  constructor(request: string, issues: readonly Issue[], body: unknown, options?: ErrorOptions) {
    const shown = issues.slice(0, 3).map(describeIssue).join("; ");
    const more = issues.length > 3 ? `; and ${issues.length - 3} more, see issues` : "";
    super(`${shorten(request)} was answered with an unexpected body: ${shorten(shown)}${more}`, options);
    this.name = "ResponseValidationError";
    this.issues = issues;
    this.body = body;
  }
}

const maxDetail = 200;

function shorten(text: string): string {
  return text.length > maxDetail ? `${text.slice(0, maxDetail)}…` : text;
}

/** What a JSON body says went wrong, where it is in one of the usual places. */
function messageIn(body: unknown): string | undefined {
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
