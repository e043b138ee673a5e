import { describe, expect, test } from "vitest";
import {
  advance,
  callbackFailed,
  DAY,
  done,
  eventOf,
  first,
  HOUR,
  idsOf,
  jump,
  late,
  longWork,
  MINUTE,
  outOfReach,
  queueOf,
  refused,
  SECOND,
  sleep,
  startedQueue,
  type TestWork,
  useFakeTime,
  watch,
} from "./support.ts";

useFakeTime();

const forged = (count: number, name = "forged") => idsOf(count, name);

/** Makes a platform that refuses forged events and logs the start of each read. A read takes 20 ms. */
function platform() {
  const reads: number[] = [];
  const work: TestWork = async ({ eventId }) => {
    reads.push(performance.now());
    await sleep(20);
    return eventId.startsWith("forged") ? refused : done;
  };
  /** Returns the largest number of reads in any second since `from`. */
  const mostInASecond = (from = 0): number => {
    const times = reads.filter((at) => at >= from);
    let [most, first] = [0, 0];
    times.forEach((at, n) => {
      while (at - (times[first] as number) >= SECOND) first += 1;
      most = Math.max(most, n - first + 1);
    });
    return most;
  };
  return { work, reads, mostInASecond };
}

describe("while the platform refuses many records in a row", () => {
  test("the queue never pauses, reads at most 40 a second, and says so once a minute", async () => {
    const { work, mostInASecond, reads } = platform();
    const start = performance.now();
    const { queue, kinds, logged } = await startedQueue(forged(300), { work });
    await advance(4 * SECOND);
    expect(kinds()).not.toContain("paused");
    expect(queue.state).toBe("running");
    // Ten refusals and the reads in flight come before the limit.
    expect(mostInASecond(start + 100)).toBeLessThanOrEqual(40);
    // In 4 s, about 165 reads are allowed: ten before the limit applies, then 40 a second.
    expect(reads.length).toBeGreaterThan(150);
    await advance(46 * SECOND);
    expect(logged.length).toBe(1);
    expect(logged[0]).toMatch(/refused or did not find 10 bookings in a row.*set the option `verify`.*404/);
    await advance(2 * MINUTE);
    expect(logged.length).toBe(2);
    expect(logged[1]).toMatch(/\d{3} bookings in a row.*\d{3} similar lines were left out/);
  });

  test("reads go on although a claim of the loop has all slots when the next one may begin", async () => {
    let reads = 0;
    const work = () => {
      reads += 1;
      return refused;
    };
    await startedQueue(forged(300), { work, alter: { claim: late(() => sleep(20)) } });
    await advance(2 * SECOND);
    const before = reads;
    // Nothing arrives meanwhile, and no attempt runs when the claim ends.
    await advance(4 * SECOND);
    expect(reads - before).toBeGreaterThan(4 * 8);
  });

  test("300 forged events at once do not delay genuine ones", async () => {
    const ids = [...forged(150), "genuine 1", ...forged(150, "forged too"), "genuine 2"];
    const { add, stateOf, kinds } = await startedQueue(ids, { work: platform().work });
    await advance(500);
    expect(await stateOf("genuine 2")).toBe("done");
    await add("genuine 3");
    await advance(500);
    expect(await stateOf("genuine 3")).toBe("done");
    await advance(7 * SECOND);
    expect(kinds().filter((kind) => kind === "done").length).toBe(3);
  });

  test.each([
    { rate: 20, seconds: 30, every: 50, delay: 2 * SECOND },
    { rate: 200, seconds: 10, every: 400, delay: MINUTE },
  ])("$rate forged events a second delay genuine ones by $delay ms at most", async (row) => {
    const { rate, seconds, every, delay } = row;
    const { store, kinds } = await startedQueue([], { work: platform().work });
    for (let n = 0; n < rate * seconds; n += 1) {
      await store.add(eventOf(`${n % every === every / 2 ? "genuine" : "forged"} ${n}`));
      if (n % (rate / 20) === 0) await advance(50);
    }
    await advance(delay);
    expect(kinds().filter((kind) => kind === "done").length).toBe((rate * seconds) / every);
  });

  test("each success lifts the limit by one refusal", async () => {
    const { work, reads } = platform();
    const { add } = await startedQueue(forged(20), { work });
    await advance(SECOND);
    const start = reads.length;
    await add(...idsOf(200, "genuine"));
    await advance(100);
    // Eleven successes lift the limit, which allows ten reads in this time.
    expect(reads.length - start).toBeLessThanOrEqual(10);
    await advance(SECOND);
    expect(reads.length - start).toBe(200);
  });

  test("one known booking among forged ones does not lift the limit", async () => {
    const { work, mostInASecond } = platform();
    const { store } = await startedQueue(forged(20), { work });
    await advance(SECOND);
    const start = performance.now();
    for (let n = 0; n < 6000; n += 1) {
      const isReal = n % 9 === 0;
      await store.add(eventOf(`${isReal ? "real" : "forged"} ${n}`, isReal ? "booking:real" : undefined));
      if (n % 20 === 0) await advance(100);
    }
    expect(mostInASecond(start)).toBeLessThanOrEqual(40);
  });

  test("an event without a record does not lift the limit", async () => {
    const { work, mostInASecond } = platform();
    const { add, store } = await startedQueue(forged(20), {
      work: (claim, context) => (claim.ref === null ? done : work(claim, context)),
    });
    await advance(SECOND);
    const start = performance.now();
    await add(...forged(200, "forged again"));
    for (const id of idsOf(20, "message")) {
      await store.add(eventOf(id, null));
      await advance(50);
    }
    expect(mostInASecond(start)).toBeLessThanOrEqual(40);
  });

  test("an inline event gets its turn with few reads of the store", async () => {
    const { work, mostInASecond } = platform();
    const { queue, add, stateOf, calls } = queueOf({ work });
    const ids = [...forged(200), "genuine"];
    await add(...ids);
    const start = performance.now();
    const runs = watch(Promise.all(ids.map((id) => queue.runNow(eventOf(id), start + 25 * SECOND))));
    await advance(8 * SECOND);
    expect([runs.settled, await stateOf("genuine")]).toEqual([true, "done"]);
    expect(mostInASecond(start + 300)).toBeLessThanOrEqual(40);
    expect(calls.get).toBeLessThan(50);
  });
});

describe("a refused attempt", () => {
  test("counts while fewer than ten records in a row are refused, up to five attempts", async () => {
    const { ran, store } = await startedQueue(forged(9), { work: platform().work });
    await advance(HOUR);
    expect(ran.length).toBe(45);
    expect(await store.counts()).toMatchObject({ parked: 9 });
    expect(await store.get("forged 0")).toMatchObject({ reason: "not-found", attempts: 5 });
  });

  test.each([true, false])(
    "from the tenth record on, does not count before giveUpAfter (mended: %s)",
    async (mended) => {
      let answer: ReturnType<TestWork> = refused;
      const { store } = await startedQueue(idsOf(30), { work: () => answer });
      await advance(2 * DAY);
      expect(await store.counts()).toMatchObject({ parked: 0, retrying: 30 });
      if (mended) answer = done;
      await advance(DAY + MINUTE);
      expect(await store.counts()).toMatchObject(mended ? { done: 30 } : { parked: 30, retrying: 0 });
      if (!mended) expect(await store.get("e 29")).toMatchObject({ reason: "not-found" });
    },
  );

  test("ends an outage of the network", async () => {
    let answer = outOfReach();
    const { queue } = await startedQueue(idsOf(6), { work: () => answer });
    expect(queue.state).toBe("paused");
    answer = refused;
    await advance(10 * SECOND);
    expect(queue.state).toBe("running");
  });

  test("does not limit reads if the platform refused a request of the callback", async () => {
    const { ran } = await startedQueue(forged(100), { work: () => callbackFailed });
    for (let turn = 0; turn < 20; turn += 1) await advance(0);
    expect(ran.length).toBe(100);
  });
});

test("while reads are limited, leases are renewed before the store is asked for other events", async () => {
  const long = longWork();
  let jumps = 0;
  const { store, add } = await startedQueue([], {
    backoff: () => HOUR,
    work: (claim, context) => {
      if (claim.eventId === "long") return long.work(claim, context);
      return claim.ref === "booking:known" ? done : refused;
    },
    alter: {
      claim: first(({ eventId }) => {
        if (jumps > 0 || !eventId?.startsWith("waits")) return;
        jumps += 1;
        jump(31 * SECOND);
      }),
    },
  });
  await store.add(eventOf("first", "booking:known"));
  await add("long", ...forged(12));
  await advance(SECOND);
  await store.add(eventOf("leased", "booking:known"));
  await store.claim({ limit: 1, leaseDuration: HOUR, eventId: "leased" });
  // The claims by the ids of these events are empty, because another process has leased their record.
  for (const id of ["waits", "waits, too", "waits as well"]) {
    await store.add(eventOf(id, "booking:known"));
    await advance(SECOND);
  }
  expect(jumps).toBe(1);
  expect(long.aborted).toEqual([]);
  expect(await store.get("long")).toMatchObject({ state: "processing", attempts: 1 });
});

describe("a drain among refused records", () => {
  test("attempts each event once at the limited pace, and ends", async () => {
    const { queue, add, stateOf } = queueOf({ work: platform().work });
    await add(...forged(150), "genuine", ...forged(150, "forged too"));
    const draining = queue.drain({});
    await advance(7 * SECOND);
    // A drain claims from both ends of the queue. So it reaches the genuine event, which is in the middle, last.
    expect(await stateOf("genuine")).toBe("done");
    await advance(5 * SECOND);
    expect(await draining).toEqual({ done: 1, failed: 300 });
  });

  test("goes on if another process has the events that it would rather handle", async () => {
    const { queue, store, add, ran } = queueOf({
      backoff: () => HOUR,
      work: ({ ref }) => (ref === "booking:known" ? done : refused),
    });
    await store.add(eventOf("first", "booking:known"));
    await add(...forged(12));
    const limited = queue.drain({});
    await advance(10 * SECOND);
    await limited;
    for (const id of ["leased", "waits"]) await store.add(eventOf(id, "booking:known"));
    await store.claim({ limit: 1, leaseDuration: HOUR, eventId: "leased" });
    await add(...forged(20, "forged too"));
    ran.length = 0;
    const draining = queue.drain({ timeout: 50 * SECOND });
    await advance(50 * SECOND);
    await draining;
    expect(ran).toHaveLength(20);
  });

  test("ends at its timeout, and without one after 60 s of refused answers in each call", async () => {
    const { work, reads, mostInASecond } = platform();
    const { queue, add } = queueOf({ work, backoff: () => HOUR });
    const start = performance.now();
    /** Adds forged events faster than a drain reads them. */
    const pass = async (seconds: number) => {
      for (let n = 0; n < seconds; n += 1) {
        await add(...forged(50, `forged at ${performance.now()},`));
        await advance(SECOND);
      }
    };
    await add(...forged(50));
    for (const timeout of [62 * SECOND, undefined]) {
      const before = reads.length;
      const draining = watch(queue.drain({ timeout }));
      await pass(59);
      expect(draining.settled).toBe(false);
      await pass(timeout ? 6 : 2);
      expect(draining.settled).toBe(true);
      // 38 a second and two at once, so that no second has more than 40.
      expect(reads.length - before).toBeGreaterThan(59 * 38);
    }
    expect(mostInASecond(start + 100)).toBeLessThanOrEqual(40);
  });
});
