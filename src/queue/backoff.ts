/** Returns the wait before the next attempt, ms. `attempt` is the number of attempts so far, from 1. */
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

/** 5 s, 30 s, 2 min, 10 min, 30 min, 1 h, 2 h, 3 h, 5 h, then 6 h. Each wait is up to a quarter shorter, at random: retries that fall due together would overload the platform. */
export const defaultBackoff: Backoff = (attempt) =>
  (SCHEDULE[attempt - 1] ?? LONGEST) * (1 - Math.random() / 4);

/** Makes a backoff of the user's. It takes the default wait if that function throws or returns no wait. */
export function safeBackoff(backoff: Backoff): Backoff {
  return (attempt) => {
    try {
      const wait = backoff(attempt);
      if (typeof wait === "number" && wait >= 0 && Number.isFinite(wait)) return wait;
    } catch {
      // The default wait below replaces it.
    }
    return defaultBackoff(attempt);
  };
}
