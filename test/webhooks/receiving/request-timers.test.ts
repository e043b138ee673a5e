import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Deadlines, deadlineSource, LATE, now } from "../../../src/webhooks/receiving/request-timers.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("Deadlines", () => {
  it("rings each at its time, whatever the order in which they were set", async () => {
    const deadlines = new Deadlines();
    const rung: number[] = [];
    const start = now();
    for (const after of [500, 100, 300, 100]) deadlines.add(start + after, () => rung.push(after));
    await vi.advanceTimersByTimeAsync(99);
    expect(rung).toEqual([]);
    await vi.advanceTimersByTimeAsync(2);
    expect(rung).toEqual([100, 100]);
    await vi.advanceTimersByTimeAsync(201);
    expect(rung).toEqual([100, 100, 300]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(rung).toEqual([100, 100, 300, 500]);
  });

  it("rings none that was removed, and one that was moved on when it is time", async () => {
    const deadlines = new Deadlines();
    const late = vi.fn();
    const removed = deadlines.add(now() + 100, () => late("removed"));
    const moved = deadlines.add(now() + 100, () => late("moved"));
    moved.at = now() + 200;
    deadlines.remove(removed);
    await vi.advanceTimersByTimeAsync(150);
    expect(late).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(51);
    expect(late.mock.calls).toEqual([["moved"]]);
  });

  it("has one timer for all", async () => {
    const deadlines = new Deadlines();
    for (let count = 0; count < 50; count++)
      void deadlines.within(new Promise(() => {}), now() + 1_000 - count);
    expect(vi.getTimerCount()).toBe(1);
    await vi.advanceTimersByTimeAsync(1_100);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("settles as the work does, in time, and LATE after", async () => {
    const deadlines = new Deadlines();
    await expect(deadlines.within("value", now() + 10)).resolves.toBe("value");
    await expect(deadlines.within(Promise.resolve(1), now() + 10)).resolves.toBe(1);
    await expect(deadlines.within(Promise.reject(new Error("no")), now() + 10)).rejects.toThrow("no");
    const late = deadlines.within(new Promise(() => {}), now() + 10);
    await vi.advanceTimersByTimeAsync(11);
    await expect(late).resolves.toBe(LATE);
  });

  it("holds a process open while something is awaited, and not after", async () => {
    vi.useRealTimers();
    const made: NodeJS.Timeout[] = [];
    const setTimeout = globalThis.setTimeout;
    vi.stubGlobal("setTimeout", (callback: () => void, ms: number) => {
      const timer = setTimeout(callback, ms);
      made.push(timer);
      return timer;
    });
    const deadlines = new Deadlines();
    const held = (): boolean[] => made.map((timer) => timer.hasRef());
    const first = deadlines.add(now() + 60_000, () => {});
    expect(held()).toEqual([true]);
    deadlines.remove(first);
    expect(held()).toEqual([false]);
    const second = deadlines.add(now() + 70_000, () => {});
    expect(held()).toEqual([true]);
    deadlines.remove(second);
    expect(held()).toEqual([false]);
    for (const timer of made) clearTimeout(timer);
  });

  it("leaves no timer where none can be let go of", async () => {
    const setTimeout = globalThis.setTimeout;
    const ids = new Map<number, NodeJS.Timeout>();
    const clear = globalThis.clearTimeout;
    vi.stubGlobal("setTimeout", (callback: () => void, ms: number) => {
      ids.set(ids.size + 1, setTimeout(callback, ms));
      return ids.size;
    });
    vi.stubGlobal("clearTimeout", (id: number) => clear(ids.get(id)));
    const deadlines = new Deadlines();
    const late = vi.fn();
    deadlines.remove(deadlines.add(now() + 100, late));
    expect(vi.getTimerCount()).toBe(0);
    deadlines.add(now() + 100, late);
    expect(vi.getTimerCount()).toBe(1);
    await vi.advanceTimersByTimeAsync(101);
    expect(late).toHaveBeenCalledTimes(1);
  });
});

describe("deadlineSource", () => {
  it("shares a timer between requests on Node", () => {
    const source = deadlineSource();
    expect(source()).toBe(source());
  });

  it.each(["Cloudflare-Workers", "Edge Runtime", undefined])(
    "gives each request its own on %s, where a timer ends with its request",
    async (userAgent) => {
      vi.stubGlobal("navigator", userAgent === undefined ? undefined : { userAgent });
      vi.resetModules();
      const fresh = await import("../../../src/webhooks/receiving/request-timers.ts");
      const source = fresh.deadlineSource();
      expect(source()).not.toBe(source());
    },
  );
});
