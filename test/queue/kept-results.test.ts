// A result that the store does not record holds its own event, and no other as long as the store records others.

import { describe, expect, test } from "vitest";
import { StayhookError } from "../../src/errors.ts";
import type { WorkResult } from "../../src/queue/work.ts";
import type { ClaimedEvent } from "../../src/stores/stored-event.ts";
import {
  advance,
  callbackFailed,
  done,
  eventOf,
  failing,
  first,
  HOUR,
  hanging,
  idsOf,
  MINUTE,
  never,
  queueOf,
  SECOND,
  startedQueue,
  useFakeTime,
} from "./support.ts";

useFakeTime();

const down = { on: true };
const whileDown = failing(() => down.on, "read-only");
/** The results of these events are refused, whatever they are. */
const refusing = (ids: readonly string[]) => (claim: ClaimedEvent, _outcome: unknown) => {
  if (ids.includes(claim.eventId)) throw new Error("value too long");
};
const withEvents: WorkResult<never> = {
  ...done,
  events: [{ event: { ...eventOf("timer", "booking:e 0"), source: "timer" }, dueIn: HOUR }],
};

describe.each([
  { name: "while renewals fail", renew: true },
  { name: "while renewals work", renew: false },
])("results that cannot be recorded $name", ({ renew }) => {
  const alter = { settle: whileDown, ...(renew && { renew: whileDown }) };

  test.each([
    { name: "done", result: done, state: "done" },
    { name: "failed", result: callbackFailed, state: "retrying" },
    { name: "parked", result: callbackFailed, state: "parked" },
    { name: "done with a timer", result: withEvents, state: "done" },
  ])("are kept, and are recorded without a second callback: $name", async ({ name, result, state }) => {
    down.on = true;
    const { queue, add, ran, store, logged, observed, stateOf } = queueOf({
      alter,
      concurrency: 2,
      backoff: () => HOUR,
      maxAttempts: name === "parked" ? 1 : 12,
      work: ({ eventId }) => (eventId === "e 0" ? result : done),
    });
    await add("e 0");
    queue.start();
    await advance(SECOND / 2);
    await add(...idsOf(200));
    await advance(10 * MINUTE);
    // Results that are kept take the slots, and those of attempts that only record their end.
    expect(ran.length).toBeLessThanOrEqual(4);
    expect(new Set(ran).size).toBe(ran.length);
    expect(observed).toEqual([]);
    expect(queue.failure).toMatchObject({ message: "read-only" });
    expect(logged.filter((line) => line.includes("settle") || line.includes("result")).length).toBeLessThan(
      65,
    );
    down.on = false;
    await advance(31 * SECOND);
    expect(await stateOf("e 0")).toBe(state);
    expect((await store.get("e 0"))?.attempts).toBe(1);
    expect(await store.counts()).toMatchObject({ scheduled: result === withEvents ? 1 : 0, processing: 0 });
    expect([ran.length, new Set(ran).size]).toEqual([200, 200]);
    expect(queue.failure).toBeUndefined();
  });
});

test("a result is kept when its lease has ended and this process claims its event again", async () => {
  down.on = true;
  const { ran, stateOf, calls } = await startedQueue(["a"], {
    alter: { settle: whileDown, renew: whileDown },
  });
  await advance(5 * MINUTE);
  expect(calls.claim).toBeGreaterThan(2);
  down.on = false;
  await advance(31 * SECOND);
  expect([ran, await stateOf("a")]).toEqual([["a"], "done"]);
});

test("growing waits lie between the tries, up to 5 s", async () => {
  down.on = true;
  const { calls } = await startedQueue(["a"], { alter: { settle: whileDown } });
  await advance(32 * SECOND);
  const soon = calls.settle;
  await advance(5 * MINUTE);
  expect(soon).toBeLessThan(12);
  // From the second minute on, each try also asks whether the store records a failure.
  expect(calls.settle - soon).toBeGreaterThanOrEqual(100);
  expect(calls.settle - soon).toBeLessThanOrEqual(122);
});

test("events that were claimed with the first one run once each, and are kept as well", async () => {
  down.on = true;
  const { ran, store } = await startedQueue(idsOf(30), { alter: { settle: whileDown, renew: whileDown } });
  await advance(SECOND / 2);
  const before = ran.length;
  expect(before).toBeLessThanOrEqual(20);
  await advance(9 * MINUTE);
  expect(new Set(ran).size).toBe(ran.length);
  down.on = false;
  await advance(31 * SECOND);
  expect(await store.counts()).toMatchObject({ done: 30 });
  expect(ran.length).toBe(30);
});

test("a result that another process has taken over is forgotten", async () => {
  let taken = false;
  const { queue, ran, logged } = await startedQueue(["a"], {
    alter: {
      settle: (own) => async (claim, outcome) => (taken ? false : failing()(own)(claim, outcome)),
      renew: failing(() => !taken),
    },
  });
  await advance(29 * SECOND);
  expect(queue.failure).toBeDefined();
  taken = true;
  await advance(35 * SECOND);
  expect(logged.join()).toMatch(/lease of event a .* was lost .*another process/);
  expect(queue.failure).toBeUndefined();
  expect(ran).toEqual(["a", "a"]);
});

test.each([1, 12])("%i results that the store does not take hold no other event", async (count) => {
  const bad = idsOf(count, "bad");
  const { queue, ran, add, store, logged } = await startedQueue(bad, {
    alter: { settle: first(refusing(bad)) },
  });
  const drained = queue.drain({});
  await advance(SECOND / 2);
  await add(...idsOf(20));
  for (let n = 0; n < 9; n += 1) await advance(SECOND / 2);
  expect(await store.counts()).toMatchObject({ done: 20, processing: count });
  expect(queue.failure).toBeUndefined();
  // The events after that are not slower for it.
  for (let n = 0; n < 100; n += 1) {
    await add(...idsOf(10, `later ${n}`));
    queue.wake(eventOf("any"));
    await advance(SECOND);
    expect(await store.counts()).toMatchObject({ done: 20 + 10 * (n + 1), processing: count });
  }
  expect(await drained).toMatchObject({ done: expect.any(Number), failed: 0 });
  expect(new Set(ran).size).toBe(ran.length);
  expect(logged.length).toBeLessThan(30);
});

test("a drain ends with the store's error if the store records nothing for a minute", async () => {
  down.on = true;
  const { queue, add } = queueOf({ alter: { settle: whileDown } });
  await add("a", "b");
  const drained = queue.drain({}).catch((error: Error) => error.message);
  await advance(2 * MINUTE);
  expect(await drained).toBe("read-only");
});

test("events that the handler adds by itself are left out if the store does not take them", async () => {
  const extra = [
    { event: { ...eventOf("recheck", "booking:a"), source: "recheck" as const }, dueIn: MINUTE },
  ];
  const { stateOf, store, ran } = await startedQueue(["a"], {
    alter: {
      settle: first((_claim, outcome) => {
        if ("events" in outcome && (outcome.events?.length ?? 0) > 0) throw new Error("INSERT refused");
      }),
    },
    work: () => ({ ...done, extra }),
  });
  await advance(SECOND);
  expect([await stateOf("a"), await stateOf("recheck"), ran]).toEqual(["done", undefined, ["a"]]);
  expect(await store.counts()).toMatchObject({ scheduled: 0 });
});

test("a failure of the store with writes is never the callback's", async () => {
  const { store, ran } = await startedQueue(["a"], {
    alter: {
      settle: first((_claim, _outcome) => {
        throw new StayhookError("permission denied for table stayhook_events");
      }),
    },
    work: () => ({ ...done, writes: [() => {}] }) as never,
  });
  await advance(HOUR);
  expect(ran).toEqual(["a"]);
  expect(await store.get("a")).toMatchObject({ state: "processing", attempts: 1, history: [] });
});

test.each([true, false])(
  "a result that alone is refused for a minute ends as failed, with writes: %s",
  async (hasWrites) => {
    const { store, ran, queue } = await startedQueue(["bad"], {
      alter: {
        settle: first((claim, outcome) => {
          if (claim.eventId === "bad" && outcome.state === "done") throw new StayhookError("value too long");
        }),
      },
      maxAttempts: 1,
      work: (_, { noted }) => {
        noted("what was begun");
        return { ...done, ...(hasWrites && { writes: [() => {}] }) } as never;
      },
    });
    await advance(MINUTE - SECOND);
    expect(await store.get("bad")).toMatchObject({ state: "processing", history: [] });
    await advance(6 * SECOND);
    expect(await store.get("bad")).toMatchObject({ state: "parked", reason: "callback" });
    expect([ran, queue.failure]).toEqual([["bad"], undefined]);
    expect(await store.ledgerOf("booking:bad")).toBe("what was begun");
  },
);

test("a drain that stops keeps the results, and the next one does not run their callbacks again", async () => {
  down.on = true;
  const { queue, add, ran, stateOf } = queueOf({ alter: { settle: whileDown, renew: whileDown } });
  await add("a");
  void queue.drain({ timeout: SECOND });
  await advance(MINUTE);
  const error = queue.drain({ timeout: SECOND }).catch((error: Error) => error.message);
  await advance(MINUTE);
  expect(await error).toBe("read-only");
  down.on = false;
  await advance(31 * SECOND);
  expect([ran, await stateOf("a")]).toEqual([["a"], "done"]);
});

test("a store that hangs and works again is asked again", async () => {
  down.on = true;
  const { ran, stateOf } = await startedQueue(["a"], {
    alter: { settle: (own) => (claim, outcome) => (down.on ? never() : own(claim, outcome)), renew: hanging },
  });
  await advance(29 * SECOND);
  down.on = false;
  await advance(2 * SECOND);
  expect([ran, await stateOf("a")]).toEqual([["a"], "done"]);
});
