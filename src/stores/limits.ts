/** The longest wait that a store keeps, ms: 366 days. A longer one, such as a backoff of 1e300, would overflow a database's number or date. */
export const MAX_WAIT = 366 * 24 * 60 * 60_000;

/** A wait as stores keep it: whole ms from 0 to {@link MAX_WAIT}; NaN becomes 0. */
export function clampWait(ms: number): number {
  return Math.round(Math.min(Math.max(Number.isNaN(ms) ? 0 : ms, 0), MAX_WAIT));
}

/** How many attempts an event's history keeps. */
export const HISTORY_LENGTH = 10;
