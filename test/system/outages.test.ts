import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { randomOf, seedOf } from "./random.ts";
import {
  confirmed,
  DAY,
  HOUR,
  MINUTE,
  mostInAMinute,
  type Read,
  SECOND,
  simulate,
} from "./simulated-platform.ts";

const seed = seedOf("outages");

beforeEach(() => {
  vi.useFakeTimers({ now: Date.UTC(2026, 4, 1) });
  const random = randomOf(seed);
  vi.spyOn(Math, "random").mockImplementation(() => random.below(2 ** 30) / 2 ** 30);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Each test takes a few seconds. A busy machine may need much longer. */
const timeout = 120_000;
const CONCURRENCY = 10;
const idle = { scheduled: 0, pending: 0, processing: 0, retrying: 0, parked: 0 };
const within = (from: number, to: number) => (at: number) => at >= from && at < to;
const isForged = (code: string) => code.startsWith("forged");

type Simulation = ReturnType<typeof simulate>;

/** Delivers one booking every `every` ms until `end`. */
async function arrivals(simulation: Simulation, every: number, end: number): Promise<void> {
  for (let n = 0; simulation.now() < end; n += 1) {
    await simulation.arrive(`B${n}`);
    await simulation.until(simulation.now() + every);
  }
}

/** Returns how long after `since` the older notifications were handled, in ms. Skips those handled before `since`. */
function latenessSince({ endings, delivered }: Simulation, since: number): number[] {
  return [...endings]
    .filter(([code, { at }]) => at > since && delivered.get(code)! < since)
    .map(([, { at }]) => at - since);
}

function readsByCode(reads: readonly Read[]): Map<string, number[]> {
  const byCode = new Map<string, number[]>();
  for (const { code, at } of reads) byCode.set(code, [...(byCode.get(code) ?? []), at]);
  return byCode;
}

describe("an outage", () => {
  test("an hour of 503s parks nothing, and hammers nobody", { timeout }, async () => {
    const [from, to] = [10 * MINUTE, 70 * MINUTE];
    const isDown = within(from, to);
    const simulation = simulate((code, at) => (isDown(at) ? { status: 503 } : confirmed(code)));
    await arrivals(simulation, 20 * SECOND, 90 * MINUTE);
    const inVain = simulation.reads.filter(({ at }) => isDown(at));
    // A round of half-open reads begins every 45 to 60 s. The first waits are shorter, so allow three more rounds.
    expect(mostInAMinute(inVain)).toBeLessThanOrEqual(3 * CONCURRENCY);
    expect(inVain.length).toBeLessThanOrEqual((HOUR / (45 * SECOND) + 3) * CONCURRENCY);

    await simulation.until(to + 2 * HOUR);
    expect(await simulation.store.counts()).toEqual({ ...idle, done: 270 });
    // The pause ends at most a minute after the outage. A record that failed meanwhile waits at most a minute more.
    expect(Math.max(...latenessSince(simulation, to))).toBeLessThanOrEqual(2 * MINUTE);
  });

  test("a platform that goes up and down every 10 s loses nothing", { timeout }, async () => {
    const simulation = simulate((code, at) =>
      Math.floor(at / (10 * SECOND)) % 2 === 1 ? { status: 502 } : confirmed(code),
    );
    await arrivals(simulation, 3 * SECOND, 30 * MINUTE);
    // The last event retries alone, and each read fails with a chance of one half. Its backoff grows to 6 h.
    await simulation.until(2 * DAY);
    expect(await simulation.store.counts()).toEqual({ ...idle, done: 600 });
    // A row of half-open reads that all meet a 502 makes a long pause. Hence only half of the events have a bound.
    const latencies = simulation.latencies().sort((a, b) => a - b);
    expect(latencies[latencies.length / 2]).toBeLessThanOrEqual(MINUTE);
  });

  test("429 with Retry-After is honoured to the second, by all", { timeout }, async () => {
    const until = 5 * MINUTE + 130 * SECOND;
    const isLimited = within(5 * MINUTE, until);
    const simulation = simulate((code, at) =>
      isLimited(at)
        ? { status: 429, headers: { "retry-after": String(Math.ceil((until - at) / SECOND)) } }
        : confirmed(code),
    );
    await arrivals(simulation, 5 * SECOND, 10 * MINUTE);
    expect(simulation.reads.filter(({ at }) => isLimited(at)).length).toBe(1);
    const next = simulation.reads.find(({ at }) => at >= until);
    expect(next?.at).toBeGreaterThanOrEqual(until);
    expect(next?.at).toBeLessThanOrEqual(until + SECOND);
    expect(Math.max(...simulation.latencies())).toBeLessThanOrEqual(131 * SECOND);
    expect(await simulation.store.counts()).toEqual({ ...idle, done: 120 });
  });

  test("a firewall that refuses everything for an hour parks nothing", { timeout }, async () => {
    const simulation = simulate((code, at) => (at < HOUR ? { status: 403 } : confirmed(code)));
    await arrivals(simulation, MINUTE, 2 * HOUR);
    await simulation.until(4 * HOUR);
    expect(simulation.pauses()).toBe(0);
    // The backoff allows at most four reads before the limit, seven in the hour after it, and one at the end.
    for (const times of readsByCode(simulation.reads).values()) expect(times.length).toBeLessThanOrEqual(12);
    expect(await simulation.store.counts()).toEqual({ ...idle, done: 120 });
    expect(Math.max(...latenessSince(simulation, HOUR))).toBeLessThanOrEqual(HOUR);
  });
});

test("a token that expires over night parks nothing", { timeout }, async () => {
  const [from, to] = [HOUR, 13 * HOUR];
  const isExpired = within(from, to);
  const simulation = simulate((code, at) => (isExpired(at) ? { status: 401 } : confirmed(code)));
  await arrivals(simulation, 15 * MINUTE, 14 * HOUR);
  const inVain = simulation.reads.filter(({ at }) => isExpired(at));
  // A round of half-open reads begins every 45 to 60 s.
  expect(mostInAMinute(inVain)).toBeLessThanOrEqual(2 * CONCURRENCY);
  await simulation.until(to + 2 * MINUTE);
  expect(await simulation.store.counts()).toEqual({ ...idle, done: 56 });
});

test("one booking that can never be read holds nobody up, and is given up in the end", {
  timeout,
}, async () => {
  const simulation = simulate((code) => (code === "bad" ? { status: 500 } : confirmed(code)));
  await simulation.arrive("bad");
  await arrivals(simulation, 7 * MINUTE, 3 * DAY + HOUR);
  expect(Math.max(...simulation.latencies((code) => code !== "bad"))).toBeLessThan(SECOND);
  expect(simulation.pauses()).toBe(0);
  expect(simulation.endings.get("bad")).toMatchObject({ state: "parked", reason: "unavailable" });
  expect(simulation.endings.get("bad")?.after).toBe(3 * DAY);
  // The backoff is 5 s, 30 s, 2 min, … 5 h, then every 6 h, each up to a quarter shorter. Without backoff there would
  // be one read for each minute of three days.
  expect(simulation.readsOf("bad").length).toBeLessThanOrEqual(24);
});

describe("forged notifications", () => {
  const answer = (code: string) => (isForged(code) ? { status: 404 } : confirmed(code));

  test("three hundred at ten a second delay no real one, and go in the end", { timeout }, async () => {
    const simulation = simulate(answer);
    for (let n = 0; n < 300; n += 1) {
      await simulation.arrive(`forged${n}`);
      if (n % 100 === 50) await simulation.arrive(`real${n}`);
      await simulation.until(simulation.now() + 100);
    }
    for (let n = 0; simulation.now() < 5 * DAY; n += 1) {
      await simulation.arrive(`later${n}`);
      await simulation.until(simulation.now() + 100 * MINUTE + 777);
    }
    const real = simulation.latencies((code) => !isForged(code));
    expect(real.length).toBe([...simulation.delivered.keys()].filter((code) => !isForged(code)).length);
    expect(Math.max(...real)).toBeLessThanOrEqual(2 * SECOND);
    expect(simulation.pauses()).toBe(0);
    expect(mostInAMinute(simulation.reads)).toBeLessThanOrEqual(50 * 60);
    // At most five attempts count. Between two of these, uncounted attempts may go on for up to three days.
    for (const times of readsByCode(simulation.reads).values()) expect(times.length).toBeLessThanOrEqual(60);
    expect((await simulation.store.counts()).parked).toBe(300);

    const last = Math.max(...[...simulation.endings.values()].map(({ at }) => at));
    await simulation.until(last + 7 * DAY + HOUR + MINUTE);
    expect(await simulation.store.counts()).toEqual({ ...idle, done: 0 });
  });

  test("a trickle of them for five days delays no real one", { timeout }, async () => {
    const simulation = simulate(answer);
    for (let n = 0; simulation.now() < 5 * DAY; n += 1) {
      await simulation.arrive(n % 40 === 39 ? `real${n}` : `forged${n}`);
      await simulation.until(simulation.now() + 20 * MINUTE);
    }
    expect(Math.max(...simulation.latencies((code) => !isForged(code)))).toBeLessThanOrEqual(SECOND);
    for (const times of readsByCode(simulation.reads).values()) expect(times.length).toBeLessThanOrEqual(60);
    await simulation.until(16 * DAY);
    expect(await simulation.store.counts()).toEqual({ ...idle, done: 0 });
  });
});
