import type { Logger } from "../logger.ts";
import { attempt } from "./attempt.ts";
import { createClosing, wait } from "./closing.ts";
import type { DeliverySettings } from "./options.ts";
import { createRandom } from "./random.ts";
import { createRecent } from "./recent.ts";
import { createSlots } from "./slots.ts";

/** One attempt at a delivery: what was sent, and how it was answered. */
export interface SandboxDelivery {
  /** The notification's, where it has one. */
  readonly eventId: string | undefined;
  readonly topic: string;
  /** With its query, and so with a secret that it may hold. */
  readonly url: string;
  readonly notification: unknown;
  /** 1 for the first; a retry has the next number. */
  readonly attempt: number;
  /** It is one of the further deliveries that `delivery.duplicates` asks for. */
  readonly duplicate: boolean;
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
  /** Queues a notification, and its duplicates; resolves to the last attempt at the first of them. Never rejects. */
  add(message: Message): Promise<SandboxDelivery>;
  /** Resolves when nothing is queued, waiting or under way. */
  settled(): Promise<void>;
  /** The attempts so far, the oldest first. */
  list(): SandboxDelivery[];
  /** Ends what is under way and drops what waits. */
  close(): void;
}

interface Job extends Message {
  readonly body: string;
  readonly eventId: string | undefined;
  readonly duplicate: boolean;
  /** ms before its first attempt */
  readonly delay: number;
  readonly end: (last: SandboxDelivery) => void;
}

const maxAtOnce = 50;
const maxKept = 100_000;

export function createDeliveryQueue(seed: number, settings: DeliverySettings, logger: Logger): DeliveryQueue {
  const delays = createRandom(seed, "delay");
  const orders = createRandom(seed, "order");
  const log = createRecent<SandboxDelivery>(maxKept);
  const closing = createClosing();
  const unsettled = new Set<Promise<SandboxDelivery>>();
  const slots = createSlots(maxAtOnce);
  const collected: Job[] = [];

  const add = (message: Message): Promise<SandboxDelivery> => {
    const body = toBody(message.notification);
    const copies = Array.from({ length: 1 + settings.duplicates }, (_, index) => {
      const { promise, resolve: end } = Promise.withResolvers<SandboxDelivery>();
      unsettled.add(promise);
      void promise.then(() => unsettled.delete(promise));
      // Drawn now, in the order of events, and not when it is sent.
      const delay = delays.integer(...settings.delay);
      const eventId = eventIdOf(message.notification);
      queue({ ...message, body, eventId, duplicate: index > 0, delay, end });
      return promise;
    });
    return copies[0]!;
  };

  const queue = (job: Job): void => {
    if (settings.shuffleWindow === undefined) return void deliver(job);
    collected.push(job);
    if (collected.length === 1) void wait(settings.shuffleWindow, closing).then(release);
  };

  const release = (): void => {
    for (const job of orders.shuffle(collected.splice(0))) void deliver(job);
  };

  const deliver = async (job: Job): Promise<void> => {
    await wait(job.delay, closing);
    for (let number = 1; ; number++) {
      const delivery = await slots.run(() => send(job, number));
      const pause = settings.retrySchedule[number - 1];
      if (delivery.status === 200 || pause === undefined) return job.end(delivery);
      await wait(pause, closing);
      if (closing.closed) return job.end(delivery);
    }
  };

  const send = async (job: Job, number: number): Promise<SandboxDelivery> => {
    const { topic, url, notification, eventId, duplicate } = job;
    const sent = { eventId, topic, url, notification, attempt: number, duplicate, sentAt: new Date() };
    if (closing.closed)
      return { ...sent, status: undefined, error: "not sent: the sandbox was closed", duration: 0 };
    const delivery: Mutable<SandboxDelivery> = {
      ...sent,
      status: undefined,
      error: undefined,
      duration: undefined,
    };
    log.add(delivery);
    Object.assign(delivery, await attempt(url, job.body, closing));
    report(delivery);
    return { ...delivery };
  };

  const report = ({ topic, eventId, attempt: number, status, error }: SandboxDelivery): void => {
    const text = `Delivery of ${eventId ?? "a notification"} (${topic}, attempt ${number}): ${status ?? error}`;
    if (status === 200) logger.debug(text);
    else logger.warn(text);
  };

  return {
    add,
    async settled() {
      while (unsettled.size > 0) await Promise.all(unsettled);
    },
    list: () => log.list().map((delivery) => ({ ...delivery })),
    close: closing.close,
  };
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

/** A string goes out as it is, so that what is not JSON can be sent too. */
function toBody(notification: unknown): string {
  return typeof notification === "string" ? notification : (JSON.stringify(notification) ?? "");
}

function eventIdOf(notification: unknown): string | undefined {
  const { eventId } = Object(notification) as { eventId?: unknown };
  return typeof eventId === "string" ? eventId : undefined;
}
