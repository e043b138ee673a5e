import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { OutageGate, type PauseCause } from "../../src/queue/outage.ts";
import type { Outage } from "../../src/queue/work.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const SECOND = 1000;
const down = { everything: false };

function gateOf({ concurrency = 10, backoff = (n: number) => n * 10 * SECOND } = {}) {
  const pauses: { wait: number; cause: PauseCause }[] = [];
  let resumed = 0;
  const gate = new OutageGate({
    concurrency,
    backoff,
    onPause: ({ wait, cause }) => pauses.push({ wait, cause }),
    onResume: () => {
      resumed += 1;
    },
  });
  const fail = (record: string, { first = true, outage = down }: { first?: boolean; outage?: Outage } = {}) =>
    gate.begin(record).unreachable(first, outage, new Error("down"));
  return {
    gate,
    pauses,
    fail,
    answer: (record = "good") => gate.begin(record).answered(),
    refuse: (record: string) => gate.begin(record).refused(new Error("no")),
    resumed: () => resumed,
  };
}

describe("what is taken for an outage", () => {
  test("one record out of reach, however often, is not", () => {
    const { gate, fail } = gateOf();
    for (let n = 0; n < 50; n += 1) fail("bad", { first: n === 0 });
    expect(gate.paused).toBe(false);
    expect(gate.allowance(3)).toBe(7);
  });

  test("two records that had not failed before, with no answer in between, are", () => {
    const { gate, fail, pauses } = gateOf();
    fail("a");
    fail("b");
    expect(pauses).toEqual([{ wait: 10 * SECOND, cause: "unreachable" }]);
    expect(gate.allowance(0)).toBe(0);
  });

  test("an answer in between clears the suspicion", () => {
    const { fail, answer, pauses } = gateOf();
    for (let n = 0; n < 50; n += 1) {
      fail(`bad ${n}`);
      answer();
    }
    expect(pauses).toEqual([]);
  });

  test("an answer in between clears the suspicion of records that had failed before, too", () => {
    const { fail, answer, pauses } = gateOf({ concurrency: 5 });
    for (let n = 0; n < 50; n += 1) {
      fail(`known bad ${n}`, { first: false });
      answer();
    }
    expect(pauses).toEqual([]);
  });

  test("a refusal in between is an answer too", () => {
    const { gate, fail, refuse } = gateOf();
    fail("a");
    refuse("b");
    fail("c");
    expect(gate.paused).toBe(false);
  });

  test("of records that had failed before, it takes as many as run at once", () => {
    const { gate, fail } = gateOf({ concurrency: 5 });
    for (let n = 0; n < 4; n += 1) fail(`known bad ${n}`, { first: false });
    for (let n = 0; n < 4; n += 1) fail(`known bad ${n}`, { first: false });
    expect(gate.paused).toBe(false);
    fail("known bad 4", { first: false });
    expect(gate.paused).toBe(true);
  });

  test("with one at a time, one known bad record is still not enough", () => {
    const { gate, fail } = gateOf({ concurrency: 1 });
    fail("bad", { first: false });
    fail("bad", { first: false });
    expect(gate.paused).toBe(false);
  });

  test("a limit or a missing token concerns all, and pauses at once", () => {
    const { gate, fail } = gateOf();
    fail("a", { outage: { everything: true } });
    expect(gate.paused).toBe(true);
  });

  test("as many different records refused in a row as run at once are; the same one again is not", () => {
    const { gate, refuse, pauses } = gateOf({ concurrency: 4 });
    for (const record of ["a", "b", "c", "a", "b", "c"]) refuse(record);
    expect(gate.paused).toBe(false);
    refuse("d");
    expect(pauses).toEqual([{ wait: 10 * SECOND, cause: "refused" }]);
  });

  test("a success between refusals starts the row anew", () => {
    const { refuse, answer, pauses } = gateOf({ concurrency: 4 });
    for (let n = 0; n < 30; n += 1) {
      refuse(`forged ${n}`);
      if (n % 3 === 2) answer();
    }
    expect(pauses).toEqual([]);
  });
});

describe("the wait", () => {
  test("lets nothing begin, then probes, as many as run at once, and grows to a minute", () => {
    const { gate, fail, pauses } = gateOf({ backoff: (n) => n * 20 * SECOND });
    fail("a");
    fail("b");
    for (const [least, most] of [
      [20, 20],
      [40, 40],
      [45, 60],
      [45, 60],
    ] as const) {
      const { wait } = gate;
      expect(wait).toBeGreaterThanOrEqual(least * SECOND);
      expect(wait).toBeLessThanOrEqual(most * SECOND);
      vi.advanceTimersByTime(wait - 1);
      expect(gate.allowance(0)).toBe(0);
      vi.advanceTimersByTime(1);
      expect(gate.allowance(0)).toBe(10);
      expect(gate.allowance(4)).toBe(6);
      fail("probe", { first: false });
    }
    expect(pauses.length).toBe(5);
  });

  test("differs from one to the next where it is the longest", () => {
    const { fail, pauses } = gateOf({ backoff: () => 3600 * SECOND });
    fail("a");
    fail("b");
    for (let n = 0; n < 20; n += 1) {
      vi.advanceTimersByTime(60 * SECOND);
      fail("probe", { first: false });
    }
    expect(new Set(pauses.map(({ wait }) => Math.round(wait / SECOND))).size).toBeGreaterThan(5);
  });

  test("is what the platform asked for, 15 minutes at the most", () => {
    const { gate, fail } = gateOf();
    fail("a", { outage: { everything: true, retryAfter: 120 * SECOND } });
    expect(gate.wait).toBe(120 * SECOND);
    const other = gateOf();
    other.fail("a", { outage: { everything: false, retryAfter: 24 * 3600 * SECOND } });
    expect(other.gate.wait).toBe(15 * 60 * SECOND);
  });

  test("is not prolonged by what was on its way when it began", () => {
    const { gate, fail, pauses } = gateOf();
    const late = Array.from({ length: 8 }, (_, n) => gate.begin(`late ${n}`));
    fail("a");
    fail("b");
    for (const evidence of late) evidence.unreachable(true, down, new Error("down"));
    expect(pauses.length).toBe(1);
    expect(gate.wait).toBe(10 * SECOND);
  });

  test("is, where what was on its way brings a longer one from the platform", () => {
    const { gate, fail } = gateOf();
    const late = gate.begin("late");
    fail("a", { outage: { everything: true, retryAfter: 5 * SECOND } });
    late.unreachable(true, { everything: true, retryAfter: 90 * SECOND }, new Error("429"));
    expect(gate.wait).toBe(90 * SECOND);
  });

  test("is prolonged by a single probe that finds nobody, whatever it began for", () => {
    const { gate, fail, pauses } = gateOf();
    fail("a", { outage: { everything: true } });
    vi.advanceTimersByTime(10 * SECOND);
    fail("known bad", { first: false });
    expect(gate.allowance(0)).toBe(0);
    expect(pauses.map(({ wait }) => wait / SECOND)).toEqual([10, 20]);
  });

  test("can be cut short by who asks for work now, but not where the platform asked for it", () => {
    const { gate, fail } = gateOf();
    fail("a", { outage: { everything: true } });
    gate.probeNow();
    expect(gate.allowance(0)).toBe(10);
    fail("probe", { outage: { everything: true, retryAfter: 30 * SECOND } });
    gate.probeNow();
    expect(gate.allowance(0)).toBe(0);
  });
});

describe("the end of an outage", () => {
  test("the first answer resumes full speed, and the next outage begins with a short wait again", () => {
    const { gate, fail, answer, resumed, pauses } = gateOf();
    fail("a");
    fail("b");
    vi.advanceTimersByTime(10 * SECOND);
    fail("c");
    vi.advanceTimersByTime(20 * SECOND);
    answer();
    expect(resumed()).toBe(1);
    expect(gate.allowance(0)).toBe(10);
    fail("d");
    fail("e");
    expect(pauses.map(({ wait }) => wait / SECOND)).toEqual([10, 20, 10]);
  });

  test("an answer that was on its way ends a suspicion of an outage at once", () => {
    const { gate, fail } = gateOf();
    const late = gate.begin("good");
    fail("a");
    fail("b");
    late.answered();
    expect(gate.paused).toBe(false);
  });

  test("but not a limit or a missing token: the platform has changed its mind since", () => {
    const { gate, fail, answer } = gateOf();
    const late = gate.begin("good");
    fail("a", { outage: { everything: true } });
    late.answered();
    expect(gate.paused).toBe(true);
    vi.advanceTimersByTime(10 * SECOND);
    answer();
    expect(gate.paused).toBe(false);
  });

  test("a refused probe ends an outage of the network, but not one of refusals", () => {
    const network = gateOf();
    network.fail("a");
    network.fail("b");
    vi.advanceTimersByTime(10 * SECOND);
    network.refuse("c");
    expect(network.gate.paused).toBe(false);

    const firewall = gateOf({ concurrency: 2 });
    firewall.refuse("a");
    firewall.refuse("b");
    vi.advanceTimersByTime(10 * SECOND);
    firewall.refuse("c");
    expect(firewall.gate.paused).toBe(true);
    vi.advanceTimersByTime(20 * SECOND);
    firewall.answer();
    expect(firewall.gate.paused).toBe(false);
  });

  test("nothing is said twice: one attempt is one piece of evidence", () => {
    const { gate, fail } = gateOf();
    const evidence = gate.begin("a");
    evidence.answered();
    evidence.unreachable(true, down, new Error("later"));
    fail("b");
    expect(gate.paused).toBe(false);
  });
});
