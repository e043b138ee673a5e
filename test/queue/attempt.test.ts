import { describe, expect, test, vi } from "vitest";
import { InvalidWriteError, StayhookError } from "../../src/errors.ts";
import type { WorkResult } from "../../src/queue/work.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { lazyQuery } from "../support/lazy-query.ts";
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
  hanging,
  late,
  longWork,
  MINUTE,
  never,
  outOfReach,
  queueOf,
  SECOND,
  sleep,
  startedQueue,
  type TestWork,
  useFakeTime,
} from "./support.ts";

useFakeTime();

/** Matches a recorded error, whose frames follow in lines below. */
const startingWith = (text: string) => expect.stringMatching(new RegExp(`^${text}\\n {4}at `));
const withWrites = (...writes: ((tx: never) => unknown)[]) => ({ ...done, writes }) as never;
/** Makes a lazy query whose `then` returns nothing. */
const thenOf = (run: (resolve: () => void, reject: (error: unknown) => void) => void) =>
  // biome-ignore lint/suspicious/noThenProperty: the test is about thenables
  ({ then: run }) as unknown as PromiseLike<void>;
/** Runs the writes of an outcome, like a store with transactions. */
const runWrites = async (outcome: unknown) => {
  for (const write of (outcome as { writes?: ((tx: never) => unknown)[] }).writes ?? [])
    await write(undefined as never);
};

describe("a failed callback", () => {
  test("is retried on the documented schedule and parked after twelve attempts", async () => {
    const at: number[] = [];
    const { store } = await startedQueue(["a"], {
      work: () => {
        at.push(Date.now());
        return callbackFailed;
      },
    });
    await advance(25 * HOUR);
    const schedule = [5, 30, 120, 600, 1800, 3600, 7200, 10_800, 18_000, 21_600, 21_600];
    const parts = schedule.map((s, n) => ((at[n + 1] as number) - (at[n] as number)) / (s * SECOND));
    expect(at.length).toBe(12);
    expect(Math.min(...parts)).toBeGreaterThanOrEqual(0.75);
    expect(Math.max(...parts)).toBeLessThanOrEqual(1.01);
    expect(new Set(parts).size).toBeGreaterThan(3);
    const event = await store.get("a");
    expect(event).toMatchObject({ state: "parked", reason: "callback", attempts: 12 });
    expect(event?.history.at(-1)?.error).toMatch(/^Error: callback failed\n/);
  });

  test("is observed after each attempt with the wait, and at last as parked", async () => {
    const { observed } = await startedQueue(["a"], {
      work: () => callbackFailed,
      maxAttempts: 2,
      backoff: () => 7000,
    });
    await advance(10 * SECOND);
    const about = { eventId: "a", ref: "booking:a", reason: "callback" };
    expect(observed).toMatchObject([
      { kind: "failed", ...about, attempt: 1, retryIn: 7000 },
      { kind: "parked", ...about, attempt: 2 },
    ]);
  });

  test("does not delay later events of its record", async () => {
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

test.each<[what: string, result: WorkResult<never>, backoff: number, wait: number]>([
  ["follows the backoff if one record is unreadable", outOfReach(), 20 * SECOND, 20 * SECOND],
  ["is 40 s at most while no record gets an answer", outOfReach(), HOUR, 40 * SECOND],
  ["is Retry-After if it is longer", outOfReach(10 * MINUTE), SECOND, 10 * MINUTE],
  ["is that of the next try in a pause", outOfReach(1), HOUR, SECOND],
  ["is 15 minutes at most if Retry-After is a day", outOfReach(DAY), 1, 15 * MINUTE],
  ["is 5 years at most after a failure", callbackFailed, 1e300, 1826 * DAY],
])("the wait %s", async (_, result, backoff, wait) => {
  const { queue, add, store, observed } = queueOf({
    work: () => result,
    backoff: () => backoff,
    giveUpAfter: Number.MAX_VALUE,
  });
  await add("a");
  await queue.drain({});
  expect((await store.get("a"))?.dueAt?.getTime()).toBe(Date.now() + wait);
  expect(observed.at(-1)).toMatchObject({ kind: "failed", retryIn: wait });
});

test("an unreachable record is delayed alone, and a new notification of the record is due at once", async () => {
  let down = true;
  const { store, ran, add } = await startedQueue(["good"], {
    work: ({ ref }) => (down && ref === "booking:bad" ? outOfReach() : done),
    backoff: () => HOUR,
  });
  await add("bad");
  await advance(0);
  expect(ran).toEqual(["good", "bad"]);
  down = false;
  await advance(SECOND);
  expect(ran.length).toBe(2);
  await store.add(eventOf("second", "booking:bad"));
  await advance(0);
  expect(ran.slice(2)).toEqual(["second"]);
  expect(await store.counts()).toMatchObject({ done: 2, retrying: 1 });
});

describe("the attempt's time", () => {
  test("ends after attemptTimeout: the signal aborts, and the attempt fails 3 s later", async () => {
    const signals: AbortSignal[] = [];
    const { queue, store, add, ran } = queueOf({
      attemptTimeout: 10 * SECOND,
      backoff: () => 0,
      work: ({ eventId }, { signal, answered }) => {
        answered("record");
        if (eventId !== "hangs" || signals.length > 0) return done;
        signals.push(signal);
        return never();
      },
    });
    await store.add(eventOf("hangs", "booking:x"));
    await store.add(eventOf("next", "booking:x"));
    queue.start();
    await advance(10 * SECOND - 1);
    expect(signals[0]?.aborted).toBe(false);
    await advance(1);
    expect(signals[0]?.reason).toMatchObject({ name: "TimeoutError" });
    await add("other");
    await advance(2900);
    expect(ran).toEqual(["hangs", "other"]);
    await advance(100);
    expect(ran).toEqual(["hangs", "other", "next", "hangs"]);
  });

  const obedient: TestWork = (_, { signal, answered }) => {
    answered("record");
    return new Promise((resolve) => signal.addEventListener("abort", () => resolve(done)));
  };
  const inCallback: TestWork = (_, { calling }) => {
    calling();
    return never();
  };
  test.each<[what: string, work: TestWork, ref: string | null, after: number, attempts: number]>([
    ["counts at once if the callback ends at its signal", obedient, "booking:a", 1, 1],
    ["is an outage if the platform has not answered", never, "booking:a", 4, 0],
    ["counts without a record, which needs no platform", inCallback, null, 4, 1],
    ["counts if the callback got a record that was read before", inCallback, "booking:a", 4, 1],
  ])("that is over %s", async (_, work, ref, after, attempts) => {
    const { queue, store, observed } = queueOf({ attemptTimeout: SECOND, work });
    await store.add(eventOf("a", ref));
    queue.start();
    await advance(after * SECOND);
    const reason = attempts === 1 ? "callback" : "unavailable";
    expect(await store.get("a")).toMatchObject({ state: "retrying", attempts, reason });
    expect(observed).toMatchObject([{ kind: "failed", reason }]);
    expect(String((observed[0] as { error: unknown }).error)).toMatch(/took longer than 1000 ms/);
  });
});

test("an event that ends its process each time is parked after maxAttempts, without another attempt", async () => {
  const { queue, ran, store, add } = queueOf({ maxAttempts: 3 });
  await add("deadly");
  for (let n = 0; n < 3; n += 1) {
    await store.claim({ limit: 1, leaseDuration: SECOND });
    await advance(SECOND);
  }
  await queue.drain({});
  expect(ran).toEqual([]);
  const error = expect.stringMatching(/process ended during attempt 3.*process\.exit\(\)/);
  expect(await store.get("deadly")).toMatchObject({
    state: "parked",
    reason: "callback",
    history: [{}, {}, {}, { error }],
  });
});

test("an event that has had more attempts than a lowered maxAttempts is parked and says so", async () => {
  const store = memoryStore();
  const before = queueOf({ store, work: () => callbackFailed, backoff: () => 0 });
  await before.add("a");
  for (let n = 0; n < 5; n += 1) await before.queue.drain({});
  const { queue, ran } = queueOf({ store, maxAttempts: 3 });
  await queue.drain({});
  expect(ran).toEqual([]);
  const error = expect.stringMatching(/has had 5 attempts, and maxAttempts is 3 now\. Replay the event/);
  const event = await store.get("a");
  expect(event).toMatchObject({ state: "parked", reason: "callback" });
  expect(event?.history.at(-1)?.error).toEqual(error);
});

test("the history has each attempt with its reason, its error, its duration and its process", async () => {
  const { store } = await startedQueue(["a"], {
    backoff: () => SECOND,
    work: async ({ attempts }) => {
      await sleep(30);
      return attempts === 1 ? callbackFailed : done;
    },
  });
  await advance(2 * SECOND);
  const about = { duration: 30, worker: "test:1" };
  expect((await store.get("a"))?.history).toMatchObject([
    { outcome: "retrying", reason: "callback", error: startingWith("Error: callback failed"), ...about },
    { outcome: "done", ...about },
  ]);
});

test.each<{ name: string; early: number; replayed?: boolean; startsAfter: number }>([
  { name: "waits for its time if the store's clock is a little ahead", early: 300, startsAfter: 300 },
  { name: "waits a second at most", early: 1000, startsAfter: 1000 },
  { name: "does not wait if the clocks differ by more", early: 1001, startsAfter: 0 },
  { name: "does not wait if it was replayed", early: 300, replayed: true, startsAfter: 0 },
  { name: "does not wait after its time", early: -5, startsAfter: 0 },
])("an attempt at a timer $name", async ({ early, replayed = false, startsAfter }) => {
  const at = Date.now() + early;
  const { ran } = await startedQueue(["a"], {
    alter: {
      claim: (own) => async (options) =>
        (await own(options)).map((claim) => ({
          ...claim,
          ...{ source: "timer", timestamp: new Date(at).toISOString(), replayed },
        })),
    },
  });
  if (startsAfter > 0) await advance(startsAfter - 1);
  expect(ran).toEqual(startsAfter > 0 ? [] : ["a"]);
  await advance(1);
  expect(ran).toEqual(["a"]);
});

describe("the end of an attempt", () => {
  test("is recorded again while the lease holds if the store fails, without another callback", async () => {
    let failures = 3;
    const { ran, stateOf, logged } = await startedQueue(["a"], {
      alter: { settle: failing(() => failures-- > 0, "disk full") },
    });
    await advance(5 * SECOND);
    expect(await stateOf("a")).toBe("done");
    expect(ran).toEqual(["a"]);
    expect(logged.join()).toMatch(/disk full/);
  });

  test.each([
    { result: done, maxAttempts: 12 },
    { result: callbackFailed, maxAttempts: 12 },
    { result: callbackFailed, maxAttempts: 1 },
  ])("$result.state is not observed if the lease is lost (maxAttempts $maxAttempts)", async (row) => {
    const { queue, add, observed, logged } = queueOf({
      alter: { settle: () => async () => false },
      maxAttempts: row.maxAttempts,
      work: () => row.result,
    });
    await add("a");
    await queue.drain({});
    expect(observed).toEqual([]);
    expect(logged.join()).toMatch(/was lost/);
  });

  test("frees its slot when the lease ends if the store never answers", async () => {
    let hangs = true;
    const { ran, stateOf, logged } = await startedQueue(["a", "b", "c"], {
      alter: { settle: (own) => (claim, outcome) => (hangs ? never() : own(claim, outcome)), renew: hanging },
      concurrency: 1,
    });
    await advance(29 * SECOND);
    // There is only one slot, but the queue begins "b" while it records the outcome of "a".
    expect(ran).toEqual(["a", "b"]);
    hangs = false;
    await advance(12 * SECOND);
    expect(await stateOf("c")).toBe("done");
    expect(logged.join()).toMatch(/did not record the result of event a\..*did not answer within 30000 ms/);
  });

  test("without an answer of the store at close does not say that the event will be handled again", async () => {
    const { queue, ran, stateOf, logged } = await startedQueue(["a"], {
      alter: {
        settle: (own) => async (claim, outcome) => {
          await own(claim, outcome);
          throw new Error("the answer is lost");
        },
      },
    });
    await advance(SECOND);
    const closing = queue.close(0);
    await advance(10 * SECOND);
    await closing;
    expect([await stateOf("a"), ran]).toEqual(["done", ["a"]]);
    const [line] = logged.filter((each) => String(each).includes("did not confirm"));
    expect(String(line)).toContain("If it did not, the event is handled again when its lease ends");
  });

  test.each<{ name: string; result: WorkResult<never>; begun: number }>([
    { name: "is recorded while the next events run, at most one for each slot", result: done, begun: 4 },
    { name: "keeps its slot if it includes the user's writes", result: withWrites(() => {}), begun: 2 },
    { name: "keeps its slot after a failure", result: callbackFailed, begun: 2 },
  ])("$name", async ({ result, begun }) => {
    const recorded = gate();
    const { ran } = await startedQueue(["a", "b", "c", "d", "e", "f"], {
      alter: {
        settle: first(() => recorded.opened),
      },
      concurrency: 2,
      work: () => result,
    });
    await advance(SECOND);
    expect(ran.length).toBe(begun);
    recorded.open();
    await advance(SECOND);
    expect(ran.length).toBe(6);
  });

  test("that the store cannot record stops with the queue", async () => {
    const { queue, calls } = await startedQueue(["a"], { alter: { settle: failing() } });
    await advance(SECOND);
    const closing = queue.close(0);
    await advance(10 * SECOND);
    await closing;
    const before = calls.settle;
    await advance(MINUTE);
    expect(calls.settle).toBe(before);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("writes that go with the end of an event", () => {
  test("count as failed if their commit always fails", async () => {
    const { ran, stateOf, store, add } = await startedQueue(["bad 1", "bad 2"], {
      alter: {
        settle: first(async (_claim, outcome) => {
          await runWrites(outcome);
          if ("writes" in outcome && outcome.writes) throw new Error("violates a deferred constraint");
        }),
      },
      concurrency: 2,
      maxAttempts: 2,
      backoff: () => SECOND,
      work: ({ eventId }) => (eventId === "good" ? done : withWrites(() => {})),
    });
    await advance(12 * SECOND);
    await add("good");
    await advance(12 * SECOND);
    expect(await stateOf("good")).toBe("done");
    expect(ran.filter((id) => id === "bad 1").length).toBe(2);
    expect(await store.get("bad 1")).toMatchObject({
      ...{ state: "parked", reason: "callback", attempts: 2 },
      history: [{ error: startingWith("Error: violates a deferred constraint") }, {}],
    });
  });

  test("do not count while the store is down", async () => {
    let isDown = true;
    const down = failing(() => isDown);
    const { queue, add, ran, store } = queueOf({
      alter: { settle: down, renew: down },
      work: () => withWrites(() => {}),
    });
    await add("a");
    void queue.runNow(eventOf("a"), HOUR);
    await advance(5 * MINUTE);
    isDown = false;
    await advance(6 * SECOND);
    expect(ran).toEqual(["a"]);
    expect(await store.get("a")).toMatchObject({
      state: "done",
      attempts: 1,
      history: [{ outcome: "done" }],
    });
  });

  test("may take longer than a lease", async () => {
    const { kinds, ran } = await startedQueue(["a"], {
      store: memoryStore({
        transaction: async (run: (tx: never) => unknown) => {
          await run(undefined as never);
          await sleep(MINUTE);
        },
      }) as never,
      work: () => withWrites(() => {}),
    });
    await advance(2 * MINUTE);
    expect([kinds(), ran]).toEqual([["done"], ["a"]]);
  });

  test("run again if the commit fails, but the callback does not", async () => {
    const wrote: string[] = [];
    let commits = 0;
    const { ran, stateOf } = await startedQueue(["a"], {
      alter: {
        settle: first(async (_claim, outcome) => {
          await runWrites(outcome);
          commits += 1;
          if (commits < 2) throw new Error("commit failed");
        }),
      },
      work: () =>
        withWrites(
          () => wrote.push("one"),
          async () => wrote.push("two"),
        ),
    });
    await advance(2 * SECOND);
    expect(await stateOf("a")).toBe("done");
    expect(wrote).toEqual(["one", "two", "one", "two"]);
    expect(ran).toEqual(["a"]);
  });

  test("do not fail the attempt if they failed in a group but not alone", async () => {
    let [runs, settles] = [0, 0];
    const { stateOf, ran } = await startedQueue(["a"], {
      alter: {
        settle: first(async (_claim, outcome) => {
          // Like a real store, run this event again without its group.
          await runWrites(outcome).catch(() => runWrites(outcome));
          settles += 1;
          if (settles === 1) throw new Error("commit failed");
        }),
      },
      work: () =>
        withWrites(() => {
          runs += 1;
          if (runs === 1) throw new Error("conflict within the group");
        }),
    });
    await advance(SECOND);
    expect(await stateOf("a")).toBe("done");
    expect(ran).toEqual(["a"]);
  });

  const constraint = new Error("constraint");
  test.each<{ what: string; write: () => unknown; refuses?: Error }>([
    {
      what: "throws",
      write: () => {
        throw constraint;
      },
    },
    { what: "rejects", write: () => Promise.reject(constraint) },
    { what: "is a lazy query that fails", write: () => lazyQuery(() => Promise.reject(constraint)) },
    {
      what: "is a lazy query whose then returns nothing, and that fails",
      write: () => thenOf((_, reject) => reject(constraint)),
    },
    {
      what: "is refused by the store",
      write: () => {},
      refuses: new InvalidWriteError("returned a promise"),
    },
  ])("fail the attempt if one of them $what", async ({ write, refuses }) => {
    const { store } = await startedQueue(["a"], {
      alter: {
        settle: first(async (_claim, outcome) => {
          await runWrites(outcome);
          if (refuses && outcome.state === "done") throw refuses;
        }),
      },
      work: () => withWrites(() => {}, write),
    });
    expect(await store.get("a")).toMatchObject({
      ...{ state: "retrying", attempts: 1, reason: "callback", type: "booking.Confirmed" },
      history: [{ outcome: "retrying", error: startingWith(String(refuses ?? constraint)) }],
    });
  });

  test("may be lazy queries whose then returns nothing, and run once", async () => {
    let runs = 0;
    const query = () =>
      thenOf((resolve) => {
        runs += 1;
        setTimeout(resolve);
      });
    const { stateOf } = await startedQueue(["a"], {
      alter: { settle: first((_claim, outcome) => runWrites(outcome)) },
      work: () => withWrites(query),
    });
    await advance(SECOND);
    expect([await stateOf("a"), runs]).toEqual(["done", 1]);
  });

  test.each<{
    name: string;
    tries: readonly ("lost" | "no connection" | "refused by its driver" | "locked" | "works")[];
    failed: boolean;
  }>([
    { name: "loses its connection once", tries: ["lost", "works"], failed: false },
    { name: "finds no connection", tries: ["no connection", "no connection", "works"], failed: false },
    {
      name: "loses its connection, and meets a lock",
      tries: ["lost", "locked", "lost", "works"],
      failed: false,
    },
    {
      name: "loses its connection, and then finds none, in the words of a driver",
      tries: ["lost", "refused by its driver", "refused by its driver", "works"],
      failed: false,
    },
    { name: "loses its connection twice in a row", tries: ["lost", "lost"], failed: true },
    {
      name: "loses its connection each time that the functions run",
      tries: ["lost", "no connection", "no connection", "lost"],
      failed: true,
    },
  ])("$name: the attempt has failed: $failed", async ({ tries, failed }) => {
    const left = [...tries];
    let [wrote, now] = [0, left[0]];
    const { ran, kinds, store } = await startedQueue(["a"], {
      backoff: () => HOUR,
      alter: {
        // Act like a driver: if the connection is lost, the user's write rejects, and then the store reports the loss.
        settle: first(async (_claim, outcome) => {
          now = left.shift();
          if (now === "no connection") throw new StayhookError("connect ECONNREFUSED");
          if (now === "refused by its driver") throw new Error("connect ECONNREFUSED");
          await runWrites(outcome).catch((cause) => {
            throw new StayhookError("the connection to the database was lost", { cause });
          });
          if (now === "locked") throw new StayhookError("another transaction holds the row");
        }),
      },
      work: () =>
        withWrites(async () => {
          if (now === "lost") throw new Error("Connection terminated unexpectedly");
          if (now === "works") wrote += 1;
        }),
    });
    await advance(4 * SECOND);
    expect([kinds(), ran, wrote, left]).toEqual([[failed ? "failed" : "done"], ["a"], failed ? 0 : 1, []]);
    expect(await store.get("a")).toMatchObject({
      ...{ state: failed ? "retrying" : "done", attempts: 1 },
      ...(failed && {
        reason: "callback",
        history: [{ error: startingWith("Error: Connection terminated unexpectedly") }],
      }),
    });
  });
});

test("an attempt is not started a second time by any wake-up, and leaves no timer behind", async () => {
  const { work, end } = longWork();
  const { queue, ran } = await startedQueue(["a"], { work });
  for (let n = 0; n < 20; n += 1) {
    queue.wake({ ref: null, eventId: "any" });
    await advance(5 * SECOND);
  }
  expect(ran).toEqual(["a"]);
  end();
  await advance(0);
  await queue.close(0);
  // Only the timers of the renewal and the pruner are left. They do not keep the process alive, and end on their own.
  await advance(HOUR);
  expect(vi.getTimerCount()).toBe(0);
});

test("an event is done although the answer of settle comes after the next claim of its record", async () => {
  let settles = 0;
  const { store, kinds, logged } = await startedQueue([], {
    alter: {
      settle: late(() => {
        settles += 1;
        return settles === 1 && sleep(500);
      }),
    },
  });
  for (const id of ["first", "second"]) await store.add(eventOf(id, "booking:a"));
  await advance(2 * SECOND);
  expect(kinds()).toEqual(["done", "done"]);
  expect(logged).toEqual([]);
});

test("an attempt whose lease is lost while settle fails does not say that it tries again", async () => {
  let settles = 0;
  const { store, logged } = await startedQueue([], {
    alter: {
      settle: late(async () => {
        settles += 1;
        if (settles > 1) return;
        await sleep(500);
        throw new Error("the connection was lost");
      }),
    },
  });
  for (const id of ["first", "second"]) await store.add(eventOf(id, "booking:a"));
  await advance(2 * SECOND);
  expect(logged).toEqual([expect.stringMatching(/the lease of event first .* was lost/)]);
});

test("a spent event is parked although the store does not tell its history", async () => {
  const { queue, store, add, stateOf } = queueOf({ maxAttempts: 1, alter: { get: hanging } });
  await add("spent");
  await store.claim({ limit: 1, leaseDuration: SECOND });
  await advance(SECOND);
  queue.start();
  await advance(MINUTE);
  expect(await stateOf("spent")).toBe("parked");
});
