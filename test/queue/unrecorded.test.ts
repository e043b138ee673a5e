// A store that cannot record results claims nothing, and no callback runs a second time for it.

import { describe, expect, test } from "vitest";
import { StayhookError } from "../../src/errors.ts";
import type { WorkResult } from "../../src/queue/work.ts";
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
    { name: "parked", result: { ...callbackFailed, maxAttempts: 1 }, state: "parked" },
    { name: "done with a timer", result: withEvents, state: "done" },
  ])("are kept for an hour, claim nothing, and are recorded: $name", async ({ result, state }) => {
    down.on = true;
    const { queue, add, ran, store, calls, logged, observed, stateOf } = queueOf({
      alter,
      concurrency: 2,
      backoff: () => HOUR,
      work: ({ eventId }) => (eventId === "e 0" ? result : done),
    });
    await add("e 0");
    queue.start();
    await advance(SECOND);
    const claims = calls.claim;
    await add("e 1", "e 2");
    await advance(9 * MINUTE);
    expect([ran, calls.claim - claims, observed]).toEqual([["e 0"], 0, []]);
    expect(queue.failure).toMatchObject({ message: "read-only" });
    await advance(51 * MINUTE);
    expect(ran.filter((id) => id === "e 0")).toEqual(["e 0"]);
    expect(logged.filter((line) => line.includes("settle") || line.includes("result")).length).toBeLessThan(
      65,
    );
    down.on = false;
    await advance(31 * SECOND);
    expect(await stateOf("e 0")).toBe(state);
    expect((await store.get("e 0"))?.attempts).toBe(1);
    expect(await store.counts()).toMatchObject({ scheduled: result === withEvents ? 1 : 0 });
    expect(new Set(ran)).toEqual(new Set(idsOf(3)));
    expect(ran.length).toBe(3);
    expect(queue.failure).toBeUndefined();
  });
});

test("growing waits lie between the tries, up to 30 s", async () => {
  down.on = true;
  const { calls } = await startedQueue(["a"], { alter: { settle: whileDown } });
  await advance(32 * SECOND);
  const soon = calls.settle;
  await advance(5 * MINUTE);
  expect(soon).toBeLessThan(10);
  expect(calls.settle - soon).toBeGreaterThanOrEqual(9);
  expect(calls.settle - soon).toBeLessThanOrEqual(11);
});

test("events that were claimed with the first one run once each, and are kept as well", async () => {
  down.on = true;
  const { ran, store } = await startedQueue(idsOf(30), { alter: { settle: whileDown, renew: whileDown } });
  await advance(9 * MINUTE);
  const before = ran.length;
  expect(new Set(ran).size).toBe(before);
  expect(before).toBeLessThanOrEqual(20);
  down.on = false;
  await advance(31 * SECOND);
  expect(await store.counts()).toMatchObject({ done: 30 });
  expect(ran.length).toBe(30);
});

test("a result that another process has taken over is forgotten, and one event is the trial", async () => {
  down.on = true;
  let taken = false;
  const { ran, store, add, logged } = await startedQueue(["a"], {
    alter: {
      settle: (own) => async (claim, outcome) =>
        taken && claim.eventId === "a" ? false : whileDown(own)(claim, outcome),
      renew: whileDown,
    },
  });
  await add("b", "c");
  await advance(30 * SECOND);
  const [claim] = await store.claim({ limit: 1, leaseDuration: HOUR, eventId: "a" });
  expect(claim?.eventId).toBe("a");
  taken = true;
  await advance(35 * SECOND);
  expect(logged.join()).toMatch(/lease of event a .* was lost .*another process/);
  // The trial cannot be recorded either, so the third event waits.
  await advance(MINUTE);
  expect(ran).toEqual(["a", "b"]);
  down.on = false;
  await advance(31 * SECOND);
  expect(ran).toEqual(["a", "b", "c"]);
});

test("a result that no store takes stops neither the process nor its drains for ever", async () => {
  const { queue, ran, add, store, logged } = await startedQueue(["bad"], {
    alter: {
      settle: first((claim, _outcome) => {
        if (claim.eventId === "bad") throw new Error("value too long");
      }),
    },
  });
  await add(...idsOf(20));
  const drained = queue.drain({}).catch((error: Error) => error.message);
  await advance(9 * MINUTE);
  expect(ran).toEqual(["bad"]);
  await advance(2 * MINUTE);
  expect(await drained).toBe("value too long");
  await advance(4 * MINUTE);
  expect(await store.counts()).toMatchObject({ done: 20, processing: 1 });
  expect(ran.filter((id) => id === "bad").length).toBe(1);
  expect(queue.failure).toBeUndefined();
  expect(logged.length).toBeLessThan(30);
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

test("a drain that stops keeps the results, and the next one does not run their callbacks again", async () => {
  down.on = true;
  const { queue, add, ran, stateOf } = queueOf({ alter: { settle: whileDown, renew: whileDown } });
  await add("a");
  void queue.drain({ timeout: SECOND });
  await advance(MINUTE);
  void queue.drain({ timeout: SECOND });
  await advance(MINUTE);
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
