// The time, which a sandbox of this process can move ahead.

import { shared } from "./copies.ts";

/** The offsets of the sandboxes that run in this process, ms. */
interface Offsets {
  readonly ahead: Map<object, number>;
  readonly listeners: Set<() => void>;
}

const offsets = () => shared<Offsets>("clock", () => ({ ahead: new Map(), listeners: new Set() }));

/** Returns how far the sandboxes of this process are ahead of the machine's clock, ms. It is 0 without a sandbox. */
export function clockOffset(): number {
  let most = 0;
  for (const ahead of offsets().ahead.values()) most = Math.max(most, ahead);
  return most;
}

/** The time of timers and of the memory store, epoch ms. A sandbox in the same process moves it by `advance`. */
export function now(): number {
  return Date.now() + clockOffset();
}

/** Sets the offset of a sandbox, ms. `undefined` removes the offset. */
export function moveClock(sandbox: object, ahead: number | undefined): void {
  const { ahead: all, listeners } = offsets();
  if (ahead === undefined) all.delete(sandbox);
  else all.set(sandbox, ahead);
  for (const listener of listeners) listener();
}

/**
 * Calls the listener after each move of the clock.
 *
 * @returns a function that removes the listener
 */
export function onClockMoved(listener: () => void): () => void {
  const { listeners } = offsets();
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
