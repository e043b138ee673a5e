// Measures what a user waits for at a moderate rate: from the POST to its 200, and from the POST to the callback.
import { setTimeout as sleep } from "node:timers/promises";
import { start } from "./calls.ts";
import type { LatencyFunctions } from "./latency-server.ts";
import { type StoreName, storeNames } from "./open-store.ts";
import type { PlatformFunctions } from "./platform.ts";
import type { Section } from "./report.ts";

const PER_SECOND = 50;
/** Requests before the clock starts, so that connections are open and the code is optimized. */
const WARM = 250;

interface Times {
  readonly toAnswer: readonly number[];
  readonly toCallback: readonly number[];
}

/** @param count - the number of notifications for each store */
export async function latency(count: number, only?: readonly string[]): Promise<Section> {
  const platform = start<PlatformFunctions>("./platform.ts");
  const baseUrl = await platform.call("open");
  const names = storeNames.filter((name) => !only || only.includes(name));
  const results: { readonly name: StoreName; readonly times: Times }[] = [];
  for (const name of names) {
    const server = start<LatencyFunctions>("./latency-server.ts", name, baseUrl);
    const url = await server.call("open");
    await send(url, "warm", WARM);
    const sent = await send(url, "HX", count);
    const called = await server.call("callbacks", "HX", count);
    const toCallback = sent.map(({ at }, index) => called[index]! - at);
    results.push({ name, times: { toAnswer: sent.map(({ took }) => took), toCallback } });
    await server.end();
  }
  await platform.end();
  const base = percentile(results[0]!.times.toAnswer, 0.5);
  return {
    name: "latency",
    title: "How long a notification takes",
    text:
      `A client sends ${PER_SECOND} notifications a second, each for another booking. \`answer\` is the time from the POST to its 200, ` +
      "when the event is in the store. `callback` is the time from the POST to the call of your callback, after " +
      "stayhook has read the booking from a platform in another process. The ratio compares the median of " +
      `\`answer\` with ${results[0]!.name}. Less is better.`,
    columns: ["ratio", "goal", "answer, p50", "answer, p99", "callback, p50", "callback, p99"],
    rows: results.map(({ name, times: { toAnswer, toCallback } }) => ({
      label: name,
      ours: true,
      ratio: percentile(toAnswer, 0.5) / base,
      figures: [toAnswer, toCallback].flatMap((times) =>
        [0.5, 0.99].map((part) => `${percentile(times, part).toFixed(1)} ms`),
      ),
    })),
  };
}

interface Sent {
  /** When the request was sent, epoch ms. */
  readonly at: number;
  /** ms until the answer. */
  readonly took: number;
}

/** Sends notifications at an even rate, whether or not earlier ones were answered. */
async function send(url: string, prefix: string, count: number): Promise<Sent[]> {
  const start = performance.now();
  const sending: Promise<Sent>[] = [];
  for (let index = 0; index < count; index += 1) {
    await sleep(Math.max(0, start + (index * 1000) / PER_SECOND - performance.now()));
    sending.push(post(url, `${prefix}${index}`));
  }
  return Promise.all(sending);
}

async function post(url: string, bookingCode: string): Promise<Sent> {
  const timestamp = new Date().toISOString();
  const body = JSON.stringify({ eventId: crypto.randomUUID(), timestamp, bookingCode, listingId: null });
  const [at, sentAt] = [performance.timeOrigin + performance.now(), performance.now()];
  const answer = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
  const took = performance.now() - sentAt;
  await answer.arrayBuffer();
  if (answer.status !== 200) throw new Error(`answered ${answer.status}`);
  return { at, took };
}

function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}
