import { createSlots, untilAborted } from "../async.ts";
import type { Log } from "../logger.ts";
import { check } from "./checks.ts";
import type { Clock } from "./clock.ts";
import type { SandboxDelivery } from "./observations.ts";
import {
  type DeliverySettings,
  deliverySchema,
  type SandboxDeliveryOptions,
  toDeliverySettings,
} from "./options.ts";
import { createRandom, type Random } from "./random.ts";
import { copy, isOf, Recent } from "./sandbox-records.ts";

/** A function that receives deliveries without a network, such as the `fetch` of a webhook handler. */
export type SandboxReceiver = (request: Request) => Response | Promise<Response>;

/** Reads and changes the delivery options while the sandbox runs. */
export type SandboxDeliveryControl = {
  /**
   * Changes the given options and keeps all others. The new options apply to later notifications. `retry` and
   * `timeout` also apply to later attempts of earlier notifications.
   *
   * @throws InvalidArgumentError naming each wrong option
   * @example
   * ```ts
   * sandbox.delivery.set({ drop: 1 }); // lose every notification
   * ```
   */
  set(options: SandboxDeliveryOptions): void;
  /** A copy of the current options. */
  readonly current: SandboxDeliveryOptions;
};

export interface Message {
  /** The account that the notification is about, in a sandbox with accounts. */
  readonly account?: string | undefined;
  readonly topic: string;
  readonly url: string;
  readonly notification: unknown;
}

interface Job extends Message {
  readonly body: string;
  readonly eventId: string | undefined;
  readonly duplicate: boolean;
  readonly dropped: boolean;
  /** The wait before the first attempt, ms. */
  readonly delay: number;
  readonly end: (last: SandboxDelivery) => void;
}

const maxConcurrent = 50;

interface QueueOptions {
  readonly seed: number;
  readonly settings: DeliverySettings;
  readonly clock: Clock;
  readonly log: Log;
  readonly observe: (delivery: SandboxDelivery) => void;
}

/** Delivers notifications, late, lost, twice or in another order if the settings say so. */
export class DeliveryQueue {
  settings: DeliverySettings;
  receiver: SandboxReceiver | undefined;
  readonly #options: QueueOptions;
  readonly #random: Readonly<Record<"delay" | "order" | "drop" | "later", Random>>;
  readonly #recent = new Recent<SandboxDelivery>();
  readonly #unsettled = new Set<Promise<SandboxDelivery>>();
  readonly #slots = createSlots(maxConcurrent);
  readonly #activity = createCounter();
  /** The deliveries that wait for the end of the time in which deliveries are shuffled. */
  readonly #collected: Job[] = [];

  constructor(options: QueueOptions) {
    const { seed, settings } = options;
    this.#options = options;
    this.settings = settings;
    this.#random = {
      delay: createRandom(seed, "delay"),
      order: createRandom(seed, "order"),
      drop: createRandom(seed, "drop"),
      later: createRandom(seed, "later"),
    };
  }

  /** Queues a notification and its duplicates. Resolves to the original's last attempt. Never rejects. */
  add(message: Message): Promise<SandboxDelivery> {
    const { duplicates, drop, delay, duplicateAfter } = this.settings;
    const random = this.#random;
    const copies = Array.from({ length: 1 + duplicates }, (_, index) => {
      const duplicate = index > 0;
      // Make the random draws here. In `#send`, the draws would depend on the order in which deliveries are sent.
      const held = random.delay.integer(...delay) + (duplicate ? random.later.integer(...duplicateAfter) : 0);
      const dropped = random.drop.next() < drop;
      return this.#begin({ ...message, duplicate, dropped, delay: held }, (job) => this.#enqueue(job));
    });
    return copies[0]!;
  }

  /** Delivers a message once, with retries but no delay or drop. Resolves to the last attempt. Never rejects. */
  again(message: Message): Promise<SandboxDelivery> {
    const job = { ...message, duplicate: true, dropped: false, delay: 0 };
    return this.#begin(job, (begun) => void this.#deliver(begun));
  }

  /** Resolves when no delivery is queued, waiting or in flight. */
  async settled(): Promise<void> {
    while (this.#unsettled.size > 0) await Promise.all(this.#unsettled);
  }

  /** Resolves when no delivery is in flight. Deliveries that wait for their delay or retry do not count. */
  idle(): Promise<void> {
    return this.#activity.idle();
  }

  /** Returns the last `limit` attempts, the oldest first. With an account, only those of this account. */
  list(limit?: number, account?: string): SandboxDelivery[] {
    return this.#recent.list(limit, isOf(account)).map((delivery) => ({ ...delivery }));
  }

  #begin(job: Omit<Job, "end" | "body" | "eventId">, start: (job: Job) => void): Promise<SandboxDelivery> {
    const { promise, resolve: end } = Promise.withResolvers<SandboxDelivery>();
    this.#unsettled.add(promise);
    void promise.then(() => this.#unsettled.delete(promise));
    const { notification } = job;
    const { eventId } = Object(notification) as { eventId?: unknown };
    // A string is sent as it is, so that a test can send a body that is not JSON.
    const body = typeof notification === "string" ? notification : (JSON.stringify(notification) ?? "");
    start({ ...job, body, eventId: typeof eventId === "string" ? eventId : undefined, end });
    return promise;
  }

  #enqueue(job: Job): void {
    const { shuffleWindow } = this.settings;
    if (shuffleWindow === undefined) return void this.#deliver(job);
    this.#collected.push(job);
    if (this.#collected.length > 1) return;
    this.#options.clock.schedule(shuffleWindow, () => {
      for (const each of this.#random.order.shuffle(this.#collected.splice(0))) void this.#deliver(each);
    });
  }

  async #deliver(job: Job): Promise<void> {
    this.#activity.begin();
    job.end(await this.#lastAttempt(job));
    this.#activity.end();
  }

  async #lastAttempt(job: Job): Promise<SandboxDelivery> {
    await this.#pause(job.delay);
    for (let number = 1; ; number++) {
      const delivery = job.dropped ? this.#drop(job) : await this.#slots.run(() => this.#send(job, number));
      const wait = this.settings.retrySchedule[number - 1];
      if (delivery.status === 200 || delivery.dropped || wait === undefined) return delivery;
      await this.#pause(wait);
      if (this.#options.clock.stopped) return delivery;
    }
  }

  #pause(ms: number): Promise<void> {
    if (ms === 0) return Promise.resolve();
    this.#activity.end();
    return new Promise((resolve) =>
      this.#options.clock.schedule(ms, () => {
        // Counted in the turn in which the wait ends, so that `idle` does not miss this delivery.
        this.#activity.begin();
        resolve();
      }),
    );
  }

  #entry(job: Job, number: number): Mutable<SandboxDelivery> {
    const { body: _body, end: _end, ...shown } = job;
    const sentAt = new Date(this.#options.clock.now());
    return { ...shown, attempt: number, sentAt, status: undefined, error: undefined, duration: undefined };
  }

  #drop(job: Job): SandboxDelivery {
    const delivery = { ...this.#entry(job, 1), error: "dropped on purpose", duration: 0 };
    if (!this.#options.clock.stopped) {
      this.#recent.add(delivery);
      this.#report(delivery);
    }
    return { ...delivery };
  }

  async #send(job: Job, number: number): Promise<SandboxDelivery> {
    const { clock } = this.#options;
    const delivery = this.#entry(job, number);
    if (clock.stopped) return { ...delivery, error: "not sent: the sandbox was closed", duration: 0 };
    this.#recent.add(delivery);
    Object.assign(delivery, await post(job.url, job.body, clock, this));
    this.#report(delivery);
    return { ...delivery };
  }

  #report(delivery: SandboxDelivery): void {
    const { observe, log } = this.#options;
    const { topic, eventId, attempt: number, status, error } = delivery;
    observe({ ...delivery });
    const text = `Delivery of ${eventId ?? "a notification"} (${topic}, attempt ${number}): ${status ?? error}`;
    if (status === 200) log.debug(text);
    else log.warn(text);
  }
}

export function deliveryControl(
  initial: SandboxDeliveryOptions,
  queue: DeliveryQueue,
): SandboxDeliveryControl {
  let options = copy(initial);
  return {
    set(changes) {
      const checked = check(deliverySchema, changes, ["delivery"]);
      const given = Object.entries(checked).filter(([, value]) => value !== undefined);
      options = copy({ ...options, ...Object.fromEntries(given) });
      queue.settings = toDeliverySettings(options);
    },
    get current() {
      return copy(options);
    },
  };
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

/** Counts the deliveries that are being sent. */
function createCounter() {
  let count = 0;
  let waiting: (() => void)[] = [];
  return {
    begin(): void {
      count++;
    },
    end(): void {
      count--;
      if (count > 0) return;
      for (const resolve of waiting) resolve();
      waiting = [];
    },
    async idle(): Promise<void> {
      // A shuffle of 0 ms begins its deliveries in a microtask that is already queued. Let them begin first.
      await Promise.resolve();
      while (count > 0) await new Promise<void>((resolve) => waiting.push(resolve));
    },
  };
}

/** Posts a body to an endpoint once. Never rejects, and follows no redirect. */
async function post(
  url: string,
  body: string,
  clock: Clock,
  { settings: { timeout }, receiver }: DeliveryQueue,
): Promise<Pick<SandboxDelivery, "status" | "error" | "duration">> {
  const started = performance.now();
  const controller = new AbortController();
  const { signal } = controller;
  const late = new Error(`no answer within ${timeout / 1000} s`);
  const timer = setTimeout(() => controller.abort(late), timeout);
  const removeListener = clock.onStop(() => controller.abort(new Error("the sandbox was closed")));
  const headers = { "content-type": "application/json", "user-agent": "stayhook-sandbox" };
  const init = { method: "POST", headers, body, redirect: "manual", signal } as const;
  try {
    // Look up the global `fetch` at each delivery, because a test may replace it.
    const answer = receiver ? receiver(new Request(url, init)) : fetch(url, init);
    const response = await untilAborted(Promise.resolve(answer), signal);
    // Discard the body: only the status counts.
    void response.body?.cancel().catch(() => {});
    return { status: response.status, error: undefined, duration: performance.now() - started };
  } catch (error) {
    return { status: undefined, error: reasonOf(error), duration: performance.now() - started };
  } finally {
    clearTimeout(timer);
    removeListener();
  }
}

/** `fetch` puts the reason into the error's `cause`. If the host has several addresses, the cause has no message. */
function reasonOf(error: unknown): string {
  const { cause = error } = Object(error) as { cause?: unknown };
  const { message, code } = Object(cause) as { message?: string; code?: string };
  return message || code || String(cause);
}
