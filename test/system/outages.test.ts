import { beforeEach, describe, expect, test, vi } from "vitest";
import { type Answer, HOUR, handlerOf, MINUTE, notificationOf, useFakeTime } from "../webhooks/support.ts";
import { randomOf, seedOf } from "./random.ts";

const SECOND = 1000;
const DAY = 24 * HOUR;
const CONCURRENCY = 10;
const idle = { scheduled: 0, pending: 0, processing: 0, retrying: 0, parked: 0 };
/** Each test takes a few seconds. A busy machine may need much longer. */
vi.setConfig({ testTimeout: 120_000 });

const seed = seedOf("outages");
useFakeTime(new Date(Date.UTC(2026, 4, 1)));
beforeEach(() => {
  const random = randomOf(seed);
  vi.spyOn(Math, "random").mockImplementation(() => random.below(2 ** 30) / 2 ** 30);
});

type Simulation = ReturnType<typeof simulate>;
interface Read {
  readonly code: string;
  readonly at: number;
}

/** Simulates a platform whose answer depends on the booking and the time. All times are in ms since the start. */
function simulate(
  answer: (code: string, at: number) => Answer | undefined,
  options: Parameters<typeof handlerOf>[0] = {},
) {
  const start = Date.now();
  const now = () => Date.now() - start;
  const reads: Read[] = [];
  const delivered = new Map<string, number>();
  const endings = new Map<string, { readonly kind: string; readonly reason?: string; readonly at: number }>();
  const made = handlerOf({
    ...options,
    observe(event) {
      if (event.kind === "paused") simulation.pauses += 1;
      if (event.kind !== "done" && event.kind !== "parked") return;
      endings.set(event.ref!.slice("booking:".length), { ...event, at: now() });
    },
  });
  made.webhooks.start();
  const { platform, deliver, store } = made;
  const simulation = {
    ...{ store, now, reads, delivered, endings, pauses: 0 },
    /** Delivers a notification, and lets time pass. */
    async arrive(code: string, wait = 0): Promise<void> {
      platform.answer(code, () => {
        reads.push({ code, at: now() });
        return answer(code, now()) ?? { status: 200, body: { bookingCode: code, status: "Confirmed" } };
      });
      delivered.set(code, now());
      expect((await deliver(notificationOf({ bookingCode: code }))).status).toBe(200);
      await vi.advanceTimersByTimeAsync(wait);
    },
    /** The number of events that the store still has. */
    kept: async () => Object.values(await store.counts()).reduce((sum, count) => sum + count, 0),
    until: (at: number) => vi.advanceTimersByTimeAsync(at - now()),
    latencies: (which: (code: string) => boolean = () => true) =>
      [...endings].filter(([code]) => which(code)).map(([code, { at }]) => at - delivered.get(code)!),
    /** How long after `since` the older notifications were handled. Skips those handled before `since`. */
    latenessSince: (since: number) =>
      [...endings]
        .filter(([code, { at }]) => at > since && delivered.get(code)! < since)
        .map(([, { at }]) => at - since),
    mostReadsOfOne: () =>
      Math.max(...[...Map.groupBy(reads, ({ code }) => code).values()].map((of) => of.length)),
  };
  return simulation;
}

/** Delivers one booking every `every` ms until `end`. */
async function arrivals(simulation: Simulation, every: number, end: number): Promise<void> {
  for (let n = 0; simulation.now() < end; n += 1) await simulation.arrive(`B${n}`, every);
}

/** Returns the largest number of reads in any window of one minute. */
function mostInAMinute(reads: readonly Read[]): number {
  let most = 0;
  for (let first = 0, last = 0; last < reads.length; last += 1) {
    while (reads[last]!.at - reads[first]!.at >= MINUTE) first += 1;
    most = Math.max(most, last - first + 1);
  }
  return most;
}

const within = (from: number, to: number) => (at: number) => at >= from && at < to;

test.each([
  { status: 503, every: 20 * SECOND, from: 10 * MINUTE, to: 70 * MINUTE, end: 90 * MINUTE, count: 270 },
  { status: 401, every: 15 * MINUTE, from: HOUR, to: 13 * HOUR, end: 14 * HOUR, count: 56 },
])("$status for hours parks nothing, and hammers nobody", async ({ status, every, from, to, end, count }) => {
  const isDown = within(from, to);
  const simulation = simulate((_, at) => (isDown(at) ? { status } : undefined));
  await arrivals(simulation, every, end);
  const inVain = simulation.reads.filter(({ at }) => isDown(at));
  // A round of half-open reads begins every 45 to 60 s. The first waits are shorter, so allow three more rounds.
  expect(mostInAMinute(inVain)).toBeLessThanOrEqual(3 * CONCURRENCY);
  expect(inVain.length).toBeLessThanOrEqual(((to - from) / (45 * SECOND) + 3) * CONCURRENCY);

  await simulation.until(to + 2 * HOUR);
  expect(await simulation.store.counts()).toEqual({ ...idle, done: count });
  // The pause ends at most a minute after the outage. A record that failed meanwhile waits at most a minute more.
  expect(Math.max(...simulation.latenessSince(to))).toBeLessThanOrEqual(2 * MINUTE);
});

/** Lets real time pass. Taken before the timers are faked. */
const setRealTimeout = setTimeout;
const realTime = (ms: number) => new Promise<void>((resolve) => setRealTimeout(resolve, ms));

test("a platform that goes up and down every 10 s loses nothing", async () => {
  const simulation = simulate((_, at) =>
    Math.floor(at / (10 * SECOND)) % 2 === 1 ? { status: 502 } : undefined,
  );
  await arrivals(simulation, 3 * SECOND, 30 * MINUTE);
  // The last event retries alone, and each read fails with a chance of one half. Its backoff grows to 6 h.
  await simulation.until(2 * DAY);
  expect(await simulation.store.counts()).toEqual({ ...idle, done: 600 });
  // A row of half-open reads that all meet a 502 makes a long pause. Hence only half of the events have a bound.
  const latencies = simulation.latencies().sort((a, b) => a - b);
  expect(latencies[latencies.length / 2]).toBeLessThanOrEqual(MINUTE);
});

test("429 with Retry-After is honoured to the second, by all", async () => {
  const until = 5 * MINUTE + 130 * SECOND;
  const isLimited = within(5 * MINUTE, until);
  const simulation = simulate((_, at) =>
    isLimited(at)
      ? { status: 429, headers: { "retry-after": String(Math.ceil((until - at) / SECOND)) } }
      : undefined,
  );
  await arrivals(simulation, 5 * SECOND, 10 * MINUTE);
  expect(simulation.reads.filter(({ at }) => isLimited(at)).length).toBe(1);
  const next = simulation.reads.find(({ at }) => at >= until);
  expect(next?.at).toBeLessThanOrEqual(until + SECOND);
  expect(Math.max(...simulation.latencies())).toBeLessThanOrEqual(131 * SECOND);
  expect(await simulation.store.counts()).toEqual({ ...idle, done: 120 });
});

test("a firewall that refuses everything for an hour parks nothing", async () => {
  const simulation = simulate((_, at) => (at < HOUR ? { status: 403 } : undefined));
  await arrivals(simulation, MINUTE, 2 * HOUR);
  await simulation.until(4 * HOUR);
  expect(simulation.pauses).toBe(0);
  // The backoff allows at most four reads before the limit, seven in the hour after it, and one at the end.
  expect(simulation.mostReadsOfOne()).toBeLessThanOrEqual(12);
  expect(await simulation.store.counts()).toEqual({ ...idle, done: 120 });
  expect(Math.max(...simulation.latenessSince(HOUR))).toBeLessThanOrEqual(HOUR);
});

test("one booking that can never be read holds nobody up, and is given up in the end", async () => {
  const simulation = simulate((code) => (code === "bad" ? { status: 500 } : undefined));
  await simulation.arrive("bad");
  await arrivals(simulation, 7 * MINUTE, 3 * DAY + HOUR);
  expect(Math.max(...simulation.latencies((code) => code !== "bad"))).toBeLessThan(SECOND);
  expect(simulation.pauses).toBe(0);
  // Its failures count, because others are answered in between.
  expect(simulation.endings.get("bad")).toMatchObject({ kind: "parked", reason: "unavailable" });
  expect(simulation.endings.get("bad")?.at).toBeLessThanOrEqual(3 * DAY);
  // Twelve counted attempts, and between two answers of others some that do not count, each after 40 s at most.
  expect(simulation.mostReadsOfOne()).toBeLessThanOrEqual(60);
});

describe("forged notifications", () => {
  const isForged = (code: string) => code.startsWith("forged");
  // An idle process wakes each 30 s, so that each simulated day costs seconds: events are deleted after one day, not seven.
  const forging = () =>
    simulate((code) => (isForged(code) ? { status: 404 } : undefined), { retention: "1d" });
  /** Checks that the real ones were not delayed, and the forged ones read rarely. */
  const expectNoHarm = (simulation: Simulation, delay: number) => {
    const real = simulation.latencies((code) => !isForged(code));
    expect(real.length).toBe([...simulation.delivered.keys()].filter((code) => !isForged(code)).length);
    expect(Math.max(...real)).toBeLessThanOrEqual(delay);
    // At most five attempts count. Between two of these, uncounted attempts may go on for up to three days.
    expect(simulation.mostReadsOfOne()).toBeLessThanOrEqual(60);
  };

  test("three hundred at ten a second delay no real one, and go in the end", async () => {
    const simulation = forging();
    for (let n = 0; n < 300; n += 1) {
      await simulation.arrive(`forged${n}`);
      if (n % 100 === 50) await simulation.arrive(`real${n}`);
      await simulation.until(simulation.now() + 100);
    }
    for (let n = 0; simulation.now() < 5 * DAY; n += 1)
      await simulation.arrive(`later${n}`, 100 * MINUTE + 777);
    expectNoHarm(simulation, 2 * SECOND);
    expect(simulation.pauses).toBe(0);
    expect(mostInAMinute(simulation.reads)).toBeLessThanOrEqual(40 * 60);
    expect([...simulation.endings.values()].filter(({ kind }) => kind === "parked")).toHaveLength(300);

    const last = Math.max(...[...simulation.endings.values()].map(({ at }) => at));
    await simulation.until(last + DAY + HOUR + MINUTE);
    // Deletions take real time, so that the next one may be due an hour later than it would be.
    for (let n = 0; n < 100 && (await simulation.kept()) > 0; n += 1) {
      await realTime(5);
      await simulation.until(simulation.now() + HOUR);
    }
    expect(await simulation.store.counts()).toEqual({ ...idle, done: 0 });
  });

  test("a trickle of them for five days delays no real one", async () => {
    const simulation = forging();
    for (let n = 0; simulation.now() < 5 * DAY; n += 1)
      await simulation.arrive(n % 40 === 39 ? `real${n}` : `forged${n}`, 20 * MINUTE);
    expectNoHarm(simulation, SECOND);
    await simulation.until(10 * DAY);
    expect(await simulation.store.counts()).toEqual({ ...idle, done: 0 });
  });
});
