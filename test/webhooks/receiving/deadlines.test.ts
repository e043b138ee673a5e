import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Deadlines, deadlineSource, type Limited, now } from "../../../src/webhooks/receiving/deadlines.ts";

const LIMIT = 100;
const request = (late: () => void = () => {}): Limited => ({ at: now() + LIMIT, late });

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("Deadlines", () => {
  it("calls each request at its time", async () => {
    const deadlines = new Deadlines(LIMIT);
    const late: string[] = [];
    deadlines.add(request(() => late.push("first")));
    await vi.advanceTimersByTimeAsync(40);
    deadlines.add(request(() => late.push("second")));
    deadlines.add(request(() => late.push("third")));
    await vi.advanceTimersByTimeAsync(59);
    expect(late).toEqual([]);
    await vi.advanceTimersByTimeAsync(2);
    expect(late).toEqual(["first"]);
    await vi.advanceTimersByTimeAsync(40);
    expect(late).toEqual(["first", "second", "third"]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(late).toHaveLength(3);
  });

  it("calls none that has ended", async () => {
    const deadlines = new Deadlines(LIMIT);
    const late = vi.fn();
    const ended = request(() => late("ended"));
    deadlines.add(ended);
    await vi.advanceTimersByTimeAsync(50);
    deadlines.remove(ended);
    deadlines.add(request(() => late("open")));
    await vi.advanceTimersByTimeAsync(90);
    expect(late).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(11);
    expect(late.mock.calls).toEqual([["open"]]);
  });

  it("has one timer for all", async () => {
    const deadlines = new Deadlines(LIMIT);
    for (let count = 0; count < 50; count++) deadlines.add(request());
    expect(vi.getTimerCount()).toBe(1);
    await vi.advanceTimersByTimeAsync(LIMIT + 1);
    expect(vi.getTimerCount()).toBe(0);
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
    const deadlines = new Deadlines(LIMIT);
    const held = (): boolean[] => made.map((timer) => timer.hasRef());
    const first = request();
    deadlines.add(first);
    expect(held()).toEqual([true]);
    deadlines.remove(first);
    expect(held()).toEqual([false]);
    const second = request();
    deadlines.add(second);
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
    const deadlines = new Deadlines(LIMIT);
    const late = vi.fn();
    const done = request(late);
    deadlines.add(done);
    deadlines.remove(done);
    expect(vi.getTimerCount()).toBe(0);
    deadlines.add(request(late));
    expect(vi.getTimerCount()).toBe(1);
    await vi.advanceTimersByTimeAsync(101);
    expect(late).toHaveBeenCalledTimes(1);
  });
});

describe("deadlineSource", () => {
  it("shares a timer between requests on Node", () => {
    const source = deadlineSource(LIMIT);
    expect(source()).toBe(source());
  });

  it.each(["Cloudflare-Workers", "Edge Runtime", undefined])(
    "gives each request its own on %s, where a timer ends with its request",
    async (userAgent) => {
      vi.stubGlobal("navigator", userAgent === undefined ? undefined : { userAgent });
      vi.resetModules();
      const fresh = await import("../../../src/webhooks/receiving/deadlines.ts");
      const source = fresh.deadlineSource(LIMIT);
      expect(source()).not.toBe(source());
    },
  );
});
