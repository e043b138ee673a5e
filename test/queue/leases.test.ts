import { describe, expect, test, vi } from "vitest";
import { memoryStore } from "../../src/stores/memory/index.ts";
import {
  advance,
  alteredStore,
  done,
  eventOf,
  failing,
  first,
  gate,
  HOUR,
  hanging,
  idsOf,
  jump,
  late,
  longWork,
  MINUTE,
  queueOf,
  SECOND,
  sleep,
  startedQueue,
  type TestWork,
  useFakeTime,
} from "./support.ts";

useFakeTime();

const unrenewed = { renew: failing() };

/** Makes a queue and handles the event "a" inline, because a loop would claim the event again. */
async function inlineQueue(options: Parameters<typeof queueOf>[0]) {
  const it = queueOf(options);
  await it.add("a");
  const run = it.queue.runNow(eventOf("a"), HOUR);
  return { ...it, run };
}

describe("a lease", () => {
  test("is renewed at a third of its time, so that no other process takes the event", async () => {
    const renewals: number[] = [];
    const { work, end, aborted } = longWork();
    const start = Date.now();
    const { store, stateOf } = await startedQueue(["a"], {
      work,
      alter: {
        renew: first(() => renewals.push(Math.round((Date.now() - start) / SECOND))),
      },
    });
    const second = await startedQueue([], { store });
    await advance(4 * MINUTE);
    expect(renewals.slice(0, 3)).toEqual([10, 20, 30]);
    expect([second.ran, aborted]).toEqual([[], []]);
    end();
    await advance(0);
    expect(await stateOf("a")).toBe("done");
  });

  test.each([
    { how: "fail now and then", renew: (calls: number) => failing(() => calls % 2 === 1) },
    { how: "are answered late", renew: () => late(() => sleep(8 * SECOND)) },
  ])("survives renewals that $how", async ({ renew }) => {
    let calls = 0;
    const { work, end, aborted } = longWork();
    const { ran, stateOf } = await startedQueue(["a"], {
      work,
      alter: {
        renew:
          (own) =>
          (...args) => {
            calls += 1;
            return renew(calls)(own)(...args);
          },
      },
    });
    await advance(4 * MINUTE);
    expect([ran, aborted]).toEqual([["a"], []]);
    end();
    await advance(0);
    expect(await stateOf("a")).toBe("done");
  });

  test("survives a renewal without an answer, which is sent again after a sixth of the lease", async () => {
    const sent: number[] = [];
    const { work, end, aborted } = longWork();
    const start = performance.now();
    const { logged } = await startedQueue(["a"], {
      work,
      alter: {
        renew: (own) => (claims, duration) => {
          sent.push(Math.round((performance.now() - start) / SECOND));
          return sent.length === 1 ? hanging()() : own(claims, duration);
        },
      },
    });
    await advance(MINUTE);
    expect(sent.slice(0, 3)).toEqual([10, 15, 25]);
    expect(logged.join()).toMatch(/did not renew leases within 5000 ms/);
    expect(aborted).toEqual([]);
    end();
  });

  test("aborts the signal in time although new attempts begin all the time", async () => {
    const others = idsOf(54);
    const { work, aborted } = longWork(...others);
    const { add } = await startedQueue(["a"], { work, alter: { renew: hanging } });
    for (const id of others) {
      expect(aborted).toEqual([]);
      await add(id);
      await advance(SECOND / 2);
    }
    expect(aborted.length).toBe(1);
  });

  test("is renewed a bounded number of times if no renewal is answered", async () => {
    const { work, aborted } = longWork();
    const { calls } = await inlineQueue({ work, alter: { renew: hanging } });
    await advance(5 * MINUTE);
    expect([aborted.length, calls.renew]).toEqual([1, 4]);
  });

  test("aborts the signal 3 s before its end if it cannot be renewed, and is released 3 s later", async () => {
    const settles: unknown[] = [];
    const { work, end, aborted } = longWork();
    const { observed } = await inlineQueue({
      work,
      alter: {
        ...unrenewed,
        settle: (own) => (claim, outcome) => {
          settles.push(outcome.state);
          return own(claim, outcome);
        },
      },
    });
    await advance(27 * SECOND - 1);
    expect(aborted).toEqual([]);
    await advance(1);
    expect(aborted).toMatchObject([{ name: "AbortError", message: expect.stringMatching(/lease/) }]);
    await advance(3 * SECOND);
    end();
    await advance(5 * SECOND);
    expect([settles, observed]).toEqual([["released"], []]);
  });

  test("frees its slot if it is lost while the callback cleans up", async () => {
    const { work } = longWork();
    const { run } = await inlineQueue({
      alter: { renew: () => async () => [] },
      work,
      attemptTimeout: 9 * SECOND,
    });
    const end = vi.fn();
    run.then(end);
    await advance(10 * SECOND - 1);
    expect(end).not.toHaveBeenCalled();
    await advance(1);
    expect(end).toHaveBeenCalled();
  });

  test.each([
    { what: "no lease", lease: [] },
    { what: "another lease of the same event", lease: ["of another attempt"] },
  ])("is lost if the store renews $what", async ({ lease: leases }) => {
    const { work, aborted } = longWork();
    await startedQueue(["a"], {
      work,
      alter: {
        renew:
          () =>
          async ([claim]) =>
            leases.map((lease) => ({ ...(claim as NonNullable<typeof claim>), lease })),
      },
    });
    await advance(10 * SECOND);
    expect(aborted.length).toBe(1);
  });

  test("is lost at each newer claim of its record, so that the attempts run one after another", async () => {
    let [running, most] = [0, 0];
    const { ran } = await startedQueue(["a"], {
      // The store says that it has renewed the leases, but it has not.
      alter: { renew: () => async (claims) => [...claims] },
      work: async (_, { signal }) => {
        running += 1;
        most = Math.max(most, running);
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        await sleep(SECOND);
        running -= 1;
        return done;
      },
    });
    await advance(3 * MINUTE);
    expect(ran.length).toBeGreaterThan(3);
    expect(most).toBe(1);
  });

  test("is not lost if it is renewed while its end is being recorded", async () => {
    const answer = gate();
    const { work, end } = longWork();
    const { kinds, logged } = await startedQueue(["a"], {
      work,
      alter: { settle: late(() => answer.opened) },
    });
    await advance(9 * SECOND);
    end();
    await advance(2 * SECOND); // the renewal does not find the event
    answer.open();
    await advance(0);
    expect([kinds(), logged]).toEqual([["done"], []]);
  });

  test("counts from before the claim was sent, not from when it came back", async () => {
    const { work, aborted } = longWork();
    await startedQueue(["a"], { work, alter: { ...unrenewed, claim: late(() => sleep(20 * SECOND)) } });
    await advance(26 * SECOND);
    expect(aborted).toEqual([]);
    await advance(2 * SECOND);
    expect(aborted.length).toBe(1);
  });

  test("counts from before the renewal was sent", async () => {
    let slow = 8 * SECOND;
    const { work, aborted } = longWork();
    await inlineQueue({
      work,
      leaseDuration: MINUTE,
      alter: {
        renew: late(() => {
          const wait = slow;
          slow = HOUR;
          return sleep(wait);
        }),
      },
    });
    // The renewal sent at 20 s extends the lease to 80 s. Later ones hang. The signal aborts 3 s before the end.
    await advance(77 * SECOND - 1);
    expect(aborted).toEqual([]);
    await advance(1);
    expect(aborted.length).toBe(1);
  });

  test("begins no attempt if it has expired when the claim returns, and another process has the event", async () => {
    const store = memoryStore();
    let isSlow = true;
    const claim = late(async () => {
      if (!isSlow) return;
      isSlow = false;
      await sleep(11 * SECOND);
      await store.claim({ limit: 1, leaseDuration: 10 * SECOND });
    });
    const { ran, kinds } = await startedQueue(["a"], { store, leaseDuration: 10 * SECOND, alter: { claim } });
    await advance(11 * SECOND);
    expect(ran).toEqual([]);
    await advance(11 * SECOND);
    expect([ran, kinds()]).toEqual([["a"], ["done"]]);
  });

  test.each([
    [30 * SECOND, 27 * SECOND],
    [6 * SECOND, 4 * SECOND],
  ])(
    "of %i ms leaves a callback that obeys its signal time before a successor begins",
    async (ms, aborts) => {
      const store = memoryStore();
      const log: string[] = [];
      const start = performance.now();
      const obedient: TestWork = (_, { signal, answered }) => {
        answered("record");
        return new Promise((_, reject) =>
          signal.addEventListener("abort", async () => {
            log.push(`aborted at ${Math.round(performance.now() - start)}`);
            await sleep(1500);
            log.push("cleaned up");
            reject(signal.reason);
          }),
        );
      };
      await inlineQueue({ store: alteredStore(store, unrenewed), leaseDuration: ms, work: obedient });
      await advance(0);
      await startedQueue([], {
        store,
        work: () => {
          log.push("successor");
          return done;
        },
      });
      await advance(MINUTE);
      expect(log).toEqual([`aborted at ${aborts}`, "cleaned up", "successor"]);
      // The event was released, so the attempt does not count.
      expect(await store.get("a")).toMatchObject({ state: "done", attempts: 1 });
    },
  );

  test("that is about to end still records a callback that returns in time", async () => {
    let reason: Error | undefined;
    const { stateOf, kinds } = await inlineQueue({
      alter: unrenewed,
      work: (_, { signal }) =>
        new Promise((resolve) =>
          signal.addEventListener("abort", () => {
            reason = signal.reason;
            setTimeout(resolve, SECOND, done);
          }),
        ),
    });
    await advance(30 * SECOND);
    expect([await stateOf("a"), kinds()]).toEqual(["done", ["done"]]);
    expect(reason?.message).toMatch(
      /Unless the callback succeeds within 3 s, the event will be handled again\.$/,
    );
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
  const alter = Object.fromEntries(names.map((name) => [name, throwing]));
  const { work, aborted, end } = longWork();
  const { queue, add, ran, store } = queueOf({ alter, work });
  broken = true;
  expect(() => queue.start()).toThrow("not even a promise");
  broken = false;
  await add("a");
  queue.start();
  await advance(SECOND);
  broken = true;
  queue.wake({ ref: null, eventId: "any" });
  await expect(queue.drain({})).rejects.toThrow("not even a promise");
  await expect(queue.runNow(eventOf("b"), performance.now() + SECOND)).rejects.toThrow("not even a promise");
  await advance(MINUTE);
  expect(aborted.length).toBe(1);
  broken = false;
  end();
  await add("b");
  await advance(MINUTE);
  expect(await store.counts()).toMatchObject({ done: 2 });
  expect([...new Set(ran)]).toEqual(["a", "b"]);
  await queue.close(0);
  vi.useRealTimers();
  await sleep(10);
  process.off("uncaughtException", note);
  process.off("unhandledRejection", note);
  expect(uncaught).toEqual([]);
});

describe("a clock that jumps by an hour", () => {
  /** Makes a queue that handles "a" until `end`, and logs its claims and renewals. */
  async function watched(answer: () => unknown = () => {}) {
    const log: string[] = [];
    const { work, end } = longWork("b");
    const it = await startedQueue(["a"], {
      work,
      alter: {
        claim: first(() => log.push("claim")),
        renew: (own) => async (claims, duration) => {
          log.push("renew");
          return late(answer)(own)(claims, duration);
        },
      },
    });
    return { ...it, log, end };
  }

  test("renews its leases before the next claim, which would take their events again", async () => {
    const { add, log, ran, end, kinds } = await watched();
    await advance(SECOND);
    log.length = 0;
    jump(HOUR);
    await add("b");
    await advance(SECOND);
    expect(log.slice(0, 2)).toEqual(["renew", "claim"]);
    expect(log.filter((call) => call === "renew").length).toBe(1);
    end();
    await advance(0);
    expect([ran, kinds()]).toEqual([
      ["a", "b"],
      ["done", "done"],
    ]);
  });

  test("does not trust a renewal that was sent before the jump", async () => {
    const answer = gate();
    const { add, log, ran } = await watched(() => answer.opened);
    await advance(10 * SECOND);
    expect(log.at(-1)).toBe("renew");
    log.length = 0;
    // Both clocks jump, as in a process that SIGSTOP has stopped.
    jump(HOUR);
    const now = performance.now.bind(performance);
    vi.spyOn(performance, "now").mockImplementation(() => now() + HOUR);
    await add("b");
    await advance(0);
    expect(log).toEqual([]);
    answer.open();
    await advance(0);
    expect(log.slice(0, 2)).toEqual(["renew", "claim"]);
    expect(ran).toEqual(["a", "b"]);
  });

  test("claims in spite of a store that does not renew", async () => {
    const { add, ran } = await watched(hanging());
    await advance(SECOND);
    jump(HOUR);
    await add("b");
    await advance(16 * SECOND);
    expect(ran).toContain("b");
  });
});
