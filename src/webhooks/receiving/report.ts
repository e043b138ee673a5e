import { describeIssue, type Issue } from "../../errors.ts";
import type { Log, LogLevel } from "../../logger.ts";
import type { NewEvent } from "../../stores/event-store.ts";
import { type Refusal, refused } from "./answer.ts";
import type { Doubt } from "./parse.ts";
import { EATEN } from "./read-body.ts";

/**
 * `observe` gets it when a notification has arrived. `received`: its event was recorded. `duplicate`: its id was known
 * already.
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
  /** What `verify` or the store threw. */
  readonly error?: unknown;
}

/** What `observe` is told of a request. It never holds the URL or the headers. */
export type ReceiveObservation = ReceivedObservation | InvalidObservation | RefusedObservation;

export type Observe = (event: ReceiveObservation) => void;

/** How much of an invalid body `observe` gets, in bytes of UTF-8. */
const SHOWN_BODY = 2048;

const lines: Readonly<Record<Refusal, readonly [level: LogLevel, line: string]>> = {
  closing: ["debug", "the handler is closing"],
  method: ["debug", "it is not a POST"],
  verify: ["warn", "verify did not accept it"],
  "verify-timeout": ["warn", "verify did not decide within replyWithin"],
  "too-large": ["warn", "its body is larger than maxBodyBytes"],
  "body-timeout": ["warn", "its body stalled for 10 s, or took longer than replyWithin"],
  aborted: ["debug", "it ended before its body did"],
  "already-read": ["error", EATEN],
  store: ["error", "the store could not record its notification"],
  "store-timeout": ["error", "the store did not record its notification in time"],
  backlog: ["error", "more than maxWaiting events wait. Discard those that you do not need"],
  internal: ["error", "unexpected error"],
};

const doubtLines: Readonly<Record<Doubt, string>> = {
  timestamp: "has no readable timestamp, so its event.timestamp is the time of its receipt",
  references: "refers to a booking and a listing, so it counts for the booking. Tell the endpoint its topic",
};

export function logDoubts({ eventId, ref }: NewEvent, doubts: readonly Doubt[], log: Log): void {
  for (const doubt of doubts)
    log.limited(doubt, "warn", `the notification ${eventId} ${doubtLines[doubt]}`, { eventId, ref });
}

/** Tells `observe` and the log what became of requests. */
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
    const { status } = refused(reason);
    const [level, line] = lines[reason];
    const message = `refused a request (${status}): ${line}`;
    // An error of verify may quote the URL, and with it the secret: only its kind is logged.
    if (reason === "verify" && error !== undefined)
      this.#log.limited(
        "verify-threw",
        level,
        `refused a request (${status}): verify threw ${kindOf(error)}`,
      );
    else this.#log.limited(reason, level, message, error === undefined ? {} : { error });
    const base = { kind: "refused", topic: topic ?? null, status, reason } as const;
    this.#observe(error === undefined ? base : { ...base, error });
  }
}

function beginningOf(body: string | Uint8Array): string {
  // A character has at least one byte, so the rest of a long text need not be encoded.
  const bytes = typeof body === "string" ? new TextEncoder().encode(body.slice(0, SHOWN_BODY)) : body;
  if (bytes.length <= SHOWN_BODY) return new TextDecoder().decode(bytes);
  return new TextDecoder().decode(bytes.subarray(0, SHOWN_BODY), { stream: true });
}

function kindOf(error: unknown): string {
  return error instanceof Error ? `a ${error.name}` : `a ${typeof error}`;
}
