import { afterEach, beforeEach, vi } from "vitest";
import { Log } from "../../src/logger.ts";
import { Queue } from "../../src/queue/queue.ts";
import { defaultBackoff } from "../../src/queue/wait-rules.ts";
import type {
  Backoff,
  Policy,
  QueueObservation,
  StartedObservation,
  Work,
  WorkContext,
  WorkResult,
} from "../../src/queue/work.ts";
import type { EventStore } from "../../src/stores/event-store.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";
import type { ClaimOptions } from "../../src/stores/store-options.ts";
import type { ClaimedEvent, NewEvent } from "../../src/stores/stored-event.ts";
import { beginningOf, laneOf } from "../../src/webhooks/refs.ts";

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
};

export type TestWork = (
  claim: ClaimedEvent,
  context: WorkContext,
) => WorkResult<never> | Promise<WorkResult<never>>;

type Altered = { [K in keyof EventStore]?: (own: NonNullable<EventStore[K]>) => EventStore[K] | undefined };

/** Gives each test of a file a clock that only `advance` moves. */
export function useFakeTime(now?: Date): void {
  beforeEach(() => {
    vi.useFakeTimers(now && { now });
  });
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });
}
const setRealTimeout = setTimeout;
/** Lets real time pass, for waits that fake timers do not move. */
export const realTime = (ms: number) => new Promise<void>((resolve) => setRealTimeout(resolve, ms));
export const advance = (ms = 0) => vi.advanceTimersByTimeAsync(ms);
export const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
export const idsOf = (count: number, name = "e") => Array.from({ length: count }, (_, n) => `${name} ${n}`);
export const never = () => new Promise<never>(() => {});
/** Makes the system clock jump. */
export function jump(ms: number): void {
  const clock = Date.now;
  vi.spyOn(Date, "now").mockImplementation(() => clock() + ms);
}

/** Makes a queue on a memory store. It records the log, the runs, and how often each method of the store is called. */
export function queueOf({
  work = () => done,
  alter = {},
  store: own = memoryStore(),
  backoff = defaultBackoff,
  hasAccounts = false,
  ...policy
}: {
  work?: TestWork;
  alter?: Altered;
  store?: EventStore;
  backoff?: Backoff;
  hasAccounts?: boolean;
} & Partial<Policy> = {}) {
  const started: StartedObservation[] = [];
  const observed: Exclude<QueueObservation, StartedObservation>[] = [];
  const logged: string[] = [];
  const ran: string[] = [];
  const calls = { claim: 0, nextDue: 0, settle: 0, renew: 0, get: 0, prune: 0 };
  const store = counted(alteredStore(own, alter), calls);
  const log = (message: string) => logged.push(message);
  const worker: Work<never> = async (claim, context) => {
    ran.push(claim.eventId);
    const result = await work(claim, context);
    if (result.state !== "failed" || result.reason === "callback") context.answered("record");
    return result;
  };
  const queue = new Queue<never>({
    store,
    work: worker,
    laneOf,
    beginningOf,
    hasAccounts,
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
    calls,
    kinds: () => observed.map(({ kind }) => kind),
    add: (...ids: string[]) => Promise.all(ids.map((id) => own.add(eventOf(id)))),
    stateOf: async (id: string) => (await own.get(id))?.state,
  };
}

/** Makes a queue that has events, and starts its loop. */
export async function startedQueue(ids: readonly string[], options: Parameters<typeof queueOf>[0] = {}) {
  const it = queueOf(options);
  await it.add(...ids);
  it.queue.start();
  await advance(0);
  return it;
}

/** Makes work that runs until the test ends it. Events with an id in `others` are done at once. */
export function longWork(...others: string[]) {
  const held = gate();
  const aborted: unknown[] = [];
  const work: TestWork = ({ eventId }, { signal, answered }) => {
    if (others.includes(eventId)) return done;
    answered("record");
    signal.addEventListener("abort", () => aborted.push(signal.reason));
    return held.opened.then(() => done);
  };
  return { work, aborted, end: () => held.open() };
}

/** Shows whether a promise has resolved, and to what. */
export function watch<T>(promise: Promise<T>) {
  const seen: { settled: boolean; result?: T } = { settled: false };
  promise.then((result) => Object.assign(seen, { settled: true, result }));
  return seen;
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

type Method<A extends unknown[], R> = (...args: A) => Promise<R>;

/** Makes a method of a store call `act` first. If `act` throws, the method rejects. */
export const first =
  <A extends unknown[], R>(act: (...args: NoInfer<A>) => unknown) =>
  (own: Method<A, R>): Method<A, R> =>
  async (...args) => {
    await act(...args);
    return own(...args);
  };

/** Makes a method of a store reject while `isBroken()` is true. */
export const failing =
  (isBroken: () => boolean = () => true, message = "the store is down") =>
  <A extends unknown[], R>(own: Method<A, R>): Method<A, R> =>
  (...args) =>
    isBroken() ? Promise.reject(new Error(message)) : own(...args);

/** Makes the answers of a method wait until the promise of `wait` resolves. */
export const late =
  (wait: () => unknown) =>
  <A extends unknown[], R>(own: Method<A, R>): Method<A, R> =>
  async (...args) => {
    const answer = await own(...args);
    await wait();
    return answer;
  };

/** A store whose claims do not tell when the next event is due. */
export const tellsNothing = {
  claim: (own: EventStore["claim"]) => (options: ClaimOptions) => own({ ...options, onNextDue: undefined }),
};

/** Makes a method never answer. */
export const hanging = () => never;

/** Counts the calls of the methods that `calls` names. */
export function counted(store: EventStore, calls: Record<string, number>): EventStore {
  const count =
    (name: string) =>
    (own: (...args: unknown[]) => unknown) =>
    (...args: unknown[]) => {
      calls[name] = (calls[name] ?? 0) + 1;
      return own(...args);
    };
  return alteredStore(store, Object.fromEntries(Object.keys(calls).map((name) => [name, count(name)])));
}
