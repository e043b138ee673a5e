import { describeIssue, type Issue } from "../../errors.ts";
import type { Log, LogLevel } from "../../logger.ts";
import type { AddAnswer } from "../../stores/base-store.ts";
import type { NewEvent } from "../../stores/event-store.ts";
import type { Doubt } from "./parse.ts";

/** The message for a body that a body parser has already read. */
export const ALREADY_READ =
  "a body parser or other middleware has already read the body. " +
  "Mount the webhook handler before that middleware, or pass the unparsed body to the handler";

/** The answer that the server must send. */
export interface ReceiveResult {
  /** The HTTP status of the answer. */
  readonly status: number;
  /** The headers by name, in lower case. */
  readonly headers: Record<string, string>;
  /** The body of the answer, which may be empty. */
  readonly body: string;
}

/** Why a request was refused before its body was parsed, or why its notification could not be recorded. */
export type Refusal =
  | "closing"
  | "method"
  | "verify"
  | "verify-timeout"
  | "too-large"
  | "body-timeout"
  | "aborted"
  | "already-read"
  | "store"
  | "store-timeout"
  | "backlog"
  | "internal";

/** How to answer and log a refused request. The answer contains `detail`, and the log line contains `line`. */
interface Row {
  readonly status: number;
  readonly detail: string;
  readonly level: LogLevel;
  readonly line: string;
}

const rows: Readonly<Record<Refusal, Row>> = {
  closing: { status: 503, detail: "Shutting down.", level: "debug", line: "the handler is closing" },
  method: {
    ...{ status: 405, detail: "Notifications are sent by POST." },
    ...{ level: "debug", line: "its method is not POST" },
  },
  verify: {
    ...{ status: 401, detail: "The request was not accepted." },
    ...{ level: "warn", line: "verify did not accept the request" },
  },
  "verify-timeout": {
    ...{ status: 503, detail: "The request could not be checked in time." },
    ...{ level: "warn", line: "verify took longer than replyWithin" },
  },
  "too-large": {
    ...{ status: 413, detail: "The body is too large." },
    ...{ level: "warn", line: "its body is larger than maxBodyBytes" },
  },
  "body-timeout": {
    ...{ status: 408, detail: "The body did not arrive in time." },
    ...{ level: "warn", line: "its body stalled for 10 s, or took longer than replyWithin" },
  },
  aborted: {
    ...{ status: 400, detail: "The request ended before its body was complete." },
    ...{ level: "debug", line: "the request ended before its body was complete" },
  },
  "already-read": {
    ...{ status: 500, detail: "The body could not be read." },
    ...{ level: "error", line: ALREADY_READ },
  },
  store: {
    ...{ status: 503, detail: "The notification could not be recorded." },
    ...{ level: "error", line: "the store could not record the notification" },
  },
  "store-timeout": {
    ...{ status: 503, detail: "The notification could not be recorded in time." },
    ...{ level: "error", line: "the store did not record the notification in time" },
  },
  backlog: {
    ...{ status: 503, detail: "Too many notifications wait to be handled." },
    ...{
      level: "error",
      line: "more events wait than maxBacklog allows. Discard unneeded events, or raise maxBacklog",
    },
  },
  internal: { status: 500, detail: "Something went wrong.", level: "error", line: "unexpected error" },
};

const titles: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  405: "Method Not Allowed",
  408: "Request Timeout",
  413: "Content Too Large",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

const headersOf: Readonly<Record<number, Record<string, string>>> = {
  405: { allow: "POST" },
  503: { "retry-after": "5" },
};

/** The answer to a GET or HEAD request of a monitor. */
export function reachable(): ReceiveResult {
  return { status: 200, headers: {}, body: "" };
}

/** The answer to a recorded notification, or to its duplicate. */
export function accepted(): ReceiveResult {
  return { status: 200, headers: { "content-type": "application/json" }, body: '{"received":true}' };
}

export function refused(reason: Refusal): ReceiveResult {
  const { status, detail } = rows[reason];
  return problem(status, { detail });
}

/** The answer to an invalid notification. It names each wrong field, but repeats nothing of the request. */
export function invalid(issues: readonly Issue[]): ReceiveResult {
  const errors = issues.map(({ path, message }) => ({ path, message }));
  return problem(400, { detail: "The body is not a valid notification.", errors });
}

function problem(status: number, details: object): ReceiveResult {
  return {
    status,
    headers: { "content-type": "application/problem+json", ...headersOf[status] },
    body: JSON.stringify({ title: titles[status], status, ...details }),
  };
}

/** Reports a notification. `received`: the store recorded its event. `duplicate`: the store already had this id. */
export interface ReceivedObservation {
  readonly kind: "received" | "duplicate";
  /** The id of the event in lower case. */
  readonly eventId: string;
  /** `booking:<code>`, `listing:<id>`, or `null` if the event refers to no record. */
  readonly ref: string | null;
  /** The topic of the endpoint, or `null` if the endpoint has no topic. */
  readonly topic: string | null;
}

/** Reports a request whose body is not a valid notification. */
export interface InvalidObservation {
  readonly kind: "invalid";
  /** The topic of the endpoint, or `null` if the endpoint has no topic. */
  readonly topic: string | null;
  /** Each part of the body that is wrong. */
  readonly issues: readonly Issue[];
  /** The first 2 KiB of the body, so that you can recover the notification. */
  readonly body: string;
}

/** Reports a refused request. */
export interface RefusedObservation {
  readonly kind: "refused";
  /** The topic of the endpoint, or `null` if the endpoint has no topic. */
  readonly topic: string | null;
  /** The status of the answer. */
  readonly status: number;
  /** Why the handler refused the request. */
  readonly reason: Refusal;
  /** The error that caused the refusal, such as an error of `verify` or the store. */
  readonly error?: unknown;
}

/** An observation of a request. It never holds the URL or the headers. */
export type ReceiveObservation = ReceivedObservation | InvalidObservation | RefusedObservation;

export type Observe = (event: ReceiveObservation) => void;

/** `observe` gets this many bytes from the beginning of an invalid body. */
const SHOWN_BYTES = 2048;

const doubtLines: Readonly<Record<Extract<Doubt, string>, string>> = {
  timestamp: "has no readable timestamp, so event.timestamp is the time of arrival",
  references:
    "refers to a booking and a listing. The handler reads only the booking. Add topic=<topic> to the endpoint's URL",
};

export function logDoubts({ eventId, ref }: NewEvent, doubts: readonly Doubt[], log: Log): void {
  for (const doubt of doubts) {
    const [kind, line] =
      typeof doubt === "string"
        ? [doubt, doubtLines[doubt]]
        : [
            "misspelt",
            `names no record, but has the key \`${doubt.key}\`. Is this \`${doubt.meant}\`, misspelt?`,
          ];
    log.limited(kind, "warn", `the notification ${eventId} ${line}`, { eventId, ref });
  }
}

/** Puts the words `the body` before the message of an issue about the whole body. */
export function withSubject({ path, message }: Issue): Issue {
  return { path, message: path.length === 0 ? `the body ${message}` : message };
}

/** Reports each request to `observe` and the log. */
export class Reporter {
  readonly #observe: Observe;
  readonly #log: Log;

  constructor(observe: Observe, log: Log) {
    this.#observe = observe;
    this.#log = log;
  }

  recorded(event: NewEvent, added: AddAnswer, doubts: readonly Doubt[]): void {
    const { eventId, ref, topic } = event;
    if (added === "conflict") {
      const problem =
        "was delivered before with a different booking or listing. The handler ignores the new delivery";
      this.#log.limited("conflict", "warn", `event ${eventId} ${problem}`, { eventId, ref });
    }
    logDoubts(event, doubts, this.#log);
    this.#observe({ kind: added === "added" ? "received" : "duplicate", eventId, ref, topic });
  }

  invalid(topic: string | undefined, issues: readonly Issue[], body: string | Uint8Array = ""): void {
    const list = issues.map((issue) => describeIssue(withSubject(issue))).join("; ");
    this.#log.limited("invalid", "warn", `refused an invalid notification (400): ${list}`);
    this.#observe({ kind: "invalid", topic: topic ?? null, issues, body: beginningOf(body) });
  }

  refused(reason: Refusal, topic: string | undefined, error?: unknown): void {
    const { status, level, line } = rows[reason];
    const message = `refused a request (${status}): ${line}`;
    // Log only the class of an error of `verify`, because the error may quote the URL with the secret.
    if (reason === "verify" && error !== undefined)
      this.#log.limited(
        "verify-threw",
        level,
        `refused a request (${status}): verify threw ${classOf(error)}`,
      );
    else this.#log.limited(reason, level, message, error === undefined ? {} : { error });
    const base = { kind: "refused", topic: topic ?? null, status, reason } as const;
    this.#observe(error === undefined ? base : { ...base, error });
  }
}

function beginningOf(body: string | Uint8Array): string {
  // Each character has at least one byte, so encode no more than `SHOWN_BYTES` characters.
  const bytes = typeof body === "string" ? new TextEncoder().encode(body.slice(0, SHOWN_BYTES)) : body;
  if (bytes.length <= SHOWN_BYTES) return new TextDecoder().decode(bytes);
  return new TextDecoder().decode(bytes.subarray(0, SHOWN_BYTES), { stream: true });
}

function classOf(error: unknown): string {
  return error instanceof Error ? `a ${error.name}` : `a ${typeof error}`;
}
