import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { EventStore } from "../../src/stores/event-store.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";
import {
  alteredStore,
  brokenStore,
  callbackFailed,
  DAY,
  done,
  eventOf,
  gate,
  HOUR,
  MINUTE,
  outOfReach,
  queueOf,
  SECOND,
} from "./support.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const advance = (ms: number) => vi.advanceTimersByTimeAsync(ms);

/** Counts the calls of a store's methods. */
function counted(store: EventStore) {
  const calls: Record<string, number> = {};
  const proxy = new Proxy(store, {
    get(target, property: keyof EventStore) {
      const value = target[property];
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        const name = String(property);
        calls[name] = (calls[name] ?? 0) + 1;
        return (value as (...a: unknown[]) => unknown).apply(target, args);
      };
    },
  });
  return { store: proxy, calls };
}

describe("concurrency", () => {
  test("is a maximum, and each free slot is filled", async () => {
    let running = 0;
    let most = 0;
    const { queue, add, ran } = queueOf({
      concurrency: 4,
      work: async () => {
        running += 1;
        most = Math.max(most, running);
        await new Promise((resolve) => setTimeout(resolve, 10));
        running -= 1;
        return done;
      },
    });
    await add(...Array.from({ length: 40 }, (_, n) => `e${n}`));
    queue.start();
    await advance(99);
    expect(most).toBe(4);
    expect(ran.length).toBe(40);
  });

  test("never allows two attempts of one record", async () => {
    const running = new Map<string, number>();
    let most = 0;
    const { queue, store, ran } = queueOf({
      work: async ({ ref }) => {
        const now = (running.get(ref as string) ?? 0) + 1;
        running.set(ref as string, now);
        most = Math.max(most, now);
        await new Promise((resolve) => setTimeout(resolve, 5));
        running.set(ref as string, now - 1);
        return done;
      },
    });
    for (let n = 0; n < 60; n += 1) await store.add(eventOf(`e${n}`, `booking:${n % 3}`));
    queue.start();
    await advance(200);
    expect(ran.length).toBe(60);
    expect(most).toBe(1);
  });

  test("allows events without a record side by side", async () => {
    const held = gate();
    const { queue, store, ran } = queueOf({ work: () => held.opened.then(() => done) });
    await store.add(eventOf("a", null));
    await store.add(eventOf("b", null));
    queue.start();
    await advance(0);
    expect(ran).toEqual(["a", "b"]);
    held.open();
  });
});

test("retries and new events wait in one line", async () => {
  const { queue, add, ran, store } = queueOf({ concurrency: 1 });
  await add("retry");
  const [claim] = await store.claim({ limit: 1, leaseDuration: MINUTE });
  await store.settle(claim as never, {
    ...{ state: "retrying", in: 10 * SECOND, counted: true, reason: "callback", entry: { duration: 1 } },
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
  test("does not ask the store, which wakes it", async () => {
    const { store, calls } = counted(memoryStore());
    const { queue, add, ran } = queueOf({ store });
    queue.start();
    await advance(SECOND);
    const { claim, nextDue } = calls;
    await advance(30 * MINUTE);
    expect(calls.claim).toBe(claim);
    expect(calls.nextDue).toBe(nextDue);
    await add("a");
    await advance(0);
    expect(ran).toEqual(["a"]);
  });

  test.each([
    { name: "one that can", notifies: true, idle: { claim: 1, nextDue: 1 } },
    { name: "one that cannot", notifies: false, idle: { claim: 60, nextDue: 60 } },
  ])("asks a store no more often than 0.2 did: $name notify", async ({ notifies, idle }) => {
    const { store, calls } = counted(
      notifies ? memoryStore() : alteredStore(memoryStore(), { subscribe: () => undefined }),
    );
    const { queue, add } = queueOf({ store });
    queue.start();
    await advance(MINUTE - 1);
    expect(calls).toMatchObject(idle);
    for (let n = 0; n < 20; n += 1) {
      await add(`e${n}`);
      await advance(0);
      queue.wake();
      await advance(0);
    }
    // Of each event: the claim that gets it, and the claim after its end.
    expect(calls).toMatchObject({ claim: idle.claim + 40, nextDue: idle.nextDue + 40, settle: 20 });
    expect(calls.get ?? 0).toBe(0);
  });

  test("sleeps until the next event is due", async () => {
    const { store, calls } = counted(memoryStore());
    const { queue, add, ran } = queueOf({
      store,
      work: ({ attempts }) => (attempts === 1 ? callbackFailed : done),
      backoff: () => HOUR / 2,
    });
    await add("a");
    queue.start();
    await advance(SECOND);
    const before = calls.claim as number;
    await advance(HOUR / 2 - 2 * SECOND);
    expect(calls.claim).toBe(before);
    await advance(SECOND);
    expect(ran).toEqual(["a", "a"]);
  });

  test("sleeps longer than a timer can wait", async () => {
    const { store, calls } = counted(memoryStore());
    const { queue, add, ran } = queueOf({ store, work: () => callbackFailed, backoff: () => 60 * DAY });
    await add("a");
    queue.start();
    await advance(SECOND);
    const before = calls.claim as number;
    await advance(MINUTE);
    expect(calls.claim).toBe(before);
    await advance(60 * DAY);
    expect(ran).toEqual(["a", "a"]);
  });

  test("polls a store that cannot notify each second", async () => {
    const memory = memoryStore();
    const silent = new Proxy(memory, {
      get: (target, property: keyof typeof memory) => {
        if (property === "subscribe") return undefined;
        const value = target[property];
        return typeof value === "function" ? (value as () => unknown).bind(target) : value;
      },
    });
    const { queue, add, ran } = queueOf({ store: silent });
    queue.start();
    await advance(5 * SECOND + 1);
    await add("a");
    await advance(SECOND);
    expect(ran).toEqual(["a"]);
  });

  test("takes over the events of a dead process when their leases end", async () => {
    const store = memoryStore();
    await store.add(eventOf("a"));
    await store.claim({ limit: 1, leaseDuration: 30 * SECOND });
    const { queue, ran } = queueOf({ store });
    queue.start();
    await advance(29 * SECOND);
    expect(ran).toEqual([]);
    await advance(SECOND);
    expect(ran).toEqual(["a"]);
  });
});

test("a closed queue unsubscribes from the store", async () => {
  let subscribers = 0;
  const store = alteredStore(memoryStore(), {
    subscribe: (own) => (wake) => {
      const stop = own(wake);
      subscribers += 1;
      return () => {
        subscribers -= 1;
        stop();
      };
    },
  });
  const { queue } = queueOf({ store });
  queue.start();
  expect(subscribers).toBe(1);
  await queue.close(0);
  expect(subscribers).toBe(0);
});

describe("a store that fails", () => {
  test("is asked again with growing waits, which new events do not cut short", async () => {
    const broken: { claim?: () => Error } = { claim: () => new Error("connection refused") };
    const { store, calls } = counted(brokenStore(memoryStore(), broken));
    const { queue, add, ran, logged } = queueOf({ store });
    queue.start();
    await advance(100);
    for (let n = 0; n < 50; n += 1) {
      await add(`e${n}`);
      await advance(100);
    }
    expect(calls.claim).toBeLessThanOrEqual(5);
    expect(logged.join()).toMatch(/connection refused/);
    delete broken.claim;
    await advance(6 * SECOND);
    expect(ran.length).toBe(50);
    const soFar = ran.length;
    await add("later");
    await advance(0);
    expect(ran.length).toBe(soFar + 1);
  });

  test("is asked again after a short wait if it worked in between", async () => {
    const broken: { claim?: () => Error } = { claim: () => new Error("down") };
    const { store, calls } = counted(brokenStore(memoryStore(), broken));
    const { queue, add, ran } = queueOf({ store });
    queue.start();
    await advance(20 * SECOND);
    delete broken.claim;
    await advance(5 * SECOND);
    broken.claim = () => new Error("down again");
    await add("a");
    await advance(0);
    delete broken.claim;
    await advance(200);
    expect(ran).toEqual(["a"]);
    expect(calls.claim).toBeGreaterThan(3);
  });

  test("is not asked in a tight loop if it says that an event is due but gives none", async () => {
    const memory = memoryStore();
    const { store, calls } = counted(
      new Proxy(memory, {
        get: (target, property: keyof typeof memory) => {
          if (property === "nextDue") return async () => 0;
          const value = target[property];
          return typeof value === "function" ? (value as () => unknown).bind(target) : value;
        },
      }),
    );
    const { queue } = queueOf({ store });
    queue.start();
    await advance(SECOND);
    expect(calls.claim).toBeLessThanOrEqual(45);
  });
});

describe("an outage", () => {
  test("of an hour parks nothing and causes few reads, and all events are handled afterwards", async () => {
    let down = true;
    const { queue, add, ran, store, kinds } = queueOf({ work: () => (down ? outOfReach() : done) });
    await add(...Array.from({ length: 500 }, (_, n) => `e${n}`));
    queue.start();
    await advance(HOUR);
    expect(queue.state).toBe("paused");
    // At most one round of ten half-open reads every 45 s, plus the quicker rounds at the beginning.
    expect(ran.length).toBeLessThan(10 * 85);
    expect(await store.counts()).toMatchObject({ parked: 0, done: 0 });
    down = false;
    await advance(2 * MINUTE);
    expect(queue.state).toBe("running");
    expect(kinds()).toContain("resumed");
    await advance(2 * HOUR);
    expect(await store.counts()).toMatchObject({ done: 500, parked: 0 });
  });

  test("tries the record that waits longest, so that each half-open attempt reads another record", async () => {
    const { queue, add, store } = queueOf({
      work: ({ eventId }) => (eventId.startsWith("bad") ? outOfReach() : done),
    });
    await add("bad 1", "bad 2", "bad 3");
    await add(...Array.from({ length: 100 }, (_, n) => `good ${n}`));
    queue.start();
    await advance(2 * MINUTE);
    expect(await store.counts()).toMatchObject({ done: 100, retrying: 3 });
  });

  test("one unreadable record among good ones never pauses the loop", async () => {
    const { queue, add, store, kinds } = queueOf({
      work: ({ eventId }, { answered }) => {
        if (eventId === "bad") return outOfReach();
        answered();
        return done;
      },
      backoff: () => 10,
    });
    await add("bad");
    queue.start();
    for (let n = 0; n < 100; n += 1) {
      await add(`good ${n}`);
      await advance(20);
    }
    expect(kinds()).not.toContain("paused");
    expect(await store.counts()).toMatchObject({ done: 100 });
  });

  test("begins with two records that fail for the first time, not with two known bad ones", async () => {
    const { queue, store, add, ran } = queueOf({
      backoff: (attempt) => attempt * 7 * SECOND,
      work: ({ eventId }) => (eventId.startsWith("bad") ? outOfReach() : done),
    });
    await add("bad 1", "bad 2");
    queue.start();
    await advance(0);
    expect(queue.state).toBe("paused");
    await store.add(eventOf("good"));
    await advance(7 * SECOND);
    expect(ran).toEqual(["bad 1", "bad 2", "good", "bad 1", "bad 2"]);
    expect(queue.state).toBe("running");
  });

  test("ends with the first answer, before its callback has ended", async () => {
    let down = true;
    const held = gate();
    const { queue, add, ran } = queueOf({
      concurrency: 2,
      work: (_, { answered }) => {
        if (down) return outOfReach();
        answered();
        return held.opened.then(() => done);
      },
    });
    await add("a", "b", "c", "d");
    queue.start();
    await advance(0);
    expect(queue.state).toBe("paused");
    down = false;
    await advance(5 * SECOND);
    expect(queue.state).toBe("running");
    expect(ran.slice(2)).toEqual(["c", "d"]);
    held.open();
  });

  test("begins at once with a rate limit, and lasts for Retry-After", async () => {
    let limited = true;
    const { queue, add, ran } = queueOf({
      concurrency: 2,
      work: () => (limited ? outOfReach(90 * SECOND) : done),
    });
    await add(...Array.from({ length: 10 }, (_, n) => `e${n}`));
    queue.start();
    await advance(80 * SECOND);
    expect(ran.length).toBe(2);
    limited = false;
    await advance(11 * SECOND);
    expect(ran.length).toBe(12);
  });

  test.each([
    { when: "answers to older reads come afterwards", others: 14, latency: 0 },
    { when: "a claim is in flight", others: 6, latency: 7 },
  ])("begins with the first 429 and lasts for Retry-After, if $when", async ({ others, latency }) => {
    const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
    const slow =
      <A extends unknown[], R>(own: (...args: A) => Promise<R>) =>
      async (...args: A): Promise<R> => {
        if (latency > 0) await wait(latency);
        return own(...args);
      };
    const { queue, add, store, ran } = queueOf({
      store: alteredStore(memoryStore(), { claim: slow, settle: slow, nextDue: slow }),
      concurrency: 5,
      work: async ({ eventId, outages }, { answered }) => {
        const isLimited = eventId === "e0" && outages === 0;
        await wait(isLimited ? 10 : others);
        if (isLimited) return outOfReach(2 * SECOND);
        answered();
        return done;
      },
    });
    queue.start();
    await add(...Array.from({ length: 20 }, (_, n) => `e${n}`));
    await advance(2 * SECOND);
    expect(ran.length).toBe(5);
    await advance(10 * SECOND);
    expect(await store.counts()).toMatchObject({ done: 20 });
  });

  test("lets one attempt through after each wait", async () => {
    let reading = 0;
    let most = 0;
    const reads: number[] = [];
    const { queue, add } = queueOf({
      backoff: () => 10 * SECOND,
      work: async () => {
        reads.push(Math.round(performance.now()));
        reading += 1;
        most = Math.max(most, queue.state === "paused" ? reading : 0);
        await new Promise((resolve) => setTimeout(resolve, 100));
        reading -= 1;
        return outOfReach();
      },
    });
    await add(...Array.from({ length: 50 }, (_, n) => `e${n}`));
    queue.start();
    await advance(65 * SECOND);
    expect(most).toBe(1);
    // Ten reads, one more after the first failure, which is no outage yet, and six tries.
    expect(reads.length).toBe(10 + 1 + 6);
  });

  test("new notifications during a pause are not read before it is over", async () => {
    const { queue, add, ran } = queueOf({ work: () => outOfReach(MINUTE) });
    await add("a");
    queue.start();
    await advance(0);
    for (let n = 0; n < 50; n += 1) {
      await add(`during ${n}`);
      await advance(SECOND);
    }
    expect(ran).toEqual(["a"]);
  });
});
