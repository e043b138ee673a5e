// A platform with accounts on a fake clock, and a queue that reads it.
import type { WorkResult } from "../../src/queue/work.ts";
import type { EventStore } from "../../src/stores/event-store.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";
import type { NewEvent } from "../../src/stores/stored-event.ts";
import { parseRef } from "../../src/webhooks/refs.ts";
import { advance, done, eventOf, never, queueOf, refused, SECOND, sleep } from "./support.ts";

/** What the platform answers to a read: a status, a status with the seconds of `Retry-After`, or nothing. */
export type Answer = 200 | 401 | 404 | 429 | 500 | 503 | "hangs" | { readonly retryAfter: number };

export interface Read {
  readonly account: string;
  readonly id: string;
  readonly at: number;
}

/** How long the client waits for the platform, ms. */
const PATIENCE = 10 * SECOND;

/** Makes an app whose platform answers as the account, the record and the time say. Times are ms since the start. */
export function appOf(
  answer: (account: string, id: string, at: number) => Answer,
  {
    latency = () => 20,
    store = memoryStore(),
    ...options
  }: { latency?: (account: string) => number; store?: EventStore } & Parameters<typeof queueOf>[0] = {},
) {
  const start = performance.now();
  const now = () => performance.now() - start;
  const reads: Read[] = [];
  const waits: {
    readonly account: string;
    readonly id: string;
    readonly at: number;
    readonly wait: number;
  }[] = [];
  const sent = new Map<string, number>();
  const failureOf = (given: Exclude<Answer, 200 | 404>): WorkResult<never> & { state: "failed" } => {
    const retryAfter = typeof given === "object" ? given.retryAfter * SECOND : undefined;
    const isWhole = given === 401 || given === 429 || retryAfter !== undefined;
    const limited = given === 429 || retryAfter !== undefined;
    const outage = { everything: isWhole, limited, retryAfter };
    return { state: "failed", reason: "unavailable", error: new Error(JSON.stringify(given)), outage };
  };
  const read = async (ref: string, signal: AbortSignal) => {
    const { rest, account = "" } = partsOf(ref);
    reads.push({ account, id: rest, at: now() });
    const given = answer(account, rest, now());
    if (given === "hangs") {
      await Promise.race([
        sleep(PATIENCE),
        new Promise((resolve) => signal.addEventListener("abort", resolve)),
      ]);
      return failureOf(503);
    }
    await sleep(latency(account));
    if (given === 200) return done;
    return given === 404 ? refused : failureOf(given);
  };
  const it = queueOf({
    store,
    hasAccounts: true,
    work: async ({ ref, eventId }, { signal, answered }) => {
      const result = ref === null ? done : await read(ref, signal);
      if (result.state === "done") {
        answered("record");
        const { account = "", rest } = partsOf(ref ?? eventId);
        waits.push({ account, id: rest, at: sent.get(eventId)!, wait: now() - sent.get(eventId)! });
      }
      return result;
    },
    ...options,
  });
  let count = 0;
  const send = async (account: string, code: string, given: Partial<NewEvent> = {}): Promise<string> => {
    count += 1;
    const eventId = `${account}/${count}`;
    sent.set(eventId, now());
    const event = { ...eventOf(eventId, `${account}/booking:${code}`), ...given };
    await store.add(event);
    it.queue.wake(event);
    return eventId;
  };
  const until = async (at: number): Promise<void> => {
    if (at > now()) await advance(at - now());
  };
  /** Sends events of `accounts` accounts at `rate` a second together, for `seconds`. */
  const others = async (
    rate: number,
    seconds: number,
    accounts = 299,
    beside?: (second: number) => unknown,
  ) => {
    const from = now();
    for (let n = 0; n < rate * seconds; n += 1) {
      await until(from + (n * SECOND) / rate);
      await send(`ok${n % accounts}`, `R${n}`);
      if (n % rate === 0) await beside?.(n / rate);
    }
    await until(from + seconds * SECOND);
  };
  return { ...it, store, reads, waits, sent, now, send, until, others, never };
}

function partsOf(ref: string): { readonly account: string | undefined; readonly rest: string } {
  return { account: parseRef(ref)?.account ?? ref.split("/")[0], rest: ref.slice(ref.indexOf("/") + 1) };
}

/** Returns the value below which a part of the waits is. */
export function quantile(waits: readonly { readonly wait: number }[], part: number): number {
  const sorted = waits.map(({ wait }) => wait).sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) * part)] ?? Number.NaN;
}
