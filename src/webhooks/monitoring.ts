import { Alarm, atMost } from "../async.ts";
import type { Queue } from "../queue/queue.ts";
import type { EventState } from "../stores/event-states.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { SilentObservation } from "./observability.ts";

/** How a handler is doing. */
export interface AvailableHealth {
  /**
   * `idle`: processing has not started, because of serverless or `autoStart: false`. `paused`: the platform is out of
   * reach, and notifications are still recorded. `stopped`: the handler is closed.
   */
  readonly state: "idle" | "running" | "paused" | "stopped";
  /** How many events the store has in each state. */
  readonly counts: Record<EventState, number>;
  /** Age in seconds of the oldest event that waits to be handled. `undefined` if none waits. */
  readonly oldestPendingAge: number | undefined;
  /** When a notification was last recorded, by any process. With `forwardTo`: by this process. */
  readonly lastReceivedAt: Date | undefined;
  /** Since when this process pauses. `undefined` while it does not. */
  readonly pausedSince: Date | undefined;
  /** The error for which this process pauses. */
  readonly pauseReason: string | undefined;
  /** Absent: the store answers. */
  readonly error?: undefined;
}

/** The health of a handler whose store does not answer. */
export interface UnavailableHealth {
  /** The store cannot be asked. */
  readonly state: "unavailable";
  /** The error of the store. */
  readonly error: unknown;
  /** Absent: the store does not answer. */
  readonly counts?: undefined;
  /** Absent: the store does not answer. */
  readonly oldestPendingAge?: undefined;
  /** Absent: the store does not answer. */
  readonly lastReceivedAt?: undefined;
  /** Absent: the store does not answer. */
  readonly pausedSince?: undefined;
  /** Absent: the store does not answer. */
  readonly pauseReason?: undefined;
}

/** The result of {@link WebhookHandler.health}. `state` narrows it. */
export type Health = AvailableHealth | UnavailableHealth;

/** How long the store may take to answer, ms. */
const STORE_TIMEOUT = 10_000;

interface HealthOptions {
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
    const asked = store && (await within(STORE_TIMEOUT, ask(store)));
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
  // A rejection after the timeout must not be unhandled.
  answered.catch(() => {});
  await atMost(ms, [answered]);
  if (!answer) throw new Error(`The store did not answer within ${ms} ms`);
  return (answer as { readonly value: T }).value;
}

/** The wait after the store has failed, ms. */
const RETRY_AFTER_FAILURE = 60_000;

interface SilenceOptions {
  /** ms. Infinity: never. */
  readonly silentAfter: number;
  /** When a notification was last recorded, by any process. */
  readonly lastReceivedAt: () => Promise<Date | undefined>;
  readonly tell: (event: SilentObservation) => void;
}

/** Reports once that no notification has arrived for `silentAfter`, and again after the next notification. */
export class SilenceMonitor {
  readonly #options: SilenceOptions;
  readonly #alarm = new Alarm(() => void this.check());
  /** The silence that was reported last: its start by the store's clock, or `none`. */
  #told: number | "none" | undefined;
  /** The start of the silence if there was never a notification. */
  #since: number | undefined;
  #started = false;
  #stopped = false;

  constructor(options: SilenceOptions) {
    this.#options = options;
  }

  /** Checks whenever the silence may have lasted too long. */
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
