import { runWrapped } from "../async.ts";
import type { RequestTelemetry } from "../client/client-options.ts";
import type { Log } from "../logger.ts";
import type { AttemptResult, ProcessAttempt, QueueObservation } from "../queue/work.ts";
import type { EventState } from "../stores/event-states.ts";
import type { ClaimedEvent, EventStore, NewEvent } from "../stores/event-store.ts";
import type { FieldChanges } from "./events.ts";
import type { ReceiveObservation } from "./receiving/answers.ts";

/** The argument of `observe`. `kind` narrows it. */
export type Observation = ReceiveObservation | QueueObservation | SilentObservation | ReconcilerAlarm;

/** `observe` gets it when no notification has arrived for `silentAfter`. */
export interface SilentObservation {
  readonly kind: "silent";
  /** When the newest notification was recorded. `undefined` if there was never one. */
  readonly lastReceivedAt: Date | undefined;
}

/** The webhook configuration is off or missing, or the endpoints of these topics are not the expected ones. */
export interface DriftObservation {
  readonly kind: "drift";
  /** Whether the platform sends notifications. */
  readonly isActive: boolean;
  /** The topics whose endpoint is not the expected one. */
  readonly topics: readonly string[];
}

/** A record had changed, and no event of it waited: its notification never arrived. An event for it is in the store now. */
export interface MissedObservation {
  readonly kind: "missed";
  /** `booking:<code>` or `listing:<id>`. */
  readonly ref: string;
  /** The fields that differ from the snapshot. */
  readonly changes: FieldChanges;
}

/** The reconciler's alarms. The handler's `observe` gets them, too. */
export type ReconcilerAlarm = DriftObservation | MissedObservation;

/** Wraps the user's `observe` so that it never throws. Its errors are logged. */
export function safeObserve<E>(observe: ((event: E) => unknown) | undefined, log: Log): (event: E) => void {
  if (!observe) return () => {};
  const failed = (error: unknown) => log.warn("the `observe` function threw", { error, fromUserCode: true });
  return (event) => {
    try {
      const observed = observe(event);
      if (observed instanceof Promise) observed.catch(failed);
    } catch (error) {
      failed(error);
    }
  };
}

type Of<K extends QueueObservation["kind"]> = Extract<QueueObservation, { kind: K }>;

/** Logs failures, parked events, pauses and silence. */
export function logTrouble(event: QueueObservation | SilentObservation, log: Log): void {
  switch (event.kind) {
    case "failed": {
      const next = `The next attempt is in ${readableDuration(event.retryIn)}`;
      writeTrouble(
        event,
        log,
        "warn",
        `attempt ${event.attempt} at ${nameOf(event)} failed (${event.reason}). ${next}`,
      );
      break;
    }
    case "parked":
      writeTrouble(
        event,
        log,
        "error",
        `gave up ${nameOf(event)} (${event.reason}). The event is parked until you replay it`,
      );
      break;
    case "paused": {
      const { error } = event;
      const next = `The next try is in ${readableDuration(event.wait)}. Notifications are still recorded`;
      log.warn(`processing is paused, because the platform is out of reach. ${next}`, { error });
      break;
    }
    case "resumed":
      log.warn("the platform answers again. Processing continues");
      break;
    case "silent": {
      const { lastReceivedAt } = event;
      const since = lastReceivedAt ? ` since ${lastReceivedAt.toISOString()}` : "";
      log.warn(`no notification has arrived${since}. Is the webhook configuration still active?`);
    }
  }
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
  // A stranger causes these two with forged ids.
  if (reason === "not-found" || reason === "denied")
    log.limited(`${event.kind} ${reason}`, level, message, details);
  else log[level](message, details);
}

/** Shows ms in a unit that people read, such as `5 min`. */
function readableDuration(ms: number): string {
  const units = [
    [3_600_000, "h"],
    [60_000, "min"],
    [1000, "s"],
  ] as const;
  const [size, unit] = units.find(([least]) => ms >= least) ?? [1, "ms"];
  return `${Math.round((ms / size) * 10) / 10} ${unit}`;
}

/** The events of a store that need attention. */
export interface WaitingEvents {
  /** How many events are pending or retrying. */
  readonly waiting: number;
  /** Age of the oldest event that waits to be handled, ms; 0 if none does. */
  readonly oldestAge: number;
  /** How many events are parked. */
  readonly parked: number;
}

/**
 * Traces and measures a handler and its client. `telemetry()` of `stayhook/otel` makes one for OpenTelemetry.
 *
 * If one of its functions throws, hangs or does not call `run`, the event is handled all the same. The handler logs the
 * failure, once a minute at most.
 */
export interface Telemetry extends RequestTelemetry {
  /**
   * Called before the store records a new event.
   *
   * @param added - resolves to the store's answer. Rejects if the store failed
   * @returns the W3C `traceparent` that the store keeps with the event; {@link process} gets it, also in other processes
   */
  recorded(event: NewEvent, added: Promise<"added" | "duplicate" | "conflict">): string | undefined;
  /**
   * Wraps an attempt, from its start to the recording of its end. Has to call `run` once and to resolve to its result.
   *
   * @param event - the event, with the `traceparent` that {@link recorded} returned
   */
  process<R extends AttemptResult>(event: ClaimedEvent, run: () => Promise<R>): Promise<R>;
  /** Gets everything that the handler's `observe` gets. */
  observe?(observation: Observation): void;
  /**
   * Called once, when a handler with a store is made.
   *
   * @param waiting - counts the waiting events. Asks the store at most once a second
   * @returns a function that the handler calls when it closes
   */
  watch?(waiting: () => Promise<WaitingEvents>): () => void;
}

/** How old a count may be, ms. */
const FRESH = 1000;
/** The longest `traceparent` that is kept. */
const MAX_TRACEPARENT = 256;

type Added = "added" | "duplicate" | "conflict";

/** Calls the user's telemetry, and keeps its failures from events. Without telemetry, it passes calls on. */
export class SafeTelemetry {
  readonly #telemetry: Partial<Telemetry> | undefined;
  readonly #log: Log;
  #stopWatching: unknown;

  constructor(telemetry: Telemetry | undefined, log: Log) {
    this.#telemetry = telemetry;
    this.#log = log;
  }

  /** Adds a new event with the `traceparent` of its recording. */
  add<A extends Added>(event: NewEvent, add: (event: NewEvent) => Promise<A>): Promise<A> {
    // Not asynchronous by itself: without telemetry, the intake must not wait for another promise.
    return this.#telemetry?.recorded ? this.#addTraced(event, add) : add(event);
  }

  async #addTraced<A extends Added>(event: NewEvent, add: (event: NewEvent) => Promise<A>): Promise<A> {
    const { promise: added, resolve, reject } = Promise.withResolvers<A>();
    // The telemetry may ignore the promise. Its rejection must not count as unhandled.
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

  /** Wraps the attempts of the queue; `undefined` if there is nothing to wrap them with. */
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
    if (this.#telemetry?.observe) this.#call("observe", () => this.#telemetry?.observe?.(observation));
  }

  watch(store: EventStore<unknown>): void {
    const waiting = countsOf(store);
    this.#stopWatching = this.#call("watch", () => this.#telemetry?.watch?.(waiting));
  }

  close(): void {
    const stop = this.#stopWatching;
    this.#stopWatching = undefined;
    if (typeof stop === "function") this.#call("watch", () => stop());
  }

  #traceparent(event: NewEvent, added: Promise<Added>): string | undefined {
    const traceparent = this.#call("recorded", () => this.#telemetry?.recorded?.(event, added));
    if (typeof traceparent !== "string") return undefined;
    // All stores keep printable ASCII unchanged.
    return traceparent.length <= MAX_TRACEPARENT && /^[!-~]+$/.test(traceparent) ? traceparent : undefined;
  }

  #call(name: string, call: () => unknown): unknown {
    try {
      const result = call();
      // An async function has the type of a function that returns nothing.
      if (result instanceof Promise) result.catch((error) => this.#failed(name, error));
      return result;
    } catch (error) {
      this.#failed(name, error);
      return undefined;
    }
  }

  #failed(name: string, error: unknown): void {
    this.#log.limited("telemetry", "warn", `the telemetry function \`${name}\` failed`, {
      error,
      fromUserCode: true,
    });
  }
}

/** Makes a function that counts the waiting events. Its answer is at most {@link FRESH} ms old. */
function countsOf(store: EventStore<unknown>): () => Promise<WaitingEvents> {
  let last: { readonly at: number; readonly answer: Promise<WaitingEvents> } | undefined;
  return () => {
    const now = performance.now();
    if (!last || now - last.at >= FRESH) last = { at: now, answer: ask(store) };
    return last.answer;
  };
}

async function ask(store: EventStore<unknown>): Promise<WaitingEvents> {
  const [counts, oldestAge = 0]: [Record<EventState, number>, number | undefined] = await Promise.all([
    store.counts(),
    store.oldestWaiting(),
  ]);
  return { waiting: counts.pending + counts.retrying, oldestAge, parked: counts.parked };
}
