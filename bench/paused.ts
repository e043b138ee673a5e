// Measures how long the events of other accounts take while many events of an account wait whose token is revoked.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createWebhookHandler, StayhookClient } from "stayhook";
import { openStore, type StoreName, storeNames } from "./open-store.ts";
import type { Section } from "./report.ts";

const [PER_SECOND, ACCOUNTS, GROUP] = [36, 299, 500];
/** The most for the 95th percentile beside the waiting events, in ms. */
const GOAL = 150;

/** @param count - how many events of the account wait. @param seconds - how long the others send */
export async function paused(count: number, seconds: number, of?: readonly string[]): Promise<Section> {
  const names = storeNames.filter((name) => name !== "memory" && (!of || of.includes(name)));
  const rows: Section["rows"][number][] = [];
  for (const name of names) {
    const alone = await timesOf(name, 0, seconds);
    const beside = await timesOf(name, count, seconds);
    rows.push({
      label: name,
      ours: true,
      ratio: percentile(beside, 0.95) / percentile(alone, 0.95),
      goal: { text: `${GOAL} ms`, met: percentile(beside, 0.95) <= GOAL },
      figures: [alone, beside].flatMap((times) =>
        [0.5, 0.95].map((part) => `${percentile(times, part).toFixed(0)} ms`),
      ),
    });
  }
  return {
    name: "paused",
    title: "Other accounts beside one that is paused",
    text: `The time from recording an event to its callback, for ${ACCOUNTS} accounts with ${PER_SECOND} events a second together, alone and while ${count.toLocaleString("en")} events of an account wait whose token is revoked. The ratio compares the 95th percentiles.`,
    goals: "The goal is a limit for the 95th percentile beside the waiting events.",
    columns: ["ratio", "goal", "alone, p50", "alone, p95", "beside, p50", "beside, p95"],
    rows,
  };
}

async function timesOf(name: StoreName, count: number, seconds: number): Promise<number[]> {
  const { store, close } = await openStore(name);
  const sent = new Map<string, number>();
  const times: number[] = [];
  const client = new StayhookClient({
    baseUrl: "https://platform.invalid",
    accessToken: ({ account }: { account?: string | undefined }) => String(account),
    fetch: async (url, init) => {
      await sleep(20);
      const token = new Headers(init?.headers as HeadersInit).get("authorization");
      if (token === "Bearer revoked") return new Response("{}", { status: 401 });
      const bookingCode = url.slice(url.lastIndexOf("/") + 1);
      return Response.json({
        bookingCode,
        status: "Confirmed",
        listingId: 1,
        checkIn: "2027-01-01",
        checkOut: "2027-01-02",
      });
    },
  });
  const webhooks = createWebhookHandler({
    client,
    store,
    verify: false,
    accountFrom: () => undefined,
    logger: () => {},
    on: { fallback: ({ eventId }) => void times.push(performance.now() - (sent.get(eventId) ?? Number.NaN)) },
  });
  const add = (account: string): Promise<unknown> => {
    const eventId = `${account}/${randomUUID()}`;
    sent.set(eventId, performance.now());
    const timestamp = new Date().toISOString();
    return store.add({
      eventId,
      ref: `${account}/booking:${randomUUID()}`,
      source: "webhook",
      topic: null,
      timestamp,
      notification: "{}",
    });
  };
  for (let n = 0; n < count; n += GROUP)
    await Promise.all(Array.from({ length: GROUP }, () => add("revoked")));
  webhooks.start();
  await sleep(5_000);
  const start = performance.now();
  for (let n = 0; n < seconds * PER_SECOND; n += 1) {
    await sleep(Math.max(0, start + (n * 1000) / PER_SECOND - performance.now()));
    void add(`ok${n % ACCOUNTS}`);
  }
  await sleep(2_000);
  await webhooks.close();
  await close();
  if (times.length < seconds * PER_SECOND)
    throw new Error(`${name}: only ${times.length} events were handled`);
  return times;
}

function percentile(times: readonly number[], part: number): number {
  const sorted = times.toSorted((one, other) => one - other);
  return sorted[Math.floor((sorted.length - 1) * part)]!;
}
