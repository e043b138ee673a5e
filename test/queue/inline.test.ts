import { describe, expect, test } from "vitest";
import {
  advance,
  callbackFailed,
  done,
  eventOf,
  hanging,
  idsOf,
  longWork,
  outOfReach,
  queueOf,
  SECOND,
  sleep,
  useFakeTime,
  watch,
} from "./support.ts";

useFakeTime();

const soon = () => performance.now() + 25 * SECOND;

describe("an event that is processed inline", () => {
  test("is awaited by each call, runs once, and no other event begins", async () => {
    const { work, end } = longWork();
    const { queue, add, ran, stateOf } = queueOf({ work });
    await add("other", "own");
    const runs = watch(
      Promise.all([queue.runNow(eventOf("own"), soon()), queue.runNow(eventOf("own"), soon())]),
    );
    await advance(5 * SECOND);
    expect(runs.settled).toBe(false);
    end();
    await advance(300);
    expect(runs.settled).toBe(true);
    expect(ran).toEqual(["own"]);
    expect(await stateOf("own")).toBe("done");
  });

  test("goes on under its lease after the deadline", async () => {
    const { work, end } = longWork();
    const { queue, add, stateOf } = queueOf({ work });
    await add("a");
    const run = watch(queue.runNow(eventOf("a"), soon()));
    await advance(25 * SECOND - 1);
    expect(run.settled).toBe(false);
    await advance(1);
    expect(run.settled).toBe(true);
    await advance(60 * SECOND);
    expect(await stateOf("a")).toBe("processing");
    end();
    await advance(0);
    expect(await stateOf("a")).toBe("done");
  });

  test("is not waited for beyond the deadline if the store hangs", async () => {
    const { queue, add } = queueOf({ alter: { claim: hanging } });
    await add("a");
    const run = watch(queue.runNow(eventOf("a"), soon()));
    await advance(25 * SECOND);
    expect(run.settled).toBe(true);
  });

  test("is looked for neither after the deadline nor in a closed queue", async () => {
    const { queue, add, store, calls } = queueOf();
    await add("theirs");
    await store.claim({ limit: 1, leaseDuration: 3600 * SECOND });
    const run = watch(queue.runNow(eventOf("theirs"), soon()));
    await advance(25 * SECOND);
    expect(run.settled).toBe(true);
    const { get } = calls;
    await advance(60 * SECOND);
    expect(calls.get).toBe(get);
    await queue.close(0);
    const late = watch(queue.runNow(eventOf("theirs"), soon()));
    await advance();
    expect(late.settled).toBe(true);
  });

  test("waits its turn behind other events of its record, and asks the store at intervals", async () => {
    const { work, end } = longWork();
    const { queue, store, ran, calls } = queueOf({ work });
    const ids = ["first", "second", "third", "fourth"];
    for (const id of ids) await store.add(eventOf(id, "booking:x"));
    const runs = ids.map((id) => watch(queue.runNow(eventOf(id), soon())));
    await advance(5 * SECOND);
    expect(runs.map(({ settled }) => settled)).toEqual([false, false, false, false]);
    // Each of the three waiting runs polls four times a second.
    expect(calls.claim).toBeLessThan(100);
    end();
    await advance(2 * SECOND);
    expect(runs.map(({ settled }) => settled)).toEqual([true, true, true, true]);
    expect(ran).toEqual(ids);
  });

  test("waits for a slot, so that `concurrency` holds", async () => {
    let [running, most] = [0, 0];
    const { queue, add, ran } = queueOf({
      concurrency: 3,
      work: async () => {
        running += 1;
        most = Math.max(most, running);
        await sleep(10);
        running -= 1;
        return done;
      },
    });
    await add(...idsOf(20));
    const runs = Promise.all(idsOf(20).map((id) => queue.runNow(eventOf(id), soon())));
    await advance(SECOND);
    await runs;
    expect([most, ran.length]).toEqual([3, 20]);
  });

  test("is followed by the events that its attempt adds, but the store is not asked for later ones", async () => {
    const events = [{ event: eventOf("next") }, { event: eventOf("later"), dueIn: SECOND }];
    const { queue, add, ran, calls } = queueOf({
      work: ({ eventId }) => (eventId === "own" ? { ...done, events } : done),
    });
    await add("own");
    await queue.runNow(eventOf("own"), soon());
    expect([ran, calls.claim]).toEqual([["own", "next"], 2]);
  });

  test("is left alone if it failed, is done or is unknown, and for later in an outage", async () => {
    for (const result of [callbackFailed, done, outOfReach(60 * SECOND)]) {
      const { queue, add, ran } = queueOf({ work: () => result });
      await add("a");
      await queue.runNow(eventOf("a"), soon());
      await queue.runNow(eventOf("a"), soon());
      await queue.runNow(eventOf("nobody"), soon());
      expect(ran).toEqual(["a"]);
      if (!("outage" in result)) continue;
      await add("b");
      await queue.runNow(eventOf("b"), soon());
      expect(ran).toEqual(["a"]);
    }
  });
});
