import { Alarm, atMost } from "../async.ts";
import type { Queue } from "../queue/queue.ts";
import type { EventState } from "../stores/event-states.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { SilentObservation } from "./observability.ts";

/** The health of a handler whose store answers. */
export interface AvailableHealth {
  /**
   * `idle`: processing has not started. It does not start by itself on serverless runtimes or with
   * `autoStart: false`. `paused`: the platform is out of reach, but the handler still records notifications.
   * `stopped`: the handler is closed.
   */
  readonly state: "idle" | "running" | "paused" | "stopped";
  /** How many events the store has in each state. */
  readonly counts: Record<EventState, number>;
  /** Age of the oldest event that waits to be handled, ms. It is `undefined` if no event waits. */
  readonly oldestWaitingAge: number | undefined;
  /** When any process last recorded a notification. With `forwardTo`, only this process counts. */
  readonly lastReceivedAt: Date | undefined;
  /** When the current pause of this process began. It is `undefined` if processing is not paused. */
  readonly pausedSince: Date | undefined;
  /** The text of the latest error that keeps this process paused. */
  readonly pauseReason: string | undefined;
  /** There is no error, because the store answers. */
  readonly error?: undefined;
}

/** The health of a handler whose store does not answer. */
export interface UnavailableHealth {
  /** The store failed, or did not answer within 10 seconds. */
  readonly state: "unavailable";
  /** The error of the store. */
  readonly error: unknown;
  /** The counts are unknown, because the store does not answer. */
  readonly counts?: undefined;
  /** The age is unknown, because the store does not answer. */
  readonly oldestWaitingAge?: undefined;
  /** The time is unknown, because the store does not answer. */
  readonly lastReceivedAt?: undefined;
  /** No pause is reported, because the store does not answer. */
  readonly pausedSince?: undefined;
  /** No pause is reported, because the store does not answer. */
  readonly pauseReason?: undefined;
}

/** The result of {@link WebhookHandler.health}. `state` narrows its type. */
export type Health = AvailableHealth | UnavailableHealth;

/** How long the store may take to answer, ms. */
const STORE_TIMEOUT = 10_000;

interface HealthOptions {
  /** `store` and `queue` are `undefined` if `forwardTo` passes the events to a queue of the user. */
  readonly store: EventStore<unknown> | undefined;
  readonly queue: Pick<Queue<never>, "state" | "pause"> | undefined;
  readonly closed: boolean;
  /** When this process last recorded a notification. */
  readonly lastReceivedAt: Date | undefined;
}

/** Never rejects. */
export async function healthOf({ store, queue, closed, lastReceivedAt }: HealthOptions): Promise<Health> {
  try {
    const asked = store && (await within(STORE_TIMEOUT, ask(store)));
    const pause = queue?.pause;
    return {
      state: queue?.state ?? (closed ? "stopped" : "idle"),
      counts: { scheduled: 0, pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 },
      oldestWaitingAge: undefined,
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
    store.lastReceivedAt(),
  ]);
  return { counts, oldestWaitingAge: waiting, lastReceivedAt };
}

async function within<T>(ms: number, asked: Promise<T>): Promise<T> {
  let answer: { readonly value: T } | undefined;
  const answered = asked.then((value) => {
    answer = { value };
  });
  // Ignore a rejection after the timeout.
  answered.catch(() => {});
  await atMost(ms, [answered]);
  if (!answer) throw new Error(`The store did not answer within ${ms} ms`);
  return (answer as { readonly value: T }).value;
}

/** After a failure of the store, the monitor checks again within this time, ms. */
const RETRY_AFTER_FAILURE = 60_000;

interface SilenceOptions {
  /** The time without a notification that counts as silence, ms. `Infinity` turns the monitor off. */
  readonly silentAfter: number;
  /** Resolves to the time of the last notification. */
  readonly lastReceivedAt: () => Promise<Date | undefined>;
  readonly tell: (event: SilentObservation) => void;
}

/** Reports when no notification has arrived for `silentAfter` ms. Reports each such silence once. */
export class SilenceMonitor {
  readonly #options: SilenceOptions;
  readonly #alarm = new Alarm(() => void this.check());
  /** When the last reported silence began, in epoch ms. It is `none` if no notification had ever arrived. */
  #told: number | "none" | undefined;
  /** When the first check ran. If no notification has ever arrived, the silence begins at this time. */
  #since: number | undefined;
  #started = false;
  #stopped = false;

  constructor(options: SilenceOptions) {
    this.#options = options;
  }

  /** Checks for silence now, and again whenever `silentAfter` may have passed. */
  start(): void {
    if (this.#started || this.#stopped || this.#options.silentAfter === Number.POSITIVE_INFINITY) return;
    this.#started = true;
    this.#alarm.set(0);
  }

  stop(): void {
    this.#stopped = true;
    this.#alarm.clear();
  }

  /** Never rejects. */
  async check(): Promise<void> {
    const { silentAfter, lastReceivedAt } = this.#options;
    if (this.#stopped || silentAfter === Number.POSITIVE_INFINITY) return;
    this.#since ??= Date.now();
    try {
      const last = await lastReceivedAt();
      if (this.#stopped) return;
      const left = (last?.getTime() ?? this.#since) + silentAfter - Date.now();
      if (left <= 0) this.#tell(last);
      this.#checkIn(left > 0 ? left : silentAfter);
    } catch {
      this.#checkIn(Math.min(silentAfter, RETRY_AFTER_FAILURE));
    }
  }

  #checkIn(ms: number): void {
    if (this.#started && !this.#stopped) this.#alarm.set(ms);
  }

  #tell(lastReceivedAt: Date | undefined): void {
    const silence = lastReceivedAt?.getTime() ?? "none";
    if (silence === this.#told) return;
    this.#told = silence;
    this.#options.tell({ kind: "silent", lastReceivedAt });
  }
}
