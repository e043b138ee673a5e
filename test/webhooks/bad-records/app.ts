// An app and a platform on a fake clock, for the promises in docs/security.md and docs/recovering.md.
import {
  type ClientOptions,
  createWebhookHandler,
  memoryStore,
  StayhookClient,
  type WebhookHandlerOptions,
} from "stayhook";
import type { EventStore } from "stayhook/store";
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

export type Answer =
  | number
  | "refused"
  | "hangs"
  | "unreadable"
  | { readonly status: number; readonly retryAfter: number };

export interface AppOptions extends Partial<WebhookHandlerOptions> {
  readonly store?: EventStore;
  /** Default: one token. With accounts, it is `token-<account>`. */
  readonly accessToken?: ClientOptions["accessToken"];
}

/**
 * Makes an app, and a platform whose answer depends on the record, the time and the account. Times are in ms since the
 * start. With the option `accountFrom`, the query of a notification's URL names its account.
 */
export function appOf(
  answer: (id: string, at: number, account: string | undefined) => Answer,
  { accessToken = "token", store = memoryStore(), ...options }: AppOptions = {},
) {
  const start = Date.now();
  const now = () => Date.now() - start;
  const reads: { readonly id: string; readonly at: number }[] = [];
  const sent = new Map<string, { readonly id: string; readonly at: number }>();
  const waits: { readonly id: string; readonly at: number; readonly wait: number }[] = [];
  const client = new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken,
    async fetch(url, { signal, headers } = {}) {
      const path = new URL(url).pathname;
      const id = path.split("/").at(-1) ?? "";
      reads.push({ id, at: now() });
      const account = headers?.authorization?.split("token-")[1];
      const given = answer(id, now(), account);
      if (given === "hangs")
        return new Promise<never>((_, reject) =>
          signal?.addEventListener("abort", () => reject(signal.reason as Error)),
        );
      await new Promise((resolve) => setTimeout(resolve, LATENCY));
      if (given === "refused") throw new TypeError("fetch failed");
      if (given === "unreadable") return new Response("<html>", { status: 200 });
      const status = typeof given === "number" ? given : given.status;
      const retryAfter: Record<string, string> =
        typeof given === "number" ? {} : { "retry-after": String(given.retryAfter) };
      return Response.json(status === 200 ? bodyOf(path, id) : {}, { status, headers: retryAfter });
    },
  });
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
    ...options,
  } as WebhookHandlerOptions);
  webhooks.start();
  /** Delivers a notification of a booking, of a listing if the id has digits alone, or of no record if it is empty. */
  const deliver = async (id: string, account = "") => {
    const isListing = /^\d+$/.test(id);
    const fields = id === "" ? {} : isListing ? { listingId: Number(id) } : { bookingCode: id };
    const notification = notificationOf(fields);
    sent.set(notification.eventId, { id, at: now() });
    const body = JSON.stringify(notification);
    const url = `https://app.example/?account=${account}`;
    const { status } = await webhooks.fetch(new Request(url, { method: "POST", body }));
    return { status, eventId: notification.eventId };
  };
  const send = async (id: string): Promise<void> => {
    expect(await deliver(id)).toMatchObject({ status: 200 });
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
  return { webhooks, store, reads, waits, sent, now, until, deliver, send, sendEvery };
}

/** Returns the platform's JSON of a record, or of the list of listings. */
function bodyOf(path: string, id: string): unknown {
  const listing = (listingId: number) => ({ listingId, status: "Published" });
  if (id === "config") return { isActive: true, endpoints: {} };
  if (id === "listings") return [100, 101].map(listing);
  return path.includes("listings")
    ? listing(Number(id))
    : { bookingCode: id, status: "Confirmed", listingId: 100 };
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
