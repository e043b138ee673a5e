import { describeIssue, type Issue } from "../../errors.ts";
import type { Log, LogLevel } from "../../logger.ts";
import type { NewEvent } from "../../stores/event-store.ts";
import type { Doubt } from "./parse.ts";

/** The problem, and what to do, if a body parser has read the body before. */
export const ALREADY_READ =
  "something in front, such as a body parser, has already read the body. " +
  "Mount the webhook handler before it, or pass on the bytes";

/** An answer, for any server to send. */
export interface ReceiveResult {
  /** The HTTP status of the answer. */
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Record<string, string>;
  /** The body of the answer; may be empty. */
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

/** An answer to the sender, who reads `detail`, and its log line. */
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
    ...{ level: "warn", line: "verify did not accept it" },
  },
  "verify-timeout": {
    ...{ status: 503, detail: "The request could not be checked in time." },
    ...{ level: "warn", line: "verify did not decide within replyWithin" },
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
    ...{ status: 400, detail: "The request ended before its body did." },
    ...{ level: "debug", line: "it ended before its body did" },
  },
  "already-read": {
    ...{ status: 500, detail: "The body could not be read." },
    ...{ level: "error", line: ALREADY_READ },
  },
  store: {
    ...{ status: 503, detail: "The notification could not be recorded." },
    ...{ level: "error", line: "the store could not record its notification" },
  },
  "store-timeout": {
    ...{ status: 503, detail: "The notification could not be recorded in time." },
    ...{ level: "error", line: "the store did not record its notification in time" },
  },
  backlog: {
    ...{ status: 503, detail: "Too many notifications wait to be handled." },
    ...{ level: "error", line: "more than maxWaiting events wait. Discard those that you do not need" },
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

/** The answer to a reachability check. */
export function reachable(): ReceiveResult {
  return { status: 200, headers: {}, body: "" };
}

/** The answer to a notification that is recorded, now or before. */
export function accepted(): ReceiveResult {
  return { status: 200, headers: { "content-type": "application/json" }, body: '{"received":true}' };
}

export function refused(reason: Refusal): ReceiveResult {
  const { status, detail } = rows[reason];
  return problem(status, { detail });
}

/** Names each wrong field. Repeats nothing of the request. */
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

/**
 * `observe` gets it when a notification has arrived. `received`: its event was recorded. `duplicate`: its id was known.
 */
export interface ReceivedObservation {
  readonly kind: "received" | "duplicate";
  /** The id of the event in lower case. */
  readonly eventId: string;
  /** `booking:<code>`, `listing:<id>`, or `null`. */
  readonly ref: string | null;
  /** The topic of the endpoint; `null` where it is not known. */
  readonly topic: string | null;
}

/** `observe` gets it when the body of a request is not a notification. */
export interface InvalidObservation {
  readonly kind: "invalid";
  /** The topic of the endpoint; `null` where it is not known. */
  readonly topic: string | null;
  /** Each part of the body that is wrong. */
  readonly issues: readonly Issue[];
  /** The first 2 KiB of the body, so that the notification can be recovered. */
  readonly body: string;
}

/** `observe` gets it when a request was refused. */
export interface RefusedObservation {
  readonly kind: "refused";
  /** The topic of the endpoint; `null` where it is not known. */
  readonly topic: string | null;
  /** The status of the answer. */
  readonly status: number;
  /** Why the handler did not take the request. */
  readonly reason: Refusal;
  /** The error of `verify` or the store. */
  readonly error?: unknown;
}

/** An observation of a request. It never holds the URL or the headers. */
export type ReceiveObservation = ReceivedObservation | InvalidObservation | RefusedObservation;

export type Observe = (event: ReceiveObservation) => void;

/** How much of an invalid body `observe` gets, in bytes of UTF-8. */
const SHOWN_BYTES = 2048;

const doubtLines: Readonly<Record<Doubt, string>> = {
  timestamp: "has no readable timestamp, so its event.timestamp is the time of its receipt",
  references: "refers to a booking and a listing, so it counts for the booking. Tell the endpoint its topic",
};

export function logDoubts({ eventId, ref }: NewEvent, doubts: readonly Doubt[], log: Log): void {
  for (const doubt of doubts)
    log.limited(doubt, "warn", `the notification ${eventId} ${doubtLines[doubt]}`, { eventId, ref });
}

/** Reports each request to `observe` and the log. */
export class Reporter {
  readonly #observe: Observe;
  readonly #log: Log;

  constructor(observe: Observe, log: Log) {
    this.#observe = observe;
    this.#log = log;
  }

  recorded(event: NewEvent, added: "added" | "duplicate" | "conflict", doubts: readonly Doubt[]): void {
    const { eventId, ref, topic } = event;
    if (added === "conflict") {
      const problem = "was delivered before with a different reference. The first delivery counts";
      this.#log.limited("conflict", "warn", `event ${eventId} ${problem}`, { eventId, ref });
    }
    logDoubts(event, doubts, this.#log);
    this.#observe({ kind: added === "added" ? "received" : "duplicate", eventId, ref, topic });
  }

  invalid(topic: string | undefined, issues: readonly Issue[], body: string | Uint8Array = ""): void {
    const list = issues.map((issue) =>
      issue.path.length === 0 ? `the body ${issue.message}` : describeIssue(issue),
    );
    this.#log.limited(
      "invalid",
      "warn",
      `refused a notification that is not valid (400): ${list.join("; ")}`,
    );
    this.#observe({ kind: "invalid", topic: topic ?? null, issues, body: beginningOf(body) });
  }

  refused(reason: Refusal, topic: string | undefined, error?: unknown): void {
    const { status, level, line } = rows[reason];
    const message = `refused a request (${status}): ${line}`;
    // An error of verify may quote the URL with its secret, so only its class is logged.
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
  // A character has at least one byte, so a longer part need not be encoded.
  const bytes = typeof body === "string" ? new TextEncoder().encode(body.slice(0, SHOWN_BYTES)) : body;
  if (bytes.length <= SHOWN_BYTES) return new TextDecoder().decode(bytes);
  return new TextDecoder().decode(bytes.subarray(0, SHOWN_BYTES), { stream: true });
}

function classOf(error: unknown): string {
  return error instanceof Error ? `a ${error.name}` : `a ${typeof error}`;
}
