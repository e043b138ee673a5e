/** Says how many ms to wait before another attempt, after so many of them (1 after the first). */
export type Backoff = (attempt: number) => number;

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const SCHEDULE = [
  5 * SECOND,
  30 * SECOND,
  2 * MINUTE,
  10 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  3 * HOUR,
  5 * HOUR,
  6 * HOUR,
] as const;

const LONGEST = 6 * HOUR;

/** 5 s, 30 s, 2 min, 10 min, 30 min, 1 h, 2 h, 3 h, 5 h, then 6 h; each up to a quarter shorter, so that not all come back at once. */
export const defaultBackoff: Backoff = (attempt) =>
  (SCHEDULE[attempt - 1] ?? LONGEST) * (1 - Math.random() / 4);

/** A user's function may throw or give nonsense; an event must not be lost or spin over it. */
export function safeBackoff(backoff: Backoff): Backoff {
  return (attempt) => {
    try {
      const wait = backoff(attempt);
      if (typeof wait === "number" && wait >= 0 && Number.isFinite(wait)) return wait;
    } catch {
      // the schedule below stands in
    }
    return defaultBackoff(attempt);
  };
}
