import { describe, expect, test } from "vitest";
import { sized } from "../support/soak.ts";
import {
  advance,
  callbackFailed,
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
  test("the queue never pauses, reads at most 80 a second, and says so once a minute", async () => {
    const { work, mostInASecond, reads } = platform();
    const start = performance.now();
    const { queue, kinds, logged } = await startedQueue(forged(350), { work });
    await advance(4 * SECOND);
    expect(kinds()).not.toContain("paused");
    expect(queue.state).toBe("running");
    // Ten refusals and the reads in flight come before the limit.
    expect(mostInASecond(start + 100)).toBeLessThanOrEqual(80);
    // In 4 s, about 310 reads are allowed: ten before the limit applies, then 80 a second.
    expect(reads.length).toBeGreaterThan(150);
    await advance(46 * SECOND);
    expect(logged.length).toBe(1);
    expect(logged[0]).toMatch(/refused or did not find 10 bookings in a row.*set the option `verify`.*404/);
    await advance(2 * MINUTE);
    expect(logged.length).toBe(3);
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
    { rate: 200, seconds: sized(4, 10), every: 400, delay: MINUTE },
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
    for (let n = 0; n < sized(2000, 6000); n += 1) {
      const isReal = n % 9 === 0;
      await store.add(eventOf(`${isReal ? "real" : "forged"} ${n}`, isReal ? "booking:real" : undefined));
      if (n % 20 === 0) await advance(100);
    }
    expect(mostInASecond(start)).toBeLessThanOrEqual(80);
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
    expect(mostInASecond(start)).toBeLessThanOrEqual(80);
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
    expect(mostInASecond(start + 300)).toBeLessThanOrEqual(80);
    expect(calls.get).toBeLessThan(50);
  });
});

describe("a refused attempt", () => {
  test("counts while fewer than ten records are refused, up to five refusals", async () => {
    const { ran, store } = await startedQueue(forged(9), { work: platform().work });
    await advance(HOUR);
    expect(ran.length).toBe(45);
    expect(await store.counts()).toMatchObject({ parked: 9 });
    expect(await store.get("forged 0")).toMatchObject({ reason: "not-found", attempts: 0, refusals: 5 });
  });

  test("counts after a failed call only as often as the record is refused", async () => {
    let calls = 0;
    const { store, ran } = await startedQueue(["e"], {
      work: (_, { answered }) => {
        calls += 1;
        if (calls > 4) return refused;
        answered("record");
        return callbackFailed;
      },
    });
    await advance(2 * HOUR);
    expect([await store.get("e"), ran.length]).toMatchObject([
      { state: "parked", attempts: 4, refusals: 5 },
      9,
    ]);
  });

  test("begins to count when the flood has ended, so that 30 forged records are parked within an hour", async () => {
    const { store, ran } = await startedQueue(forged(30), { work: platform().work });
    await advance(5 * MINUTE - SECOND);
    expect(await store.counts()).toMatchObject({ parked: 0, retrying: 30 });
    // The others waited 5, 10, 20, 40, 80 and 160 s. The first nine had counted once before.
    const of = (id: string) => ran.filter((each) => each === id).length;
    expect([of("forged 0"), of("forged 29")]).toEqual([7, 6]);
    await advance(55 * MINUTE);
    expect(await store.counts()).toMatchObject({ parked: 30, retrying: 0 });
    expect(await store.get("forged 29")).toMatchObject({ reason: "not-found" });
  });

  test("costs a read in five minutes at last, in a flood that goes on", async () => {
    const { work, reads } = platform();
    const { add } = await startedQueue(forged(150), { work });
    for (let minute = 0; minute < 12; minute += 1) {
      await advance(MINUTE);
      await add(...forged(3, `forged in minute ${minute},`));
    }
    const late = reads.filter((at) => at > performance.now() - 5 * MINUTE).length;
    // Besides, each of the 3 new ones of a minute is read six times in its first five minutes.
    expect(late).toBeLessThan(150 + 15 * 6 + 21);
    expect(late).toBeGreaterThan(150);
  });

  test("of a record that is known counts in a flood, too", async () => {
    const { store, add } = await startedQueue([], {
      work: async ({ eventId }) => (eventId === "known" ? done : refused),
    });
    await add("known");
    await advance();
    await add(...forged(30));
    await advance(SECOND);
    await store.add(eventOf("again", "booking:known"));
    await advance(SECOND);
    expect(await store.get("again")).toMatchObject({ state: "retrying", refusals: 1, reason: "not-found" });
  });

  test("in a flood holds up no other event of its record", async () => {
    let isShown = false;
    const { store, add } = await startedQueue(forged(12), {
      work: async ({ ref }) => (ref === "booking:G" && isShown ? done : refused),
    });
    await store.add(eventOf("first", "booking:G"));
    await advance(3 * SECOND);
    expect(await store.get("first")).toMatchObject({ state: "retrying", refusals: 0 });
    isShown = true;
    await store.add(eventOf("second", "booking:G"));
    await advance(SECOND);
    expect(await store.get("second")).toMatchObject({ state: "done" });
    await add("forged end");
  });

  test("counts again in a process that only drains, when the flood has ended", async () => {
    const { queue, add, store } = queueOf({ work: platform().work });
    await add(...forged(20));
    for (let minute = 0; minute < 60; minute += 1) {
      await advance(MINUTE);
      const draining = queue.drain({ timeout: 2 * SECOND });
      await advance(3 * SECOND);
      await draining;
    }
    expect(await store.counts()).toMatchObject({ parked: 20, retrying: 0 });
  });

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
    // Those that were refused in the flood are due again after 5 s, and are tried once more.
    expect(new Set(ran).size).toBe(ran.length);
    expect(ran.filter((id) => id.startsWith("forged too"))).toHaveLength(20);
  });

  test.each([62 * SECOND, undefined].slice(sized(1, 0)))(
    "with the timeout %s ends then, without one after 60 s of refused answers in each call",
    async (timeout) => {
      const { work, reads, mostInASecond } = platform();
      const { queue, store } = queueOf({ work, backoff: () => HOUR });
      const start = performance.now();
      let count = 0;
      const add = async () => {
        for (let n = 0; n < 84; n += 1, count += 1) await store.add(eventOf(`forged ${count}`));
      };
      /** Adds forged events faster than a drain reads them. */
      const pass = async (seconds: number) => {
        for (let n = 0; n < seconds; n += 1) {
          await add();
          await advance(SECOND);
        }
      };
      await add();
      for (let call = 0; call < sized(1, 2); call += 1) {
        const before = reads.length;
        const draining = watch(queue.drain({ timeout }));
        await pass(59);
        expect(draining.settled).toBe(false);
        await pass(timeout ? 6 : 2);
        expect(draining.settled).toBe(true);
        // 78 a second and two at once, so that no second has more than 80.
        expect(reads.length - before).toBeGreaterThan(59 * 78);
      }
      expect(mostInASecond(start + 100)).toBeLessThanOrEqual(80);
    },
  );
});
