import { describe, expect, test, vi } from "vitest";
import {
  advance,
  callbackFailed,
  DAY,
  done,
  eventOf,
  failing,
  first,
  gate,
  HOUR,
  idsOf,
  late,
  longWork,
  MINUTE,
  never,
  outOfReach,
  queueOf,
  refused,
  SECOND,
  sleep,
  startedQueue,
  tellsNothing,
  useFakeTime,
} from "./support.ts";

useFakeTime();

/** Taken before the timers are faked. */
const setRealImmediate = setImmediate;
const noSubscription = { subscribe: () => undefined };

describe("concurrency", () => {
  test.each([
    ["is a maximum, and each free slot is filled", 4, (n: number) => `booking:${n}`, 4],
    ["is one for a record", 10, () => "booking:x", 1],
    ["allows events without a record side by side", 2, () => null, 2],
  ])("%s", async (_, concurrency, refOf, most) => {
    let [running, seen] = [0, 0];
    const { queue, store, ran } = queueOf({
      concurrency,
      work: async () => {
        running += 1;
        seen = Math.max(seen, running);
        await sleep(10);
        running -= 1;
        return done;
      },
    });
    for (let n = 0; n < 40; n += 1) await store.add(eventOf(`e${n}`, refOf(n)));
    queue.start();
    await advance((40 / most) * 10 - 1);
    expect([seen, ran.length]).toEqual([most, 40]);
  });
});

test("attempts that end in one turn of the event loop share a claim", async () => {
  const ends: (() => void)[] = [];
  const work = () => new Promise<typeof done>((resolve) => ends.push(() => resolve(done)));
  const { ran, calls } = await startedQueue(idsOf(80), { concurrency: 40, work });
  const { claim: before } = calls;
  // Each end is an event of its own in the loop, as the answers of the platform are.
  for (const end of ends.splice(0)) setRealImmediate(end);
  for (let turn = 0; turn < 5; turn += 1) await advance(0);
  expect(ran.length).toBe(80);
  expect(calls.claim - before).toBeLessThanOrEqual(2);
});

test("retries and new events wait in one line", async () => {
  const { queue, add, ran, store } = queueOf({ concurrency: 1 });
  await add("retry");
  const [claim] = await store.claim({ limit: 1, leaseDuration: MINUTE });
  await store.settle(claim as never, {
    ...{ state: "retrying", in: 10 * SECOND, reason: "callback", entry: { duration: 1 } },
  });
  await advance(5 * SECOND);
  await add("before");
  await advance(8 * SECOND);
  await add("after");
  queue.start();
  await advance(0);
  expect(ran).toEqual(["before", "retry", "after"]);
});

describe("an idle loop", () => {
  test.each([
    { what: "that notifies is asked only when it does", alter: {}, idle: 1, each: 1, asked: 0 },
    {
      what: "that tells nothing with a claim is asked for it",
      alter: tellsNothing,
      idle: 1,
      each: 1,
      asked: 1,
    },
    // Of each event: the claim that gets it, and the claim after its end.
    { what: "that cannot notify is polled each second", alter: noSubscription, idle: 60, each: 2, asked: 0 },
  ])("a store $what", async ({ alter, idle, each, asked }) => {
    const { queue, add, calls, ran } = await startedQueue([], { alter });
    await advance(MINUTE - 1);
    expect(calls).toMatchObject({ claim: idle, nextDue: idle * asked });
    for (const id of idsOf(20)) {
      await add(id);
      await advance(0);
      queue.wake({ ref: null, eventId: "any" });
      await advance(0);
    }
    const claim = idle + 20 * each;
    expect(calls).toMatchObject({ claim, nextDue: claim * asked, settle: 20, get: 0 });
    // An event that another process has added.
    await add("later");
    await advance(SECOND);
    expect(ran).toContain("later");
  });

  test("asks when the next event is due only after a claim that was not full", async () => {
    const { calls, ran } = await startedQueue(idsOf(5), { concurrency: 1, alter: tellsNothing });
    expect(ran).toHaveLength(5);
    expect(calls.nextDue).toBeLessThanOrEqual(2);
  });

  test("handles an event at once that was added while it asked when the next event is due", async () => {
    const alter = { ...tellsNothing, nextDue: late(() => sleep(100)) };
    const { add, ran } = await startedQueue([], { alter });
    await advance(50);
    await add("a");
    await advance(50);
    expect(ran).toEqual(["a"]);
  });

  // The second wait is longer than a timer can be.
  test.each([HOUR / 2, 60 * DAY])(
    "sleeps while no event is due for %i ms, and notices a clock that jumps ahead",
    async (wait) => {
      const { calls, ran } = await startedQueue(["a"], {
        work: ({ attempts }) => (attempts === 1 ? callbackFailed : done),
        backoff: () => wait,
      });
      await advance(SECOND);
      const before = calls.claim;
      await advance(MINUTE);
      // A look each 30 s, because the system clock may jump ahead.
      expect(calls.claim).toBe(before + 2);
      vi.setSystemTime(Date.now() + wait);
      await advance(30 * SECOND);
      expect(ran).toEqual(["a", "a"]);
    },
  );
});

test("a queue subscribes to the store once, and unsubscribes when it is closed", async () => {
  let subscribers = 0;
  const { queue } = await startedQueue([], {
    alter: {
      subscribe: (own) => (wake) => {
        const stop = own(wake);
        subscribers += 1;
        return () => {
          subscribers -= 1;
          stop();
        };
      },
    },
  });
  queue.start();
  expect(subscribers).toBe(1);
  await queue.close(0);
  expect(subscribers).toBe(0);
});

describe("a store that fails", () => {
  test("is asked again with growing waits, which new events do not cut short and a success resets", async () => {
    let broken = true;
    const { add, ran, logged, calls } = await startedQueue([], {
      alter: { claim: failing(() => broken, "connection refused") },
    });
    for (const id of idsOf(50)) {
      await add(id);
      await advance(100);
    }
    expect(calls.claim).toBeLessThanOrEqual(5);
    expect(logged.join()).toMatch(/connection refused/);
    broken = false;
    await advance(6 * SECOND);
    expect(ran.length).toBe(50);
    broken = true;
    await add("later");
    await advance(0);
    broken = false;
    await advance(200);
    expect(ran.length).toBe(51);
  });

  test.each(["claim", "nextDue"] as const)(
    "is asked again if %s hangs, and the loop tells so",
    async (method) => {
      let hangs = true;
      const hang =
        (own: (...args: never[]) => Promise<never>) =>
        (...args: never[]) =>
          hangs ? never() : own(...args);
      const { queue, add, ran, logged } = await startedQueue([], {
        alter: { ...tellsNothing, [method]: hang },
      });
      await advance(29 * SECOND);
      expect(queue.failure).toBeUndefined();
      await advance(2 * SECOND);
      const message = `The store did not answer ${method}() within 30000 ms.`;
      expect(queue.failure).toMatchObject({ name: "StayhookError", message });
      expect(logged.join()).toContain("the store failed. Trying again in 200 ms");
      hangs = false;
      await add("a");
      // The call in flight may hang, too.
      await advance(33 * SECOND);
      expect(ran).toEqual(["a"]);
      expect(queue.failure).toBeUndefined();
      hangs = true;
      await queue.close(0);
      expect(queue.failure).toBeUndefined();
    },
  );

  test("gives a claim back that it answers too late", async () => {
    const held = gate();
    let calls = 0;
    const { store, ran } = await startedQueue(["a"], {
      leaseDuration: HOUR,
      alter: {
        claim: (own) => async (options) => {
          const claims = await own(options);
          calls += 1;
          if (calls === 1) await held.opened;
          return claims;
        },
      },
    });
    await advance(31 * SECOND);
    expect([ran, (await store.get("a"))?.state]).toEqual([[], "processing"]);
    held.open();
    await advance(SECOND);
    expect(ran).toEqual(["a"]);
    expect(await store.get("a")).toMatchObject({ state: "done", attempts: 1 });
  });

  test("is asked again if it does not list events while reads are limited", async () => {
    let lists = 0;
    const { add, stateOf, logged } = await startedQueue(idsOf(12, "forged"), {
      work: ({ eventId }) => (eventId.startsWith("forged") ? refused : done),
      alter: {
        list: first(() => {
          lists += 1;
          return lists === 1 && never();
        }),
      },
    });
    await advance(SECOND);
    await add("genuine");
    await advance(31 * SECOND);
    expect(logged).toContainEqual(expect.stringMatching(/did not answer list\(\)/));
    await advance(10 * SECOND);
    expect(lists).toBeGreaterThan(1);
    expect(await stateOf("genuine")).toBe("done");
  });

  test("is not asked in a tight loop if it says that an event is due but gives none", async () => {
    const { calls } = await startedQueue([], { alter: { nextDue: () => async () => 0 } });
    await advance(SECOND);
    expect(calls.claim).toBeLessThanOrEqual(45);
  });

  test("is asked once a second at most for a limited lane of which it says so", async () => {
    let lists = 0;
    const { store } = await startedQueue(idsOf(12, "forged"), {
      work: () => refused,
      backoff: () => DAY,
      alter: {
        nextDue: (own) => async (options) => (options?.only ? 0 : own(options)),
        list: first(() => {
          lists += 1;
        }),
      },
    });
    await advance(MINUTE);
    lists = 0;
    await advance(10 * SECOND);
    // Three lists of the newest events, and one of older ones.
    expect([lists > 0, lists <= 4 * 11]).toEqual([true, true]);
    // Nothing fails any more, and the limit ends after five minutes.
    await store.discard({ state: "retrying" });
    await advance(6 * MINUTE);
    lists = 0;
    await advance(MINUTE);
    expect(lists).toBe(0);
  });
});

describe("an outage", () => {
  test("makes one try after each wait, each with the newest event that was never tried", async () => {
    let [reading, most] = [0, 0];
    const { queue, add, ran } = queueOf({
      backoff: () => 10 * SECOND,
      work: async () => {
        reading += 1;
        if (queue.state === "paused") most = Math.max(most, reading);
        await sleep(100);
        reading -= 1;
        return outOfReach();
      },
    });
    await add(...idsOf(50));
    queue.start();
    await advance(40 * SECOND);
    expect(most).toBe(1);
    // The first ten, and four that began before the row of five had failed. Then the newest come first.
    const tries = ran.slice(14);
    expect(ran.slice(0, 14)).toEqual(idsOf(14));
    expect(tries).toEqual(idsOf(50).slice(-tries.length).reverse());
    // After 1, 2, 4, 8 and 16 s.
    expect(tries).toHaveLength(5);
  });

  test("ends with the first answer, before its callback has ended", async () => {
    const { work, end } = longWork();
    let down = true;
    const { queue, ran } = await startedQueue(idsOf(9), {
      concurrency: 2,
      work: (claim, context) => (down ? outOfReach() : work(claim, context)),
    });
    expect(queue.state).toBe("paused");
    const { length } = ran;
    down = false;
    await advance(5 * SECOND);
    expect(queue.state).toBe("running");
    // The newest is the try.
    expect(ran[length]).toBe("e 8");
    expect(ran).toHaveLength(length + 2);
    end();
  });

  test.each([
    { when: "answers to older reads come afterwards", others: 14, latency: 0 },
    { when: "a claim is in flight", others: 6, latency: 7 },
  ])("begins with the first 429 and lasts for Retry-After, if $when", async ({ others, latency }) => {
    const slow = () => latency > 0 && sleep(latency);
    const { queue, add, store, ran } = queueOf({
      alter: { claim: first(slow), settle: first(slow), nextDue: first(slow) },
      concurrency: 5,
      work: async ({ eventId, outages }, { answered }) => {
        const isLimited = eventId === "e 0" && outages === 0;
        await sleep(isLimited ? 10 : others);
        if (isLimited) return outOfReach(2 * SECOND);
        answered("record");
        return done;
      },
    });
    queue.start();
    await add(...idsOf(20));
    await advance(2 * SECOND);
    expect(ran.length).toBe(5);
    await advance(10 * SECOND);
    expect(await store.counts()).toMatchObject({ done: 20 });
  });
});
