// The answers to requests, and the log lines of refused ones.

import { describeIssue, type Issue, StayhookError } from "../../errors.ts";
import type { Log, LogLevel } from "../../logger.ts";

/** The message for a body that a body parser has already read. */
export const ALREADY_READ =
  "a body parser or other middleware has already read the body. " +
  "Mount the webhook handler before that middleware, or pass the unparsed body to the handler";

/** The answer that the server must send. */
export interface ReceiveResult {
  /** The HTTP status of the answer. */
  readonly status: number;
  /** The headers by name, in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body of the answer, which may be empty. */
  readonly body: string;
}

/** Why a request was refused before its body was parsed, or why its notification could not be recorded. */
export type Refusal =
  | "method"
  | "account"
  | "account-failed"
  | "secret-failed"
  | "verify"
  | "verify-timeout"
  | "too-large"
  | "encoding"
  | "body-timeout"
  | "aborted"
  | "already-read"
  | "store"
  | "store-timeout"
  | "backlog"
  | "internal";

const LIMIT = "within 10 s, or within replyWithin if that is less";

/** For each refusal: the status and the detail of the answer, then the level and the text of the log line. */
const REFUSALS: Readonly<Record<Refusal | "invalid", readonly [number, string, LogLevel, string]>> = {
  method: [405, "Notifications are sent by POST.", "debug", "its method is not POST"],
  account: [
    404,
    "The request names no account.",
    "warn",
    "it does not name one account, as accountFrom asks",
  ],
  "account-failed": [503, "The account could not be found.", "error", "the account could not be found"],
  "secret-failed": [503, "The request could not be checked.", "error", "its secret could not be checked"],
  verify: [401, "The request was not accepted.", "warn", "verify did not accept the request"],
  "verify-timeout": [503, "The request could not be checked in time.", "warn", `verify did not end ${LIMIT}`],
  "too-large": [413, "The body is too large.", "warn", "its body is larger than maxBodyBytes"],
  encoding: [415, "The body's encoding is not supported.", "warn", "its encoding is not supported"],
  "body-timeout": [408, "The body did not arrive in time.", "warn", `the body did not arrive ${LIMIT}`],
  aborted: [
    ...([400, "The request ended before its body was complete."] as const),
    ...(["debug", "the request ended before its body was complete"] as const),
  ],
  "already-read": [500, "The body could not be read.", "error", ALREADY_READ],
  invalid: [400, "The body is not a valid notification.", "warn", "its body is not a valid notification"],
  store: [
    ...([503, "The notification could not be recorded."] as const),
    ...(["error", "the store could not record the notification"] as const),
  ],
  "store-timeout": [
    ...([503, "The notification could not be recorded in time."] as const),
    ...(["error", `the store did not record the notification ${LIMIT}`] as const),
  ],
  backlog: [
    ...([503, "Too many notifications wait to be handled."] as const),
    "error",
    "more events wait than maxBacklog allows. Discard unneeded events, or raise maxBacklog",
  ],
  internal: [500, "Something went wrong.", "error", "unexpected error"],
};

const TITLES: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

const HEADERS: Readonly<Record<number, Record<string, string>>> = {
  405: { allow: "POST" },
  415: { "accept-encoding": "gzip, deflate, br" },
  503: { "retry-after": "5" },
};

/** The answer to a recorded notification, or to its duplicate. */
export const ACCEPTED: ReceiveResult = {
  status: 200,
  headers: { "content-type": "application/json" },
  body: '{"received":true}',
};

/** A mistake in the app's code. The log shows its text, because the text quotes nothing of the request. */
export class Mistake extends StayhookError {}

/**
 * The reason why the handler refuses a request. Each step of the intake throws it. It is no `Error`, because strangers
 * can cause refusals, and a stack trace takes longer than the rest of the request.
 */
export class Refused {
  readonly reason: Refusal | "invalid";
  readonly error: unknown;
  /** The issues of an invalid notification, or the encoding that is not supported. */
  readonly issues: readonly Issue[];
  /** The content of an invalid notification. */
  readonly content: string | Uint8Array;

  constructor(
    reason: Refusal | "invalid",
    error?: unknown,
    issues: readonly Issue[] = [],
    content: string | Uint8Array = "",
  ) {
    this.reason = reason;
    this.error = error;
    this.issues = issues;
    this.content = content;
  }

  /**
   * The answer. It names each wrong field of a notification, but repeats nothing of the request, except for an
   * encoding that is not supported.
   */
  get answer(): ReceiveResult {
    const [status, detail] = REFUSALS[this.reason];
    const errors = this.issues.map(({ path, message }) => ({ path, message }));
    return {
      status,
      headers: { "content-type": "application/problem+json", ...HEADERS[status] },
      body: JSON.stringify({ title: TITLES[status], status, detail, ...(errors.length > 0 && { errors }) }),
    };
  }

  /** The cause in words, for the log. */
  get line(): string {
    if (this.issues.length > 0)
      return this.issues.map((issue) => describeIssue(withSubject(issue))).join("; ");
    return REFUSALS[this.reason][3];
  }

  observation(
    topic: string | undefined,
    account: string | undefined,
  ): InvalidObservation | RefusedObservation {
    const { reason, error, issues } = this;
    const ofAccount = account === undefined ? undefined : { account };
    if (reason === "invalid")
      return { kind: "invalid", topic: topic ?? null, ...ofAccount, issues, body: beginningOf(this.content) };
    const status = REFUSALS[reason][0];
    const base = { kind: "refused", topic: topic ?? null, ...ofAccount, status, reason } as const;
    return error === undefined ? base : { ...base, error };
  }

  log(log: Log, account: string | undefined): void {
    const { reason, error } = this;
    const [status, , level] = REFUSALS[reason];
    const what = reason === "invalid" ? "an invalid notification" : "a request";
    // Log only the class of these errors, because an error may quote the URL with the secret.
    const named = { verify: "verify", "account-failed": "the function that finds the account" }[
      reason as string
    ];
    const threw = named !== undefined && error !== undefined && !(error instanceof Mistake);
    log.limited(
      threw ? `${reason}-threw` : reason,
      level,
      `refused ${what} (${status}): ${threw ? `${named} threw ${classOf(error)}` : this.line}`,
      threw || error === undefined ? { account } : { account, error },
    );
  }
}

/** Returns the refusal of a body that as a whole is no notification. */
export function invalidBody(message: string, content?: string | Uint8Array): Refused {
  return new Refused("invalid", undefined, [{ path: [], message }], content);
}

/** Puts the words `the body` before the message of an issue about the whole body. */
export function withSubject({ path, message }: Issue): Issue {
  return { path, message: path.length === 0 ? `the body ${message}` : message };
}

function classOf(error: unknown): string {
  return error instanceof Error ? `a ${error.name}` : `a ${typeof error}`;
}

/** `observe` gets this many bytes from the beginning of an invalid body. */
const SHOWN_BYTES = 2048;

function beginningOf(body: string | Uint8Array): string {
  // Each character has at least one byte, so encode no more than `SHOWN_BYTES` characters.
  const bytes = typeof body === "string" ? new TextEncoder().encode(body.slice(0, SHOWN_BYTES)) : body;
  if (bytes.length <= SHOWN_BYTES) return new TextDecoder().decode(bytes);
  return new TextDecoder().decode(bytes.subarray(0, SHOWN_BYTES), { stream: true });
}

/** Reports a notification. `received`: the store recorded its event. `duplicate`: the store already had this id. */
export type ReceivedObservation = {
  /** The kind of the observation. */
  readonly kind: "received" | "duplicate";
  /** The id of the event in lower case. */
  readonly eventId: string;
  /** `booking:<code>`, `listing:<id>`, or `null` if the event refers to no record. */
  readonly ref: string | null;
  /** The topic of the endpoint, or `null` if the endpoint has no topic. */
  readonly topic: string | null;
  /** The account, in a handler with `accountFrom`. */
  readonly account?: string | undefined;
};

/** Reports a request whose body is not a valid notification. */
export type InvalidObservation = {
  /** The kind of the observation. */
  readonly kind: "invalid";
  /** The topic of the endpoint, or `null` if the endpoint has no topic. */
  readonly topic: string | null;
  /** The account, in a handler with `accountFrom`. */
  readonly account?: string | undefined;
  /** Each part of the body that is wrong. */
  readonly issues: readonly Issue[];
  /** The first 2 KiB of the body, so that you can recover the notification. */
  readonly body: string;
};

/** Reports a refused request. */
export type RefusedObservation = {
  /** The kind of the observation. */
  readonly kind: "refused";
  /** The topic of the endpoint, or `null` if the endpoint has no topic. */
  readonly topic: string | null;
  /** The account, in a handler with `accountFrom`. */
  readonly account?: string | undefined;
  /** The status of the answer. */
  readonly status: number;
  /** Why the handler refused the request. */
  readonly reason: Refusal;
  /** The error that caused the refusal, such as an error of `verify` or the store. */
  readonly error?: unknown;
};

/** An observation of a request. It never holds the URL or the headers. */
export type ReceiveObservation = ReceivedObservation | InvalidObservation | RefusedObservation;
