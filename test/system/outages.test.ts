// Outages, broken records and floods, from the notification to the callback, in simulated time.
import { beforeEach, describe, expect, test } from "vitest";
import { isSoak } from "../support/soak.ts";
import {
  type Answer,
  appOf,
  longest,
  MINUTE,
  mostInASecond,
  SECOND,
  seedRandom,
} from "../webhooks/bad-records/app.ts";
import { HOUR, useFakeTime } from "../webhooks/support.ts";
import { randomOf, seedOf } from "./random.ts";

const DAY = 24 * HOUR;
const idle = { scheduled: 0, pending: 0, processing: 0, retrying: 0, parked: 0 };
const seed = seedOf("outages");
useFakeTime(new Date(Date.UTC(2026, 4, 1)));
beforeEach(() => seedRandom(seed));

type App = ReturnType<typeof appOf>;
const readsOf = ({ reads }: App, name: string) => reads.filter(({ id }) => id.startsWith(name));
const waitsOf = ({ waits }: App, name: string) => waits.filter(({ id }) => id.startsWith(name));
/** Returns the largest number of reads of one record whose id begins so. */
const mostReads = (app: App, name: string) =>
  Math.max(...[...Map.groupBy(readsOf(app, name), ({ id }) => id).values()].map(({ length }) => length));
const parkedIn = ({ store }: App) => store.list({ state: "parked", limit: 1000 });

describe.each<{ name: string; answer: Answer }>([
  { name: "503", answer: 503 },
  { name: "refused connections", answer: "refused" },
  { name: "hanging connections", answer: "hangs" },
])("$name for 10 minutes", ({ answer }) => {
  test.each([true, false])("is an outage (snapshots: %s)", async (withSnapshots) => {
    const [from, to] = [2 * MINUTE, 12 * MINUTE];
    const app = appOf((_, at) => (at >= from && at < to ? answer : 200));
    const { webhooks, store, reads, waits, until, send, sendEvery } = app;
    const count = isSoak ? 1000 : 300;
    const all = async () => {
      for (let n = 0; n < count; n += 1) await send(`B${n}`);
    };
    if (withSnapshots) await all();
    await until(from);
    const before = waits.length;
    await all();
    await sendEvery(SECOND, 600, (n) => `LATER${n}`);
    expect(app.now()).toBe(to);
    // Reads that hang fail after 10 s. Until five of them have failed, others begin in their place.
    const inVain = reads.filter(({ at }) => at >= from + 11 * SECOND && at < to);
    expect(mostInASecond(inVain)).toBeLessThanOrEqual(1);
    const pauseRef = expect.stringContaining("booking:");
    expect(await webhooks.health()).toMatchObject({ state: "paused", pauseScope: "bookings", pauseRef });
    const waiting = [
      ...(await store.list({ state: "retrying", limit: 2000 })),
      ...(await store.list({ state: "pending", limit: 2000 })),
    ];
    // The read of one try may be in flight at this moment.
    const { processing } = await store.counts();
    expect(processing).toBeLessThanOrEqual(1);
    expect(waiting).toHaveLength(count + 600 - processing);
    expect(waiting.filter(({ attempts }) => attempts > 0)).toEqual([]);
    await until(to + MINUTE);
    expect(waits.length - before).toBe(count + 600);
    expect(await webhooks.health()).toMatchObject({ state: "running", pauseScope: undefined });
  });
});

test("401 for 12 hours parks nothing, hammers nobody, and all is done within two minutes of its end", async () => {
  const [from, to] = [HOUR, 13 * HOUR];
  const app = appOf((_, at) => (at >= from && at < to ? 401 : 200));
  await app.sendEvery(15 * MINUTE, 52, (n) => `B${n}`);
  // A try each 30 s at most, and each notification is one.
  const inVain = app.reads.filter(({ at }) => at >= from && at < to);
  expect(inVain.length).toBeLessThanOrEqual((to - from) / (27 * SECOND) + 48 + 10);
  await app.until(to + 2 * MINUTE);
  expect(await app.store.counts()).toEqual({ ...idle, done: 52 });
});

test("a platform that goes up and down every 10 s loses nothing", async () => {
  const app = appOf((_, at) => (Math.floor(at / (10 * SECOND)) % 2 === 1 ? 502 : 200));
  await app.sendEvery(3 * SECOND, 600, (n) => `B${n}`);
  // The last event retries alone, and each read fails with a chance of one half. Its backoff grows to 6 h.
  await app.until(2 * DAY);
  expect(await app.store.counts()).toEqual({ ...idle, done: 600 });
  // A row of tries that all meet a 502 makes a long pause. Hence only half of the events have a bound.
  const waits = app.waits.map(({ wait }) => wait).sort((a, b) => a - b);
  expect(waits[300]).toBeLessThanOrEqual(MINUTE);
});

test("every third read answers 500 at random", async () => {
  const soon: number[] = [];
  // In about one of 130 runs, chance shuts the gate, as in an outage, and the pause delays a quarter of the events.
  for (let run = 1; run <= 5; run += 1) {
    const random = randomOf(seed + run);
    const app = appOf(() => (random.oneIn(3) ? 500 : 200));
    await app.send("KNOWN");
    await app.until(20 * SECOND);
    await app.sendEvery(200, 300, (n) => `B${n}`);
    await app.until(app.now() + 2 * MINUTE);
    soon.push(waitsOf(app, "B").filter(({ wait }) => wait <= 20 * SECOND).length);
  }
  const [worst, ...others] = soon.sort((a, b) => a - b);
  for (const count of others) expect(count, `FUZZ_SEED=${seed}`).toBeGreaterThanOrEqual(0.95 * 300);
  expect(worst, `FUZZ_SEED=${seed}`).toBeGreaterThanOrEqual(0.5 * 300);
});

test.each([429, 503])("%i with Retry-After pauses everything, to the second", async (status) => {
  const [from, to] = [MINUTE, 4 * MINUTE];
  const app = appOf((_, at) => (at >= from && at < to ? { status, retryAfter: (to - at) / SECOND } : 200));
  const { webhooks, reads, waits, now, until, send } = app;
  await send("KNOWN");
  await until(from);
  for (let n = 0; n < 20; n += 1) {
    await send(`B${n}`);
    await until(now() + SECOND);
    await send(`${100 + n}`);
    await until(from + (n + 1) * 5 * SECOND);
  }
  expect(reads.filter(({ at }) => at >= from).length).toBe(1);
  expect(await webhooks.health()).toMatchObject({ state: "paused", pauseScope: "everything" });
  await until(to + 2 * SECOND);
  expect(waits).toHaveLength(41);
  expect(reads.filter(({ at }) => at > from && at < to)).toEqual([]);
  expect(reads.find(({ at }) => at >= to)?.at).toBeLessThanOrEqual(to + SECOND);
});

test("bookings that are out of reach stop no listing", async () => {
  const [from, to] = [MINUTE, 11 * MINUTE];
  const app = appOf((id, at) => (/^\d+$/.test(id) || at < from || at >= to ? 200 : 503));
  const { webhooks, reads, waits, now, until, send } = app;
  await send("KNOWN");
  await until(from);
  for (let n = 0; n < 1000; n += 1) await send(`B${n}`);
  for (let n = 0; now() < to; n += 1) {
    await send(`${100 + n}`);
    await send(`LATER${n}`);
    await until(now() + 5 * SECOND);
    if (n === 20) expect(await webhooks.health()).toMatchObject({ state: "paused", pauseScope: "bookings" });
  }
  const listings = waits.filter(({ id }) => /^\d+$/.test(id));
  expect(listings).toHaveLength(120);
  expect(longest(listings)).toBeLessThanOrEqual(5 * SECOND);
  const inVain = reads.filter(({ id, at }) => !/^\d+$/.test(id) && at >= from + 10 * SECOND && at < to);
  expect(mostInASecond(inVain)).toBeLessThanOrEqual(1);
  await until(to + MINUTE);
  expect(waits).toHaveLength(1 + 1000 + 240);
});

describe("bookings whose read answers 500 for ever", () => {
  test.each([2, 300])("delay no good one for long: %i", async (count) => {
    for (const isKnown of [true, false]) {
      const app = appOf((id) => (id.startsWith("BAD") ? 500 : 200));
      if (isKnown) await app.send("KNOWN");
      await app.until(10 * SECOND);
      for (let n = 0; n < count; n += 1) await app.send(`BAD${n}`);
      await app.until(11 * SECOND);
      const start = app.now();
      await app.sendEvery(10 * SECOND, 30, (n) => `GOOD${n}`);
      await app.until(app.now() + (isKnown ? 15 * SECOND : MINUTE));
      expect(waitsOf(app, "GOOD")).toHaveLength(30);
      // A second after the last try, and the read itself.
      expect(longest(waitsOf(app, "GOOD").slice(1))).toBeLessThanOrEqual(SECOND + 50);
      const bad = readsOf(app, "BAD");
      expect(mostInASecond(bad)).toBeLessThanOrEqual(40);
      const inMinute = (n: number) =>
        bad.filter(({ at }) => at >= start + n * MINUTE && at < start + (n + 1) * MINUTE).length;
      // Each good one opens the gate. Then 20 failures shut it again, beside the ten reads in flight.
      for (const minute of [0, 4]) expect(inMinute(minute)).toBeLessThanOrEqual(7 * 30);
    }
  });

  test("are given up in the end", async () => {
    const app = appOf((id) => (id === "BAD" ? 500 : 200));
    await app.send("BAD");
    for (let n = 0; app.now() < 3 * DAY; n += 1) await app.sendEvery(7 * MINUTE, 1, () => `GOOD${n}`);
    expect(longest(app.waits)).toBeLessThan(SECOND);
    // Its failures count, because others are answered in between.
    expect(await parkedIn(app)).toMatchObject([{ ref: "booking:BAD", reason: "unavailable" }]);
    // Twelve reads count, each the first one after another booking's answer. Those between two answers do not count, and come
    // each 40 s, for seven minutes at most. From the ninth on, the wait of a counted failure is longer than that.
    expect(mostReads(app, "BAD")).toBeLessThanOrEqual(12 + 8 * ((7 * MINUTE) / (40 * SECOND)));
  });
});

describe("a firewall that refuses new bookings for an hour", () => {
  test("parks nothing if they are many", async () => {
    const app = appOf((_, at) => (at < HOUR ? 403 : 200));
    await app.sendEvery(20 * SECOND, 180, (n) => `B${n}`);
    expect((await app.webhooks.health()).state).toBe("running");
    // Fifteen in five minutes are a flood. Its waits are 5 s, doubled up to five minutes: six reads, then one each five minutes.
    expect(mostReads(app, "B")).toBeLessThanOrEqual(6 + HOUR / (5 * MINUTE) + 5);
    await app.sendEvery(SECOND, 300, (n) => `LATER${n}`);
    await app.until(app.now() + SECOND);
    expect(await app.store.counts()).toEqual({ ...idle, done: 480 });
  });

  test("parks a few, and a replay handles them", async () => {
    const app = appOf((_, at) => (at < HOUR ? 403 : 200));
    await app.sendEvery(MINUTE, 120, (n) => `B${n}`);
    const parked = await parkedIn(app);
    expect(parked.length).toBeGreaterThan(0);
    expect(new Set(parked.map(({ reason }) => reason))).toEqual(new Set(["denied"]));
    expect(mostReads(app, "B")).toBe(5);
    expect(await app.store.replay({ state: "parked" })).toBe(parked.length);
    await app.until(app.now() + MINUTE);
    expect(await app.store.counts()).toEqual({ ...idle, done: 120 });
  });
});

test.each([
  { limit: Number.POSITIVE_INFINITY, known: false },
  { limit: 20, known: true },
])(
  "forged 200 a second, every ninth a real code, and 429 above $limit a second",
  async ({ limit, known }) => {
    const recent: number[] = [];
    const app = appOf((id, at) => {
      while (recent.length > 0 && at - recent[0]! >= SECOND) recent.shift();
      if (recent.length >= limit) return 429;
      recent.push(at);
      return id.startsWith("FORGED") ? 404 : 200;
    });
    const { reads, waits, now, until, send } = app;
    await send("REAL");
    if (known) for (let n = 0; n < 60; n += 1) await send(`GENUINE${n}`);
    await until(30 * SECOND);
    const start = now();
    const before = waits.length;
    const count = isSoak ? 6000 : 900;
    for (let n = 0; n < count; n += 1) {
      await send(n % 9 === 0 ? "REAL" : `FORGED${n}`);
      if (n % 100 === 0) await send(`GENUINE${n / 100}`);
      if (n % 10 === 0) await until(start + n * 5);
    }
    await until(start + count * 5 + 3 * MINUTE);
    const genuine = waits.slice(before).filter(({ id }) => !id.startsWith("FORGED"));
    expect(mostInASecond(reads.filter(({ at }) => at >= start + SECOND))).toBeLessThanOrEqual(80);
    expect(genuine).toHaveLength(count / 100 + Math.ceil(count / 9));
    expect(longest(genuine)).toBeLessThanOrEqual(3 * MINUTE);
  },
);

test.each([
  { what: "300 at ten a second", every: 100, reals: 100, parked: 300, delay: 2 * SECOND },
  { what: "one in 20 minutes for five days", every: 20 * MINUTE, reals: 40, parked: 351, delay: SECOND },
])("forged notifications, $what, delay no real one, and go in the end", async (row) => {
  const app = appOf((id) => (id.startsWith("FORGED") ? 404 : 200));
  for (let n = 0; n < (row.every === 100 ? 303 : 360); n += 1)
    await app.sendEvery(row.every, 1, () => (n % row.reals === row.reals - 1 ? `REAL${n}` : `FORGED${n}`));
  expect(longest(waitsOf(app, "REAL"))).toBeLessThanOrEqual(row.delay);
  await app.until(app.now() + 12 * HOUR);
  expect(await parkedIn(app)).toHaveLength(row.parked);
  // At most five attempts count. Between two of these, uncounted attempts may go on for as long as the flood.
  expect(mostReads(app, "FORGED")).toBeLessThanOrEqual(60);
});
