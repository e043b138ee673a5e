import { expect, test, vi } from "vitest";
import { REFUSALS } from "../../src/queue/wait-rules.ts";
import type { EventStore } from "../../src/stores/event-store.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { isSoak } from "../support/soak.ts";
import { type Random, randomOf, seedOf } from "../system/random.ts";
import {
  callbackFailed,
  done,
  eventOf,
  outOfReach,
  queueOf,
  refused,
  SECOND,
  sleep,
  useFakeTime,
} from "./support.ts";

const SCHEDULES = isSoak ? 2000 : 200;
const seed = seedOf("schedules");

useFakeTime();

/** Makes a clock that advances even within one turn of the event loop, like a real clock. */
function restlessClock(random: Random): void {
  const now = performance.now.bind(performance);
  let ahead = 0;
  vi.spyOn(performance, "now").mockImplementation(() => {
    ahead += random.below(1000) / 1000;
    return now() + ahead;
  });
}

/** Makes a store with random delays before and after its work. Its calls fail while `broken()` is true. */
function slowStore(store: EventStore, random: Random, broken: () => boolean, notifies: boolean): EventStore {
  const slow = new Set<string | symbol>(["claim", "nextDue", "settle", "renew", "get"]);
  const wait = () => (random.oneIn(2) ? undefined : sleep(random.below(12)));
  return new Proxy(store, {
    get(target, property: keyof EventStore) {
      if (property === "subscribe" && !notifies) return undefined;
      const value = target[property];
      if (typeof value !== "function") return value;
      const own = (value as (...args: unknown[]) => unknown).bind(target);
      if (!slow.has(property)) return own;
      return async (...args: unknown[]) => {
        await wait();
        if (broken()) throw new Error("the store is down");
        const answer = await own(...args);
        await wait();
        return answer;
      };
    },
  });
}

/** Runs random actions on a queue. Then the platform and the store recover. Returns the counts of unfinished events. */
async function live(random: Random): Promise<Record<string, number>> {
  restlessClock(random);
  let platform: "up" | "down" | "limits" | "refuses" | "fails" = "up";
  let broken = false;
  const memory = memoryStore();
  const { queue, store } = queueOf({
    store: slowStore(memory, random, () => broken, random.oneIn(2)),
    concurrency: 1 + random.below(3),
    maxAttempts: 1_000_000,
    leaseDuration: 600,
    backoff: () => random.below(40),
    work: async ({ refusals }, { answered }) => {
      if (random.oneIn(2)) await sleep(random.below(15));
      if (platform === "down") return outOfReach();
      if (platform === "limits") return outOfReach(random.below(40));
      // The fifth refusal in a row parks.
      if (platform === "refuses" && refusals < REFUSALS - 1) return refused;
      answered("record");
      return platform === "fails" ? callbackFailed : done;
    },
  });
  queue.start();
  let events = 0;
  const nextEvent = (ref: string | null) => {
    events += 1;
    return eventOf(`e${events}`, ref);
  };
  const actions: (() => unknown)[] = [
    () => store.add(nextEvent(random.oneIn(4) ? null : `booking:${random.below(4)}`)),
    () => store.add(nextEvent(`booking:later`), { dueIn: random.below(60) }),
    // Enough events for claims that wait for slots.
    () => Promise.all(Array.from({ length: 12 }, () => store.add(nextEvent(null)))),
    () => queue.wake({ ref: null, eventId: "any" }),
    () => {
      platform = random.pick(["up", "down", "down", "limits", "refuses", "fails"]);
    },
    () => memory.claim({ limit: 1 + random.below(2), leaseDuration: random.below(100) }),
    () => void queue.drain({ timeout: random.below(50) }).catch(() => {}),
    () => {
      broken = random.oneIn(3);
    },
  ];
  for (let n = 6 + random.below(10); n > 0; n -= 1) {
    await random.pick(actions)();
    await vi.advanceTimersByTimeAsync(random.oneIn(3) ? 0 : random.below(30));
  }
  platform = "up";
  broken = false;
  // Wait longer than an aborted attempt may take (3 s), and than the queue waits after a store failure (up to 5 s).
  await vi.advanceTimersByTimeAsync(12 * SECOND);
  const { done: ended, ...waiting } = await memory.counts();
  vi.clearAllTimers();
  vi.restoreAllMocks();
  return { ...waiting, missing: events - ended };
}

test("every due event is handled in the end, in whatever order things happen", async () => {
  for (let n = 0; n < SCHEDULES; n += 1) {
    const left = await live(randomOf(seed + n));
    expect(left, `FUZZ_SEED=${seed + n}`).toEqual({
      scheduled: 0,
      pending: 0,
      processing: 0,
      retrying: 0,
      parked: 0,
      missing: 0,
    });
  }
});
