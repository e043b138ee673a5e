import { Log } from "../../src/logger.ts";
import { Queue } from "../../src/queue/queue.ts";
import { defaultBackoff } from "../../src/queue/retries.ts";
import type {
  Backoff,
  Policy,
  QueueObservation,
  StartedObservation,
  Work,
  WorkContext,
  WorkResult,
} from "../../src/queue/work.ts";
import type { ClaimedEvent, EventStore, NewEvent } from "../../src/stores/event-store.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

export function eventOf(eventId: string, ref: string | null = `booking:${eventId}`): NewEvent {
  return {
    eventId,
    ref,
    source: "webhook",
    topic: null,
    timestamp: "2026-01-01T00:00:00Z",
    notification: "{}",
  };
}

export const done: WorkResult<never> = {
  state: "done",
  type: "booking.Confirmed",
  snapshot: { snapshot: { status: "Confirmed", fields: {} }, changed: true },
};
export const callbackFailed: WorkResult<never> = {
  state: "failed",
  reason: "callback",
  error: new Error("callback failed"),
};
export function outOfReach(retryAfter?: number): WorkResult<never> {
  const outage = { everything: retryAfter !== undefined, retryAfter };
  return { state: "failed", reason: "unavailable", error: new Error("down"), outage };
}

export const refused: WorkResult<never> = {
  state: "failed",
  reason: "not-found",
  error: new Error("404"),
  refused: true,
  maxAttempts: 5,
};

export type TestWork = (
  claim: ClaimedEvent,
  context: WorkContext,
) => WorkResult<never> | Promise<WorkResult<never>>;

/** Makes a queue on a memory store. It records the log and the runs. */
export function queueOf({
  work = () => done,
  store = memoryStore(),
  backoff = defaultBackoff,
  ...policy
}: { work?: TestWork; store?: EventStore; backoff?: Backoff } & Partial<Policy> = {}) {
  const started: StartedObservation[] = [];
  const observed: Exclude<QueueObservation, StartedObservation>[] = [];
  const logged: string[] = [];
  const ran: string[] = [];
  const log = (message: string) => logged.push(message);
  const worker: Work<never> = async (claim, context) => {
    ran.push(claim.eventId);
    const result = await work(claim, context);
    if (result.state === "done" || result.reason === "callback") context.answered();
    return result;
  };
  const queue = new Queue<never>({
    store,
    work: worker,
    policy: {
      concurrency: 10,
      maxAttempts: 12,
      attemptTimeout: 300 * SECOND,
      leaseDuration: 30 * SECOND,
      giveUpAfter: 3 * DAY,
      retention: 7 * DAY,
      parkedRetention: 30 * DAY,
      snapshotRetention: 400 * DAY,
      ...policy,
      backoff,
    },
    observe: (event) => (event.kind === "started" ? started.push(event) : observed.push(event)),
    logger: new Log({ debug: log, info: log, warn: log, error: log }),
    worker: "test:1",
  });
  return {
    queue,
    store,
    started,
    observed,
    logged,
    ran,
    kinds: () => observed.map(({ kind }) => kind),
    add: (...ids: string[]) => Promise.all(ids.map((id) => store.add(eventOf(id)))),
    stateOf: async (id: string) => (await store.get(id))?.state,
  };
}

/** Makes a promise that the test resolves. */
export function gate<T = void>() {
  let open!: (value: T) => void;
  const opened = new Promise<T>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

/** Replaces methods of a store. Each replacement gets the store's own method. */
export function alteredStore(
  store: EventStore,
  altered: { [K in keyof EventStore]?: (own: NonNullable<EventStore[K]>) => EventStore[K] | undefined },
): EventStore {
  return new Proxy(store, {
    get(target, property: keyof EventStore) {
      const value = target[property];
      const own = typeof value === "function" ? (value as () => unknown).bind(target) : value;
      const alter = altered[property] as ((own: unknown) => unknown) | undefined;
      return alter ? alter(own) : own;
    },
  });
}

/** Makes methods fail while they are listed in `broken`. */
export function brokenStore(
  store: EventStore,
  broken: Partial<Record<keyof EventStore, () => Error>>,
): EventStore {
  return new Proxy(store, {
    get(target, property: keyof EventStore) {
      const value = target[property];
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        const error = broken[property]?.();
        return error ? Promise.reject(error) : (value as (...a: unknown[]) => unknown).apply(target, args);
      };
    },
  });
}

export function abortAfter(ms: number): AbortSignal {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), ms);
  return controller.signal;
}
