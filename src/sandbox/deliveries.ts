import { createSlots, untilAborted } from "../async.ts";
import type { Log } from "../logger.ts";
import type { Clock } from "./clock.ts";
import {
  check,
  type DeliverySettings,
  deliverySchema,
  type SandboxDeliveryOptions,
  toDeliverySettings,
} from "./options.ts";
import { createRandom } from "./random.ts";
import { copy, Recent } from "./sandbox-records.ts";

/** A function that takes deliveries instead of the network, such as a webhook handler's `fetch`. */
export type SandboxReceiver = (request: Request) => Response | Promise<Response>;

/** One attempt to deliver a notification, with its answer; or a dropped delivery. */
export interface SandboxDelivery {
  /** The event id of the notification, if it has one. */
  readonly eventId: string | undefined;
  /** The topic of the endpoint. */
  readonly topic: string;
  /** The URL with its query, which may hold a secret. */
  readonly url: string;
  /** The notification as it was sent. */
  readonly notification: unknown;
  /** 1 for the first attempt, 2 for its first retry. */
  readonly attempt: number;
  /** The delivery repeats an earlier one, because of `delivery.duplicates` or `redeliver`. */
  readonly duplicate: boolean;
  /** The delivery was lost because of `delivery.drop`. The endpoint never saw it. */
  readonly dropped: boolean;
  /** The time in ms before the first attempt, because of `delivery.delay` and `duplicateAfter`. */
  readonly delay: number;
  /** By the sandbox's clock. */
  readonly sentAt: Date;
  /** The time in ms until the answer or the error; `undefined` during the attempt. */
  readonly duration: number | undefined;
  /** The status of the answer. Only 200 is success. `undefined` without an answer, and during the attempt. */
  readonly status: number | undefined;
  /** The reason why there was no answer. */
  readonly error: string | undefined;
}

/** How notifications are delivered. It can change while the sandbox runs. */
export interface SandboxDeliveryControl {
  /**
   * Changes the given options for later notifications. The other options stay.
   *
   * @throws InvalidArgumentError naming each wrong option
   * @example
   * ```ts
   * sandbox.delivery.set({ drop: 1 }); // lose every notification
   * ```
   */
  set(options: SandboxDeliveryOptions): void;
  /** A copy of the present options. */
  readonly current: SandboxDeliveryOptions;
}

/** A notification and its destination. */
export interface Message {
  readonly topic: string;
  readonly url: string;
  readonly notification: unknown;
}

export interface DeliveryQueue {
  settings: DeliverySettings;
  receiver: SandboxReceiver | undefined;
  /** Queues a notification and its duplicates. Resolves to the last attempt at the first of them. Never rejects. */
  add(message: Message): Promise<SandboxDelivery>;
  /** Delivers once, without delay, drop or duplicates. Resolves to the last attempt. Never rejects. */
  again(message: Message): Promise<SandboxDelivery>;
  /** Resolves when nothing is queued, waiting or being sent. */
  settled(): Promise<void>;
  /** Resolves when nothing is being sent. Deliveries may still wait for their time. */
  idle(): Promise<void>;
  /** The newest attempts, the oldest first. */
  list(limit?: number): SandboxDelivery[];
}

interface Job extends Message {
  readonly body: string;
  readonly eventId: string | undefined;
  readonly duplicate: boolean;
  readonly dropped: boolean;
  /** ms before the first attempt */
  readonly delay: number;
  readonly end: (last: SandboxDelivery) => void;
}

const maxConcurrent = 50;

export function createDeliveryQueue(options: {
  readonly seed: number;
  readonly settings: DeliverySettings;
  readonly clock: Clock;
  readonly log: Log;
  /** Called after each attempt. */
  readonly observe: (delivery: SandboxDelivery) => void;
}): DeliveryQueue {
  const { seed, clock, log, observe } = options;
  const delays = createRandom(seed, "delay");
  const orders = createRandom(seed, "order");
  const drops = createRandom(seed, "drop");
  const laters = createRandom(seed, "later");
  const recent = new Recent<SandboxDelivery>();
  const unsettled = new Set<Promise<SandboxDelivery>>();
  const slots = createSlots(maxConcurrent);
  const collected: Job[] = [];
  const activity = createCounter();

  const begin = (job: Omit<Job, "end" | "body" | "eventId">, start: (job: Job) => void) => {
    const { promise, resolve: end } = Promise.withResolvers<SandboxDelivery>();
    unsettled.add(promise);
    void promise.then(() => unsettled.delete(promise));
    const { notification } = job;
    const { eventId } = Object(notification) as { eventId?: unknown };
    // A string is sent as it is, so that a test can send a body that is not JSON.
    const body = typeof notification === "string" ? notification : (JSON.stringify(notification) ?? "");
    start({ ...job, body, eventId: typeof eventId === "string" ? eventId : undefined, end });
    return promise;
  };

  const add = (message: Message): Promise<SandboxDelivery> => {
    const { duplicates, drop, delay, duplicateAfter } = queue.settings;
    const copies = Array.from({ length: 1 + duplicates }, (_, index) => {
      const duplicate = index > 0;
      // Draw now: the order of events decides the draws, not the order of sending.
      const held = delays.integer(...delay) + (duplicate ? laters.integer(...duplicateAfter) : 0);
      const dropped = drops.next() < drop;
      return begin({ ...message, duplicate, dropped, delay: held }, enqueue);
    });
    return copies[0]!;
  };

  const enqueue = (job: Job): void => {
    const { shuffleWindow } = queue.settings;
    if (shuffleWindow === undefined) return void deliver(job);
    collected.push(job);
    if (collected.length === 1) clock.schedule(shuffleWindow, release);
  };

  const release = (): void => {
    for (const job of orders.shuffle(collected.splice(0))) void deliver(job);
  };

  const pause = (ms: number): Promise<void> => {
    if (ms === 0) return Promise.resolve();
    activity.end();
    return new Promise((resolve) =>
      clock.schedule(ms, () => {
        activity.begin();
        resolve();
      }),
    );
  };

  const deliver = async (job: Job): Promise<void> => {
    activity.begin();
    job.end(await lastAttempt(job));
    activity.end();
  };

  const lastAttempt = async (job: Job): Promise<SandboxDelivery> => {
    await pause(job.delay);
    for (let number = 1; ; number++) {
      const delivery = job.dropped ? drop(job) : await slots.run(() => send(job, number));
      const wait = queue.settings.retrySchedule[number - 1];
      if (delivery.status === 200 || delivery.dropped || wait === undefined) return delivery;
      await pause(wait);
      if (clock.stopped) return delivery;
    }
  };

  const entry = (job: Job, number: number): Mutable<SandboxDelivery> => {
    const { body: _body, end: _end, ...shown } = job;
    const sentAt = new Date(clock.now());
    return { ...shown, attempt: number, sentAt, status: undefined, error: undefined, duration: undefined };
  };

  const drop = (job: Job): SandboxDelivery => {
    const delivery = { ...entry(job, 1), error: "dropped on purpose", duration: 0 };
    if (!clock.stopped) {
      recent.add(delivery);
      report(delivery);
    }
    return { ...delivery };
  };

  const send = async (job: Job, number: number): Promise<SandboxDelivery> => {
    const delivery = entry(job, number);
    if (clock.stopped) return { ...delivery, error: "not sent: the sandbox was closed", duration: 0 };
    recent.add(delivery);
    Object.assign(delivery, await post(job.url, job.body, clock, queue));
    report(delivery);
    return { ...delivery };
  };

  const report = (delivery: SandboxDelivery): void => {
    const { topic, eventId, attempt: number, status, error } = delivery;
    observe({ ...delivery });
    const text = `Delivery of ${eventId ?? "a notification"} (${topic}, attempt ${number}): ${status ?? error}`;
    if (status === 200) log.debug(text);
    else log.warn(text);
  };

  const queue: DeliveryQueue = {
    settings: options.settings,
    receiver: undefined,
    add,
    again: (message) => begin({ ...message, duplicate: true, dropped: false, delay: 0 }, deliver),
    async settled() {
      while (unsettled.size > 0) await Promise.all(unsettled);
    },
    idle: activity.idle,
    list: (limit) => recent.list(limit).map((delivery) => ({ ...delivery })),
  };
  return queue;
}

export function deliveryControl(
  initial: SandboxDeliveryOptions,
  queue: DeliveryQueue,
): SandboxDeliveryControl {
  let options = copy(initial);
  return {
    set(changes) {
      check(deliverySchema, changes, ["delivery"]);
      const given = Object.entries(changes).filter(([, value]) => value !== undefined);
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
    // The global fetch is looked up at each delivery, because a test may replace it.
    const answer = receiver ? receiver(new Request(url, init)) : fetch(url, init);
    const response = await untilAborted(Promise.resolve(answer), signal);
    // Only the status counts.
    void response.body?.cancel().catch(() => {});
    return { status: response.status, error: undefined, duration: performance.now() - started };
  } catch (error) {
    return { status: undefined, error: describe(error), duration: performance.now() - started };
  } finally {
    clearTimeout(timer);
    removeListener();
  }
}

/** The reason is in the cause of fetch's error. Its message is empty for a host with several addresses. */
function describe(error: unknown): string {
  const { cause = error } = Object(error) as { cause?: unknown };
  const { message, code } = Object(cause) as { message?: string; code?: string };
  return message || code || String(cause);
}
