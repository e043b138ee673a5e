// Plays the promises of docs/security.md and docs/recovering.md in real time: how long a genuine event waits beside forged
// notifications, beside bookings that cannot be read, and after an outage. test/system/outages.test.ts plays them on a
// fake clock.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { Agent, createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createWebhookHandler, memoryStore, StayhookClient, type WebhookHandler } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import type { EventStore } from "stayhook/store";
import { makePlace, openStore } from "./places.ts";
import type { Row } from "./table.ts";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
/** The platform's response time, in ms. */
const LATENCY = 30;

type Answer = 200 | 404 | 429 | 500 | 503;

interface Wait {
  readonly id: string;
  readonly at: number;
  readonly wait: number;
}

/** The running app and platform. Times are in ms since the start. */
interface Play {
  readonly reads: readonly { readonly id: string; readonly at: number }[];
  readonly waits: readonly Wait[];
  now(): number;
  until(at: number): Promise<void>;
  send(id: string): Promise<void>;
  /** Sends `count` notifications, the first one now. */
  sendEvery(ms: number, count: number, id: (n: number) => string): Promise<void>;
}

/** What is measured. */
interface Figures {
  /** The events whose waits count. */
  readonly sent: number;
  readonly waits: readonly number[];
  /** The longest wait that is allowed, in ms. */
  readonly limit: number;
  /** How many of the events may wait longer. Default 0. */
  readonly late?: number;
  /** The times of the reads that count, and how many are allowed in a second. */
  readonly reads: readonly number[];
  readonly most: number;
}

interface Situation {
  readonly name: string;
  /** Makes a platform for one run. */
  readonly platform: () => (id: string, at: number) => Answer;
  readonly run: (play: Play) => Promise<Figures>;
}

const isListing = (id: string) => /^\d+$/.test(id);

const waitsOf = ({ waits }: Play, prefix: string, since = 0) =>
  waits.filter(({ id, at }) => id.startsWith(prefix) && at >= since).map(({ wait }) => wait);

const readsOf = ({ reads }: Play, is: (id: string, at: number) => boolean) =>
  reads.filter(({ id, at }) => is(id, at)).map(({ at }) => at);

/** Waits until as many events are handled, at most `ms`. */
async function handled(play: Play, count: () => number, sent: number, ms: number): Promise<void> {
  const end = play.now() + ms;
  while (count() < sent && play.now() < end) await sleep(50);
}

function unreadable(count: number, known: boolean): Situation {
  const limit = known ? 15 * SECOND : MINUTE;
  return {
    name: `${count} bookings answer 500, app has read ${known ? "one" : "none"}`,
    platform: () => (id) => (id.startsWith("BAD") ? 500 : 200),
    async run(play) {
      if (known) await play.send("KNOWN");
      await play.until(2 * SECOND);
      for (let n = 0; n < count; n += 1) await play.send(`BAD${n}`);
      const since = play.now() + SECOND;
      await play.sendEvery(10 * SECOND, 9, (n) => `GOOD${n}`);
      await handled(play, () => waitsOf(play, "GOOD").length, 9, limit);
      const reads = readsOf(play, (id, at) => id.startsWith("BAD") && at >= since);
      return { sent: 9, waits: waitsOf(play, "GOOD"), limit, reads, most: 50 };
    },
  };
}

function outage(lasts: number, what: "everything" | "bookings"): Situation {
  const [from, to] = [5 * SECOND, 5 * SECOND + lasts];
  const isOut = (id: string, at: number) =>
    at >= from && at < to && (what === "everything" || !isListing(id));
  return {
    name: `${what} answers 503 for ${lasts / SECOND} s`,
    platform: () => (id, at) => (isOut(id, at) ? 503 : 200),
    async run(play) {
      await play.send("KNOWN");
      await play.until(from);
      for (let n = 0; n < 1000; n += 1) await play.send(`B${n}`);
      const later = Math.ceil((to - play.now()) / SECOND);
      const listings = (n: number) => what === "bookings" && n % 5 === 0;
      await play.sendEvery(SECOND, later, (n) => (listings(n) ? String(1000 + n) : `LATER${n}`));
      const sent = 1000 + later;
      const count = () => play.waits.filter(({ id }) => id !== "KNOWN").length;
      await handled(play, count, sent, MINUTE);
      // A booking waits from the end of the outage on. A listing must not wait at all.
      const waits = play.waits
        .filter(({ id }) => id !== "KNOWN")
        .map(({ id, at, wait }) =>
          isListing(id) ? (wait > 5 * SECOND ? Number.POSITIVE_INFINITY : wait) : Math.max(0, at + wait - to),
        );
      const reads = readsOf(play, (id, at) => isOut(id, at) && at >= from + 10 * SECOND);
      return { sent, waits, limit: MINUTE, reads, most: 1 };
    },
  };
}

function forgedFlood(limit: number, known: boolean): Situation {
  const above = Number.isFinite(limit) ? `, 429 above ${limit}/s` : "";
  return {
    name: `forged 200/s for 30 s${above}, genuine ones ${known ? "known" : "new"}`,
    platform() {
      const recent: number[] = [];
      return (id, at) => {
        while (recent.length > 0 && at - recent[0]! >= SECOND) recent.shift();
        if (recent.length >= limit) return 429;
        recent.push(at);
        return id.startsWith("FORGED") ? 404 : 200;
      };
    },
    async run(play) {
      await play.send("REAL");
      if (known) await play.sendEvery(100, 15, (n) => `GENUINE${n}`);
      await play.until(5 * SECOND);
      const since = play.now();
      for (let n = 0; n < 6000; n += 1) {
        if (n % 10 === 0) await play.until(since + n * 5);
        if (n % 400 === 0) await play.send(`GENUINE${n / 400}`);
        await play.send(n % 9 === 0 ? "REAL" : `FORGED${n}`);
      }
      const genuine = () => [...waitsOf(play, "GENUINE", since), ...waitsOf(play, "REAL", since)];
      const sent = 15 + Math.ceil(6000 / 9);
      await handled(play, () => genuine().length, sent, 3 * MINUTE);
      const reads = readsOf(play, (_, at) => at >= since + SECOND);
      return { sent, waits: genuine(), limit: 3 * MINUTE, reads, most: 50 };
    },
  };
}

const everyThird: Situation = {
  name: "every third read answers 500 at random",
  platform: () => () => (Math.random() < 1 / 3 ? 500 : 200),
  async run(play) {
    await play.send("KNOWN");
    await play.until(2 * SECOND);
    await play.sendEvery(200, 300, (n) => `B${n}`);
    await handled(play, () => waitsOf(play, "B").length, 300, 20 * SECOND);
    return { sent: 300, waits: waitsOf(play, "B"), limit: 20 * SECOND, late: 15, reads: [], most: 50 };
  },
};

/** @param lasts - how long the outages last, in ms */
function situations(lasts: number): Readonly<Record<string, readonly Situation[]>> {
  return {
    bad: [unreadable(2, true), unreadable(2, false), unreadable(300, true), unreadable(300, false)],
    random: [everyThird],
    flood: [forgedFlood(Number.POSITIVE_INFINITY, false)],
    limited: [forgedFlood(20, true), forgedFlood(20, false)],
    outage: [outage(lasts, "everything"), outage(lasts, "bookings")],
  };
}

interface Opened {
  /** Opens the store once more, as another process does. */
  readonly open: () => EventStore<never>;
  readonly remove: () => Promise<void>;
}

async function opened(name: "memory" | "postgres" | "redis"): Promise<Opened | undefined> {
  if (name === "memory") {
    const store = memoryStore();
    return { open: () => store, remove: async () => {} };
  }
  const place = await makePlace(name);
  return place && { open: () => openStore(place), remove: () => place.remove() };
}

async function listening(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Starts the platform, and an app in one process or with a receiver and two workers apart. */
async function start(situation: Situation, apart: boolean, { open }: Opened) {
  const startedAt = performance.now();
  const now = () => performance.now() - startedAt;
  const reads: { id: string; at: number }[] = [];
  const waits: Wait[] = [];
  const sent = new Map<string, { id: string; at: number }>();
  const answer = situation.platform();
  const platform = createServer(async (asked, reply) => {
    const id = asked.url?.split("/").at(-1) ?? "";
    reads.push({ id, at: now() });
    const status = answer(id, now());
    await sleep(LATENCY);
    const body = isListing(id)
      ? { listingId: Number(id), status: "Published" }
      : { bookingCode: id, status: "Confirmed" };
    reply.writeHead(status, { "content-type": "application/json" });
    reply.end(JSON.stringify(status === 200 ? body : {}));
  });
  const baseUrl = await listening(platform);
  const stores: EventStore<never>[] = [];
  const make = (): WebhookHandler => {
    const store = open();
    if (!stores.includes(store)) stores.push(store);
    return createWebhookHandler({
      client: new StayhookClient({ baseUrl, accessToken: "token" }),
      store,
      autoStart: false,
      verify: false,
      recheckAfter: false,
      logger: () => {},
      on: {},
      observe(event) {
        const known = event.kind === "done" ? sent.get(event.eventId) : undefined;
        if (known) waits.push({ ...known, wait: now() - known.at });
      },
    });
  };
  const receiver = make();
  const workers = apart ? [make(), make()] : [receiver];
  for (const worker of workers) worker.start();
  const server = createServer(toNodeHandler(receiver));
  const url = new URL(await listening(server));
  const agent = new Agent({ keepAlive: true, maxSockets: 50 });
  const post = async (body: string): Promise<number> => {
    const asked = request({ host: url.hostname, port: url.port, method: "POST", agent });
    asked.end(body);
    const [reply] = (await once(asked, "response")) as [import("node:http").IncomingMessage];
    reply.resume();
    return reply.statusCode ?? 0;
  };
  const posting = new Set<Promise<void>>();
  /** Sends a notification again until it is answered 200, as the platform does. */
  const deliver = async (body: string): Promise<void> => {
    for (let tries = 0; tries < 30; tries += 1) {
      if ((await post(body)) === 200) return;
      await sleep(SECOND);
    }
    throw new Error("a notification was not answered 200 in 30 tries");
  };
  const play: Play = {
    reads,
    waits,
    now,
    async until(at) {
      if (at > now()) await sleep(at - now());
    },
    // The answer to one notification must not delay the next one.
    async send(id) {
      if (posting.size >= 50) await Promise.race(posting);
      const eventId = randomUUID();
      sent.set(eventId, { id, at: now() });
      const fields = isListing(id) ? { listingId: Number(id) } : { bookingCode: id };
      const posted: Promise<void> = deliver(
        JSON.stringify({ eventId, timestamp: new Date(), ...fields }),
      ).finally(() => posting.delete(posted));
      posting.add(posted);
    },
    async sendEvery(ms, count, id) {
      const from = now();
      for (let n = 0; n < count; n += 1) {
        await play.until(from + n * ms);
        await play.send(id(n));
      }
      await play.until(from + count * ms);
    },
  };
  const end = async (): Promise<void> => {
    await Promise.allSettled(posting);
    agent.destroy();
    for (const each of [server, platform]) {
      each.close();
      each.closeAllConnections();
    }
    await Promise.all([...new Set([receiver, ...workers])].map((handler) => handler.close({ timeout: 0 })));
    for (const store of stores) await store.close();
  };
  return { play, end };
}

async function measure(
  situation: Situation,
  name: "memory" | "postgres" | "redis",
  apart: boolean,
): Promise<Row | undefined> {
  const place = await opened(name);
  if (place === undefined) return undefined;
  const { play, end } = await start(situation, apart, place);
  try {
    const { sent, waits, limit, late = 0, reads, most } = await situation.run(play);
    const sorted = waits.toSorted((a, b) => a - b);
    const tooLate = sent - waits.filter((wait) => wait <= limit).length;
    const inASecond = mostInASecond(reads);
    return {
      cells: {
        situation: situation.name,
        store: name,
        layout: apart ? "receiver and 2 workers" : "one process",
        handled: `${waits.length}/${sent}`,
        median: seconds(sorted[Math.floor(sorted.length / 2)]),
        longest: waits.length < sent ? "never" : seconds(sorted.at(-1)),
        limit: seconds(limit),
        "too late": String(tooLate),
        "reads/s": String(inASecond),
      },
      // Each worker has its own limit of reads.
      failed: tooLate > late || inASecond > most * (apart ? 2 : 1),
    };
  } finally {
    await end();
    await place.remove();
  }
}

function seconds(ms: number | undefined): string {
  return ms === undefined || ms === Number.POSITIVE_INFINITY ? "never" : `${(ms / SECOND).toFixed(1)} s`;
}

function mostInASecond(times: readonly number[]): number {
  let most = 0;
  for (let first = 0, last = 0; last < times.length; last += 1) {
    while (times[last]! - times[first]! >= SECOND) first += 1;
    most = Math.max(most, last - first + 1);
  }
  return most;
}

/**
 * Plays each situation on all stores and layouts at the same time. All of them take about half an hour.
 *
 * @param only - the names of the groups to play. Default: all
 * @param lasts - how long the outages last, in ms
 */
export async function forged(only: readonly string[] | undefined, lasts = 10 * MINUTE): Promise<Row[]> {
  const rows: Row[] = [];
  const groups = situations(lasts);
  const unknown = only?.find((group) => groups[group] === undefined);
  if (unknown !== undefined)
    throw new Error(`There is no group ${unknown}. The groups are ${Object.keys(groups).join(", ")}.`);
  for (const group of only ?? Object.keys(groups)) {
    for (const situation of groups[group] ?? []) {
      const runs = (["memory", "postgres", "redis"] as const).flatMap((store) =>
        [false, true].map((apart) => measure(situation, store, apart)),
      );
      const measured = (await Promise.all(runs)).filter((row) => row !== undefined);
      for (const { cells, failed } of measured) console.log(JSON.stringify(cells), failed ? "FAILED" : "");
      rows.push(...measured);
    }
  }
  return rows;
}
