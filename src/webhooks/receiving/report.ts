import { describeIssue, type Issue } from "../../errors.ts";
import type { Logger } from "../../logger.ts";
import type { NewEvent } from "../../stores/event-store.ts";
import { type Refusal, refused } from "./answer.ts";
import { EATEN } from "./read-body.ts";

/** What `observe` is told of a request. Never holds its URL, headers or body. */
export type ReceiveObservation =
  | {
      /** Recorded; or it was known already. */
      readonly kind: "received" | "duplicate";
      readonly eventId: string;
      readonly ref: string | null;
      readonly topic: string | null;
    }
  | {
      /** The body is no notification. */
      readonly kind: "invalid";
      readonly topic: string | null;
      readonly issues: readonly Issue[];
    }
  | {
      readonly kind: "refused";
      readonly topic: string | null;
      /** What it was answered. */
      readonly status: number;
      readonly reason: Refusal;
      /** What `verify` or the store threw. */
      readonly error?: unknown;
    };

export type Observe = (event: ReceiveObservation) => void;

const lines: Readonly<Record<Refusal, readonly [level: keyof Logger, line: string]>> = {
  closing: ["debug", "the handler is closing"],
  method: ["debug", "it is not a POST"],
  verify: ["warn", "verify said no"],
  "verify-timeout": ["warn", "verify did not decide within replyWithin"],
  "too-large": ["warn", "its body is larger than maxBodyBytes"],
  "body-timeout": ["warn", "its body stalled for longer than bodyTimeout, or took longer than replyWithin"],
  aborted: ["debug", "it ended before its body did"],
  "already-read": ["error", EATEN],
  store: ["error", "the store could not record it"],
  "store-timeout": ["error", "the store did not record it within recordTimeout"],
  internal: ["error", "unexpected error"],
};

/** How often it is said that requests were not let in, ms: whoever sends them must not fill the log. */
const SAY_AGAIN = 60_000;

/** Says what became of requests, to `observe` and to the log. */
export class Reporter {
  readonly #observe: Observe;
  readonly #logger: Logger;
  #unsaid = 0;
  #sayAgainAt = Number.NEGATIVE_INFINITY;

  constructor(observe: Observe, logger: Logger) {
    this.#observe = observe;
    this.#logger = logger;
  }

  recorded(event: NewEvent, added: "added" | "duplicate" | "conflict"): void {
    const { eventId, ref, topic } = event;
    if (added === "conflict") {
      this.#logger.warn(
        `stayhook: event ${eventId} came again, and refers to something else than the first time; the first one counts`,
      );
    }
    this.#observe({ kind: added === "added" ? "received" : "duplicate", eventId, ref, topic });
  }

  invalid(topic: string | undefined, issues: readonly Issue[]): void {
    const list = issues.map((issue) =>
      issue.path.length === 0 ? `the body ${issue.message}` : describeIssue(issue),
    );
    this.#logger.warn(`stayhook: refused what is not a notification (400): ${list.join("; ")}`);
    this.#observe({ kind: "invalid", topic: topic ?? null, issues });
  }

  refused(reason: Refusal, topic: string | undefined, error?: unknown): void {
    const { status } = refused(reason);
    const [level, line] = lines[reason];
    const message = `stayhook: refused a request (${status}): ${line}`;
    // What verify threw may quote the URL, and with it the secret: only its kind is logged.
    if (reason === "verify" && error !== undefined) {
      this.#logger.warn(
        `stayhook: refused a request (${status}): verify threw ${kindOf(error)}; observe gets it`,
      );
    } else if (reason === "verify") this.#notLetIn(message);
    else if (error === undefined) this.#logger[level](message);
    else this.#logger[level](message, error);
    const base = { kind: "refused", topic: topic ?? null, status, reason } as const;
    this.#observe(error === undefined ? base : { ...base, error });
  }

  #notLetIn(message: string): void {
    this.#unsaid += 1;
    if (performance.now() < this.#sayAgainAt) return;
    const more = this.#unsaid > 1 ? ` (${this.#unsaid} of them since it was last said)` : "";
    this.#logger.warn(`${message}${more}`);
    this.#unsaid = 0;
    this.#sayAgainAt = performance.now() + SAY_AGAIN;
  }
}

function kindOf(error: unknown): string {
  return error instanceof Error ? `a ${error.name}` : `a ${typeof error}`;
}
