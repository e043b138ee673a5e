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
  hanging,
  idsOf,
  late,
  longWork,
  MINUTE,
  never,
  outOfReach,
  queueOf,
  realTime,
  SECOND,
  sleep,
  startedQueue,
  type TestWork,
  useFakeTime,
  watch,
} from "./support.ts";

useFakeTime();

const badFails: TestWork = ({ eventId }) => (eventId.startsWith("bad") ? callbackFailed : done);
const nothing = { done: 0, failed: 0 };

describe("drain", () => {
  test("attempts each due event once, and counts those done, retrying and parked", async () => {
    const { queue, add, ran, store } = queueOf({ maxAttempts: 2, backoff: () => 0, work: badFails });
    await add("bad 1", "good 1", "bad 2", "good 2", "good 3");
    expect(await queue.drain({})).toEqual({ done: 3, failed: 2 });
    expect(ran.length).toBe(5);
    expect(await queue.drain({})).toEqual({ done: 0, failed: 2 });
    expect(await store.counts()).toMatchObject({ done: 3, parked: 2, retrying: 0, processing: 0 });
    expect(await queue.drain({})).toEqual(nothing);
  });

  test("attempts events behind failing events, and releases events that are due again", async () => {
    const { queue, add, ran, store } = queueOf({ concurrency: 1, backoff: () => 0, work: badFails });
    await add("bad 1", "bad 2");
    await queue.drain({});
    await add("bad 3");
    await store.replay({ eventId: "bad 1" });
    ran.length = 0;
    expect(await queue.drain({})).toEqual({ done: 0, failed: 3 });
    expect([...ran].sort()).toEqual(["bad 1", "bad 2", "bad 3"]);
    expect(await store.get("bad 1")).toMatchObject({ state: "retrying", attempts: 2 });
  });

  test("waits neither for events that are due later nor for other processes", async () => {
    const { queue, add, ran, store } = queueOf({ work: () => callbackFailed, backoff: () => HOUR });
    await add("theirs");
    await store.claim({ limit: 1, leaseDuration: HOUR });
    await add("a");
    await queue.drain({});
    expect(await queue.drain({})).toEqual(nothing);
    expect(ran).toEqual(["a"]);
  });

  test.each([0, 10])("takes all events of a record one by one from a store that takes %i ms", async (ms) => {
    const { queue, store, ran } = queueOf({
      alter: { claim: late(() => ms > 0 && sleep(ms)) },
      work: () => sleep(5).then(() => done),
    });
    for (const id of ["a", "b", "c"]) await store.add(eventOf(id, "booking:x"));
    const draining = queue.drain({});
    await advance(SECOND);
    expect(await draining).toEqual({ done: 3, failed: 0 });
    expect(ran).toEqual(["a", "b", "c"]);
  });

  test("waits for attempts that already run here, counts them, and does not poll beside other drains", async () => {
    const { work, end } = longWork();
    const { queue, ran, calls } = await startedQueue(["a"], { work });
    const draining = watch(Promise.all([queue.drain({}), queue.drain({}), queue.drain({})]));
    await advance(MINUTE);
    expect(draining.settled).toBe(false);
    expect(calls.claim).toBeLessThan(20);
    end();
    await advance(0);
    expect(draining.result).toEqual(Array(3).fill({ done: 1, failed: 0 }));
    expect(ran).toEqual(["a"]);
  });

  test("ends and handles each event once beside other drains", async () => {
    const { queue, add, ran } = queueOf({ concurrency: 2 });
    const idle = watch(Promise.all([queue.drain({}), queue.drain({}), queue.drain()]));
    await advance(MINUTE);
    expect(idle.result).toEqual(Array(3).fill(nothing));
    await add("a", "b", "c", "d", "e");
    const drains = watch(Promise.all([queue.drain({}), queue.drain({}), queue.drain({})]));
    await advance(MINUTE);
    expect([[...ran].sort(), drains.settled]).toEqual([["a", "b", "c", "d", "e"], true]);
  });

  test("ends in an outage and leaves the rest, tries once when called again, and goes on after an answer", async () => {
    let answer: ReturnType<TestWork> = outOfReach();
    const { queue, add, ran, store } = queueOf({
      concurrency: 2,
      work: (_, { answered }) => {
        if (answer === done) answered("record");
        return answer;
      },
    });
    await add(...idsOf(30));
    // A row of five, and the read that had begun by then.
    expect(await queue.drain({})).toEqual({ done: 0, failed: 6 });
    expect(ran.length).toBe(6);
    expect(await store.counts()).toMatchObject({ pending: 24, retrying: 6 });
    expect(await queue.drain({})).toEqual(nothing);
    await advance(2 * SECOND);
    expect(await queue.drain({})).toEqual({ done: 0, failed: 1 });
    await advance(3 * SECOND);
    answer = done;
    expect(await queue.drain({})).toMatchObject({ failed: 0 });
    expect(await store.counts()).toMatchObject({ pending: 0 });
    // The platform asks for a wait, which no drain cuts short.
    answer = outOfReach(MINUTE);
    await add("limited");
    expect(await queue.drain({})).toEqual({ done: 0, failed: 1 });
    await add("other");
    expect(await queue.drain({})).toEqual(nothing);
  });

  test.each(["timeout", "signal"])(
    "%s: begins no other attempt, and releases running ones",
    async (limit) => {
      const { work, aborted } = longWork();
      const { queue, add, store } = queueOf({ concurrency: 2, work });
      await add("a", "b", "c");
      const abort = new AbortController();
      setTimeout(() => abort.abort(), SECOND);
      const draining = queue.drain(limit === "timeout" ? { timeout: SECOND } : { signal: abort.signal });
      await advance(SECOND);
      expect(aborted.length).toBe(2);
      await advance(3 * SECOND);
      expect(await draining).toEqual(nothing);
      expect(await store.counts()).toMatchObject({ pending: 3, processing: 0 });
      expect(await store.get("a")).toMatchObject({ attempts: 0 });
    },
  );

  test("does nothing with a signal that has aborted, and leaves no listener on a signal", async () => {
    const { queue, add, ran } = queueOf();
    await add("a");
    expect(await queue.drain({ signal: AbortSignal.abort() })).toEqual(nothing);
    expect(ran).toEqual([]);
    const { signal } = new AbortController();
    const added = vi.spyOn(signal, "addEventListener");
    const removed = vi.spyOn(signal, "removeEventListener");
    await queue.drain({ signal });
    expect(removed.mock.calls).toEqual(added.mock.calls);
  });

  test("rejects with the store's error, and can be called again", async () => {
    let broken = true;
    const { queue, add } = queueOf({ alter: { claim: failing(() => broken) } });
    await add("a");
    await expect(queue.drain({})).rejects.toThrow("the store is down");
    broken = false;
    expect(await queue.drain({})).toEqual({ done: 1, failed: 0 });
  });

  test("renews the leases of claims that it holds", async () => {
    const { work: slow, end } = longWork();
    const { queue, add, store } = queueOf({
      concurrency: 2,
      backoff: () => 0,
      work: (claim, context) => (claim.eventId === "slow" ? slow(claim, context) : callbackFailed),
    });
    await add("slow", "bad");
    const draining = queue.drain({});
    await advance(4 * MINUTE);
    expect((await store.get("bad"))?.state).toBe("processing");
    expect(await store.claim({ limit: 9, leaseDuration: SECOND })).toEqual([]);
    end();
    expect(await draining).toEqual({ done: 1, failed: 1 });
    expect(await store.get("bad")).toMatchObject({ state: "retrying", attempts: 1 });
  });

  test("counts an event once although the loop tries it again meanwhile", async () => {
    const { work: slow, end } = longWork();
    const { queue, add, ran } = await startedQueue(["slow"], {
      backoff: () => SECOND,
      work: (claim, context) => (claim.eventId === "slow" ? slow(claim, context) : callbackFailed),
    });
    const draining = queue.drain({});
    await add("bad");
    await advance(5 * SECOND);
    end();
    expect(await draining).toEqual({ done: 1, failed: 1 });
    expect(ran.length).toBeGreaterThan(2);
  });

  test("does not delay the loop if the store is slow", async () => {
    let slow = 0;
    const { queue, add, ran } = await startedQueue([], {
      alter: { claim: late(() => sleep(slow)) },
      concurrency: 2,
    });
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
    const told = gate();
    let slow = false;
    const { work, end } = longWork("second");
    const { queue, add, ran, store } = await startedQueue(["first"], {
      alter: { claim: late(() => slow && told.opened) },
      concurrency: 2,
      work,
    });
    slow = true;
    await add("second");
    await advance(0);
    end();
    await advance(0);
    const draining = watch(queue.drain({}));
    await advance(0);
    expect([ran, draining.settled]).toEqual([["first"], false]);
    told.open();
    await advance(0);
    expect(draining.settled).toBe(true);
    expect(await store.counts()).toMatchObject({ done: 2, processing: 0 });
  });

  test("ends with the running attempts when the queue is closed, and then does not ask the store", async () => {
    const { work, end } = longWork();
    const { queue, add, calls, store } = queueOf({ concurrency: 1, work });
    await add("a", "b");
    const draining = queue.drain({});
    await advance(0);
    const closing = queue.close(10 * SECOND);
    end();
    await advance(0);
    await closing;
    expect((await store.get("b"))?.state).toBe("pending");
    await store.close();
    expect(await draining).toEqual({ done: 1, failed: 0 });
    expect(calls.claim).toBe(1);
  });

  test.each([
    { how: "fails", release: () => Promise.reject(new Error("gone")), log: /did not release event .*gone/ },
    { how: "does not answer", release: never, log: /^$/ },
  ])("ends if the store $how when it takes held claims back", async ({ release, log }) => {
    const { queue, add, logged } = queueOf({
      alter: {
        settle: (own) => (claim, outcome) => (outcome.state === "released" ? release() : own(claim, outcome)),
      },
      work: () => callbackFailed,
      backoff: () => 0,
    });
    await add("a");
    const draining = queue.drain({});
    await advance(5 * SECOND);
    expect(await draining).toEqual({ done: 0, failed: 1 });
    expect(logged.join()).toMatch(log);
  });

  test("ends only when the store has taken held claims back", async () => {
    const { queue, add, stateOf } = queueOf({
      alter: { settle: first((_, outcome) => outcome.state === "released" && sleep(100)) },
      work: () => callbackFailed,
      backoff: () => 0,
    });
    await add("a");
    const draining = watch(queue.drain({}));
    await advance(99);
    expect([draining.settled, await stateOf("a")]).toEqual([false, "processing"]);
    await advance(1);
    expect([draining.settled, await stateOf("a")]).toEqual([true, "retrying"]);
  });

  test("does not end at once if its timeout is longer than a timer can be", async () => {
    const { work, end, aborted } = longWork();
    const { queue, add } = queueOf({ work });
    await add("a");
    const draining = watch(queue.drain({ timeout: 30 * DAY }));
    await advance(MINUTE);
    expect([aborted, draining.settled]).toEqual([[], false]);
    end();
    await advance(0);
    expect(draining.result).toEqual({ done: 1, failed: 0 });
  });

  test("ends at its timeout if a claim hangs, and gives the late claim back", async () => {
    const answer = gate();
    const { queue, add, ran, store } = queueOf({ alter: { claim: late(() => answer.opened) } });
    await add("a");
    const draining = queue.drain({ timeout: SECOND });
    await advance(SECOND);
    expect(await draining).toEqual(nothing);
    answer.open();
    await advance(0);
    expect(ran).toEqual([]);
    expect(await store.get("a")).toMatchObject({ state: "pending", attempts: 0 });
  });

  test("prunes if no loop runs, but not each time", async () => {
    const { queue, add, store, calls } = queueOf({ retention: DAY });
    await add("a");
    await queue.drain({});
    const first = calls.prune;
    await queue.drain({});
    expect(calls.prune).toBe(first);
    await advance(DAY + HOUR);
    await queue.drain({});
    expect(calls.prune).toBe(2 * first);
    expect(await store.get("a")).toBeUndefined();
  });

  test("prunes within its timeout even if the store is slow", async () => {
    const { queue, calls } = queueOf({ alter: { prune: () => () => sleep(700).then(() => 200) } });
    const draining = watch(queue.drain({ timeout: SECOND }));
    await advance(700);
    await realTime(20);
    await advance(299);
    expect(draining.settled).toBe(false);
    await advance(1);
    expect(draining.settled).toBe(true);
    await advance(MINUTE);
    expect(calls.prune).toBe(2);
  });
});

describe("close", () => {
  test("logs no failure of a claim that it does not wait for", async () => {
    const fails = () => sleep(SECOND).then(() => Promise.reject(new Error("gone")));
    const { queue, logged } = await startedQueue(["a"], { alter: { claim: () => fails } });
    void queue.close(0);
    await advance(5 * SECOND);
    expect(logged).toEqual([]);
  });

  test("lets running attempts finish, begins no other, and does not use the store afterwards", async () => {
    const { work, end } = longWork();
    const { queue, ran, stateOf, store, logged } = await startedQueue(["a", "b"], { concurrency: 1, work });
    const closing = queue.close(10 * SECOND);
    expect(queue.close(0)).toBe(closing);
    expect(queue.state).toBe("stopped");
    await advance(5 * SECOND);
    end();
    await advance(0);
    await closing;
    expect([await stateOf("a"), await stateOf("b")]).toEqual(["done", "pending"]);
    await store.close();
    queue.start();
    queue.wake({ ref: null, eventId: "any" });
    await advance(HOUR);
    expect(await queue.drain({})).toEqual(nothing);
    expect([ran, logged]).toEqual([["a"], []]);
  });

  test("after its timeout, aborts, waits 3 s for the callback, and releases the event", async () => {
    const { work, aborted } = longWork();
    const { queue, store } = await startedQueue(["a"], { work });
    const closing = watch(queue.close(SECOND));
    await advance(SECOND - 1);
    expect(aborted.length).toBe(0);
    await advance(1);
    expect(aborted.length).toBe(1);
    await advance(2999);
    expect(closing.settled).toBe(false);
    expect((await store.get("a"))?.state).toBe("processing");
    await advance(1);
    expect(closing.settled).toBe(true);
    expect(await store.get("a")).toMatchObject({ state: "pending", attempts: 0 });
    expect(await store.nextDue()).toBe(0);
  });

  test.each([
    { what: "returns after 2999 ms is done", after: 2999, throws: false },
    { what: "returns after 1 ms is done", after: 1, throws: false },
    { what: "throws is released", after: 1, throws: true },
  ])("a callback that is aborted and $what", async ({ after, throws }) => {
    const { queue, store, kinds } = await startedQueue(["a"], {
      work: (_, { signal }) =>
        new Promise((resolve, reject) =>
          signal.addEventListener("abort", () =>
            setTimeout(() => (throws ? reject(signal.reason) : resolve(done)), after),
          ),
        ),
    });
    const closing = queue.close(SECOND);
    await advance(4 * SECOND);
    await closing;
    expect(kinds()).toEqual(throws ? [] : ["done"]);
    const expected = throws ? { state: "pending", attempts: 0 } : { state: "done", attempts: 1 };
    expect(await store.get("a")).toMatchObject(expected);
  });

  test.each(["settle", "claim"])("ends 4 s after its timeout if a %s of the store hangs", async (call) => {
    const { queue } = await startedQueue(["a"], { alter: { [call]: hanging } });
    const closing = watch(queue.close(SECOND));
    await advance(5 * SECOND - 1);
    expect(closing.settled).toBe(false);
    await advance(1);
    expect(closing.settled).toBe(true);
  });

  test("releases a claim that returns meanwhile, whose event is due at once", async () => {
    const { queue, ran, store } = await startedQueue(["a"], {
      alter: {
        claim: late(() => sleep(SECOND)),
        settle: first(() => sleep(300)),
      },
    });
    await advance(500);
    const closing = watch(queue.close(0));
    await advance(799);
    expect(closing.settled).toBe(false);
    await advance(1);
    expect(closing.settled).toBe(true);
    expect(ran).toEqual([]);
    expect(await store.get("a")).toMatchObject({ state: "pending", attempts: 0 });
  });
});
