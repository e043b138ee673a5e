import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { done, outOfReach, queueOf, SECOND } from "./support.ts";

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
