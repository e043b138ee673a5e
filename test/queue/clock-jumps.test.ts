// The wall clock jumps ahead, and the monotonic clock does not: a machine that was suspended, or NTP.

import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { EventStore } from "../../src/stores/event-store.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";
import { advance, eventOf, HOUR, jump, MINUTE, queueOf, SECOND } from "./support.ts";

const realTurn = setImmediate;

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe.each<{ name: string; open: () => EventStore }>([
  { name: "memory", open: () => memoryStore() },
  { name: "SQLite", open: () => sqliteStore(":memory:") as EventStore },
])("$name", ({ open }) => {
  /** Starts a queue whose only event is a timer in 12 minutes. */
  async function started() {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] });
    const store = open();
    const { queue, ran, calls } = queueOf({ store });
    onTestFinished(async () => {
      await queue.close(0);
      await store.close();
    });
    /** Moves both clocks, and lets the store, which uses the real turns of the event loop, answer. */
    const pass = async (ms: number) => {
      for (let left = ms; left > 0; left -= SECOND) {
        await advance(Math.min(left, SECOND));
        for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => realTurn(resolve));
      }
    };
    queue.start();
    await pass(SECOND);
    return { store, queue, ran, calls, pass };
  }
  const timer = { ...eventOf("timer", "booking:A"), source: "timer" as const };

  test("what is due by the new clock is claimed within 30 s", async () => {
    const { store, ran, pass } = await started();
    await store.add(timer, { dueAt: new Date(Date.now() + 12 * MINUTE) });
    await pass(MINUTE);
    jump(12 * MINUTE);
    await pass(30 * SECOND);
    expect(ran).toEqual(["timer"]);
  });

  test("what is due some time after the jump is claimed at its time", async () => {
    const { store, ran, pass } = await started();
    const at = Date.now() + 12 * MINUTE;
    await store.add(timer, { dueAt: new Date(at) });
    await pass(MINUTE);
    jump(10 * MINUTE);
    await pass(at - Date.now() - 2 * SECOND);
    expect(ran).toEqual([]);
    await pass(3 * SECOND);
    expect(ran).toEqual(["timer"]);
  });

  test("the loop asks for it twice a minute, and never while no event waits", async () => {
    const { store, calls, pass } = await started();
    const idle = calls.claim;
    await pass(10 * MINUTE);
    expect(calls.claim).toBe(idle);
    await store.add(timer, { dueAt: new Date(Date.now() + HOUR) });
    await pass(10 * MINUTE);
    expect(calls.claim - idle).toBeGreaterThanOrEqual(20);
    expect(calls.claim - idle).toBeLessThanOrEqual(23);
  });
});
