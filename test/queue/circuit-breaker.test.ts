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

describe("an outage", () => {
  test("is not one unreachable record, however often it fails", () => {
    const it = breakerOf();
    for (let n = 0; n < 50; n += 1) it.fail("bad", { first: n === 0 });
    expect(it.paused()).toBe(false);
    expect(it.wait()).toBe(0);
  });

  test("is two records that fail for the first time without an answer in between", () => {
    const it = breakerOf();
    it.fail("a");
    it.fail("b");
    expect(it.pauses).toEqual([{ wait: 10 * SECOND, since: new Date(), reason: "Error: b is down" }]);
    expect(it.wait()).toBeGreaterThan(0);
  });

  test("is not detected if an answer comes between the failures", () => {
    const it = breakerOf();
    for (let n = 0; n < 50; n += 1) {
      it.fail(`bad ${n}`);
      it.answer();
    }
    expect(it.pauses).toEqual([]);
  });

  test("is not detected if an answer comes between failures of records that failed before", () => {
    const it = breakerOf({ concurrency: 5 });
    for (let n = 0; n < 50; n += 1) {
      it.fail(`known bad ${n}`, { first: false });
      it.answer();
    }
    expect(it.pauses).toEqual([]);
  });

  test("needs as many failed records as run at once if all of them failed before", () => {
    const it = breakerOf({ concurrency: 5 });
    for (let n = 0; n < 4; n += 1) it.fail(`known bad ${n}`, { first: false });
    for (let n = 0; n < 4; n += 1) it.fail(`known bad ${n}`, { first: false });
    expect(it.paused()).toBe(false);
    it.fail("known bad 4", { first: false });
    expect(it.paused()).toBe(true);
  });

  test("needs two failed records even if one record runs at a time", () => {
    const it = breakerOf({ concurrency: 1 });
    it.fail("bad", { first: false });
    it.fail("bad", { first: false });
    expect(it.paused()).toBe(false);
  });

  test("is detected at once by a rate limit or a missing token", () => {
    const it = breakerOf();
    it.fail("a", { outage: { everything: true } });
    expect(it.paused()).toBe(true);
  });
});

describe("the wait", () => {
  test("first blocks all attempts, then allows half-open attempts, and grows to a minute", () => {
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

  test("varies even at its maximum", () => {
    const it = breakerOf({ backoff: () => 3600 * SECOND });
    it.fail("a");
    it.fail("b");
    for (let n = 0; n < 20; n += 1) {
      vi.advanceTimersByTime(60 * SECOND);
      it.fail("probe", { first: false });
    }
    expect(new Set(it.pauses.map(({ wait }) => Math.round(wait / SECOND))).size).toBeGreaterThan(5);
  });

  test("is the platform's Retry-After, 15 minutes at most", () => {
    const it = breakerOf();
    it.fail("a", { outage: { everything: true, retryAfter: 120 * SECOND } });
    expect(it.wait()).toBe(120 * SECOND);
    const other = breakerOf();
    other.fail("a", { outage: { everything: false, retryAfter: 24 * 3600 * SECOND } });
    expect(other.wait()).toBe(15 * 60 * SECOND);
  });

  test("is not prolonged by attempts from before the pause", () => {
    const it = breakerOf();
    const late = Array.from({ length: 8 }, (_, n) => it.breaker.begin(`late ${n}`));
    it.fail("a");
    it.fail("b");
    for (const reading of late) it.breaker.recordOutage(reading, true, down, new Error("down"));
    expect(it.pauses.length).toBe(1);
    expect(it.wait()).toBe(10 * SECOND);
  });

  test("is prolonged by an attempt from before the pause that brings a longer Retry-After", () => {
    const it = breakerOf();
    const late = it.breaker.begin("late");
    it.fail("a", { outage: { everything: true, retryAfter: 5 * SECOND } });
    it.breaker.recordOutage(late, true, { everything: true, retryAfter: 90 * SECOND }, new Error("429"));
    expect(it.wait()).toBe(90 * SECOND);
  });

  test("is prolonged by one failed half-open attempt", () => {
    const it = breakerOf();
    it.fail("a", { outage: { everything: true } });
    vi.advanceTimersByTime(10 * SECOND);
    it.fail("known bad", { first: false });
    expect(it.wait()).toBeGreaterThan(0);
    expect(it.waits()).toEqual([10, 20]);
  });

  test("can be cut short by a drain, unless the platform asked for it", () => {
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

  test.each([
    ["single records", down],
    ["everything", { everything: true }],
  ])("an answer to a request that began before the pause does not end an outage of %s", (_, outage) => {
    const it = breakerOf();
    const late = it.breaker.begin("good");
    it.fail("a", { outage });
    it.fail("b", { outage });
    it.breaker.recordAnswer(late);
    expect(it.paused()).toBe(true);
    vi.advanceTimersByTime(20 * SECOND);
    it.answer();
    expect(it.paused()).toBe(false);
  });

  test("a half-open breaker lets one attempt through at a time", () => {
    const it = breakerOf();
    it.fail("a");
    it.fail("b");
    vi.advanceTimersByTime(10 * SECOND);
    expect(it.breaker.room).toBe(1);
    const first = it.breaker.begin("c");
    expect(it.breaker.room).toBe(0);
    // An event without a record says nothing about the platform.
    it.breaker.end(first);
    expect(it.breaker.room).toBe(1);
    it.breaker.recordAnswer(it.breaker.begin("d"));
    expect(it.breaker.room).toBe(Number.POSITIVE_INFINITY);
  });

  test("a callback that outlasts its pause does not block the tries in the next pause", () => {
    const it = breakerOf();
    it.fail("a", { outage: { everything: true } });
    vi.advanceTimersByTime(10 * SECOND);
    it.breaker.recordAnswer(it.breaker.begin("long callback"));
    it.fail("b", { outage: { everything: true } });
    vi.advanceTimersByTime(10 * SECOND);
    expect(it.breaker.room).toBe(1);
  });

  test("a pause keeps its start, and reports the last error", () => {
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
