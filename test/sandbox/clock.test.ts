import { expect, it, onTestFinished, vi } from "vitest";
import { Clock } from "../../src/sandbox/clock.ts";
import { Recent } from "../../src/sandbox/sandbox-records.ts";

it("the clock never goes back", () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const clock = new Clock();
  const start = Date.now();
  clock.moveTo(start + 3_600_000);
  clock.moveTo(start + 60_000);
  expect(clock.now()).toBe(start + 3_600_000);
  vi.advanceTimersByTime(1000);
  expect(clock.now()).toBe(start + 3_601_000);
});

it("a recent list keeps the newest items in order", () => {
  const recent = new Recent<number>(3);
  const seen: number[][] = [];
  for (let number = 1; number <= 8; number++) {
    recent.add(number);
    seen.push(recent.list());
  }
  expect(seen).toEqual([[1], [1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6], [5, 6, 7], [6, 7, 8]]);
});
