import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { eventStates } from "../../src/stores/event-states.ts";
import type { Outcome } from "../../src/stores/event-store.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";
import type { ClaimedEvent } from "../../src/stores/stored-event.ts";
import { randomOf, seedOf } from "../system/random.ts";

beforeEach(() => vi.useFakeTimers({ toFake: ["Date", "performance"] }));
afterEach(() => vi.useRealTimers());

const STEPS = 3000;
const entry = { duration: 1 };

test("counts has as many events of each state as list, after any calls", async () => {
  const seed = seedOf("counts of the memory store");
  const { below: upTo } = randomOf(seed);
  const store = memoryStore();
  const claims: ClaimedEvent[] = [];
  const newEvent = () => {
    const id = upTo(60);
    const source = id % 5 === 0 ? ("timer" as const) : ("webhook" as const);
    const timestamp = new Date(Date.now() + upTo(3) * 1000).toISOString();
    const ref = id % 7 === 0 ? null : `booking:${id % 11}`;
    return { eventId: `e${id}`, ref, source, topic: null, timestamp, notification: "{}" };
  };
  const record = { snapshot: { status: "Confirmed", fields: {} }, changed: false };
  const outcomes: (() => Outcome)[] = [
    () => ({ state: "released" }),
    () => ({ state: "retrying", type: "t", reason: "callback", entry, in: upTo(5000) }),
    () => ({ state: "parked", type: "t", reason: "callback", entry }),
    () => ({ state: "done", type: "t", entry, record, remove: upTo(2) === 0 ? "timers" : undefined }),
  ];
  const steps: (() => Promise<unknown>)[] = [
    () => store.add(newEvent(), { replace: ([undefined, "ended", "moved"] as const)[upTo(3)] }),
    () => store.add(newEvent(), { dueIn: upTo(10_000) }),
    async () => claims.push(...(await store.claim({ limit: 1 + upTo(4), leaseDuration: 1 + upTo(5000) }))),
    async () => {
      const [claim] = claims.splice(upTo(claims.length), 1);
      if (claim) await store.settle(claim, outcomes[upTo(outcomes.length)]!());
    },
    () => store.replay({ ref: `booking:${upTo(11)}` }),
    () => store.discard({ ref: `booking:${upTo(11)}` }),
    () => store.remove(`booking:${upTo(11)}`, "timers"),
    () => store.erase(`booking:${upTo(11)}`).catch(() => {}),
    () => store.prune({ state: upTo(2) === 0 ? "done" : "parked", age: 0, limit: 2 }),
    async () => void vi.setSystemTime(Date.now() + upTo(3000)),
  ];
  for (let step = 0; step < STEPS; step += 1) {
    await steps[upTo(steps.length)]!();
    const listed = await Promise.all(eventStates.map((state) => store.list({ state, limit: 1000 })));
    const lengths = Object.fromEntries(eventStates.map((state, index) => [state, listed[index]!.length]));
    expect(await store.counts(), `seed ${seed}, step ${step}`).toEqual(lengths);
  }
});
