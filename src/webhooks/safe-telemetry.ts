// Calls the options `observe` and `telemetry`, which are code of the user: their errors are logged, and never thrown.

import { accountOf } from "../account.ts";
import { runWrapped } from "../async.ts";
import type { Log } from "../logger.ts";
import type { ProcessAttempt } from "../queue/work.ts";
import type { AddAnswer } from "../stores/store-steps.ts";
import type { NewEvent } from "../stores/stored-event.ts";
import type { Observation, Telemetry, WaitingEvents } from "./observability.ts";
import type { ReceivedObservation } from "./receiving/answers.ts";
import type { StoreCounts } from "./store-counts.ts";

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
