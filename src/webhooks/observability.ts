import { accountOf } from "../account.ts";
import { runWrapped } from "../async.ts";
import type { Observers } from "../client/observers.ts";
import type { Log } from "../logger.ts";
import type { AttemptResult, ProcessAttempt, QueueObservation } from "../queue/work.ts";
import type { EventFilter } from "../stores/event-filter.ts";
import type { AddAnswer } from "../stores/store-steps.ts";
import type { ClaimedEvent, NewEvent } from "../stores/stored-event.ts";
import type { FieldChanges } from "./field-changes.ts";
import type { ReceivedObservation, ReceiveObservation } from "./receiving/answers.ts";
import type { StoreCounts } from "./store-counts.ts";

/** The argument of the `observe` option. `kind` narrows its type. */
export type Observation =
  | ReceiveObservation
  | QueueObservation
  | SilentObservation
  | ReconcilerAlarm
  | OperatedObservation;

/** Reports a change that a person has made in the console. */
export type OperatedObservation = {
  /** The kind of the observation. */
  readonly kind: "operated";
  /** What the person did. `run now` is the replay of an event before its time. */
  readonly action: "replay" | "run now" | "discard" | "erase";
  /** Who did it, as `authorize` of the console said. It is `undefined` if `authorize` returned `true`. */
  readonly user: string | undefined;
  /** The event, if the person chose single events. Each of them has an observation of its own. */
  readonly eventId?: string | undefined;
  /** The record of the event, or the record that was erased. */
  readonly ref?: string | null | undefined;
  /** The account of the event or record, in a handler with `accountFrom`. */
  readonly account?: string | undefined;
  /** The filter, if the person changed all events that match it. */
  readonly filter?: OperatedFilter | undefined;
  /** How many events were changed or deleted. */
  readonly count: number;
};

/** The filter of a change in the console. */
export type OperatedFilter = EventFilter & {
  /** The text that the person searched in the events' errors. It may have personal data. */
  readonly error?: string | undefined;
  /** The cause of the parked events, as in the URL of the page. */
  readonly cause?: string | undefined;
};

/** Reports that no notification has arrived for `silentAfter` ms. */
export type SilentObservation = {
  /** The kind of the observation. */
  readonly kind: "silent";
  /** When the newest notification was recorded. It is `undefined` if there has never been a notification. */
  readonly lastReceivedAt: Date | undefined;
};

/** Reports that the platform's webhook configuration is inactive or missing, or has an unexpected endpoint. */
export type DriftObservation = {
  /** The kind of the observation. */
  readonly kind: "drift";
  /** The account of the configuration, in a handler with `accountFrom`. */
  readonly account?: string | undefined;
  /** Whether the platform sends notifications. */
  readonly isActive: boolean;
  /** The topics whose endpoint differs from the expected endpoint. */
  readonly topics: readonly string[];
};

/** Reports a change whose notification never arrived. The reconciler has added an event for the change. */
export type MissedObservation = {
  /** The kind of the observation. */
  readonly kind: "missed";
  /** `booking:<code>` or `listing:<id>`. */
  readonly ref: string;
  /** The account of the record, in a handler with `accountFrom`. */
  readonly account?: string | undefined;
  /** The fields that differ from the snapshot. */
  readonly changes: FieldChanges<string>;
};

/** An alarm of the reconciler. The reconciler also passes each alarm to the handler's `observe`. */
export type ReconcilerAlarm = DriftObservation | MissedObservation;

/** Calls a function of the user, and passes its error to `failed`, also that of a promise. */
function safely(call: () => unknown, failed: (error: unknown) => void): unknown {
  try {
    const result = call();
    // TypeScript accepts an `async` function where the type says `void`, so a promise may arrive here.
    if (result instanceof Promise) result.catch(failed);
    return result;
  } catch (error) {
    failed(error);
    return undefined;
  }
}

/** Wraps the user's `observe`, so that an error of `observe` is logged and never thrown. */
export function safeObserve<E>(observe: ((event: E) => unknown) | undefined, log: Log): (event: E) => void {
  if (!observe) return () => {};
  const failed = (error: unknown) => log.warn("the `observe` function threw", { error, fromUserCode: true });
  return (event) => void safely(() => observe(event), failed);
}

/** Joins the user's `observe` and the telemetry. Returns `undefined` if there is neither. The function never throws. */
export function observerOf(
  {
    observe,
    telemetry,
    accountFrom,
  }: {
    readonly accountFrom?: unknown;
    readonly observe?: ((event: Observation) => unknown) | undefined;
    readonly telemetry?: Telemetry | undefined;
  },
  traced: SafeTelemetry,
  log: Log,
): ((event: Observation) => void) | undefined {
  const tell = observe && safeObserve(observe, log);
  if (!telemetry?.observe && (!tell || accountFrom === undefined)) return tell;
  return (event) => {
    const named = accountFrom === undefined ? event : withAccount(event);
    tell?.(named);
    traced.observe(named);
  };
}

/**
 * Adds the account of the event or record that an observation is about. A pause says itself whose it is: if everything
 * pauses, the record whose read decided that belongs to one account, but the pause does not.
 */
function withAccount(event: Observation): Observation {
  if (event.kind === "paused") return event;
  const { eventId = "", ref = null, account } = event as Partial<ReceivedObservation>;
  const known = account ?? accountOf({ ref, eventId });
  return known === undefined ? event : ({ ...event, account: known } as Observation);
}

type Of<K extends QueueObservation["kind"]> = Extract<QueueObservation, { kind: K }>;

/** Logs failures, parked events, pauses and silence. */
export function logTrouble(event: QueueObservation | SilentObservation, log: Log): void {
  switch (event.kind) {
    case "failed": {
      const next = `The next attempt is in ${readableDuration(event.retryIn)}`;
      // An attempt that could not reach the platform does not count, so its number stays the same.
      const attempt = event.reason === "unavailable" ? "an attempt" : `attempt ${event.attempt}`;
      writeTrouble(event, log, "warn", `${attempt} at ${nameOf(event)} failed (${event.reason}). ${next}`);
      break;
    }
    case "parked":
      writeTrouble(
        event,
        log,
        "error",
        `gave up on ${nameOf(event)} (${event.reason}). The event is parked. To try again, replay the event`,
      );
      break;
    case "paused": {
      const { error, scope, account, ref } = event;
      const whose = account === undefined ? "" : ` of account ${account}`;
      const next = `The next request is in ${readableDuration(event.wait)}. Notifications are still recorded`;
      const [what, fails] =
        scope === "everything" || scope === "account"
          ? ["processing", "requests to the platform fail"]
          : [`processing of ${scope}`, `reads of ${scope} fail`];
      const details = { error, ref, ...(account !== undefined && { account }) };
      log.warn(`${what}${whose} is paused, because ${fails}. ${next}`, details);
      break;
    }
    case "resumed":
      log.warn(
        `the pause${forAccount(event)} has ended, because the platform answers again or nothing waits for it`,
      );
      break;
    case "silent": {
      const { lastReceivedAt } = event;
      const since = lastReceivedAt ? ` since ${lastReceivedAt.toISOString()}` : "";
      log.warn(`no notification has arrived${since}. Is the webhook configuration still active?`);
    }
  }
}

function forAccount({ account }: Of<"resumed">): string {
  return account === undefined ? "" : ` for account ${account}`;
}

function nameOf({ eventId, ref, type }: Of<"failed" | "parked">): string {
  return `event ${eventId} (${[type, ref ?? "no record"].filter(Boolean).join(", ")})`;
}

function writeTrouble(
  event: Of<"failed" | "parked">,
  log: Log,
  level: "warn" | "error",
  message: string,
): void {
  const { eventId, ref, type, attempt, reason, error } = event;
  const details = { error, eventId, ref, type, attempt, reason };
  // Limit the log lines of these two failures, because a stranger can cause them with forged ids.
  if (reason === "not-found" || reason === "denied")
    log.limited(`${event.kind} ${reason}`, level, message, details);
  else log[level](message, details);
}

/** Formats ms in the largest unit that fits, such as `5 min`. */
function readableDuration(ms: number): string {
  const units = [
    [3_600_000, "h"],
    [60_000, "min"],
    [1000, "s"],
  ] as const;
  const [size, unit] = units.find(([least]) => ms >= least) ?? [1, "ms"];
  return `${Math.round((ms / size) * 10) / 10} ${unit}`;
}

/** The numbers of waiting and parked events in a store. */
export type WaitingEvents = {
  /** How many events are pending or retrying. */
  readonly waiting: number;
  /** Time since the oldest waiting event was first due, or was replayed, ms. It is 0 if no event waits. */
  readonly oldestAge: number;
  /** How many events are parked. */
  readonly parked: number;
};

/**
 * Traces and measures a handler and its client. For OpenTelemetry, use `telemetry()` of `stayhook/otel`. The client
 * calls `onRequest` and `onResponse`, and the handler calls the other functions.
 *
 * The handler still handles an event if one of these functions throws, hangs or does not call `run`. The handler logs
 * such a failure at most once a minute.
 */
export interface Telemetry extends Observers {
  /**
   * Called before the store records a new event.
   *
   * @param added - resolves to the result of the store, or rejects if the store fails
   * @returns the W3C `traceparent` to store with the event. {@link process} gets this `traceparent` in the event
   */
  recorded(event: NewEvent, added: Promise<AddAnswer>): string | undefined;
  /**
   * Wraps an attempt and the recording of its result. Must call `run` once and resolve to the result of `run`.
   *
   * @param event - the event, with the `traceparent` that {@link recorded} returned
   */
  process<R extends AttemptResult>(event: ClaimedEvent, run: () => Promise<R>): Promise<R>;
  /** Called with every observation that the handler's `observe` gets. */
  observe?(observation: Observation): void;
  /**
   * Called once, when a handler with an `EventStore` is made. A handler with `forwardTo` does not call `watch`.
   *
   * @param waiting - counts the waiting and parked events. Queries the store at most once a second
   * @returns a function that the handler calls when it closes
   */
  watch?(waiting: () => Promise<WaitingEvents>): () => void;
}

/** The longest `traceparent` that is stored, in characters. */
const MAX_TRACEPARENT = 256;

/** Calls the user's telemetry, if there is one. Catches and logs its errors, because they must not affect events. */
export class SafeTelemetry {
  readonly #telemetry: Partial<Telemetry> | undefined;
  readonly #log: Log;
  #stopWatching: unknown;

  constructor(telemetry: Telemetry | undefined, log: Log) {
    this.#telemetry = telemetry;
    this.#log = log;
  }

  /** Calls `add` with the event and with the `traceparent` that the telemetry returns for the event. */
  add<A extends AddAnswer>(event: NewEvent, add: (event: NewEvent) => Promise<A>): Promise<A> {
    // Do not make this method `async`: without telemetry, each request would wait for one more promise.
    return this.#telemetry?.recorded ? this.#addTraced(event, add) : add(event);
  }

  async #addTraced<A extends AddAnswer>(event: NewEvent, add: (event: NewEvent) => Promise<A>): Promise<A> {
    const { promise: added, resolve, reject } = Promise.withResolvers<A>();
    // If the telemetry ignores `added`, a rejection must not count as unhandled.
    added.catch(() => {});
    const traceparent = this.#traceparent(event, added);
    try {
      const result = await add(traceparent === undefined ? event : { ...event, traceparent });
      resolve(result);
      return result;
    } catch (error) {
      reject(error);
      throw error;
    }
  }

  /** Wraps the attempts of the queue. It is `undefined` if the telemetry has no `process` function. */
  get process(): ProcessAttempt | undefined {
    const telemetry = this.#telemetry;
    if (!telemetry?.process) return undefined;
    return (event, run) =>
      runWrapped(
        (runOnce) => telemetry.process?.(event, runOnce),
        run,
        (error) => this.#failed("process", error),
      );
  }

  observe(observation: Observation): void {
    this.#call("observe", () => this.#telemetry?.observe?.(observation));
  }

  watch(store: StoreCounts): void {
    const waiting = async (): Promise<WaitingEvents> => {
      const { counts, scheduledDue, oldestWaitingAge: oldestAge = 0 } = await store.read();
      return { waiting: counts.pending + counts.retrying + scheduledDue, oldestAge, parked: counts.parked };
    };
    this.#stopWatching = this.#call("watch", () => this.#telemetry?.watch?.(waiting));
  }

  close(): void {
    const stop = this.#stopWatching;
    this.#stopWatching = undefined;
    if (typeof stop === "function") this.#call("watch", () => stop());
  }

  #traceparent(event: NewEvent, added: Promise<AddAnswer>): string | undefined {
    const traceparent = this.#call("recorded", () => this.#telemetry?.recorded?.(event, added));
    if (typeof traceparent !== "string") return undefined;
    // Accept printable ASCII only, because all stores keep such a text unchanged.
    return traceparent.length <= MAX_TRACEPARENT && /^[!-~]+$/.test(traceparent) ? traceparent : undefined;
  }

  #call(name: string, call: () => unknown): unknown {
    return safely(call, (error) => this.#failed(name, error));
  }

  #failed(name: string, error: unknown): void {
    this.#log.limited("telemetry", "warn", `the telemetry function \`${name}\` failed`, {
      error,
      fromUserCode: true,
    });
  }
}
