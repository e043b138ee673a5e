import { vi } from "vitest";

/** Repeats a check until it passes. A check that fails on a busy machine after one second, as vitest's own, proves nothing. */
export function eventually<T>(check: () => T | Promise<T>, timeout = 20_000): Promise<T> {
  return vi.waitFor(check, { timeout, interval: 20 });
}
