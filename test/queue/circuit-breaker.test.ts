import { expect, test, vi } from "vitest";
import type { TrackedRead } from "../../src/queue/circuit.ts";
import { CircuitBreaker } from "../../src/queue/circuit-breaker.ts";
import type { Lane } from "../../src/queue/work.ts";
import { SECOND, useFakeTime } from "./support.ts";

useFakeTime();

const BOOKINGS: Lane = { account: undefined, kind: "bookings" };

type Options = Partial<{ concurrency: number; backoff: (attempt: number) => number }>;

function breakerOf({ concurrency = 10, backoff = (n) => n * 10 * SECOND }: Options = {}) {
  const waits: number[] = [];
  const readings = new Map<string, TrackedRead>();
  let resumed = 0;
  const breaker = new CircuitBreaker({
    concurrency,
    backoff,
    onPause: ({ wait }) => waits.push(wait / SECOND),
    onResume: () => {
      resumed += 1;
    },
  });
  const readingOf = (record: string) => readings.get(record) ?? breaker.begin(record, BOOKINGS);
  const outage = (record: string, everything: boolean, seconds?: string, first = true) => {
    const retryAfter = seconds === undefined ? undefined : Number(seconds) * SECOND;
    const error = new Error(`${record} is down`);
    breaker.recordOutage(readingOf(record), first ? 0 : 1, { everything, retryAfter }, error);
  };
  const steps: Record<string, (record: string, seconds?: string) => unknown> = {
    begins: (record) => readings.set(record, breaker.begin(record, BOOKINGS)),
    /** The event had no outage before. */
    fails: (record, seconds) => outage(record, false, seconds),
    "fails-again": (record) => outage(record, false, undefined, false),
    /** Every record is affected. */
    limited: (record, seconds) => outage(record, true, seconds),
    answers: (record) => breaker.recordAnswer(readingOf(record)),
    ends: (record) => breaker.end(readingOf(record)),
    drains: () => breaker.tryNow(),
    waits: (seconds) => vi.advanceTimersByTime(Number(seconds) * SECOND),
  };
  return {
    breaker,
    waits,
    play: (script: string) => {
      for (const step of script.split("; ")) {
        const [name = "", record = "", seconds] = step.split(" ");
        (steps[name] as (typeof steps)[string])(record, seconds);
      }
      return {
        waits,
        left: breaker.waitAt(performance.now(), BOOKINGS) / SECOND,
        room: breaker.gateAt(performance.now(), BOOKINGS).room,
        paused: breaker.pause !== undefined,
        resumed,
      };
    },
  };
}

const repeat = (times: number, step: (n: number) => string) =>
  Array.from({ length: times }, (_, n) => step(n)).join("; ");
const open = { waits: [] as number[], left: 0, room: Number.POSITIVE_INFINITY, paused: false, resumed: 0 };
const paused = { waits: [10], left: 10, room: 0, paused: true };

test.each<[what: string, script: string, after: Partial<typeof open>, options?: Options]>([
  ["one unreachable record is no outage", `fails a; ${repeat(50, () => "fails-again a")}`, open],
  ["two records that fail for the first time are an outage", "fails a; fails b", paused],
  ["an answer between the failures forgets them", repeat(50, (n) => `fails ${n}; answers good`), open],
  [
    "an answer forgets records that failed before, too",
    repeat(50, (n) => `fails-again ${n}; answers good`),
    open,
    { concurrency: 5 },
  ],
  [
    "records that failed before are an outage if as many fail as run at once, each counted once",
    repeat(8, (n) => `fails-again ${n % 4}`),
    open,
    { concurrency: 5 },
  ],
  ["the fifth of them is an outage", repeat(5, (n) => `fails-again ${n}`), paused, { concurrency: 5 }],
  [
    "one record is no outage even if one runs at a time",
    "fails-again a; fails-again a",
    open,
    { concurrency: 1 },
  ],
  ["a rate limit or a missing token is an outage at once", "limited a", paused],
  ["the wait is Retry-After", "limited a 120", { waits: [120], left: 120 }],
  ["the wait is 15 minutes at most", "fails a 86400", { waits: [900], left: 900 }],
  [
    "attempts from before the pause do not prolong it",
    `${repeat(8, (n) => `begins ${n}`)}; fails a; fails b; ${repeat(8, (n) => `fails ${n}`)}`,
    paused,
  ],
  [
    "an attempt from before the pause prolongs it by a longer Retry-After",
    "begins late; limited a 5; limited late 90",
    { waits: [5], left: 90 },
  ],
  [
    "one failed half-open attempt prolongs the pause",
    "limited a; waits 10; fails-again b",
    { waits: [10, 20], left: 20 },
  ],
  ["a drain cuts the wait short", "limited a; drains", { ...paused, left: 0, room: 1 }],
  ["a Retry-After of 0 is a pause of 1 s", "limited a 0", { waits: [1], left: 1 }],
  ["a drain does not cut Retry-After short", "limited a 30; drains", { waits: [30], left: 30 }],
  [
    "an answer resumes full speed, and the next outage begins with a short wait again",
    "fails a; fails b; waits 10; fails c; waits 20; answers d; fails e; fails f",
    { waits: [10, 20, 10], resumed: 1 },
  ],
  ["an answer ends the pause", "limited a; waits 10; answers b", { ...open, waits: [10], resumed: 1 }],
  [
    "an answer to a request from before the pause does not end it",
    "begins late; fails a; fails b; answers late",
    paused,
  ],
  ["nor if everything is affected", "begins late; limited a; answers late", paused],
  ["a half-open breaker lets one attempt through", "limited a; waits 10; begins b", { room: 0, left: 0 }],
  [
    "the end of that attempt lets the next one through",
    "limited a; waits 10; begins b; ends b",
    { room: 1, left: 0 },
  ],
  [
    "a callback that outlasts its pause does not block the tries in the next pause",
    "limited a; waits 10; begins b; answers b; limited c; waits 10",
    { room: 1, left: 0, waits: [10, 10] },
  ],
  ["the first report of an attempt counts", "begins a; answers a; fails a; fails b", open],
])("%s", (_, script, after, options) => {
  expect(breakerOf(options).play(script)).toMatchObject(after);
});

test("the wait grows to half a minute, varies there, and ends to the millisecond", () => {
  const { breaker, play, waits } = breakerOf({ backoff: (n) => n * 10 * SECOND });
  play("fails a; fails b");
  for (let n = 0; n < 20; n += 1) {
    const wait = breaker.waitAt(performance.now(), BOOKINGS);
    vi.advanceTimersByTime(wait - 1);
    expect(breaker.waitAt(performance.now(), BOOKINGS)).toBe(1);
    vi.advanceTimersByTime(1);
    play("fails-again a");
  }
  expect(waits.slice(0, 2)).toEqual([10, 20]);
  expect(Math.min(...waits.slice(2))).toBeGreaterThanOrEqual(22.5);
  expect(Math.max(...waits)).toBeLessThanOrEqual(30);
  expect(new Set(waits.map(Math.round)).size).toBeGreaterThan(5);
});

test("a pause keeps its start, and reports the last error", () => {
  const { breaker, play } = breakerOf();
  const since = new Date();
  play("limited a; waits 10; fails b");
  expect(breaker.pause).toEqual({ scope: "everything", since, reason: "Error: b is down", ref: "b" });
});
