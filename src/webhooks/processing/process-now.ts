// Handles an event for a queue of the user, without a store.

import { accountOf } from "../../account.ts";
import { brand } from "../../copies.ts";
import { errorText } from "../../error-text.ts";
import { InvalidArgumentError, type Issue, StayhookError } from "../../errors.ts";
import type { Log } from "../../logger.ts";
import { withoutRounded } from "../../models/exact-json.ts";
import { CancellableRun } from "../../queue/cancellable-run.ts";
import { REFUSALS } from "../../queue/wait-rules.ts";
import type {
  AttemptResult,
  Policy,
  ProcessAttempt,
  Work,
  WorkFailure,
  WorkResult,
} from "../../queue/work.ts";
import type { FailureReason } from "../../stores/event-states.ts";
import type { ClaimedEvent, NewEvent } from "../../stores/stored-event.ts";
import { withSubject } from "../receiving/answers.ts";
import { logDoubts, parseBody } from "../receiving/parse.ts";

/** Options of {@link WebhookHandler.process}. */
export type ProcessOptions = {
  /** Cuts off the attempt: if this signal aborts, `event.signal` aborts, too. */
  readonly signal?: AbortSignal | undefined;
  /** The number of the attempt, from 1, which becomes `event.attempt`. Default 1. */
  readonly attempt?: number | undefined;
  /**
   * The account of a notification, in a handler with `accountFrom`. An event that `forwardTo` sent has its account
   * already.
   */
  readonly account?: string | undefined;
};

/** The result of {@link WebhookHandler.process}. */
export interface Processed {
  /** The id of the event in lower case. */
  readonly eventId: string;
  /** The event's type, such as `booking.Confirmed`. */
  readonly type: string;
  /** The record's status. It is `undefined` if the notification refers to no record. */
  readonly status: string | undefined;
}

/**
 * `webhooks.process()` could not process a notification. Tells your queue whether and when to try again: if `retryable` is
 * `false`, move the notification to the dead letter queue. Otherwise wait for `retryAfter` seconds if the platform asks for a
 * wait. `reason` is the kind of failure, and `cause` the original error.
 */
export class ProcessingError extends StayhookError {
  static {
    brand(this, "ProcessingError");
  }
  override name = "ProcessingError";
  override readonly code = "processing_failed" as const;
  /** Why the attempt failed. `invalid`: the value is not a notification. */
  readonly reason: FailureReason | "invalid";
  /** Whether another attempt can help. */
  readonly retryable: boolean;
  /** The wait that the platform asks for, in seconds. It is `undefined` if the platform asks for no wait. */
  readonly retryAfter: number | undefined;

  constructor(
    message: string,
    init: Pick<ProcessingError, "reason" | "retryable"> &
      Partial<Pick<ProcessingError, "retryAfter">> & {
        /** The error that caused this one. An `Error` of ES2020 has no such property yet. */
        readonly cause?: unknown;
      },
  ) {
    super(message, { cause: init.cause });
    this.reason = init.reason;
    this.retryable = init.retryable;
    this.retryAfter = init.retryAfter;
  }
}

export interface ProcessingOptions<Tx> {
  readonly work: Work<Tx>;
  /** How long the attempt may take, ms. */
  readonly attemptTimeout: number;
  readonly maxAttempts: number;
  readonly log: Log;
  /** Whether each event has an account. */
  readonly hasAccounts: boolean;
  /** Wraps the attempt, for telemetry. */
  readonly process?: ProcessAttempt | undefined;
}

/** Processes one notification now, with no store: reads its record and runs its callback. */
export async function processNow<Tx>(
  { work, attemptTimeout, maxAttempts, log, hasAccounts, process }: ProcessingOptions<Tx>,
  notification: unknown,
  { signal, attempt = 1, account }: ProcessOptions,
): Promise<Processed> {
  if (account !== undefined && !hasAccounts)
    throw new InvalidArgumentError({
      path: ["account"],
      message: "needs a handler with the option accountFrom",
    });
  const event = toEvent(notification, log, { account, hasAccounts });
  const claim = claimOf(event, attempt);
  const run = async (): Promise<AttemptResult & { readonly result: Processed | ProcessingError }> => {
    const { eventId } = event;
    const ended = await runCutOff(work, claim, attemptTimeout, signal);
    if (ended.state === "done") {
      const { type, snapshot } = ended;
      return { outcome: "done", type, result: { eventId, type, status: snapshot?.snapshot.status } };
    }
    if (ended.state === "released") throw new StayhookError("process() has no store to record changes in");
    const { type, reason, error } = ended;
    const result = errorOf(ended, event, attempt, { maxAttempts });
    return { outcome: result.retryable ? "retrying" : "parked", type, reason, error, result };
  };
  const { result } = await (process ? process(claim, run) : run());
  if (result instanceof ProcessingError) throw result;
  return result;
}

/** Accepts a notification, or an event that `forwardTo` sent, as an object or as JSON text. */
function toEvent(
  given: unknown,
  log: Log,
  { account, hasAccounts }: { readonly account: string | undefined; readonly hasAccounts: boolean },
): NewEvent {
  const sent = typeof given === "string" ? parse(given) : given;
  const { text, topic, traceparent, known } = isForwarded(sent)
    ? {
        ...{ text: sent.notification, topic: sent.topic ?? undefined, traceparent: sent.traceparent },
        known: accountOf({ ref: sent.ref, eventId: String(sent.eventId) }),
      }
    : { text: typeof given === "string" ? given : stringify(given) };
  const parsed = text === undefined ? undefined : parseBody(text, topic, account ?? known);
  const problem = problemWithAccount(known, account, hasAccounts);
  if (parsed?.ok && problem === undefined) {
    logDoubts(parsed.event, parsed.doubts, log);
    return { ...parsed.event, traceparent };
  }
  const issues: readonly Issue[] = [
    ...(parsed === undefined ? [{ path: [], message: "is not JSON" }] : parsed.ok ? [] : parsed.issues),
    ...(problem === undefined ? [] : [{ path: ["account"], message: problem }]),
  ];
  const cause = new InvalidArgumentError(issues.map(withSubject));
  throw new ProcessingError(`The value passed to process() is not a notification: ${cause.message}`, {
    reason: "invalid",
    retryable: false,
    cause,
  });
}

/** @param known - the account of an event that `forwardTo` sent */
function problemWithAccount(
  known: string | undefined,
  given: string | undefined,
  hasAccounts: boolean,
): string | undefined {
  if (!hasAccounts)
    return known === undefined ? undefined : `is ${known}, but the handler has no option accountFrom`;
  if (known === undefined && given === undefined)
    return "is missing. Pass it: process(notification, { account })";
  return known !== undefined && given !== undefined && known !== given
    ? `is ${known}, and not ${given}`
    : undefined;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isForwarded(given: unknown): given is NewEvent & { readonly notification: string } {
  if (typeof given !== "object" || given === null) return false;
  const { notification, ref, source } = given as Partial<NewEvent>;
  return typeof notification === "string" && ref !== undefined && source !== undefined;
}

function stringify(value: unknown): string | undefined {
  try {
    const json = JSON.stringify(value) as string | undefined;
    return json && withoutRounded(json);
  } catch {
    return undefined;
  }
}

/**
 * Makes the claim that a store would return. Without a previous snapshot, each record counts as changed. The
 * lease is empty, because the user's own queue locks the event.
 */
function claimOf(event: NewEvent, attempt: number): ClaimedEvent {
  const now = Date.now();
  return {
    ...event,
    receivedAt: now,
    claimedAt: now,
    dueAt: new Date(now),
    firstDueAt: new Date(now),
    attempts: attempt,
    outages: 0,
    outageFor: 0,
    failures: 0,
    refusals: 0,
    lastFailure: undefined,
    replayed: false,
    previous: undefined,
    sequence: 0,
    ledger: undefined,
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
  policy: Pick<Policy, "maxAttempts">,
): ProcessingError {
  const { reason, error: cause, outage } = failure;
  // The queue of the user has one count, so that the attempts that were refused are not told apart.
  const most = failure.refused ? Math.min(REFUSALS, policy.maxAttempts) : policy.maxAttempts;
  const retryable = reason === "unavailable" || attempt < most;
  const retryAfter = outage?.retryAfter === undefined ? undefined : outage.retryAfter / 1000;
  const about = event.ref ?? "no record";
  return new ProcessingError(`Event ${event.eventId} (${about}) failed: ${errorText(cause)}`, {
    reason,
    retryable,
    retryAfter,
    cause,
  });
}
