import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { memoryStore } from "../../src/stores/memory.ts";
import { brokenStore, done, eventOf, HOUR, MINUTE, queueOf, SECOND, type TestWork } from "./support.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const advance = (ms: number) => vi.advanceTimersByTimeAsync(ms);

const work: TestWork = ({ eventId }) =>
  eventId.startsWith("forged")
    ? { state: "failed", reason: "not-found", error: new Error("404"), refused: true, maxAttempts: 5 }
    : done;

/** A loop that pauses because all that came so far was refused. */
async function flooded(forged: number, options: Parameters<typeof queueOf>[0] = {}) {
  const made = queueOf({ work, ...options });
  const arrive = async (eventId: string) => {
    await made.store.add(eventOf(eventId));
    made.queue.added(eventId);
  };
  made.queue.start();
  for (let n = 0; n < forged; n += 1) {
    await arrive(`forged ${n}`);
    await advance(0);
  }
  expect(made.queue.state).toBe("paused");
  return { ...made, arrive };
}

describe("a flood of forged notifications", () => {
  test("does not keep a real one that arrives during the pause behind it", async () => {
    const { arrive, ran, kinds, stateOf } = await flooded(500);
    expect(ran.length).toBeLessThan(20);
    await arrive("real");
    await advance(SECOND);
    expect(await stateOf("real")).toBe("done");
    expect(kinds()).toContain("resumed");
  });

  test("is tried ten times a second at the most beside the probes, the newest first", async () => {
    const { ran, arrive } = await flooded(10);
    for (let n = 0; n < 50; n += 1) await arrive(`forged later ${n}`);
    const before = ran.length;
    await advance(300);
    expect(ran.slice(before)).toEqual(["forged later 49", "forged later 48", "forged later 47"]);
  });

  test("does not keep a real one behind it that arrived just before the pause", async () => {
    const slow: TestWork = async (claim, context) => {
      await new Promise((resolve) => setTimeout(resolve, SECOND));
      return work(claim, context);
    };
    const { store, queue, stateOf } = queueOf({ work: slow });
    queue.start();
    // More than run at once, and nothing arrives after it.
    const ids = Array.from({ length: 500 }, (_, n) => `forged ${n}`).concat("real");
    for (const id of ids) {
      await store.add(eventOf(id));
      queue.added(id);
    }
    expect(queue.state).toBe("running");
    await advance(SECOND);
    expect(queue.state).toBe("paused");
    await advance(2 * SECOND);
    expect(await stateOf("real")).toBe("done");
  });

  test("does not keep a second real one behind it when the first ends the pause", async () => {
    const { arrive, stateOf } = await flooded(500);
    await arrive("real 1");
    await arrive("real 2");
    await advance(2 * SECOND);
    expect([await stateOf("real 1"), await stateOf("real 2")]).toEqual(["done", "done"]);
  });

  test("does not lose a real one that arrives while nothing more can run", async () => {
    const gates: (() => void)[] = [];
    const slow: TestWork = async (claim, context) => {
      if (claim.eventId.startsWith("slow")) await new Promise<void>((resolve) => gates.push(resolve));
      return work(claim, context);
    };
    const { arrive, stateOf } = await flooded(300, { work: slow, concurrency: 2 });
    await arrive("slow 1");
    await arrive("slow 2");
    await advance(SECOND);
    expect(gates.length).toBe(2);
    await arrive("real");
    await advance(SECOND);
    for (const open of gates) open();
    await advance(SECOND);
    expect(await stateOf("real")).toBe("done");
  });

  test("does not keep a real one behind it though each read takes longer than the next arrival", async () => {
    const slow: TestWork = async (claim, context) => {
      await new Promise((resolve) => setTimeout(resolve, 300));
      return work(claim, context);
    };
    const { queue, store, observed } = queueOf({ work: slow });
    queue.start();
    for (let n = 0; n < 1000; n += 1) {
      const id = n % 100 === 50 ? `real ${n}` : `forged ${n}`;
      await store.add(eventOf(id));
      queue.added(id);
      await advance(100);
    }
    const done = observed.flatMap((event) => (event.kind === "done" ? [event.eventId] : []));
    expect(new Set(done).size).toBe(10);
  });

  test("does not prolong the pause by being tried", async () => {
    const { arrive, observed } = await flooded(10, { backoff: (n) => n * 10 * SECOND });
    for (let n = 0; n < 9; n += 1) {
      await arrive(`forged later ${n}`);
      await advance(SECOND);
    }
    expect(observed.filter(({ kind }) => kind === "paused").length).toBe(1);
    await advance(SECOND);
    expect(observed.filter(({ kind }) => kind === "paused").length).toBe(2);
  });

  test("costs at most five reads each, and is parked as not found", async () => {
    const { ran, store } = await flooded(300);
    await advance(48 * HOUR);
    const reads = new Map<string, number>();
    for (const id of ran) reads.set(id, (reads.get(id) ?? 0) + 1);
    expect(Math.max(...reads.values())).toBe(5);
    expect(await store.counts()).toMatchObject({ parked: 300, pending: 0, retrying: 0 });
  });

  test("is let in one by one inline, too", async () => {
    const { queue, store, stateOf } = queueOf({ work, concurrency: 2 });
    for (const id of ["forged 1", "forged 2", "real"]) {
      await store.add(eventOf(id));
      await queue.runNow(id, performance.now() + MINUTE);
    }
    expect(await stateOf("real")).toBe("done");
  });
});

test("nothing is tried where no loop was started", async () => {
  const { queue, add, ran } = queueOf({ work });
  await add(...Array.from({ length: 50 }, (_, n) => `forged ${n}`));
  await queue.drain({});
  expect(queue.state).toBe("paused");
  const before = ran.length;
  await add("forged later");
  queue.added("forged later");
  await advance(10 * SECOND);
  expect(ran.length).toBe(before);
});

test("nothing is tried out of turn while the platform does not answer at all", async () => {
  const { queue, store, ran } = queueOf({
    work: () => ({
      state: "failed",
      reason: "unavailable",
      error: new Error("429"),
      outage: { everything: true },
    }),
    backoff: () => HOUR,
  });
  queue.start();
  for (const id of ["a", "b", "c"]) {
    await store.add(eventOf(id));
    queue.added(id);
    await advance(5 * SECOND);
  }
  expect(ran).toEqual(["a"]);
});

test("while nothing is refused, an arrival costs no timer", () => {
  const { queue } = queueOf();
  for (let n = 0; n < 100; n += 1) queue.added(`event ${n}`);
  expect(vi.getTimerCount()).toBe(0);
});

test("a store that fails meanwhile, or a close, ends it quietly", async () => {
  const broken: { claim?: () => Error } = {};
  const { arrive, logged, queue } = await flooded(10, { store: brokenStore(memoryStore(), broken) });
  broken.claim = () => new Error("down");
  await arrive("real");
  await advance(SECOND);
  expect(logged.join()).toMatch(/down/);
  delete broken.claim;
  await arrive("another");
  await queue.close(0);
  await advance(HOUR);
  expect(queue.state).toBe("stopped");
});
