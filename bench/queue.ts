// Processes events in its own process: `node queue.ts <store>`.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createWebhookHandler, StayhookClient } from "stayhook";
import type { NewEvent } from "stayhook/store";
import { answerCalls } from "./calls.ts";
import { type OpenStore, openStore, type StoreName } from "./open-store.ts";
import type { Sample } from "./rounds.ts";

const name = process.argv[2] as StoreName;
const LEASE = { limit: 10, leaseDuration: 60_000 };

interface Work {
  readonly concurrency: number;
  /** The number of pending events. */
  readonly count: number;
  /** Work before the clock starts, in ms, so that connections are open and memory is in use. Default 0. */
  readonly warm?: number;
  /** Longest time by the clock, in ms. The run ends earlier after its last event. */
  readonly ms: number;
  /** Whether all events belong to one record. Otherwise each event has its own record. */
  readonly ofOne?: boolean;
}

/** Handles events that are already pending. */
async function handle(baseUrl: string, { concurrency, count, warm = 0, ms, ofOne }: Work): Promise<Sample> {
  const { store, close } = await openStore(name);
  let done = 0;
  const client = new StayhookClient({ baseUrl, accessToken: "token" });
  await Promise.all(Array.from({ length: count }, (_, n) => store.add(eventOf(ofOne ? "ONE" : `HX${n}`))));
  const ended = Promise.withResolvers<void>();
  const webhooks = createWebhookHandler({
    ...{ client, store, concurrency, autoStart: false, verify: false },
    on: { "booking.Confirmed": () => {} },
    logger: ({ level, message }) => level === "error" && console.error(message),
    observe: ({ kind }) => {
      if (kind !== "done") return;
      done += 1;
      if (done === count) ended.resolve();
    },
  });
  webhooks.start();
  if (warm > 0) await Promise.race([ended.promise, sleep(warm)]);
  const before = done;
  const cpu = process.cpuUsage();
  const start = performance.now();
  await Promise.race([ended.promise, sleep(ms)]);
  const handled = done - before;
  const { user, system } = process.cpuUsage(cpu);
  const sample = {
    perSecond: (handled / (performance.now() - start)) * 1000,
    cpu: (user + system) / handled,
  };
  await webhooks.close();
  await close();
  return sample;
}

let open: OpenStore | undefined;
const claimed = new Map<string, number>();
let onClaimed = (): void => {};

/**
 * Opens a store, and claims the events that another process adds to it.
 *
 * @returns the place that `add` of the other process needs
 */
async function listen(): Promise<string> {
  open = await openStore(name);
  const { store } = open;
  let again = false;
  let claiming = false;
  const claim = async (): Promise<void> => {
    again = true;
    if (claiming) return;
    claiming = true;
    while (again) {
      again = false;
      for (const event of await store.claim(LEASE)) {
        claimed.set(event.eventId, now());
        onClaimed();
        await store.settle(event, { state: "done", type: "booking.Confirmed", entry: { duration: 1 } });
      }
    }
    claiming = false;
  };
  store.subscribe?.(() => void claim());
  await claim();
  return open.place;
}

/** Returns the time at which this process claimed the event. All processes share the clock. */
async function claimedAt(eventId: string): Promise<number> {
  while (!claimed.has(eventId)) await new Promise<void>((resolve) => (onClaimed = resolve));
  return claimed.get(eventId)!;
}

/** Adds an event to a store that another process has opened. */
async function add(place: string): Promise<{ readonly eventId: string; readonly at: number }> {
  open ??= await openStore(name, place);
  const event = eventOf(`W${claimed.size}`);
  const at = now();
  await open.store.add(event);
  return { eventId: event.eventId, at };
}

const now = (): number => Number(process.hrtime.bigint()) / 1e6;

function eventOf(bookingCode: string): NewEvent {
  const [eventId, timestamp] = [randomUUID(), "2026-05-01T12:00:00.000Z"];
  const notification = JSON.stringify({ eventId, timestamp, bookingCode, listingId: null });
  return { eventId, ref: `booking:${bookingCode}`, source: "webhook", topic: null, timestamp, notification };
}

const functions = { handle, listen, claimedAt, add };
export type QueueFunctions = typeof functions;
answerCalls(functions, () => open?.close());
