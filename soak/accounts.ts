// Plays one handler with 300 accounts in real time, while one account misbehaves: how long the events of the other
// accounts wait. test/queue/lanes.test.ts plays the same on a fake clock.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import type { EventStore } from "stayhook/store";
import { makePlace, openStore, type StoreName } from "./places.ts";
import type { Row } from "./table.ts";

const SECOND = 1000;
const LASTS = 25 * SECOND;
/** Notifications a second of the accounts that behave, together. */
const RATE = 36;
const [HALF, MOST] = [50, SECOND] as const;
/** The account that misbehaves. */
const BAD = "bad";

type StoreOrMemory = StoreName | "memory";
type Answer = { readonly status: number; readonly retryAfter?: number; readonly latency?: number } | "hangs";

interface Situation {
  readonly name: string;
  /** Notifications a second of the account that misbehaves. */
  readonly rate: number;
  /** What the platform answers to its reads. */
  readonly answer: Answer;
  /** The code of its n-th booking. */
  readonly code?: (n: number) => string;
  readonly tokenThrows?: boolean;
  /** Whether no other account sends anything. The median is then that of the account itself. */
  readonly alone?: boolean;
}

const situations: readonly Situation[] = [
  { name: "a revoked token", rate: 1, answer: { status: 401 } },
  { name: "a token function that throws", rate: 1, answer: { status: 200 }, tokenThrows: true },
  { name: "429, Retry-After 20", rate: 1, answer: { status: 429, retryAfter: 20 } },
  { name: "100 a second, 300 ms each", rate: 100, answer: { status: 200, latency: 300 } },
  { name: "100 unknown codes a second", rate: 100, answer: { status: 404 } },
  { name: "500 for all records", rate: 1, answer: { status: 500 } },
  { name: "hangs", rate: 1, answer: "hangs" },
  { name: "alone: 100 a second, 300 ms each", rate: 100, answer: { status: 200, latency: 300 }, alone: true },
];

async function opened(name: StoreOrMemory) {
  if (name === "memory") return { store: memoryStore() as EventStore<never>, remove: async () => {} };
  const place = await makePlace(name);
  return place && { store: openStore(place), remove: () => place.remove() };
}

/** Starts a platform whose token names the account. */
async function platformOf(answer: Answer) {
  const server = createServer(async (asked, reply) => {
    const isBad = asked.headers.authorization === `Bearer ${BAD}`;
    const given: Answer = isBad ? answer : { status: 200 };
    if (given === "hangs") return;
    await sleep(given.latency ?? 5);
    const code = asked.url?.split("/").at(-1) ?? "";
    const isRead = given.status === 200;
    reply.setHeader("content-type", "application/json");
    if (given.retryAfter !== undefined) reply.setHeader("retry-after", given.retryAfter);
    reply.writeHead(given.status);
    reply.end(isRead ? JSON.stringify({ bookingCode: code, status: "Confirmed" }) : "{}");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = (): void => {
    server.close();
    server.closeAllConnections();
  };
  return { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}

async function measure(situation: Situation, name: StoreOrMemory): Promise<Row | undefined> {
  const place = await opened(name);
  if (place === undefined) return undefined;
  const { store, remove } = place;
  const { baseUrl, close } = await platformOf(situation.answer);
  const sent = new Map<string, number>();
  const waits: number[] = [];
  let own = 0;
  const webhooks = createWebhookHandler({
    client: new StayhookClient({
      baseUrl,
      accessToken({ account }) {
        if (account === BAD && situation.tokenThrows) throw new Error("no token");
        return account ?? "";
      },
    }),
    store,
    accountFrom: { query: "account" },
    verify: false,
    recheckAfter: false,
    logger: () => {},
    on: {},
    observe(event) {
      if (event.kind !== "done") return;
      if (event.eventId.startsWith(`${BAD}/`)) own += 1;
      else waits.push(performance.now() - sent.get(event.eventId)!);
    },
  });
  const send = async (account: string, bookingCode: string): Promise<void> => {
    const eventId = randomUUID();
    sent.set(`${account}/${eventId}`, performance.now());
    const body = JSON.stringify({ eventId, timestamp: new Date(), bookingCode });
    const request = new Request(`https://app.example/?account=${account}`, { method: "POST", body });
    const { status } = await webhooks.fetch(request);
    if (status !== 200) throw new Error(`a notification was answered ${status}`);
  };
  const sendAll = async (rate: number, one: (n: number) => Promise<void>): Promise<void> => {
    const from = performance.now();
    const sending: Promise<void>[] = [];
    for (let n = 0; n < (rate * LASTS) / SECOND; n += 1) {
      const wait = from + (n * SECOND) / rate - performance.now();
      if (wait > 0) await sleep(wait);
      sending.push(one(n));
    }
    await Promise.all(sending);
  };
  try {
    webhooks.start();
    const { rate, code = (n: number) => `B${n}`, alone = false } = situation;
    const bad = sendAll(rate, (n) => send(BAD, code(n)));
    if (!alone) await sendAll(RATE, (n) => send(`a${n % 299}`, `R${n}`));
    await bad;
    const ownInTime = own;
    const count = alone ? 0 : (RATE * LASTS) / SECOND;
    for (let tries = 0; waits.length < count && tries < 50; tries += 1) await sleep(100);
    const sorted = waits.toSorted((a, b) => a - b);
    const [half = 0, most = 0] = [0.5, 0.95].map((part) => sorted[Math.floor((sorted.length - 1) * part)]);
    // Ten slots of 300 ms each.
    const isSlow = alone && ownInTime < 0.9 * (LASTS / 300) * 10;
    return {
      cells: {
        "one account has": situation.name,
        store: name,
        "others handled": `${waits.length}/${count}`,
        p50: `${Math.round(half)} ms`,
        p95: `${Math.round(most)} ms`,
        longest: `${Math.round(sorted.at(-1) ?? 0)} ms`,
        "its own": String(ownInTime),
      },
      failed: waits.length < count || half >= HALF || most >= MOST || isSlow,
    };
  } finally {
    await webhooks.close({ timeout: 0 });
    await store.close();
    close();
    await remove();
  }
}

/** 10,000 accounts that exist and send nothing: how often the store is asked, and how much memory they take. */
async function atRest(name: StoreOrMemory): Promise<Row | undefined> {
  const place = await opened(name);
  if (place === undefined) return undefined;
  const { store, remove } = place;
  let calls = 0;
  const counted = new Proxy(store, {
    get(target, property) {
      const value = Reflect.get(target, property) as unknown;
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        if (property !== "subscribe") calls += 1;
        return (value as (...given: unknown[]) => unknown).apply(target, args);
      };
    },
  });
  const client = new StayhookClient({ baseUrl: "http://127.0.0.1:9", accessToken: () => "token" });
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  const began = performance.now();
  const webhooks = createWebhookHandler({
    client,
    store: counted,
    accountFrom: { query: "account" },
    verify: false,
    logger: () => {},
    on: {},
  });
  const clients = Array.from({ length: 10_000 }, (_, n) => client.account(`a${n}`));
  webhooks.start();
  await webhooks.ready();
  const ready = performance.now() - began;
  calls = 0;
  await sleep(10 * SECOND);
  globalThis.gc?.();
  const megabytes = (process.memoryUsage().heapUsed - before) / 2 ** 20;
  await webhooks.close({ timeout: 0 });
  await store.close();
  await remove();
  return {
    cells: {
      "one account has": `10,000 accounts at rest (${clients.length} clients)`,
      store: name,
      "others handled": `${(calls / 10).toFixed(1)} calls/s`,
      p50: `ready ${Math.round(ready)} ms`,
      p95: `${megabytes.toFixed(1)} MB`,
      longest: "",
      "its own": "",
    },
    failed: calls / 10 > 2 || ready > SECOND || megabytes > 60,
  };
}

/** @param only - plays only the situations whose names contain one of these texts */
export async function accounts(stores: readonly StoreName[], only?: readonly string[]): Promise<Row[]> {
  const rows: Row[] = [];
  const isPlayed = (name: string): boolean => only === undefined || only.some((text) => name.includes(text));
  for (const store of ["memory", ...stores] as const) {
    for (const situation of situations) {
      const row = isPlayed(situation.name) ? await measure(situation, store) : undefined;
      if (row) rows.push(row);
    }
    const row = isPlayed("at rest") ? await atRest(store) : undefined;
    if (row) rows.push(row);
  }
  return rows;
}
