import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { memoryStore } from "../../src/stores/memory/index.ts";
import {
  alteredStore,
  brokenStore,
  done,
  eventOf,
  gate,
  HOUR,
  MINUTE,
  queueOf,
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

/** Makes work that runs until the test ends it. It logs when it is aborted. */
function longWork() {
  const held = gate();
  const aborted: unknown[] = [];
  const work: TestWork = (_, { signal, answered }) => {
    answered();
    signal.addEventListener("abort", () => aborted.push(signal.reason));
    return held.opened.then(() => done);
  };
  return { work, aborted, end: () => held.open() };
}

describe("a lease", () => {
  test("is renewed while the attempt runs", async () => {
    const store = memoryStore();
    const { work, end, aborted } = longWork();
    const first = queueOf({ store, work });
    const second = queueOf({ store });
    await store.add(eventOf("a"));
    first.queue.start();
    await advance(0);
    second.queue.start();
    await advance(4 * MINUTE);
    expect(second.ran).toEqual([]);
    expect(aborted).toEqual([]);
    end();
    await advance(0);
    expect(await first.stateOf("a")).toBe("done");
  });

  test("is renewed at a third of its time", async () => {
    const renewals: number[] = [];
    const memory = memoryStore();
    const store = brokenStore(memory, {
      renew: () => {
        renewals.push(Date.now());
        return undefined as never;
      },
    });
    const { work, end } = longWork();
    const { queue, add } = queueOf({ store, work, leaseDuration: 30 * SECOND });
    await add("a");
    const start = Date.now();
    queue.start();
    await advance(31 * SECOND);
    expect(renewals.map((at) => Math.round((at - start) / SECOND))).toEqual([10, 20, 30]);
    end();
  });

  test("survives renewals that fail now and then", async () => {
    let calls = 0;
    const store = brokenStore(memoryStore(), {
      renew: () => (calls++ % 2 === 0 ? new Error("blip") : (undefined as never)),
    });
    const { work, end, aborted } = longWork();
    const { queue, add, ran, stateOf } = queueOf({ store, work });
    await add("a");
    queue.start();
    await advance(4 * MINUTE);
    expect(ran).toEqual(["a"]);
    expect(aborted).toEqual([]);
    end();
    await advance(0);
    expect(await stateOf("a")).toBe("done");
  });

  test("aborts the signal 3 s before its end if it cannot be renewed, and is released 3 s later", async () => {
    const settles: unknown[] = [];
    const store = alteredStore(memoryStore(), {
      renew: () => () => Promise.reject(new Error("cut off from the store")),
      settle: (own) => (claim, outcome) => {
        settles.push(outcome.state);
        return own(claim, outcome);
      },
    });
    const { work, end, aborted } = longWork();
    const { queue, add, observed } = queueOf({ store, work });
    await add("a");
    // Do not start the loop, because it would claim the event itself.
    void queue.runNow("a", HOUR);
    await advance(27 * SECOND - 1);
    expect(aborted).toEqual([]);
    await advance(1);
    expect(aborted).toMatchObject([{ name: "AbortError", message: expect.stringMatching(/lease/) }]);
    await advance(3 * SECOND);
    end();
    await advance(5 * SECOND);
    expect(settles).toEqual(["released"]);
    expect(observed).toEqual([]);
  });

  test("frees its slot if it is lost while the callback cleans up", async () => {
    const store = brokenStore(memoryStore(), { renew: () => new Error("cut off from the store") });
    const { work } = longWork();
    const { queue, add } = queueOf({ store, work, attemptTimeout: 29 * SECOND });
    await add("a");
    const end = vi.fn();
    void queue.runNow("a", HOUR).then(end);
    await advance(30 * SECOND - 1);
    expect(end).not.toHaveBeenCalled();
    await advance(1);
    expect(end).toHaveBeenCalled();
  });

  test("is lost at the next renewal if another process has taken it", async () => {
    const memory = memoryStore();
    const { work, aborted, end } = longWork();
    const stolen = new Proxy(memory, {
      get: (target, property: keyof typeof memory) => {
        if (property === "renew") return async () => [];
        const value = target[property];
        return typeof value === "function" ? (value as () => unknown).bind(target) : value;
      },
    });
    const { queue, add } = queueOf({ store: stolen, work });
    await add("a");
    queue.start();
    await advance(10 * SECOND);
    expect(aborted.length).toBe(1);
    end();
  });

  test("is lost if the store renews another lease of the same event", async () => {
    const store = alteredStore(memoryStore(), {
      renew: () => async (claims) => claims.map((claim) => ({ ...claim, lease: "of another attempt" })),
    });
    const { work, aborted, end } = longWork();
    const { queue, add } = queueOf({ store, work });
    await add("a");
    queue.start();
    await advance(10 * SECOND);
    expect(aborted.length).toBe(1);
    end();
  });

  test("is not lost if it is renewed while its end is being recorded", async () => {
    const answer = gate();
    const store = alteredStore(memoryStore(), {
      settle: (own) => async (claim, outcome) => {
        const settled = await own(claim, outcome);
        await answer.opened;
        return settled;
      },
    });
    const { work, end } = longWork();
    const { queue, add, kinds, logged } = queueOf({ store, work, leaseDuration: 30 * SECOND });
    await add("a");
    queue.start();
    await advance(9 * SECOND);
    end();
    await advance(2 * SECOND); // the renewal does not find the event
    answer.open();
    await advance(0);
    expect(kinds()).toEqual(["done"]);
    expect(logged).toEqual([]);
  });

  test("counts from before the claim was sent, not from when it came back", async () => {
    const memory = memoryStore();
    const slow = new Proxy(memory, {
      get: (target, property: keyof typeof memory) => {
        if (property === "renew") return () => Promise.reject(new Error("down"));
        if (property === "claim") {
          return async (options: never) => {
            const claims = await target.claim(options);
            await new Promise((resolve) => setTimeout(resolve, 20 * SECOND));
            return claims;
          };
        }
        const value = target[property];
        return typeof value === "function" ? (value as () => unknown).bind(target) : value;
      },
    });
    const { work, aborted, end } = longWork();
    const { queue, add } = queueOf({ store: slow, work });
    await add("a");
    queue.start();
    await advance(26 * SECOND);
    expect(aborted).toEqual([]);
    await advance(2 * SECOND);
    expect(aborted.length).toBe(1);
    end();
  });

  test("begins no attempt if it has expired when the claim returns", async () => {
    let wait = 31 * SECOND;
    const store = alteredStore(memoryStore(), {
      claim: (own) => async (options) => {
        const claims = await own(options);
        await new Promise((resolve) => setTimeout(resolve, wait));
        wait = 0;
        return claims;
      },
    });
    const { queue, add, ran, logged, kinds } = queueOf({ store, leaseDuration: 30 * SECOND });
    await add("a");
    queue.start();
    await advance(31 * SECOND);
    expect(logged).toEqual([]);
    await advance(SECOND);
    expect(ran).toEqual(["a"]);
    expect(kinds()).toEqual(["done"]);
  });

  test("counts from before the renewal was sent", async () => {
    let slow = 8 * SECOND;
    const store = alteredStore(memoryStore(), {
      renew: (own) => async (claims, duration) => {
        const renewed = await own(claims, duration);
        const wait = slow;
        slow = HOUR;
        await new Promise((resolve) => setTimeout(resolve, wait));
        return renewed;
      },
    });
    const { work, aborted, end } = longWork();
    const { queue, add } = queueOf({ store, work, leaseDuration: 60 * SECOND });
    await add("a");
    void queue.runNow("a", HOUR);
    // The renewal sent at 20 s extends the lease to 80 s. Later ones hang. The signal aborts 3 s before the end.
    await advance(77 * SECOND - 1);
    expect(aborted).toEqual([]);
    await advance(1);
    expect(aborted.length).toBe(1);
    end();
  });

  test("survives a renewal without an answer, which is sent again after a sixth of the lease", async () => {
    const sent: number[] = [];
    const store = alteredStore(memoryStore(), {
      renew: (own) => (claims, duration) => {
        sent.push(performance.now());
        return sent.length === 1 ? new Promise(() => {}) : own(claims, duration);
      },
    });
    const { work, aborted, end } = longWork();
    const { queue, add, stateOf, logged } = queueOf({ store, work });
    await add("a");
    const start = performance.now();
    queue.start();
    await advance(MINUTE);
    expect(sent.slice(0, 3).map((at) => Math.round((at - start) / SECOND))).toEqual([10, 15, 25]);
    expect(logged.join()).toMatch(/did not renew leases within 5000 ms/);
    expect(aborted).toEqual([]);
    end();
    await advance(0);
    expect(await stateOf("a")).toBe("done");
  });

  test("is held by a renewal that is answered late", async () => {
    const store = alteredStore(memoryStore(), {
      renew: (own) => async (claims, duration) => {
        const renewed = await own(claims, duration);
        await new Promise((resolve) => setTimeout(resolve, 8 * SECOND));
        return renewed;
      },
    });
    const { work, aborted, end } = longWork();
    const { queue, add } = queueOf({ store, work });
    await add("a");
    queue.start();
    await advance(4 * MINUTE);
    expect(aborted).toEqual([]);
    end();
  });

  test("is renewed a bounded number of times if no renewal is answered", async () => {
    let renewals = 0;
    const store = alteredStore(memoryStore(), {
      renew: () => () => {
        renewals += 1;
        return new Promise(() => {});
      },
    });
    const { work, aborted, end } = longWork();
    const { queue, add } = queueOf({ store, work });
    await add("a");
    void queue.runNow("a", HOUR);
    await advance(5 * MINUTE);
    expect(aborted.length).toBe(1);
    expect(renewals).toBe(4);
    end();
  });

  test.each([
    [30 * SECOND, 27 * SECOND],
    [6 * SECOND, 4 * SECOND],
  ])(
    "of %i ms leaves a callback that obeys its signal the time to end before a successor begins",
    async (leaseDuration, aborts) => {
      const store = memoryStore();
      const log: string[] = [];
      const renewless = brokenStore(store, { renew: () => new Error("cut off from the store") });
      const first = queueOf({
        store: renewless,
        leaseDuration,
        work: (_, { signal, answered }) => {
          answered();
          return new Promise((_, reject) =>
            signal.addEventListener("abort", () => {
              log.push(`aborted at ${Math.round(performance.now() - start)}`);
              setTimeout(() => {
                log.push("cleaned up");
                reject(signal.reason);
              }, 1500);
            }),
          );
        },
      });
      const second = queueOf({
        store,
        work: () => {
          log.push("successor");
          return done;
        },
      });
      await first.add("a");
      const start = performance.now();
      void first.queue.runNow("a", HOUR);
      await advance(0);
      second.queue.start();
      await advance(MINUTE);
      expect(log).toEqual([`aborted at ${aborts}`, "cleaned up", "successor"]);
      // The event was released, so the attempt does not count.
      expect(await store.get("a")).toMatchObject({ state: "done", attempts: 1 });
      await second.queue.close(0);
    },
  );

  test("that is about to end still records a callback that returns in time", async () => {
    const store = brokenStore(memoryStore(), { renew: () => new Error("cut off from the store") });
    const { queue, add, stateOf, kinds } = queueOf({
      store,
      work: (_, { signal }) =>
        new Promise((resolve) => signal.addEventListener("abort", () => setTimeout(resolve, SECOND, done))),
    });
    await add("a");
    void queue.runNow("a", HOUR);
    await advance(30 * SECOND);
    expect(await stateOf("a")).toBe("done");
    expect(kinds()).toEqual(["done"]);
  });
});

test("a store whose methods throw instead of rejecting stops neither the process nor the queue", async () => {
  const uncaught: unknown[] = [];
  const note = (error: unknown) => uncaught.push(error);
  process.on("uncaughtException", note);
  process.on("unhandledRejection", note);
  let broken = false;
  const throwing =
    <A extends unknown[], R>(own: (...args: A) => R) =>
    (...args: A): R => {
      if (broken) throw new Error("not even a promise");
      return own(...args);
    };
  const names = ["claim", "renew", "settle", "nextDue", "get", "prune", "subscribe"] as const;
  const store = alteredStore(memoryStore(), Object.fromEntries(names.map((name) => [name, throwing])));
  const { work, aborted, end } = longWork();
  const { queue, add, ran, store: told } = queueOf({ store, work });
  broken = true;
  expect(() => queue.start()).toThrow("not even a promise");
  broken = false;
  await add("a");
  queue.start();
  await advance(SECOND);
  broken = true;
  queue.wake();
  await expect(queue.drain({})).rejects.toThrow("not even a promise");
  await expect(queue.runNow("b", performance.now() + SECOND)).rejects.toThrow("not even a promise");
  await advance(HOUR / 60);
  expect(aborted.length).toBe(1);
  broken = false;
  end();
  await add("b");
  await advance(MINUTE);
  expect(await told.counts()).toMatchObject({ done: 2 });
  expect([...new Set(ran)]).toEqual(["a", "b"]);
  await queue.close(0);
  vi.useRealTimers();
  await new Promise((resolve) => setTimeout(resolve, 10));
  process.off("uncaughtException", note);
  process.off("unhandledRejection", note);
  expect(uncaught).toEqual([]);
});

describe("a store's clock that steps", () => {
  /** Makes a memory store whose clock can step ahead of the process's clock. */
  function stepped() {
    const store = memoryStore();
    const clock = Date.now;
    return {
      store,
      step: (ms: number) => vi.spyOn(Date, "now").mockImplementation(() => clock() + ms),
    };
  }
  afterEach(() => {
    vi.restoreAllMocks();
  });

  test("by an hour forward does not run a record again that its process handles", async () => {
    const { store, step } = stepped();
    const running = new Set<string>();
    const overlaps: string[] = [];
    const { queue, add, ran, stateOf } = queueOf({
      store,
      work: async ({ eventId }) => {
        if (running.has(eventId)) overlaps.push(eventId);
        running.add(eventId);
        await new Promise((resolve) => setTimeout(resolve, 5 * SECOND));
        running.delete(eventId);
        return done;
      },
    });
    await add("a");
    queue.start();
    await advance(SECOND);
    step(HOUR);
    // The new event wakes the loop. Without a renewal, its claim would take "a" again.
    await add("b");
    await advance(MINUTE);
    expect(overlaps).toEqual([]);
    expect(ran).toEqual(["a", "b"]);
    expect(await stateOf("a")).toBe("done");
  });
});
