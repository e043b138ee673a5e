import { vi } from "vitest";

/** How long a test waits for anything, ms. A machine with other work may need minutes for a second's work. */
export const PATIENCE = 60_000;

/** Repeats a check until it passes. A check that fails on a busy machine after one second, as vitest's own, proves nothing. */
export function eventually<T>(check: () => T | Promise<T>, timeout = PATIENCE, interval = 20): Promise<T> {
  return vi.waitFor(check, { timeout, interval });
}
