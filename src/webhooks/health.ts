import { atMost } from "../async.ts";
import type { Queue } from "../queue/queue.ts";
import type { EventState, EventStore } from "../stores/event-store.ts";

/** How a handler is doing. */
export interface AvailableHealth {
  /**
   * `idle`: processing has not started (serverless, or `autoStart: false`). `paused`: the platform is out of reach,
   * and notifications are still recorded. `stopped`: the handler is closed.
   */
  readonly state: "idle" | "running" | "paused" | "stopped";
  /** How many events the store has in each state. */
  readonly counts: Record<EventState, number>;
  /** Age in seconds of the oldest event that waits to be handled; `undefined` where none does. */
  readonly oldestPendingAge: number | undefined;
  /** When a notification was last recorded, by any process. With `forwardTo`: by this process. */
  readonly lastReceivedAt: Date | undefined;
  /** Since when this process pauses; `undefined` while it does not. */
  readonly pausedSince: Date | undefined;
  /** The error for which this process pauses. */
  readonly pauseReason: string | undefined;
  readonly error?: undefined;
}

/** The health of a handler whose store cannot be asked. */
export interface UnavailableHealth {
  /** The store cannot be asked. */
  readonly state: "unavailable";
  /** What the store threw. */
  readonly error: unknown;
  readonly counts?: undefined;
  readonly oldestPendingAge?: undefined;
  readonly lastReceivedAt?: undefined;
  readonly pausedSince?: undefined;
  readonly pauseReason?: undefined;
}

/** What {@link WebhookHandler.health} resolves to; `state` tells which. */
export type Health = AvailableHealth | UnavailableHealth;

/** How long the store may take, ms. */
const ASK_TIMEOUT = 10_000;

export interface HealthOptions {
  /** Both are `undefined` with `forwardTo`. */
  readonly store: EventStore<unknown> | undefined;
  readonly queue: Pick<Queue<never>, "state" | "pause"> | undefined;
  readonly closed: boolean;
  /** When this process last recorded a notification. */
  readonly lastReceivedAt: Date | undefined;
}

/** Never rejects. */
export async function healthOf({ store, queue, closed, lastReceivedAt }: HealthOptions): Promise<Health> {
  try {
    const asked = store && (await within(ASK_TIMEOUT, ask(store)));
    const pause = queue?.pause;
    return {
      state: queue?.state ?? (closed ? "stopped" : "idle"),
      counts: { pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 },
      oldestPendingAge: undefined,
      lastReceivedAt,
      ...asked,
      pausedSince: pause?.since,
      pauseReason: pause?.reason,
    };
  } catch (error) {
    return { state: "unavailable", error };
  }
}

async function ask(store: EventStore<unknown>) {
  const [counts, waiting, lastReceivedAt] = await Promise.all([
    store.counts(),
    store.oldestWaiting(),
    store.newestReceived(),
  ]);
  return { counts, oldestPendingAge: waiting === undefined ? undefined : waiting / 1000, lastReceivedAt };
}

async function within<T>(ms: number, asked: Promise<T>): Promise<T> {
  let answer: { readonly value: T } | undefined;
  const answered = asked.then((value) => {
    answer = { value };
  });
  // What it rejects with after the timeout is of no interest.
  answered.catch(() => {});
  await atMost(ms, [answered]);
  if (!answer) throw new Error(`The store did not answer within ${ms} ms`);
  return (answer as { readonly value: T }).value;
}
