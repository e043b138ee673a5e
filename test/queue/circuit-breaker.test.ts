import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { CircuitBreaker } from "../../src/queue/circuit-breaker.ts";
import type { Outage } from "../../src/queue/work.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const SECOND = 1000;
const down = { everything: false };

function breakerOf({ concurrency = 10, backoff = (n: number) => n * 10 * SECOND } = {}) {
  const pauses: { wait: number; since: Date; reason: string }[] = [];
  let resumed = 0;
  const breaker = new CircuitBreaker({
    concurrency,
    backoff,
    onPause: ({ wait, since, reason }) => pauses.push({ wait, since, reason }),
    onResume: () => {
      resumed += 1;
    },
  });
  const fail = (record: string, { first = true, outage = down }: { first?: boolean; outage?: Outage } = {}) =>
    breaker.recordOutage(breaker.begin(record), first, outage, new Error(`${record} is down`));
  return {
    breaker,
    pauses,
    waits: () => pauses.map(({ wait }) => wait / SECOND),
    fail,
    answer: (record = "good") => breaker.recordAnswer(breaker.begin(record)),
    paused: () => breaker.pause !== undefined,
    wait: () => breaker.waitAt(performance.now()),
    resumed: () => resumed,
  };
}

describe("what is taken for an outage", () => {
  test("one record out of reach, however often, is not", () => {
    const it = breakerOf();
    for (let n = 0; n < 50; n += 1) it.fail("bad", { first: n === 0 });
    expect(it.paused()).toBe(false);
    expect(it.wait()).toBe(0);
  });

  test("two records that had not failed before, with no answer in between, are", () => {
    const it = breakerOf();
    it.fail("a");
    it.fail("b");
    expect(it.pauses).toEqual([{ wait: 10 * SECOND, since: new Date(), reason: "Error: b is down" }]);
    expect(it.wait()).toBeGreaterThan(0);
  });

  test("an answer in between clears the suspicion", () => {
    const it = breakerOf();
    for (let n = 0; n < 50; n += 1) {
      it.fail(`bad ${n}`);
      it.answer();
    }
    expect(it.pauses).toEqual([]);
  });

  test("an answer in between clears the suspicion of records that had failed before, too", () => {
    const it = breakerOf({ concurrency: 5 });
    for (let n = 0; n < 50; n += 1) {
      it.fail(`known bad ${n}`, { first: false });
      it.answer();
    }
    expect(it.pauses).toEqual([]);
  });

  test("of records that had failed before, it takes as many as run at once", () => {
    const it = breakerOf({ concurrency: 5 });
    for (let n = 0; n < 4; n += 1) it.fail(`known bad ${n}`, { first: false });
    for (let n = 0; n < 4; n += 1) it.fail(`known bad ${n}`, { first: false });
    expect(it.paused()).toBe(false);
    it.fail("known bad 4", { first: false });
    expect(it.paused()).toBe(true);
  });

  test("with one at a time, one known bad record is still not enough", () => {
    const it = breakerOf({ concurrency: 1 });
    it.fail("bad", { first: false });
    it.fail("bad", { first: false });
    expect(it.paused()).toBe(false);
  });

  test("a limit or a missing token concerns all, and pauses at once", () => {
    const it = breakerOf();
    it.fail("a", { outage: { everything: true } });
    expect(it.paused()).toBe(true);
  });
});

describe("the wait", () => {
  test("lets nothing begin, then probes, as many as run at once, and grows to a minute", () => {
    const it = breakerOf({ backoff: (n) => n * 20 * SECOND });
    it.fail("a");
    it.fail("b");
    for (const [least, most] of [
      [20, 20],
      [40, 40],
      [45, 60],
      [45, 60],
    ] as const) {
      const wait = it.wait();
      expect(wait).toBeGreaterThanOrEqual(least * SECOND);
      expect(wait).toBeLessThanOrEqual(most * SECOND);
      vi.advanceTimersByTime(wait - 1);
      expect(it.wait()).toBeGreaterThan(0);
      vi.advanceTimersByTime(1);
      expect(it.wait()).toBe(0);
      it.fail("probe", { first: false });
    }
    expect(it.pauses.length).toBe(5);
  });

  test("differs from one to the next where it is the longest", () => {
    const it = breakerOf({ backoff: () => 3600 * SECOND });
    it.fail("a");
    it.fail("b");
    for (let n = 0; n < 20; n += 1) {
      vi.advanceTimersByTime(60 * SECOND);
      it.fail("probe", { first: false });
    }
    expect(new Set(it.pauses.map(({ wait }) => Math.round(wait / SECOND))).size).toBeGreaterThan(5);
  });

  test("is what the platform asked for, 15 minutes at the most", () => {
    const it = breakerOf();
    it.fail("a", { outage: { everything: true, retryAfter: 120 * SECOND } });
    expect(it.wait()).toBe(120 * SECOND);
    const other = breakerOf();
    other.fail("a", { outage: { everything: false, retryAfter: 24 * 3600 * SECOND } });
    expect(other.wait()).toBe(15 * 60 * SECOND);
  });

  test("is not prolonged by what was on its way when it began", () => {
    const it = breakerOf();
    const late = Array.from({ length: 8 }, (_, n) => it.breaker.begin(`late ${n}`));
    it.fail("a");
    it.fail("b");
    for (const reading of late) it.breaker.recordOutage(reading, true, down, new Error("down"));
    expect(it.pauses.length).toBe(1);
    expect(it.wait()).toBe(10 * SECOND);
  });

  test("is, where what was on its way brings a longer one from the platform", () => {
    const it = breakerOf();
    const late = it.breaker.begin("late");
    it.fail("a", { outage: { everything: true, retryAfter: 5 * SECOND } });
    it.breaker.recordOutage(late, true, { everything: true, retryAfter: 90 * SECOND }, new Error("429"));
    expect(it.wait()).toBe(90 * SECOND);
  });

  test("is prolonged by a single probe that finds nobody, whatever it began for", () => {
    const it = breakerOf();
    it.fail("a", { outage: { everything: true } });
    vi.advanceTimersByTime(10 * SECOND);
    it.fail("known bad", { first: false });
    expect(it.wait()).toBeGreaterThan(0);
    expect(it.waits()).toEqual([10, 20]);
  });

  test("can be cut short by who asks for work now, but not where the platform asked for it", () => {
    const it = breakerOf();
    it.fail("a", { outage: { everything: true } });
    it.breaker.tryNow();
    expect(it.wait()).toBe(0);
    it.fail("probe", { outage: { everything: true, retryAfter: 30 * SECOND } });
    it.breaker.tryNow();
    expect(it.wait()).toBeGreaterThan(0);
  });
});

describe("the end of an outage", () => {
  test("the first answer resumes full speed, and the next outage begins with a short wait again", () => {
    const it = breakerOf();
    it.fail("a");
    it.fail("b");
    vi.advanceTimersByTime(10 * SECOND);
    it.fail("c");
    vi.advanceTimersByTime(20 * SECOND);
    it.answer();
    expect(it.resumed()).toBe(1);
    expect(it.wait()).toBe(0);
    it.fail("d");
    it.fail("e");
    expect(it.waits()).toEqual([10, 20, 10]);
  });

  test("an answer that was on its way ends a suspicion of an outage at once", () => {
    const it = breakerOf();
    const late = it.breaker.begin("good");
    it.fail("a");
    it.fail("b");
    it.breaker.recordAnswer(late);
    expect(it.paused()).toBe(false);
  });

  test("but not a limit or a missing token: the platform has changed its mind since", () => {
    const it = breakerOf();
    const late = it.breaker.begin("good");
    it.fail("a", { outage: { everything: true } });
    it.breaker.recordAnswer(late);
    expect(it.paused()).toBe(true);
    vi.advanceTimersByTime(10 * SECOND);
    it.answer();
    expect(it.paused()).toBe(false);
  });

  test("the pause keeps its start, and tells the last error", () => {
    const it = breakerOf();
    it.fail("a", { outage: { everything: true } });
    const since = new Date();
    vi.advanceTimersByTime(10 * SECOND);
    it.fail("b");
    expect(it.breaker.pause).toEqual({ since, reason: "Error: b is down" });
    it.breaker.tryNow();
    it.answer();
    expect(it.breaker.pause).toBeUndefined();
  });

  test("the first report of an attempt counts", () => {
    const it = breakerOf();
    const reading = it.breaker.begin("a");
    it.breaker.recordAnswer(reading);
    it.breaker.recordOutage(reading, true, down, new Error("later"));
    it.fail("b");
    expect(it.paused()).toBe(false);
  });
});
