import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { memoryStore } from "../../src/stores/memory.ts";
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

/** Work that goes on until the test ends it, and tells when it is aborted. */
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
  test("is renewed while the attempt runs, so that nobody takes the event over", async () => {
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

  test("not renewed by its end is lost: the signal aborts, and nothing more is recorded", async () => {
    const settles: unknown[] = [];
    const store = brokenStore(memoryStore(), {
      renew: () => new Error("cut off from the store"),
      settle: () => {
        settles.push("settle");
        return undefined as never;
      },
    });
    const { work, end, aborted } = longWork();
    const { queue, add, observed } = queueOf({ store, work });
    await add("a");
    // No loop, which would take the event over itself.
    void queue.runNow("a", HOUR);
    await advance(30 * SECOND - 1);
    expect(aborted).toEqual([]);
    await advance(1);
    expect(aborted).toMatchObject([{ name: "AbortError", message: expect.stringMatching(/lease/) }]);
    end();
    await advance(5 * SECOND);
    expect(settles).toEqual([]);
    expect(observed).toEqual([]);
  });

  test("lost while what was cut off cleans up: there is no lock left to keep, and its slot is free", async () => {
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

  test("taken by another is lost at the next renewal", async () => {
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

  test("renewed while its end is being recorded is not taken for lost", async () => {
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
    await advance(2 * SECOND); // a renewal, which finds it no more
    answer.open();
    await advance(0);
    expect(kinds()).toEqual(["done"]);
    expect(logged).toEqual([]);
  });

  test("whose end cannot be recorded by its own is lost", async () => {
    const store = alteredStore(memoryStore(), {
      settle: () => () => new Promise(() => {}),
      renew: () => async () => [],
    });
    const { work, end } = longWork();
    const { queue, add, kinds, logged } = queueOf({ store, work, leaseDuration: 30 * SECOND });
    await add("a");
    queue.start();
    await advance(9 * SECOND);
    end();
    await advance(20 * SECOND);
    expect(logged).toEqual([]);
    await advance(2 * SECOND);
    expect(kinds()).toEqual([]);
    expect(logged).toMatchObject([expect.stringContaining("was lost before its end could be recorded")]);
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
    await advance(29 * SECOND);
    expect(aborted).toEqual([]);
    await advance(2 * SECOND);
    expect(aborted.length).toBe(1);
    end();
  });

  test("that has ended when the claim comes back is not begun with", async () => {
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
    expect(logged).toMatchObject([expect.stringContaining("was lost before its end could be recorded")]);
    await advance(SECOND);
    expect(ran).toEqual(["a"]);
    expect(kinds()).toEqual(["done"]);
  });

  test("that was renewed counts from before the renewal was sent", async () => {
    let slow = 25 * SECOND;
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
    // Renewed at 20 s, answered at 45 s: it ends at 80 s, as the next renewal hangs.
    await advance(79 * SECOND);
    expect(aborted).toEqual([]);
    await advance(SECOND);
    expect(aborted.length).toBe(1);
    end();
  });

  test("that ended while the process stood still is lost, though the callback has returned", async () => {
    const store = memoryStore();
    const held = gate();
    const { queue, add, stateOf, observed } = queueOf({ store, work: () => held.opened.then(() => done) });
    await add("a");
    void queue.runNow("a", HOUR);
    await advance(0);
    // The clock goes on, no timer runs: as after SIGSTOP.
    vi.setSystemTime(Date.now() + MINUTE);
    const real = performance.now.bind(performance);
    const frozen = vi.spyOn(performance, "now").mockImplementation(() => real() + MINUTE);
    held.open();
    for (let n = 0; n < 20; n += 1) await Promise.resolve();
    expect(await stateOf("a")).toBe("processing");
    expect(observed).toEqual([]);
    frozen.mockRestore();
  });

  test("a renewal that hangs is not sent again and again", async () => {
    const memory = memoryStore();
    let renewals = 0;
    const hanging = new Proxy(memory, {
      get: (target, property: keyof typeof memory) => {
        if (property === "renew") {
          return () => {
            renewals += 1;
            return new Promise(() => {});
          };
        }
        const value = target[property];
        return typeof value === "function" ? (value as () => unknown).bind(target) : value;
      },
    });
    const { work, aborted, end } = longWork();
    const { queue, add } = queueOf({ store: hanging, work });
    await add("a");
    queue.start();
    await advance(30 * SECOND);
    expect(aborted.length).toBe(1);
    expect(renewals).toBe(1);
    end();
  });
});
