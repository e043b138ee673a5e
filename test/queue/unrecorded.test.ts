// A result that the store does not record holds its own event, and no other as long as the store records others.

import { describe, expect, test, vi } from "vitest";
import { StayhookError } from "../../src/errors.ts";
import { type KeptResult, Unrecorded } from "../../src/queue/unrecorded.ts";
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

describe("a process", () => {
  /** Plays a row: `fail` and `again` with the names of results, `take` if the store records one, `start`, and waits. */
  async function played(...steps: (string | number)[]) {
    const tells: string[] = [];
    const unrecorded = new Unrecorded(() => tells.push("failing"));
    void unrecorded.works.then(() => tells.push("works"));
    const kept = new Map<string, KeptResult>();
    for (const step of steps) {
      const [what, name = ""] = String(step).split(" ");
      if (typeof step === "number") await advance(step);
      else if (what === "fail") kept.set(name, unrecorded.keep(new Error(name), kept.get(name)));
      else if (what === "forget") unrecorded.forget(kept.get(name));
      else if (what === "take") unrecorded.recorded();
      else unrecorded.started();
    }
    await advance();
    const now = performance.now();
    const trial = unrecorded.trialAt(now);
    expect(unrecorded.isBlockedAt(now)).toBe(trial !== undefined && trial > 0);
    return {
      trial,
      tells,
      size: unrecorded.size,
      failure: (unrecorded.failure as Error | undefined)?.message,
      isStuck: unrecorded.isStuckAt(now),
    };
  }

  test.each<{ name: string; steps: (string | number)[]; trial: number | undefined; failure?: string }>([
    { name: "claims without limit at first", steps: [], trial: undefined },
    { name: "claims one event a second after a failure", steps: ["fail a"], trial: 1000, failure: "a" },
    { name: "counts from the last failure", steps: ["fail a", 300], trial: 700, failure: "a" },
    {
      name: "counts ten failures at once as one",
      steps: ["fail a", "fail b", "fail c"],
      trial: 1000,
      failure: "a",
    },
    {
      name: "waits a second from the start of a trial",
      steps: ["fail a", 1000, "start"],
      trial: 1000,
      failure: "a",
    },
    {
      name: "doubles the wait with each trial",
      steps: ["fail a", 4000, "start", "fail b"],
      trial: 4000,
      failure: "a",
    },
    { name: "waits 30 s at most", steps: ["fail a", HOUR, "fail b"], trial: 30_000, failure: "a" },
    {
      name: "waits no longer because a result fails again",
      steps: ["fail a", 900, "fail a"],
      trial: 100,
      failure: "a",
    },
    {
      name: "claims without limit once another result is taken",
      steps: ["fail a", "take"],
      trial: undefined,
    },
    {
      name: "is not limited by a result that fails beside others",
      steps: ["fail a", "take", 50, "fail a", 50, "fail a"],
      trial: undefined,
    },
    {
      name: "is limited by the next result that fails",
      steps: ["fail a", "take", HOUR, "fail b"],
      trial: 1000,
      failure: "b",
    },
    {
      name: "is not limited by a result that another process took over",
      steps: ["fail a", "forget a"],
      trial: undefined,
    },
    {
      name: "is limited by the others then",
      steps: ["fail a", "fail b", "forget a"],
      trial: 1000,
      failure: "b",
    },
    {
      name: "notes no start while the store works",
      steps: ["start", 100, "fail a"],
      trial: 1000,
      failure: "a",
    },
  ])("$name", async ({ steps, trial, failure }) => {
    expect(await played(...steps)).toMatchObject({ trial, ...(failure !== undefined && { failure }) });
    if (failure === undefined) expect((await played(...steps)).failure).toBeUndefined();
  });

  test("tells of each failure, and of the first result that is taken after one", async () => {
    expect((await played("take", "fail a", "fail b", "fail a")).tells).toEqual([
      "failing",
      "failing",
      "failing",
    ]);
    expect((await played("fail a", "take", "take")).tells).toEqual(["failing", "works"]);
  });

  test("keeps a result until it is forgotten, and is stuck after a minute", async () => {
    expect(await played("fail a", "fail b", "take", 59_999)).toMatchObject({ size: 2, isStuck: false });
    expect(await played("fail a", "take", 60_000)).toMatchObject({ size: 1, isStuck: true });
    expect(await played("fail a", HOUR, "forget a", "fail b")).toMatchObject({ size: 1, isStuck: false });
  });
});

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
    { name: "parked", result: { ...callbackFailed, maxAttempts: 1 }, state: "parked" },
    { name: "done with a timer", result: withEvents, state: "done" },
  ])("are kept for an hour, and are recorded without a second callback: $name", async ({ result, state }) => {
    down.on = true;
    const { queue, add, ran, store, logged, observed, stateOf } = queueOf({
      alter,
      concurrency: 2,
      backoff: () => HOUR,
      work: ({ eventId }) => (eventId === "e 0" ? result : done),
    });
    await add("e 0");
    queue.start();
    await advance(SECOND / 2);
    await add(...idsOf(200));
    await advance(HOUR);
    // A trial every 30 s.
    expect(ran.length).toBeGreaterThan(100);
    expect(ran.length).toBeLessThan(130);
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

test("a trial that is due while all slots are taken does not keep the event loop busy", async () => {
  down.on = true;
  const now = performance.now.bind(performance);
  // A loop that never waits would hang this test.
  const clock = vi.spyOn(performance, "now").mockImplementation(() => {
    if (clock.mock.calls.length > 10_000) throw new Error("the event loop is busy");
    return now();
  });
  const { add, ran, logged } = await startedQueue(["kept"], {
    concurrency: 1,
    alter: { settle: whileDown },
    work: ({ eventId }) => (eventId === "kept" ? done : never()),
  });
  await add("takes the slot", "waits");
  await advance(1500);
  expect(ran).toEqual(["kept", "takes the slot"]);
  await advance(10 * SECOND);
  expect(clock.mock.calls.length).toBeLessThan(1000);
  expect(logged.join()).not.toContain("the event loop is busy");
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

test("writes whose result alone is refused count as failed, and the others' results are recorded", async () => {
  const { store, add } = await startedQueue(["bad"], {
    alter: {
      settle: first(async (_claim, outcome) => {
        if (!("writes" in outcome) || !outcome.writes) return;
        for (const write of outcome.writes) await write(undefined as never);
        throw new StayhookError("permission denied for schema stayhook");
      }),
    },
    maxAttempts: 1,
    work: ({ eventId }) => (eventId === "bad" ? { ...done, writes: [() => {}] } : done) as never,
  });
  await advance(MINUTE);
  expect(await store.get("bad")).toMatchObject({ state: "processing", history: [] });
  await add("good");
  await advance(MINUTE);
  expect(await store.get("good")).toMatchObject({ state: "done" });
  expect(await store.get("bad")).toMatchObject({ state: "parked", reason: "callback" });
});

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
