// An app and a platform on a fake clock, for the promises in docs/security.md and docs/recovering.md.
import { createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import { expect, vi } from "vitest";
import { randomOf } from "../../system/random.ts";
import { notificationOf, recordingLogger } from "../support.ts";

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
/** How long the platform takes to answer, ms. */
const LATENCY = 30;

/** Makes \`Math.random\` repeatable. */
export function seedRandom(seed: number): void {
  const random = randomOf(seed);
  vi.spyOn(Math, "random").mockImplementation(() => random.below(2 ** 30) / 2 ** 30);
}

export type Answer = number | "refused" | "hangs" | { readonly status: number; readonly retryAfter: number };

/** Makes an app, and a platform whose answer depends on the record and the time. Times are in ms since the start. */
export function appOf(answer: (id: string, at: number) => Answer) {
  const start = Date.now();
  const now = () => Date.now() - start;
  const reads: { readonly id: string; readonly at: number }[] = [];
  const sent = new Map<string, { readonly id: string; readonly at: number }>();
  const waits: { readonly id: string; readonly at: number; readonly wait: number }[] = [];
  const client = new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: "token",
    async fetch(url, { signal } = {}) {
      const path = new URL(url).pathname;
      const id = path.split("/").at(-1) ?? "";
      reads.push({ id, at: now() });
      const given = answer(id, now());
      if (given === "hangs")
        return new Promise<never>((_, reject) =>
          signal?.addEventListener("abort", () => reject(signal.reason as Error)),
        );
      await new Promise((resolve) => setTimeout(resolve, LATENCY));
      if (given === "refused") throw new TypeError("fetch failed");
      const status = typeof given === "number" ? given : given.status;
      const headers = typeof given === "number" ? {} : { "retry-after": String(given.retryAfter) };
      const body = path.includes("listings")
        ? { listingId: Number(id), status: "Published" }
        : { bookingCode: id, status: "Confirmed" };
      return Response.json(status === 200 ? body : {}, { status, headers });
    },
  });
  const store = memoryStore();
  const webhooks = createWebhookHandler({
    client,
    store,
    on: {},
    verify: false,
    recheckAfter: false,
    logger: recordingLogger(),
    observe(event) {
      if (event.kind !== "done") return;
      const { id, at } = sent.get(event.eventId)!;
      waits.push({ id, at, wait: now() - at });
    },
  });
  webhooks.start();
  /** Delivers a notification of a booking, or of a listing if the id has digits alone. */
  const send = async (id: string): Promise<void> => {
    const isListing = /^\d+$/.test(id);
    const fields = isListing ? { listingId: Number(id) } : { bookingCode: id };
    const notification = notificationOf(fields);
    sent.set(notification.eventId, { id, at: now() });
    const body = JSON.stringify(notification);
    const { status } = await webhooks.fetch(new Request("https://app.example", { method: "POST", body }));
    expect(status).toBe(200);
  };
  const until = async (at: number) => {
    if (at > now()) await vi.advanceTimersByTimeAsync(at - now());
  };
  /** Sends `count` notifications, the first one now. */
  const sendEvery = async (ms: number, count: number, id: (n: number) => string): Promise<void> => {
    const from = now();
    for (let n = 0; n < count; n += 1) {
      await until(from + n * ms);
      await send(id(n));
    }
    await until(from + count * ms);
  };
  return { webhooks, store, reads, waits, sent, now, until, send, sendEvery };
}

/** Returns the largest number of reads in any second. */
export function mostInASecond(reads: readonly { readonly at: number }[]): number {
  let most = 0;
  for (let first = 0, last = 0; last < reads.length; last += 1) {
    while (reads[last]!.at - reads[first]!.at >= SECOND) first += 1;
    most = Math.max(most, last - first + 1);
  }
  return most;
}

export const longest = (waits: readonly { readonly wait: number }[]) =>
  Math.max(0, ...waits.map(({ wait }) => wait));
