import { setImmediate as turn } from "node:timers/promises";
import { vi } from "vitest";
import { memoryStore, type WebhookHandlerOptions } from "../../src/index.ts";
import type { EventStore } from "../../src/stores/index.ts";
import { type Answer, clientOf, handlerOf, notificationOf } from "../webhooks/support.ts";

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

export interface Read {
  readonly code: string;
  /** In ms since the start. */
  readonly at: number;
}

interface Ending {
  readonly state: "done" | "parked";
  readonly reason?: string;
  /** In ms since the start. */
  readonly at: number;
  /** In ms since the delivery. */
  readonly after: number;
}

export const confirmed = (bookingCode: string): Answer => ({
  status: 200,
  body: { bookingCode, status: "Confirmed" },
});

/**
 * Wraps a store. `isBusy` tells whether a call is pending or an event is leased. Until both end, time must not pass.
 */
function watched(store: EventStore): { readonly store: EventStore; readonly isBusy: () => boolean } {
  let calls = 0;
  const leased = new Set<string>();
  const proxy = new Proxy(store, {
    get(target, property: keyof EventStore) {
      const value = target[property];
      if (typeof value !== "function") return value;
      if (property === "subscribe" || property === "snapshots") return (value as () => unknown).bind(target);
      return async (...args: readonly unknown[]) => {
        calls += 1;
        try {
          const answer = await (value as (...args: readonly unknown[]) => unknown).apply(target, [...args]);
          if (property === "claim")
            for (const { eventId } of answer as { eventId: string }[]) leased.add(eventId);
          if (property === "settle") leased.delete((args[0] as { eventId: string }).eventId);
          return answer;
        } finally {
          calls -= 1;
        }
      };
    },
  });
  return { store: proxy, isBusy: () => calls > 0 || leased.size > 0 };
}

/** After this many idle turns of the real event loop, simulated time may pass. */
const IDLE_TURNS = 2;

/**
 * Simulates a handler with fake timers and a platform whose answer depends on the booking and the time. It logs the
 * result of each notification. Time passes only when the handler and its store are idle.
 */
export function simulate(
  answer: (code: string, at: number) => Answer,
  { store: given = memoryStore(), ...options }: Partial<WebhookHandlerOptions> & { store?: EventStore } = {},
) {
  const { store, isBusy } = watched(given);
  const start = Date.now();
  const now = () => Date.now() - start;
  const reads: Read[] = [];
  const delivered = new Map<string, number>();
  const endings = new Map<string, Ending>();
  let pauses = 0;
  const client = clientOf({
    async fetch(url) {
      const code = new URL(url).pathname.split("/").at(-1)!;
      reads.push({ code, at: now() });
      const given = answer(code, now());
      if (given instanceof Error) throw given;
      return Response.json(given.body ?? {}, { status: given.status, headers: given.headers ?? {} });
    },
  });
  const made = handlerOf({
    client,
    ...options,
    store,
    observe(event) {
      if (event.kind === "paused") pauses += 1;
      if ((event.kind !== "done" && event.kind !== "parked") || event.ref === null) return;
      const code = event.ref.slice("booking:".length);
      const reason = event.kind === "parked" ? { reason: event.reason } : {};
      endings.set(code, { state: event.kind, ...reason, at: now(), after: now() - delivered.get(code)! });
    },
  });
  made.webhooks.start();

  /** Waits until the handler and its store are idle. */
  async function settle(): Promise<void> {
    for (let idle = 0; idle < IDLE_TURNS; idle = isBusy() ? 0 : idle + 1) await turn();
  }

  return {
    ...made,
    now,
    reads,
    delivered,
    endings,
    pauses: () => pauses,
    readsOf: (code: string) => reads.filter((read) => read.code === code),
    /** Delivers a notification. Throws if the answer is not 200. */
    async arrive(bookingCode: string): Promise<void> {
      delivered.set(bookingCode, now());
      const answered = made.deliver(notificationOf({ bookingCode }));
      await settle();
      const { status } = await answered;
      if (status !== 200) throw new Error(`${bookingCode} was answered ${status}`);
    },
    /** Lets time pass until `ms` after the start. */
    async until(ms: number): Promise<void> {
      let reached = false;
      setTimeout(() => {
        reached = true;
      }, ms - now());
      while (!reached) {
        vi.advanceTimersToNextTimer();
        await settle();
      }
    },
    latencies: (which: (code: string) => boolean = () => true) =>
      [...endings].filter(([code]) => which(code)).map(([, { after }]) => after),
  };
}

/** Returns the largest number of reads in any window of one minute. */
export function mostInAMinute(reads: readonly Read[]): number {
  let most = 0;
  for (let first = 0, last = 0; last < reads.length; last += 1) {
    while (reads[last]!.at - reads[first]!.at >= MINUTE) first += 1;
    most = Math.max(most, last - first + 1);
  }
  return most;
}
