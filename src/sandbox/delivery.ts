import { createSlots } from "../async.ts";
import type { Log } from "../logger.ts";
import { attempt, type SandboxReceiver } from "./attempt.ts";
import type { Clock } from "./clock.ts";
import type { Closing } from "./closing.ts";
import type { DeliverySettings } from "./delivery-options.ts";
import { createRandom } from "./random.ts";
import { createRecent } from "./recent.ts";

/** One attempt at a delivery: what was sent, and how it was answered; or one that got lost. */
export interface SandboxDelivery {
  /** The notification's, where it has one. */
  readonly eventId: string | undefined;
  readonly topic: string;
  /** With its query, and so with a secret that it may hold. */
  readonly url: string;
  readonly notification: unknown;
  /** 1 for the first; a retry has the next number. */
  readonly attempt: number;
  /** It is a further delivery of what was delivered before: by `delivery.duplicates`, or `redeliver`. */
  readonly duplicate: boolean;
  /** It was lost on purpose, by `delivery.drop`: the endpoint never saw it. */
  readonly dropped: boolean;
  /** ms for which it was held back before its first attempt, by `delivery.delay` and `duplicateAfter`. */
  readonly delay: number;
  /** By the sandbox's clock. */
  readonly sentAt: Date;
  /** ms until the answer or the error; `undefined` while it is under way. */
  readonly duration: number | undefined;
  /** Of the answer. Exactly 200 is success. `undefined` where none came, and while it is under way. */
  readonly status: number | undefined;
  /** Why no answer came. */
  readonly error: string | undefined;
}

/** What is to be delivered. */
export interface Message {
  readonly topic: string;
  readonly url: string;
  readonly notification: unknown;
}

export interface DeliveryQueue {
  settings: DeliverySettings;
  receiver: SandboxReceiver | undefined;
  /** Queues a notification, and its duplicates; resolves to the last attempt at the first of them. Never rejects. */
  add(message: Message): Promise<SandboxDelivery>;
  /** Delivers once more, at once, whatever the settings. Never rejects. */
  again(message: Message): Promise<SandboxDelivery>;
  /** Resolves when nothing is queued, waiting or under way. */
  settled(): Promise<void>;
  /** Resolves when nothing is under way: what is left waits for its time. */
  idle(): Promise<void>;
  /** The attempts so far, the oldest first. */
  list(): SandboxDelivery[];
}

interface Job extends Message {
  readonly body: string;
  readonly eventId: string | undefined;
  readonly duplicate: boolean;
  readonly dropped: boolean;
  /** ms before its first attempt */
  readonly delay: number;
  readonly end: (last: SandboxDelivery) => void;
}

const maxAtOnce = 50;
const maxKept = 100_000;

export function createDeliveryQueue(options: {
  readonly seed: number;
  readonly settings: DeliverySettings;
  readonly clock: Clock;
  readonly closing: Closing;
  readonly log: Log;
  /** Told of each attempt that is over. */
  readonly observe: (delivery: SandboxDelivery) => void;
}): DeliveryQueue {
  const { seed, clock, closing, log, observe } = options;
  const delays = createRandom(seed, "delay");
  const orders = createRandom(seed, "order");
  const drops = createRandom(seed, "drop");
  const laters = createRandom(seed, "later");
  const recent = createRecent<SandboxDelivery>(maxKept);
  const unsettled = new Set<Promise<SandboxDelivery>>();
  const slots = createSlots(maxAtOnce);
  const collected: Job[] = [];
  const busy = createCount();

  const begin = (job: Omit<Job, "end" | "body" | "eventId">, start: (job: Job) => void) => {
    const { promise, resolve: end } = Promise.withResolvers<SandboxDelivery>();
    unsettled.add(promise);
    void promise.then(() => unsettled.delete(promise));
    start({ ...job, body: toBody(job.notification), eventId: eventIdOf(job.notification), end });
    return promise;
  };

  const add = (message: Message): Promise<SandboxDelivery> => {
    const { duplicates, drop, delay, duplicateAfter } = queue.settings;
    const copies = Array.from({ length: 1 + duplicates }, (_, index) => {
      const duplicate = index > 0;
      // All drawn now, in the order of events, and not when it is sent.
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
    busy.down();
    return new Promise((resolve) =>
      clock.schedule(ms, () => {
        busy.up();
        resolve();
      }),
    );
  };

  const deliver = async (job: Job): Promise<void> => {
    busy.up();
    job.end(await lastAttempt(job));
    busy.down();
  };

  const lastAttempt = async (job: Job): Promise<SandboxDelivery> => {
    await pause(job.delay);
    for (let number = 1; ; number++) {
      const delivery = job.dropped ? lose(job) : await slots.run(() => send(job, number));
      const wait = queue.settings.retrySchedule[number - 1];
      if (delivery.status === 200 || delivery.dropped || wait === undefined) return delivery;
      await pause(wait);
      if (closing.closed) return delivery;
    }
  };

  const entry = (job: Job, number: number): Mutable<SandboxDelivery> => {
    const { body: _body, end: _end, ...shown } = job;
    const sentAt = new Date(clock.now());
    return { ...shown, attempt: number, sentAt, status: undefined, error: undefined, duration: undefined };
  };

  const lose = (job: Job): SandboxDelivery => {
    const delivery = { ...entry(job, 1), error: "dropped on purpose", duration: 0 };
    if (!closing.closed) {
      recent.add(delivery);
      report(delivery);
    }
    return { ...delivery };
  };

  const send = async (job: Job, number: number): Promise<SandboxDelivery> => {
    const delivery = entry(job, number);
    if (closing.closed) return { ...delivery, error: "not sent: the sandbox was closed", duration: 0 };
    recent.add(delivery);
    const { timeout } = queue.settings;
    Object.assign(delivery, await attempt(job.url, job.body, { closing, timeout, receiver: queue.receiver }));
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
    idle: busy.none,
    list: () => recent.list().map((delivery) => ({ ...delivery })),
  };
  return queue;
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

/** Counts up and down, and tells when it comes to nothing. */
function createCount() {
  let count = 0;
  let waiting: (() => void)[] = [];
  return {
    up(): void {
      count++;
    },
    down(): void {
      count--;
      if (count > 0) return;
      for (const resolve of waiting) resolve();
      waiting = [];
    },
    async none(): Promise<void> {
      while (count > 0) await new Promise<void>((resolve) => waiting.push(resolve));
    },
  };
}

/** A string goes out as it is, so that what is not JSON can be sent too. */
function toBody(notification: unknown): string {
  return typeof notification === "string" ? notification : (JSON.stringify(notification) ?? "");
}

function eventIdOf(notification: unknown): string | undefined {
  const { eventId } = Object(notification) as { eventId?: unknown };
  return typeof eventId === "string" ? eventId : undefined;
}
