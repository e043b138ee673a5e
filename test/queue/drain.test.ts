import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { memoryStore } from "../../src/stores/memory/index.ts";
import {
  abortAfter,
  alteredStore,
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

describe("drain", () => {
  test("attempts each due event once, and counts those done, retrying and parked", async () => {
    const { queue, add, ran, store } = queueOf({
      maxAttempts: 2,
      backoff: () => 0,
      work: ({ eventId }) => (eventId.startsWith("bad") ? callbackFailed : done),
    });
    await add("bad 1", "good 1", "bad 2", "good 2", "good 3");
    expect(await queue.drain({})).toEqual({ done: 3, failed: 2 });
    expect(ran.length).toBe(5);
    expect(await queue.drain({})).toEqual({ done: 0, failed: 2 });
    expect(await store.counts()).toMatchObject({ done: 3, parked: 2, retrying: 0, processing: 0 });
    expect(await queue.drain({})).toEqual({ done: 0, failed: 0 });
  });

  test("attempts events behind failing events, and releases events that are due again", async () => {
    const { queue, add, ran, store } = queueOf({
      concurrency: 1,
      backoff: () => 0,
      work: ({ eventId }) => (eventId.startsWith("bad") ? callbackFailed : done),
    });
    await add("bad 1", "bad 2");
    await queue.drain({});
    await add("bad 3");
    await store.replay({ eventId: "bad 1" });
    ran.length = 0;
    expect(await queue.drain({})).toEqual({ done: 0, failed: 3 });
    expect([...ran].sort()).toEqual(["bad 1", "bad 2", "bad 3"]);
    expect(await store.get("bad 1")).toMatchObject({ state: "retrying", attempts: 2 });
  });

  test("does not wait for events that are due later", async () => {
    const { queue, add, ran } = queueOf({ work: () => callbackFailed, backoff: () => HOUR });
    await add("a");
    await queue.drain({});
    expect(await queue.drain({})).toEqual({ done: 0, failed: 0 });
    expect(ran).toEqual(["a"]);
  });

  test("takes all events of a record, one after the other", async () => {
    const { queue, store, ran } = queueOf({
      work: async () => {
        await new Promise((resolve) => setTimeout(resolve, 10));
        return done;
      },
    });
    for (const id of ["a", "b", "c"]) await store.add(eventOf(id, "booking:x"));
    const draining = queue.drain({});
    await advance(30);
    expect(await draining).toEqual({ done: 3, failed: 0 });
    expect(ran).toEqual(["a", "b", "c"]);
  });

  test("does not wait for other processes", async () => {
    const store = memoryStore();
    await store.add(eventOf("theirs"));
    await store.claim({ limit: 1, leaseDuration: HOUR });
    const { queue } = queueOf({ store });
    expect(await queue.drain({})).toEqual({ done: 0, failed: 0 });
  });

  test("waits for attempts that already run here, and counts them", async () => {
    const held = gate();
    const { queue, add, ran } = queueOf({ work: () => held.opened.then(() => done) });
    await add("a");
    queue.start();
    await advance(0);
    let result: unknown;
    const draining = queue.drain({}).then((r) => {
      result = r;
    });
    await advance(MINUTE);
    expect(result).toBeUndefined();
    held.open();
    await advance(0);
    await draining;
    expect(result).toEqual({ done: 1, failed: 0 });
    expect(ran).toEqual(["a"]);
  });

  test("ends when the platform is out of reach, and leaves the rest", async () => {
    const { queue, add, ran, store } = queueOf({ concurrency: 2, work: () => outOfReach() });
    await add(...Array.from({ length: 30 }, (_, n) => `e${n}`));
    expect(await queue.drain({})).toEqual({ done: 0, failed: 2 });
    expect(ran.length).toBe(2);
    expect(await store.counts()).toMatchObject({ pending: 28, retrying: 2 });
  });

  test("makes a half-open attempt at once when called again, unless the platform asked for the wait", async () => {
    let answer = outOfReach();
    const { queue, add, ran } = queueOf({ concurrency: 2, work: () => answer });
    await add("a", "b", "c", "d", "e");
    await queue.drain({});
    await queue.drain({});
    expect(ran).toEqual(["a", "b", "c"]);
    answer = outOfReach(MINUTE);
    await queue.drain({});
    expect(ran.length).toBe(4);
    await add("f");
    expect(await queue.drain({})).toEqual({ done: 0, failed: 0 });
    expect(ran.length).toBe(4);
  });

  test("goes on after an answer to a half-open attempt", async () => {
    let down = true;
    const { queue, add } = queueOf({
      concurrency: 2,
      work: (_, { answered }) => {
        if (down) return outOfReach();
        answered();
        return done;
      },
    });
    await add(...Array.from({ length: 10 }, (_, n) => `e${n}`));
    await queue.drain({});
    down = false;
    expect(await queue.drain({})).toEqual({ done: 8, failed: 0 });
  });

  test.each([
    ["timeout", () => ({ timeout: SECOND })],
    ["signal", () => ({ signal: abortAfter(SECOND) })],
  ])("%s: begins no other attempt, and aborts and releases running attempts", async (_, optionsOf) => {
    const signals: AbortSignal[] = [];
    const { queue, add, store } = queueOf({
      concurrency: 2,
      work: (_, { signal }) => {
        signals.push(signal);
        return new Promise(() => {});
      },
    });
    await add("a", "b", "c");
    const draining = queue.drain(optionsOf());
    await advance(SECOND);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
    await advance(3 * SECOND);
    expect(await draining).toEqual({ done: 0, failed: 0 });
    expect(await store.counts()).toMatchObject({ pending: 3, processing: 0 });
    expect(await store.get("a")).toMatchObject({ attempts: 0 });
  });

  test("with a signal that has aborted already does nothing", async () => {
    const { queue, add, ran } = queueOf();
    await add("a");
    expect(await queue.drain({ signal: AbortSignal.abort() })).toEqual({ done: 0, failed: 0 });
    expect(ran).toEqual([]);
  });

  test("rejects with the store's error if a call fails, and leaves no listener behind", async () => {
    const store = memoryStore();
    await store.close();
    const { queue } = queueOf({ store });
    await expect(queue.drain({})).rejects.toThrow(/closed/);
  });

  test("renews the leases of claims that it holds", async () => {
    const held = gate();
    const { queue, add, store } = queueOf({
      concurrency: 2,
      backoff: () => 0,
      work: ({ eventId }) => (eventId === "slow" ? held.opened.then(() => done) : callbackFailed),
    });
    await add("slow", "bad");
    const draining = queue.drain({});
    await advance(4 * MINUTE);
    expect((await store.get("bad"))?.state).toBe("processing");
    expect(await store.claim({ limit: 9, leaseDuration: SECOND })).toEqual([]);
    held.open();
    expect(await draining).toEqual({ done: 1, failed: 1 });
    expect(await store.get("bad")).toMatchObject({ state: "retrying", attempts: 1 });
  });

  test("finds an event that becomes due while it asks the store", async () => {
    const slow = alteredStore(memoryStore(), {
      claim: (own) => async (options) => {
        const claims = await own(options);
        await new Promise((resolve) => setTimeout(resolve, 10));
        return claims;
      },
    });
    const { queue, store, ran } = queueOf({
      store: slow,
      work: async () => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        return done;
      },
    });
    await store.add(eventOf("a", "booking:x"));
    await store.add(eventOf("b", "booking:x"));
    const draining = queue.drain({});
    await advance(SECOND);
    expect(await draining).toEqual({ done: 2, failed: 0 });
    expect(ran).toEqual(["a", "b"]);
  });

  test("ends and handles each event once beside other drains", async () => {
    const { queue, add, ran } = queueOf({ concurrency: 2 });
    const nothing = Promise.all([queue.drain({}), queue.drain({}), queue.push()]);
    await advance(MINUTE);
    expect(await nothing).toEqual(Array(3).fill({ done: 0, failed: 0 }));
    await add("a", "b", "c", "d", "e");
    const drains = Promise.all([queue.drain({}), queue.drain({}), queue.drain({})]);
    await advance(MINUTE);
    await drains;
    expect([...ran].sort()).toEqual(["a", "b", "c", "d", "e"]);
  });

  test("does not poll the store while it waits for a callback beside other drains", async () => {
    const held = gate();
    let claims = 0;
    const store = alteredStore(memoryStore(), {
      claim: (own) => (options) => {
        claims += 1;
        if (claims > 1000) throw new Error("the drains wake each other");
        return own(options);
      },
    });
    const { queue, add } = queueOf({ store, work: () => held.opened.then(() => done) });
    await add("a");
    const drains = Promise.all([queue.drain({}), queue.drain({}), queue.drain({})]);
    await advance(MINUTE);
    expect(claims).toBeLessThan(20);
    held.open();
    await advance(0);
    expect(await drains).toEqual(Array(3).fill({ done: 1, failed: 0 }));
  });

  test("does not delay the loop if the store is slow", async () => {
    let slow = 0;
    const store = alteredStore(memoryStore(), {
      claim: (own) => async (options) => {
        const claims = await own(options);
        await new Promise((resolve) => setTimeout(resolve, slow));
        return claims;
      },
    });
    const { queue, add, ran } = queueOf({ store, concurrency: 2 });
    queue.start();
    await advance(SECOND);
    slow = 500;
    const draining = queue.drain({});
    await advance(100);
    slow = 0;
    await add("a");
    await advance(100);
    expect(ran).toEqual([]);
    await advance(310);
    expect(ran).toEqual(["a"]);
    await draining;
  });

  test("waits for a claim of the loop that is under way", async () => {
    const [held, told] = [gate(), gate()];
    let slow = false;
    const store = alteredStore(memoryStore(), {
      claim: (own) => async (options) => {
        const claims = await own(options);
        if (slow && claims.length > 0) await told.opened;
        return claims;
      },
    });
    const { queue, add, ran } = queueOf({
      store,
      concurrency: 2,
      work: ({ eventId }) => (eventId === "first" ? held.opened.then(() => done) : done),
    });
    queue.start();
    await add("first");
    await advance(0);
    slow = true;
    await add("second");
    await advance(0);
    held.open();
    await advance(0);
    let drained = false;
    const draining = queue.drain({}).then(() => {
      drained = true;
    });
    await advance(0);
    expect([ran, drained]).toEqual([["first"], false]);
    told.open();
    await draining;
    expect(await store.counts()).toMatchObject({ done: 2, processing: 0 });
  });

  test("ends with the running attempts when the queue is closed", async () => {
    const held = gate();
    const { queue, add, store } = queueOf({ concurrency: 1, work: () => held.opened.then(() => done) });
    await add("a", "b");
    const draining = queue.drain({});
    await advance(0);
    const closing = queue.close(10 * SECOND);
    held.open();
    await advance(0);
    await closing;
    expect(await draining).toEqual({ done: 1, failed: 0 });
    expect((await store.get("b"))?.state).toBe("pending");
  });

  test("does not ask the store after the queue is closed", async () => {
    let claims = 0;
    const store = alteredStore(memoryStore(), {
      claim: (own) => (options) => {
        claims += 1;
        return own(options);
      },
    });
    const { queue, add } = queueOf({ store, concurrency: 1, work: () => new Promise(() => {}) });
    await add("a", "b");
    const draining = queue.drain({});
    await advance(0);
    expect(claims).toBe(1);
    const closing = queue.close(0);
    await advance(3 * SECOND);
    await closing;
    await store.close();
    expect(await draining).toEqual({ done: 0, failed: 0 });
    expect(claims).toBe(1);
  });

  test("resolves if the store does not take held claims back", async () => {
    const store = alteredStore(memoryStore(), {
      settle: (own) => (claim, outcome) =>
        outcome.state === "released" ? Promise.reject(new Error("gone")) : own(claim, outcome),
    });
    const { queue, add, logged } = queueOf({ store, work: () => callbackFailed, backoff: () => 0 });
    await add("a");
    expect(await queue.drain({})).toEqual({ done: 0, failed: 1 });
    expect(logged.join()).toMatch(/did not release event .*gone/);
  });

  test("ends at its timeout if a claim hangs, and gives the late claim back", async () => {
    const answer = gate();
    const store = alteredStore(memoryStore(), {
      claim: (own) => async (options) => {
        const claims = await own(options);
        await answer.opened;
        return claims;
      },
    });
    const { queue, add, ran } = queueOf({ store });
    await add("a");
    const draining = queue.drain({ timeout: SECOND });
    await advance(SECOND);
    expect(await draining).toEqual({ done: 0, failed: 0 });
    answer.open();
    await advance(0);
    expect(ran).toEqual([]);
    expect(await store.get("a")).toMatchObject({ state: "pending", attempts: 0 });
  });

  test("ends if the store does not answer when it takes held claims back", async () => {
    const store = alteredStore(memoryStore(), {
      settle: (own) => (claim, outcome) =>
        outcome.state === "released" ? new Promise(() => {}) : own(claim, outcome),
    });
    const { queue, add } = queueOf({ store, work: () => callbackFailed, backoff: () => 0 });
    await add("a");
    const draining = queue.drain({});
    await advance(5 * SECOND);
    expect(await draining).toEqual({ done: 0, failed: 1 });
  });

  test("leaves no listener behind on a signal that outlives it", async () => {
    const { signal } = new AbortController();
    const added = vi.spyOn(signal, "addEventListener");
    const removed = vi.spyOn(signal, "removeEventListener");
    const { queue } = queueOf();
    await queue.drain({ signal });
    expect(removed.mock.calls).toEqual(added.mock.calls);
  });

  test("prunes, but not each time", async () => {
    let prunes = 0;
    const store = alteredStore(memoryStore(), {
      prune: (own) => (options) => {
        prunes += 1;
        return own(options);
      },
    });
    const { queue } = queueOf({ store });
    await queue.drain({});
    const first = prunes;
    expect(first).toBeGreaterThan(0);
    await queue.drain({});
    expect(prunes).toBe(first);
    await advance(HOUR);
    await queue.drain({});
    expect(prunes).toBe(2 * first);
  });

  test("prunes if no loop runs", async () => {
    const { queue, add, store } = queueOf({ retention: DAY });
    await add("a");
    await queue.drain({});
    await advance(DAY + HOUR);
    await queue.drain({});
    expect(await store.get("a")).toBeUndefined();
  });

  test("prunes within its timeout even if the store is slow", async () => {
    let batches = 0;
    const store = alteredStore(memoryStore(), {
      prune: () => async () => {
        batches += 1;
        await new Promise((resolve) => setTimeout(resolve, 700));
        return 200;
      },
    });
    const { queue } = queueOf({ store });
    let ended = false;
    queue.drain({ timeout: SECOND }).then(() => {
      ended = true;
    });
    await advance(SECOND - 1);
    expect(ended).toBe(false);
    await advance(1);
    expect(ended).toBe(true);
    await advance(MINUTE);
    expect(batches).toBe(2);
  });
});

describe("close", () => {
  test("lets running attempts finish and begins no other", async () => {
    const held = gate();
    const { queue, add, ran, stateOf } = queueOf({
      concurrency: 1,
      work: () => held.opened.then(() => done),
    });
    await add("a", "b");
    queue.start();
    await advance(0);
    const closing = queue.close(10 * SECOND);
    expect(queue.state).toBe("stopped");
    await advance(5 * SECOND);
    held.open();
    await advance(0);
    await closing;
    expect(await stateOf("a")).toBe("done");
    queue.start();
    queue.wake();
    await advance(HOUR);
    expect(await queue.drain({})).toEqual({ done: 0, failed: 0 });
    expect(ran).toEqual(["a"]);
  });

  test("after its timeout, aborts, waits 3 s for the callback, and releases the event", async () => {
    let signal: AbortSignal | undefined;
    const { queue, add, store } = queueOf({
      work: (_, context) => {
        signal = context.signal;
        return new Promise(() => {});
      },
    });
    await add("a");
    queue.start();
    await advance(0);
    let closed = false;
    queue.close(SECOND).then(() => {
      closed = true;
    });
    await advance(SECOND - 1);
    expect(signal?.aborted).toBe(false);
    await advance(1);
    expect(signal?.aborted).toBe(true);
    await advance(2999);
    expect(closed).toBe(false);
    expect((await store.get("a"))?.state).toBe("processing");
    await advance(1);
    expect(closed).toBe(true);
    expect(await store.get("a")).toMatchObject({ state: "pending", attempts: 0 });
    expect(await store.nextDue()).toBe(0);
  });

  test.each([2999, 1])(
    "a callback that returns %i ms after it was aborted is recorded as done",
    async (late) => {
      const { queue, add, store, kinds } = queueOf({
        work: (_, { signal }) =>
          new Promise((resolve) => signal.addEventListener("abort", () => setTimeout(resolve, late, done))),
      });
      await add("a");
      queue.start();
      await advance(0);
      const closing = queue.close(SECOND);
      await advance(4 * SECOND);
      await closing;
      expect(kinds()).toEqual(["done"]);
      expect(await store.get("a")).toMatchObject({ state: "done", attempts: 1 });
    },
  );

  test("an event whose callback throws on abort is released", async () => {
    const { queue, add, store, kinds } = queueOf({
      work: (_, { signal }) =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    });
    await add("a");
    queue.start();
    await advance(0);
    const closing = queue.close(0);
    await advance(4 * SECOND);
    await closing;
    expect(kinds()).toEqual([]);
    expect(await store.get("a")).toMatchObject({ state: "pending", attempts: 0 });
  });

  test("does not use the store afterwards", async () => {
    const { queue, store, logged } = queueOf();
    await queue.close(0);
    await store.close();
    expect(await queue.drain({})).toEqual({ done: 0, failed: 0 });
    await advance(2 * HOUR);
    expect(logged).toEqual([]);
  });

  test("does not wait forever for a store that hangs", async () => {
    const store = alteredStore(memoryStore(), { settle: () => () => new Promise(() => {}) });
    const { queue, add } = queueOf({ store });
    await add("a");
    queue.start();
    await advance(0);
    let closed = false;
    queue.close(SECOND).then(() => {
      closed = true;
    });
    await advance(8 * SECOND);
    expect(closed).toBe(false);
    await advance(SECOND);
    expect(closed).toBe(true);
  });

  test("does not wait forever for a claim that hangs", async () => {
    const store = alteredStore(memoryStore(), { claim: () => () => new Promise(() => {}) });
    const { queue } = queueOf({ store });
    queue.start();
    const closing = queue.close(SECOND);
    await advance(4 * SECOND);
    await closing;
  });

  test("may be called twice", async () => {
    const { queue } = queueOf();
    expect(queue.close(0)).toBe(queue.close(5));
  });

  test("a claim that returns during close is released, and its event is due at once", async () => {
    const memory = memoryStore();
    const slow = new Proxy(memory, {
      get: (target, property: keyof typeof memory) => {
        if (property === "claim") {
          return async (options: never) => {
            const claims = await target.claim(options);
            await new Promise((resolve) => setTimeout(resolve, SECOND));
            return claims;
          };
        }
        if (property === "settle") {
          return async (...args: Parameters<typeof target.settle>) => {
            await new Promise((resolve) => setTimeout(resolve, 300));
            return target.settle(...args);
          };
        }
        const value = target[property];
        return typeof value === "function" ? (value as () => unknown).bind(target) : value;
      },
    });
    const { queue, add, ran, store } = queueOf({ store: slow });
    await add("a");
    queue.start();
    await advance(500);
    let closed = false;
    const closing = queue.close(0).then(() => {
      closed = true;
    });
    await advance(799);
    expect(closed).toBe(false);
    await advance(1);
    await closing;
    expect(ran).toEqual([]);
    expect(await store.get("a")).toMatchObject({ state: "pending", attempts: 0 });
  });
});
