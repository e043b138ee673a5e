import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { brokenStore, done, eventOf, gate, HOUR, outOfReach, queueOf, SECOND } from "./support.ts";

beforeEach(() => {
  vi.useFakeTimers({ now: Date.UTC(2026, 0, 1) });
});
afterEach(() => {
  vi.useRealTimers();
});

const advance = (ms: number) => vi.advanceTimersByTimeAsync(ms);

describe("a pause", () => {
  test("shows its start and its reason while it lasts", async () => {
    let down = true;
    const { queue, add, observed } = queueOf({ work: () => (down ? outOfReach() : done) });
    await add("a", "b");
    expect(queue.pause).toBeUndefined();
    queue.start();
    await advance(0);
    const since = new Date();
    expect(queue.pause).toEqual({ since, reason: "Error: down" });
    expect(observed).toContainEqual(
      expect.objectContaining({ kind: "paused", since, reason: "Error: down" }),
    );
    await advance(20 * SECOND);
    expect(queue.pause).toEqual({ since, reason: "Error: down" });
    down = false;
    await advance(60 * SECOND);
    expect(queue.pause).toBeUndefined();
  });
});

describe("at the start", () => {
  test("the log says how many events other processes hold, and until when", async () => {
    const held = gate();
    const { queue, store, add, logged } = queueOf({ work: () => held.opened.then(() => done) });
    await add("theirs 1", "theirs 2", "ended");
    await store.claim({ limit: 1, leaseDuration: SECOND, eventId: "ended" });
    await store.claim({ limit: 1, leaseDuration: 20 * SECOND, eventId: "theirs 1" });
    await store.claim({ limit: 1, leaseDuration: 25 * SECOND, eventId: "theirs 2" });
    await advance(2 * SECOND);
    await add("own");
    queue.start();
    await advance(0);
    expect(logged).toEqual([
      "stayhook: other processes hold the leases of 2 events. The last lease ends at 2026-01-01T00:00:25.000Z, unless it is renewed",
    ]);
    held.open();
  });

  test("the queue logs nothing if no process holds events, and checks this only once", async () => {
    const { queue, store, logged } = queueOf();
    await store.add(eventOf("a"));
    queue.start();
    await advance(0);
    await store.add(eventOf("b"));
    await store.claim({ limit: 1, leaseDuration: HOUR, eventId: "b" });
    queue.start();
    await advance(SECOND);
    expect(logged).toEqual([]);
  });

  test("a store that fails to list delays nothing", async () => {
    const store = brokenStore(memoryStore(), { list: () => new Error("down") });
    const { queue, add, stateOf } = queueOf({ store });
    await add("a");
    queue.start();
    await advance(0);
    expect(await stateOf("a")).toBe("done");
  });
});
