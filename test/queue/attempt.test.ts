import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { InvalidWriteError } from "../../src/errors.ts";
import { defaultBackoff, safeBackoff } from "../../src/queue/retries.ts";
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
const writesOf = (outcome: unknown) =>
  (outcome as { writes?: readonly ((tx: never) => unknown)[] }).writes ?? [];

describe("a failed callback", () => {
  test("is retried on the documented schedule and parked after twelve attempts", async () => {
    const started: number[] = [];
    const { queue, add, stateOf, store } = queueOf({
      work: () => {
        started.push(Date.now());
        return callbackFailed;
      },
    });
    await add("a");
    queue.start();
    await advance(25 * HOUR);
    expect(started.length).toBe(12);
    const waits = started.slice(1).map((at, n) => at - (started[n] as number));
    const schedule = [5, 30, 120, 600, 1800, 3600, 7200, 10_800, 18_000, 21_600, 21_600].map(
      (s) => s * SECOND,
    );
    waits.forEach((wait, n) => {
      expect(wait).toBeGreaterThanOrEqual((schedule[n] as number) * 0.75);
      expect(wait).toBeLessThanOrEqual((schedule[n] as number) + 50);
    });
    expect(new Set(waits.map((wait, n) => wait / (schedule[n] as number))).size).toBeGreaterThan(3);
    expect(await store.get("a")).toMatchObject({
      state: "parked",
      reason: "callback",
      attempts: 12,
    });
    expect((await store.get("a"))?.history.at(-1)?.error).toBe("Error: callback failed");
    expect(await stateOf("a")).toBe("parked");
  });

  test("is observed after each attempt with the wait, and at last as parked", async () => {
    const { queue, add, observed } = queueOf({
      work: () => callbackFailed,
      maxAttempts: 2,
      backoff: () => 7000,
    });
    await add("a");
    queue.start();
    await advance(10 * SECOND);
    expect(observed).toMatchObject([
      { kind: "failed", eventId: "a", ref: "booking:a", reason: "callback", attempt: 1, retryIn: 7000 },
      { kind: "parked", eventId: "a", ref: "booking:a", reason: "callback", attempt: 2 },
    ]);
  });

  test("does not stop the process or the queue, whatever it throws", async () => {
    const hostile = new (class extends Error {
      override get message(): string {
        throw new Error("in the getter");
      }
    })();
    const thrown = [undefined, null, 0, "text", Symbol("s"), {}, Object.create(null), hostile, 10n];
    const { queue, add, store } = queueOf({
      maxAttempts: 1,
      work: (claim) => {
        throw thrown[Number(claim.eventId)];
      },
    });
    await add(...thrown.map((_, n) => String(n)));
    queue.start();
    await advance(0);
    expect(await store.counts()).toMatchObject({ parked: thrown.length });
  });

  test("uses the default wait if the backoff returns no wait or throws", async () => {
    for (const backoff of [
      () => Number.NaN,
      () => -1,
      () => "5" as never,
      () => Number.POSITIVE_INFINITY,
      throws,
    ]) {
      const { queue, add, ran } = queueOf({
        work: () => callbackFailed,
        backoff: safeBackoff(backoff, defaultBackoff),
      });
      await add("a");
      queue.start();
      await advance(3 * SECOND);
      expect(ran.length).toBe(1);
      await advance(3 * SECOND);
      expect(ran.length).toBe(2);
    }
  });
});

describe("the platform out of reach", () => {
  test("does not count as an attempt, and parks the event after giveUpAfter", async () => {
    const { queue, add, store, ran } = queueOf({ work: () => outOfReach(), maxAttempts: 3 });
    await add("a");
    queue.start();
    await advance(3 * DAY - MINUTE);
    expect(await store.get("a")).toMatchObject({ state: "retrying", attempts: 0, reason: "unavailable" });
    expect(ran.length).toBeGreaterThan(10);
    await advance(2 * MINUTE);
    expect(await store.get("a")).toMatchObject({ state: "parked", reason: "unavailable" });
  });

  test("makes the record wait for at least Retry-After", async () => {
    const { queue, add, store } = queueOf({ work: () => outOfReach(10 * MINUTE), backoff: () => SECOND });
    await add("a");
    const now = Date.now();
    await queue.drain({});
    expect((await store.get("a"))?.dueAt?.getTime()).toBe(now + 10 * MINUTE);
  });

  test("makes the record wait for 15 minutes at most, even if Retry-After is a day", async () => {
    const { queue, add, store } = queueOf({ work: () => outOfReach(DAY), backoff: () => SECOND });
    await add("a");
    const now = Date.now();
    await queue.drain({});
    expect((await store.get("a"))?.dueAt?.getTime()).toBe(now + 15 * MINUTE);
  });

  test("delays the record alone, and a new notification of the record is due at once", async () => {
    let down = true;
    const { queue, store, ran, add } = queueOf({
      work: ({ ref }) => (down && ref === "booking:bad" ? outOfReach() : done),
      backoff: () => HOUR,
    });
    await store.add(eventOf("first", "booking:bad"));
    queue.start();
    await advance(0);
    await add("good");
    await advance(0);
    expect(ran).toEqual(["first", "good"]);
    down = false;
    await advance(MINUTE);
    expect(ran.length).toBe(2);
    await store.add(eventOf("second", "booking:bad"));
    await advance(0);
    expect(ran.slice(2)).toEqual(["second"]);
    expect(await store.counts()).toMatchObject({ done: 2, retrying: 1 });
  });

  test("a failed callback does not delay later events of the record", async () => {
    const { queue, store, ran } = queueOf({
      work: ({ eventId }) => (eventId === "first" ? callbackFailed : done),
      backoff: () => HOUR,
    });
    await store.add(eventOf("first", "booking:x"));
    await store.add(eventOf("second", "booking:x"));
    queue.start();
    await advance(0);
    expect(ran).toEqual(["first", "second"]);
  });
});

describe("the attempt's time", () => {
  test("ends after attemptTimeout: the signal aborts, and the attempt fails 3 s later", async () => {
    const signals: AbortSignal[] = [];
    const { queue, store, add, ran } = queueOf({
      attemptTimeout: 10 * SECOND,
      backoff: () => 0,
      work: ({ eventId }, { signal, answered }) => {
        answered();
        if (eventId !== "hangs" || signals.length > 0) return done;
        signals.push(signal);
        return new Promise(() => {});
      },
    });
    await store.add(eventOf("hangs", "booking:x"));
    await store.add(eventOf("next", "booking:x"));
    queue.start();
    await advance(10 * SECOND - 1);
    expect(signals[0]?.aborted).toBe(false);
    await advance(1);
    expect(signals[0]?.aborted).toBe(true);
    expect(signals[0]?.reason).toMatchObject({ name: "TimeoutError" });
    await add("other");
    await advance(2900);
    expect(ran).toEqual(["hangs", "other"]);
    await advance(100);
    expect(ran).toEqual(["hangs", "other", "next", "hangs"]);
  });

  test("a callback that ends when its signal aborts fails, and frees the record at once", async () => {
    const { queue, store, observed, add } = queueOf({
      attemptTimeout: SECOND,
      work: (_, { signal, answered }) => {
        answered();
        return new Promise((resolve) => signal.addEventListener("abort", () => resolve(done)));
      },
    });
    await add("a");
    queue.start();
    await advance(SECOND);
    expect(observed).toMatchObject([{ kind: "failed", reason: "callback" }]);
    expect(String((observed[0] as { error: unknown }).error)).toMatch(/took longer than 1000 ms/);
    expect(await store.get("a")).toMatchObject({ state: "retrying", attempts: 1 });
  });

  test("a timeout before the platform has answered counts as an outage", async () => {
    const { queue, store, add } = queueOf({ attemptTimeout: SECOND, work: () => new Promise(() => {}) });
    await add("a");
    queue.start();
    await advance(5 * SECOND);
    expect(await store.get("a")).toMatchObject({ state: "retrying", attempts: 0, reason: "unavailable" });
  });
});

describe("an event without a record", () => {
  test("fails as callback if its attempt is cut off", async () => {
    const { queue, store } = queueOf({ attemptTimeout: SECOND, work: () => new Promise(() => {}) });
    await store.add(eventOf("a", null));
    queue.start();
    await advance(5 * SECOND);
    expect(await store.get("a")).toMatchObject({ state: "retrying", attempts: 1, reason: "callback" });
  });
});

describe("an event that ends its process each time", () => {
  test("is parked after maxAttempts attempts, without another attempt", async () => {
    const store = memoryStore();
    await store.add(eventOf("deadly"));
    for (let n = 0; n < 3; n += 1) {
      await store.claim({ limit: 1, leaseDuration: SECOND });
      await advance(SECOND);
    }
    const { queue, ran } = queueOf({ store, maxAttempts: 3 });
    queue.start();
    await advance(0);
    expect(ran).toEqual([]);
    expect(await store.get("deadly")).toMatchObject({
      state: "parked",
      reason: "callback",
      history: [
        {},
        {},
        {},
        { error: expect.stringMatching(/process ended during attempt 3.*process\.exit\(\)/) },
      ],
    });
  });

  test("is told apart from an event that waits while maxAttempts is lowered", async () => {
    const store = memoryStore();
    const before = queueOf({ store, work: () => callbackFailed, backoff: () => 0 });
    await store.add(eventOf("a"));
    for (let n = 0; n < 5; n += 1) await before.queue.drain({});
    const { queue, ran } = queueOf({ store, maxAttempts: 3 });
    await queue.drain({});
    expect(ran).toEqual([]);
    expect(await store.get("a")).toMatchObject({ state: "parked", reason: "callback" });
    expect((await store.get("a"))?.history.at(-1)?.error).toMatch(
      /has had 5 attempts, and maxAttempts is 3 now\. Replay the event/,
    );
  });
});

describe("the end of an attempt", () => {
  test("is recorded again while the lease holds if the store fails, without another callback", async () => {
    let failures = 3;
    const store = brokenStore(memoryStore(), {
      settle: () => (failures-- > 0 ? new Error("disk full") : (undefined as never)),
    });
    const { queue, add, ran, stateOf, logged } = queueOf({ store });
    await add("a");
    queue.start();
    await advance(5 * SECOND);
    expect(await stateOf("a")).toBe("done");
    expect(ran).toEqual(["a"]);
    expect(logged.join()).toMatch(/disk full/);
  });

  test("is not observed as done if the store no longer knows the lease", async () => {
    const store = alteredStore(memoryStore(), { settle: () => async () => false });
    const { queue, add, observed, logged } = queueOf({ store });
    await add("a");
    await queue.drain({});
    expect(observed).toEqual([]);
    expect(logged.join()).toMatch(/was lost/);
  });

  test.each([1, 12])("is not observed as failed after a lost lease (maxAttempts %i)", async (maxAttempts) => {
    const store = alteredStore(memoryStore(), { settle: () => async () => false });
    const { queue, add, observed } = queueOf({ store, maxAttempts, work: () => callbackFailed });
    await add("a");
    await queue.drain({});
    expect(observed).toEqual([]);
  });

  test("frees its slot when the lease ends if the store never answers", async () => {
    let hanging = true;
    const store = alteredStore(memoryStore(), {
      settle: (own) => (claim, outcome) => (hanging ? new Promise(() => {}) : own(claim, outcome)),
      renew: () => () => new Promise(() => {}),
    });
    const { queue, add, ran, stateOf, logged } = queueOf({ store, concurrency: 1 });
    await add("a", "b", "c");
    queue.start();
    await advance(29 * SECOND);
    // There is only one slot, but the queue begins "b" while it records the outcome of "a".
    expect(ran).toEqual(["a", "b"]);
    hanging = false;
    await advance(6 * SECOND);
    expect(await stateOf("c")).toBe("done");
    expect(logged.join()).toMatch(/did not record the result of event a\..*did not answer within 30000 ms/);
  });

  test.each([
    { name: "is recorded while the next events run, at most one for each slot", result: done, begun: 4 },
    {
      name: "keeps its slot if it includes the user's writes",
      result: { ...done, writes: [() => {}] },
      begun: 2,
    },
    {
      name: "keeps its slot after a failure",
      result: callbackFailed,
      begun: 2,
    },
  ] as const)("$name", async ({ result, begun }) => {
    const recorded = gate();
    const store = alteredStore(memoryStore(), {
      settle: (own) => async (claim, outcome) => {
        await recorded.opened;
        return own(claim, outcome);
      },
    });
    const { queue, add, ran } = queueOf({ store, concurrency: 2, work: () => result as typeof done });
    await add("a", "b", "c", "d", "e", "f");
    queue.start();
    await advance(SECOND);
    expect(ran.length).toBe(begun);
    recorded.open();
    await advance(SECOND);
    expect(ran.length).toBe(6);
  });

  test("is given up when the lease ends, and another attempt takes the event over", async () => {
    const broken = { settle: () => new Error("gone"), renew: () => new Error("gone") };
    const { queue, add, ran, observed, logged } = queueOf({ store: brokenStore(memoryStore(), broken) });
    await add("a");
    queue.start();
    await advance(29 * SECOND);
    expect(ran).toEqual(["a"]);
    await advance(3 * SECOND);
    expect(ran).toEqual(["a", "a"]);
    expect(observed).toEqual([]);
    expect(logged.join()).toMatch(/lease of event a \(booking:a\) was lost/);
  });
});

describe("an end that the store cannot record", () => {
  const transaction = (run: (tx: never) => unknown) => run(undefined as never);
  const memoryWith = (settles: (outcome: { state: string; writes?: unknown }) => boolean) =>
    alteredStore(memoryStore({ transaction }) as ReturnType<typeof memoryStore>, {
      settle: (own) => async (claim, outcome) => {
        if (!settles(outcome as never)) throw new Error("violates a deferred constraint");
        return own(claim, outcome);
      },
    });

  test("counts if its commit always fails while renewals work: the event is retried, then parked", async () => {
    const store = memoryWith(({ writes }) => writes === undefined);
    const { queue, add, ran, stateOf } = queueOf({
      store,
      concurrency: 2,
      maxAttempts: 2,
      backoff: () => SECOND,
      work: ({ eventId }) => (eventId === "good" ? done : ({ ...done, writes: [() => {}] } as never)),
    });
    await add("bad 1", "bad 2");
    queue.start();
    await advance(12 * SECOND);
    await add("good");
    await advance(12 * SECOND);
    expect(await stateOf("good")).toBe("done");
    expect(ran.filter((id) => id === "bad 1").length).toBe(2);
    expect(await store.get("bad 1")).toMatchObject({
      state: "parked",
      reason: "callback",
      attempts: 2,
      history: [{ error: "Error: violates a deferred constraint" }, {}],
    });
  });

  test("does not count while the store is down, even if its writes are to blame for nothing", async () => {
    let isDown = false;
    const store = alteredStore(
      memoryWith(() => !isDown),
      {
        renew: (own) => (claims, duration) =>
          isDown ? Promise.reject(new Error("down")) : own(claims, duration),
      },
    );
    const { queue, add, ran } = queueOf({ store, work: () => ({ ...done, writes: [() => {}] }) as never });
    await add("a");
    isDown = true;
    void queue.runNow("a", HOUR);
    await advance(5 * MINUTE);
    isDown = false;
    await advance(SECOND);
    expect(ran).toEqual(["a"]);
    expect(await store.get("a")).toMatchObject({
      state: "done",
      attempts: 1,
      history: [{ outcome: "done" }],
    });
  });

  test("counts without writes, too: the lease ends, and the event is parked after maxAttempts", async () => {
    const store = memoryWith(({ state }) => state !== "done");
    const { queue, add, ran } = queueOf({ store, maxAttempts: 2 });
    await add("a");
    queue.start();
    await advance(2 * MINUTE);
    expect(ran).toEqual(["a", "a"]);
    expect(await store.get("a")).toMatchObject({ state: "parked", history: [{ outcome: "lost" }, {}, {}] });
  });

  test("is given up after ten minutes, so that another attempt takes the event over", async () => {
    let isDown = true;
    const store = alteredStore(
      memoryWith(() => !isDown),
      { renew: () => () => Promise.reject(new Error("down")) },
    );
    const { queue, add, logged, stateOf } = queueOf({ store });
    await add("a");
    void queue.runNow("a", HOUR);
    await advance(10 * MINUTE);
    expect(logged.join()).not.toMatch(/will be handled again/);
    await advance(2 * SECOND);
    expect(logged.join()).toMatch(
      /did not record the result of event a\. .*will be handled again when its lease ends/,
    );
    isDown = false;
    await queue.drain({});
    expect(await stateOf("a")).toBe("done");
  });

  test("ends with the queue", async () => {
    let settles = 0;
    const store = memoryWith(() => {
      settles += 1;
      return false;
    });
    const { queue, add } = queueOf({ store });
    await add("a");
    queue.start();
    await advance(SECOND);
    const closing = queue.close(0);
    await advance(10 * SECOND);
    await closing;
    const before = settles;
    await advance(MINUTE);
    expect(settles).toBe(before);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("goes on if the user's writes take longer than a lease", async () => {
    const transactional = memoryStore({
      transaction: async (run: (tx: never) => unknown) => {
        await run(undefined as never);
        await new Promise((resolve) => setTimeout(resolve, MINUTE));
      },
    });
    const store = transactional as ReturnType<typeof memoryStore>;
    const { queue, add, kinds, ran } = queueOf({
      store,
      work: () => ({ ...done, writes: [() => {}] }) as never,
    });
    await add("a");
    queue.start();
    await advance(2 * MINUTE);
    expect([kinds(), ran]).toEqual([["done"], ["a"]]);
  });
});

describe("writes that go with the end of an event", () => {
  const transactional = (commit: (n: number) => void) => {
    const memory = memoryStore();
    let settles = 0;
    return new Proxy(memory, {
      get(target, property: keyof typeof memory) {
        if (property !== "settle") {
          const value = target[property];
          return typeof value === "function" ? (value as () => unknown).bind(target) : value;
        }
        return async (claim: never, outcome: { writes?: ((tx: never) => unknown)[] }) => {
          for (const write of outcome.writes ?? []) await write(undefined as never);
          settles += 1;
          commit(settles);
          return target.settle(claim, outcome as never);
        };
      },
    });
  };

  test("fail the attempt as callback if the store refuses them", async () => {
    const store = alteredStore(memoryStore(), {
      settle: (own) => async (claim, outcome) => {
        if (outcome.state === "done") throw new InvalidWriteError("a write returned a promise");
        return own(claim, outcome);
      },
    });
    const { queue, add } = queueOf({ store, work: () => ({ ...done, writes: [() => {}] }) as never });
    await add("a");
    queue.start();
    await advance(0);
    expect(await store.get("a")).toMatchObject({ state: "retrying", attempts: 1, reason: "callback" });
  });

  test("do not fail the attempt if they failed in a group but not alone", async () => {
    let runs = 0;
    const write = () => {
      runs += 1;
      if (runs === 1) throw new Error("conflict within the group");
    };
    let settles = 0;
    const store = alteredStore(memoryStore(), {
      settle: (own) => async (claim, outcome) => {
        const { writes = [] } = outcome as { writes?: ((tx: never) => unknown)[] };
        for (const _ of [1, 2]) {
          try {
            for (const one of writes) await one(undefined as never);
          } catch {
            // Like a real store, run this event again without its group.
          }
        }
        settles += 1;
        if (settles === 1) throw new Error("commit failed");
        return own(claim, outcome);
      },
    });
    const { queue, add, stateOf, ran } = queueOf({
      store,
      work: () => ({ ...done, writes: [write] }) as never,
    });
    await add("a");
    queue.start();
    await advance(SECOND);
    expect(await stateOf("a")).toBe("done");
    expect(ran).toEqual(["a"]);
  });

  test("run again if the commit fails, but the callback does not", async () => {
    const wrote: string[] = [];
    const store = transactional((n) => {
      if (n < 3) throw new Error("commit failed");
    });
    const writes = [() => void wrote.push("one"), async () => void wrote.push("two")];
    const { queue, add, ran, stateOf } = queueOf({ store, work: () => ({ ...done, writes }) as never });
    await add("a");
    queue.start();
    await advance(2 * SECOND);
    expect(await stateOf("a")).toBe("done");
    expect(wrote).toEqual(["one", "two", "one", "two", "one", "two"]);
    expect(ran).toEqual(["a"]);
  });

  test.each([
    [
      "throws",
      () => {
        throw new Error("constraint");
      },
    ],
    [
      "rejects",
      async () => {
        throw new Error("constraint");
      },
    ],
  ])("fail the attempt if one of them %s", async (_, write) => {
    const { queue, add, store } = queueOf({
      store: transactional(() => {}),
      work: () => ({ ...done, writes: [() => {}, write] }) as never,
    });
    await add("a");
    queue.start();
    await advance(0);
    expect(await store.get("a")).toMatchObject({
      state: "retrying",
      reason: "callback",
      type: "booking.Confirmed",
      history: [{ outcome: "retrying", error: "Error: constraint" }],
    });
  });

  test("are tried again under the lease if the store's connection is lost, and no attempt counts", async () => {
    let settles = 0;
    let wrote = 0;
    // Act like a driver that loses its connection: the user's write rejects, and then the store reports the loss.
    const store = alteredStore(memoryStore(), {
      settle: (own) => async (claim, outcome) => {
        settles += 1;
        if (settles < 3) connection.lost = true;
        try {
          for (const write of writesOf(outcome)) await write(undefined as never);
        } catch (cause) {
          connection.lost = false;
          throw new Error("the connection to the database was lost", { cause });
        }
        return own(claim, outcome);
      },
    });
    const connection = { lost: false };
    const write = async () => {
      if (connection.lost) throw new Error("Connection terminated unexpectedly");
      wrote += 1;
    };
    const { queue, add, ran, kinds } = queueOf({
      store,
      work: () => ({ ...done, writes: [write] }) as never,
    });
    await add("a");
    queue.start();
    await advance(2 * SECOND);
    expect(kinds()).toEqual(["done"]);
    expect([ran, wrote, settles]).toEqual([["a"], 1, 3]);
    expect(await store.get("a")).toMatchObject({ state: "done", attempts: 1 });
  });
});

describe("work that has ended", () => {
  test("leaves no timer behind", async () => {
    const { queue, add } = queueOf();
    await add("a");
    queue.start();
    await advance(0);
    await queue.close(0);
    // Only the timers of the renewal and the pruner are left. They do not keep the process alive, and end on their own.
    await advance(HOUR);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("an attempt that waits is not started a second time by any wake-up", async () => {
    const held = gate();
    const { queue, add, ran } = queueOf({ work: () => held.opened.then(() => done) });
    await add("a");
    queue.start();
    for (let n = 0; n < 20; n += 1) {
      queue.wake();
      await advance(5 * SECOND);
    }
    expect(ran).toEqual(["a"]);
    held.open();
  });
});

function throws(): never {
  throw new Error("in backoff");
}

describe("the history", () => {
  test("has each attempt with its reason, its error, its duration and its process", async () => {
    const { queue, add, store } = queueOf({
      backoff: () => SECOND,
      work: async ({ attempts }) => {
        await new Promise((resolve) => setTimeout(resolve, 30));
        return attempts === 1 ? callbackFailed : done;
      },
    });
    await add("a");
    queue.start();
    await advance(2 * SECOND);
    expect((await store.get("a"))?.history).toMatchObject([
      {
        outcome: "retrying",
        reason: "callback",
        error: "Error: callback failed",
        duration: 30,
        worker: "test:1",
      },
      { outcome: "done", duration: 30, worker: "test:1" },
    ]);
  });
});

describe("a wait", () => {
  test.each([1e300, Number.MAX_SAFE_INTEGER])("of %d ms is clamped to 5 years", async (wait) => {
    for (const result of [callbackFailed, outOfReach()]) {
      const told: number[] = [];
      const { queue, add, observed, store } = queueOf({
        work: () => result,
        backoff: () => wait,
        giveUpAfter: Number.MAX_VALUE,
        store: alteredStore(memoryStore(), {
          settle: (own) => (claim, outcome) => {
            if (outcome.state === "retrying") told.push(outcome.in);
            return own(claim, outcome);
          },
        }),
      });
      await add("a");
      await queue.drain({});
      expect(told).toEqual([1826 * DAY]);
      expect(observed).toMatchObject([{ kind: "failed", retryIn: 1826 * DAY }]);
      expect((await store.get("a"))?.dueAt?.getTime()).toBe(Date.now() + 1826 * DAY);
    }
  });

  test("is a minute at most for a record that failed during a pause", async () => {
    let down = true;
    const { queue, add, store } = queueOf({
      work: () => (down ? outOfReach() : done),
      backoff: () => HOUR,
    });
    await add(...Array.from({ length: 25 }, (_, n) => `e${n}`));
    queue.start();
    await advance(1.5 * HOUR);
    expect(queue.state).toBe("paused");
    down = false;
    await advance(2 * MINUTE);
    expect(await store.counts()).toMatchObject({ done: 25 });
  });

  test("keeps the platform's Retry-After during a pause", async () => {
    const { queue, add, store } = queueOf({ work: () => outOfReach(10 * MINUTE), backoff: () => HOUR });
    await add("a");
    await queue.drain({});
    expect((await store.get("a"))?.dueAt?.getTime()).toBe(Date.now() + 10 * MINUTE);
  });

  test("follows the record's own backoff if a single record is unreadable", async () => {
    const { queue, add, store } = queueOf({ work: () => outOfReach(), backoff: () => HOUR });
    await add("a");
    await queue.drain({});
    expect((await store.get("a"))?.dueAt?.getTime()).toBe(Date.now() + HOUR);
  });
});
