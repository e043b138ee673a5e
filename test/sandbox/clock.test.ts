import { expect, it, vi } from "vitest";
import { createClock } from "../../src/sandbox/clock.ts";
import { createClosing } from "../../src/sandbox/closing.ts";

it("never goes back: moved to what is past already, it stays", () => {
  vi.useFakeTimers();
  try {
    const clock = createClock(createClosing());
    const start = Date.now();
    clock.moveTo(start + 3_600_000);
    clock.moveTo(start + 60_000);
    expect(clock.now()).toBe(start + 3_600_000);
    vi.advanceTimersByTime(1000);
    expect(clock.now()).toBe(start + 3_601_000);
  } finally {
    vi.useRealTimers();
  }
});
