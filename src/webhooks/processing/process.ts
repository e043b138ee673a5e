import { InvalidArgumentError, type Issue, StayhookError } from "../../errors.ts";
import { CancellableRun } from "../../queue/cancellable-run.ts";
import { describeThrown } from "../../queue/outcome.ts";
import type { Work, WorkFailure, WorkResult } from "../../queue/work.ts";
import type { ClaimedEvent, FailureReason, NewEvent } from "../../stores/event-store.ts";
import { parseBody } from "../receiving/parse.ts";

/** What the queue that calls `process` knows of the attempt. */
export interface ProcessOptions {
  /** Cuts the attempt off, as `attemptTimeout` does. */
  readonly signal?: AbortSignal | undefined;
  /** Which attempt of the queue's this is; becomes `event.attempt`. Default 1. */
  readonly attempt?: number | undefined;
}

/** What became of a notification that was processed. */
export interface Processed {
  readonly eventId: string;
  /** The event's type, such as `booking.Confirmed`. */
  readonly type: string;
  /** The record's status; `undefined` where the notification is about no record. */
  readonly status: string | undefined;
}

/** A notification that could not be processed, in the terms of the queue that is to try it again. */
export class ProcessingError extends StayhookError {
  /** As the failure table has it, or `invalid`: it is no notification. */
  readonly reason: FailureReason | "invalid";
  /** Whether another attempt can help. */
  readonly retryable: boolean;
  /** Seconds that the platform asks to wait; `undefined` where it does not say. */
  readonly retryAfter: number | undefined;

  constructor(
    message: string,
    init: {
      readonly reason: FailureReason | "invalid";
      readonly retryable: boolean;
      readonly retryAfter?: number | undefined;
      readonly cause?: unknown;
    },
  ) {
    super(message, { cause: init.cause });
    this.name = "ProcessingError";
    this.reason = init.reason;
    this.retryable = init.retryable;
    this.retryAfter = init.retryAfter;
  }
}

/** Processes one notification now, with no store: fetches its record and runs its callback. */
export async function processNow<Tx>(
  work: Work<Tx>,
  limits: { readonly attemptTimeout: number; readonly maxAttempts: number },
  notification: unknown,
  { signal, attempt = 1 }: ProcessOptions,
): Promise<Processed> {
  if (!Number.isSafeInteger(attempt) || attempt < 1) {
    throw new InvalidArgumentError({ path: ["attempt"], message: "must be a whole number from 1" });
  }
  const event = toEvent(notification);
  const result = await runCutOff(work, claimOf(event, attempt), limits.attemptTimeout, signal);
  if (result.state === "done") return { eventId: event.eventId, type: result.type, status: result.status };
  throw errorOf(result, event, attempt, limits.maxAttempts);
}

/** A notification or the `NewEvent` that `forwardTo` has sent; each parsed, or as JSON text. */
function toEvent(given: unknown): NewEvent {
  const sent = typeof given === "string" ? parse(given) : given;
  const { text, topic } = isSent(sent)
    ? { text: sent.notification, topic: sent.topic ?? undefined }
    : { text: typeof given === "string" ? given : stringify(given), topic: undefined };
  const parsed = text === undefined ? undefined : parseBody(text, topic);
  if (parsed?.ok) return parsed.event;
  const issues: readonly Issue[] = parsed?.issues ?? [{ path: [], message: "is not JSON" }];
  const cause = new InvalidArgumentError(issues);
  throw new ProcessingError(`This is no notification: ${cause.message}`, {
    reason: "invalid",
    retryable: false,
    cause,
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isSent(given: unknown): given is NewEvent & { readonly notification: string } {
  if (typeof given !== "object" || given === null) return false;
  const { notification, ref, source } = given as Partial<NewEvent>;
  return typeof notification === "string" && ref !== undefined && source !== undefined;
}

function stringify(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

/** As a store would hand it out; dedupe and exclusion are the queue's. */
function claimOf(event: NewEvent, attempt: number): ClaimedEvent {
  return {
    ...event,
    receivedAt: Date.now(),
    attempts: attempt,
    outages: 0,
    outageFor: 0,
    // Nothing is known of the status handled last, so that nothing can be left out for it.
    replayed: true,
    previousStatus: undefined,
    sequence: 0,
    lease: "",
  };
}

async function runCutOff<Tx>(
  work: Work<Tx>,
  claim: ClaimedEvent,
  attemptTimeout: number,
  signal: AbortSignal | undefined,
): Promise<WorkResult<Tx>> {
  const run = new CancellableRun(work, claim, { attemptTimeout });
  const abort = (): void => run.cut("aborted", signal?.reason);
  signal?.addEventListener("abort", abort);
  if (signal?.aborted) abort();
  try {
    const result = await run.run();
    return result.state === "cut" ? { state: "failed", reason: "callback", error: result.reason } : result;
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}

function errorOf(
  failure: WorkFailure,
  event: NewEvent,
  attempt: number,
  maxAttempts: number,
): ProcessingError {
  const { reason, error: cause, outage } = failure;
  const limit = Math.min(failure.maxAttempts ?? maxAttempts, maxAttempts);
  const retryable = reason === "unavailable" || attempt < limit;
  const retryAfter = outage?.retryAfter === undefined ? undefined : outage.retryAfter / 1000;
  const about = event.ref ?? "no record";
  return new ProcessingError(`Event ${event.eventId} (${about}) failed: ${describeThrown(cause)}`, {
    reason,
    retryable,
    retryAfter,
    cause,
  });
}
