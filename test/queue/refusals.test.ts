import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { memoryStore } from "../../src/stores/memory/index.ts";
import {
  alteredStore,
  callbackFailed,
  DAY,
  done,
  eventOf,
  HOUR,
  MINUTE,
  outOfReach,
  queueOf,
  refused,
  SECOND,
  type TestWork,
} from "./support.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const advance = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const forgedIds = (count: number, name = "forged") => Array.from({ length: count }, (_, n) => `${name} ${n}`);

/** Makes a platform that refuses forged events and logs the start of each read. A read takes `latency` ms. */
function platform(latency = 20) {
  const reads: { id: string; at: number }[] = [];
  const work: TestWork = async ({ eventId }) => {
    reads.push({ id: eventId, at: performance.now() });
    await new Promise((resolve) => setTimeout(resolve, latency));
    return eventId.startsWith("forged") ? refused : done;
  };
  /** Returns the largest number of reads in any second since `from`. */
  const mostInASecond = (from = 0): number => {
    const times = reads.map(({ at }) => at).filter((at) => at >= from);
    return Math.max(
      0,
      ...times.map((at) => times.filter((other) => other >= at && other < at + SECOND).length),
    );
  };
  return { work, reads, mostInASecond };
}

describe("while the platform refuses many records in a row", () => {
  test("the queue never pauses, and reads at most 50 a second", async () => {
    const { work, mostInASecond, reads } = platform();
    const { queue, add, kinds } = queueOf({ work });
    await add(...forgedIds(300));
    const start = performance.now();
    queue.start();
    await advance(4 * SECOND);
    expect(kinds()).not.toContain("paused");
    expect(queue.state).toBe("running");
    expect(mostInASecond(start + 100)).toBeLessThanOrEqual(50);
    // In 4 s, about 190 reads are allowed: ten before the limit applies, then 45 a second.
    expect(reads.length).toBeGreaterThan(170);
  });

  test("300 forged events at once do not delay genuine ones", async () => {
    const { work } = platform();
    const { queue, add, stateOf, observed } = queueOf({ work });
    await add(...forgedIds(150), "genuine 1", ...forgedIds(150, "forged too"), "genuine 2");
    queue.start();
    await advance(500);
    expect(await stateOf("genuine 2")).toBe("done");
    await add("genuine 3");
    await advance(500);
    expect(await stateOf("genuine 3")).toBe("done");
    await advance(7 * SECOND);
    expect(observed.filter(({ kind }) => kind === "done").length).toBe(3);
  });

  test("claims take the oldest and the newest first in turn", async () => {
    const newest: unknown[] = [];
    const store = alteredStore(memoryStore(), {
      claim: (own) => (options) => {
        newest.push(options.newestFirst ?? false);
        return own(options);
      },
    });
    const { work } = platform();
    const { queue, add } = queueOf({ work, store });
    await add(...forgedIds(100));
    queue.start();
    await advance(SECOND);
    const first = newest.indexOf(true);
    expect(newest.slice(first, first + 6)).toEqual([true, false, true, false, true, false]);
  });

  test("20 forged events a second do not delay genuine ones", async () => {
    const { work } = platform();
    const { queue, add, store, observed } = queueOf({ work });
    queue.start();
    for (let n = 0; n < 600; n += 1) {
      await store.add(eventOf(n % 100 === 99 ? `genuine ${n}` : `forged ${n}`));
      if (n % 100 === 50) await add(`genuine ${n}`);
      await advance(50);
    }
    await advance(2 * SECOND);
    const ended = observed.filter(({ kind }) => kind === "done");
    expect(ended.length).toBe(12);
  });

  test("200 forged events a second for 30 s delay genuine ones by 3 minutes at most", {
    timeout: 60_000,
  }, async () => {
    const { work } = platform();
    const { queue, store, observed } = queueOf({ work });
    queue.start();
    for (let n = 0; n < 6000; n += 1) {
      await store.add(eventOf(n % 400 === 200 ? `genuine ${n}` : `forged ${n}`));
      if (n % 5 === 0) await advance(25);
    }
    await advance(2.5 * MINUTE);
    expect(observed.filter(({ kind }) => kind === "done").length).toBe(15);
  });

  test("a success lifts the limit", async () => {
    const { work, reads } = platform();
    const { queue, add } = queueOf({ work });
    await add(...forgedIds(20));
    queue.start();
    await advance(300);
    await add("genuine");
    await advance(100);
    const before = reads.length;
    await add(...Array.from({ length: 50 }, (_, n) => `genuine ${n}`));
    await advance(119);
    expect(reads.length - before).toBe(50);
  });

  test("an event without a record does not lift the limit", async () => {
    const { work, mostInASecond } = platform();
    const { queue, add, store } = queueOf({
      work: async (claim, context) => (claim.ref === null ? done : work(claim, context)),
    });
    queue.start();
    await add(...forgedIds(20));
    await advance(SECOND);
    const start = performance.now();
    await add(...forgedIds(200, "forged again"));
    for (let n = 0; n < 20; n += 1) {
      await store.add(eventOf(`message ${n}`, null));
      await advance(50);
    }
    expect(mostInASecond(start)).toBeLessThanOrEqual(50);
  });

  test("the log says once a minute how many reads were refused, and names `verify`", async () => {
    const { work } = platform();
    const { queue, add, logged } = queueOf({ work });
    await add(...forgedIds(100));
    queue.start();
    await advance(50 * SECOND);
    expect(logged.length).toBe(1);
    expect(logged[0]).toMatch(/refused or did not find 10 records in a row.*set the option `verify`.*404/);
    await advance(2 * MINUTE);
    expect(logged.length).toBe(2);
    expect(logged[1]).toMatch(/\d{3} records in a row.*\d{3} similar lines were left out/);
  });
});

describe("a refused attempt", () => {
  test("counts while fewer than ten records in a row are refused, up to five attempts", async () => {
    const { work } = platform();
    const { queue, add, ran, store } = queueOf({ work });
    await add(...forgedIds(9));
    queue.start();
    await advance(HOUR);
    expect(ran.length).toBe(45);
    expect(await store.counts()).toMatchObject({ parked: 9 });
    expect(await store.get("forged 0")).toMatchObject({ reason: "not-found", attempts: 5 });
  });

  test("does not count from the tenth record in a row on, so that a firewall parks nothing before giveUpAfter", async () => {
    let open = false;
    const { queue, add, store } = queueOf({ work: () => (open ? done : refused) });
    await add(...Array.from({ length: 30 }, (_, n) => `event ${n}`));
    queue.start();
    await advance(2 * DAY);
    expect(await store.counts()).toMatchObject({ parked: 0, retrying: 30 });
    open = true;
    await advance(7 * HOUR);
    expect(await store.counts()).toMatchObject({ done: 30 });
  });

  test("is parked with its own reason after giveUpAfter", async () => {
    const { queue, add, store } = queueOf({ work: () => refused });
    await add(...Array.from({ length: 30 }, (_, n) => `event ${n}`));
    queue.start();
    await advance(3 * DAY + MINUTE);
    expect(await store.counts()).toMatchObject({ parked: 30, retrying: 0 });
    expect(await store.get("event 29")).toMatchObject({ reason: "not-found" });
  });

  test("ends an outage of the network", async () => {
    let answer = outOfReach();
    const { queue, add } = queueOf({ work: () => answer });
    await add("a", "b");
    queue.start();
    await advance(SECOND);
    expect(queue.state).toBe("paused");
    answer = refused;
    await advance(10 * SECOND);
    expect(queue.state).toBe("running");
  });

  test("does not limit reads if the platform refused a request of the callback", async () => {
    const { queue, add, ran } = queueOf({ work: () => callbackFailed });
    await add(...forgedIds(100));
    queue.start();
    await advance(0);
    expect(ran.length).toBe(100);
  });
});

describe("a drain among refused records", () => {
  test("attempts each event once at the limited pace, and ends", async () => {
    const { work } = platform();
    const { queue, add, stateOf } = queueOf({ work });
    await add(...forgedIds(150), "genuine", ...forgedIds(150, "forged too"));
    const draining = queue.drain({});
    await advance(7 * SECOND);
    // A drain claims from both ends of the queue. So it reaches the genuine event, which is in the middle, last.
    expect(await stateOf("genuine")).toBe("done");
    await advance(5 * SECOND);
    expect(await draining).toEqual({ done: 1, failed: 300 });
  });

  test("ends at its timeout", async () => {
    const { work, reads, mostInASecond } = platform();
    const { queue, add } = queueOf({ work });
    await add(...forgedIds(10_000));
    const start = performance.now();
    const draining = queue.drain({ timeout: 70 * SECOND });
    await advance(70 * SECOND);
    expect(reads.length).toBeGreaterThan(3000);
    expect(mostInASecond(start + 100)).toBeLessThanOrEqual(50);
    await advance(3 * SECOND);
    expect((await draining).failed).toBeGreaterThan(3000);
  });

  test("without a timeout, ends when only refused answers came for 60 s", async () => {
    const { work } = platform();
    const { queue, add } = queueOf({ work });
    await add(...forgedIds(10_000));
    let ended = false;
    const draining = queue.drain({}).finally(() => {
      ended = true;
    });
    await advance(59 * SECOND);
    expect(ended).toBe(false);
    await advance(2 * SECOND);
    expect((await draining).failed).toBeGreaterThan(2000);
  });

  test("starts its 60 s again in each call", async () => {
    const { work, reads } = platform();
    const { queue, add } = queueOf({ work });
    await add(...forgedIds(10_000));
    for (let n = 1; n <= 2; n += 1) {
      const draining = queue.drain({});
      await advance(61 * SECOND);
      await draining;
      expect(reads.length).toBeGreaterThan(n * 2500);
    }
  });
});

test("an inline event gets its turn among refused ones with few reads of the store", async () => {
  let gets = 0;
  const store = alteredStore(memoryStore(), {
    get: (own) => (id) => {
      gets += 1;
      return own(id);
    },
  });
  const { work, mostInASecond } = platform();
  const { queue, add, stateOf } = queueOf({ work, store });
  const ids = [...forgedIds(200), "genuine"];
  await add(...ids);
  const start = performance.now();
  const runs = Promise.all(ids.map((id) => queue.runNow(id, start + 25 * SECOND)));
  await advance(8 * SECOND);
  await runs;
  expect(await stateOf("genuine")).toBe("done");
  expect(mostInASecond(start + 300)).toBeLessThanOrEqual(50);
  expect(gets).toBeLessThan(50);
});
