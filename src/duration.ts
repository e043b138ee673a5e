const DAY = 24 * 60 * 60_000;
const UNITS = { ms: 1, s: 1000, m: 60_000, h: 60 * 60_000, d: DAY } as const;

/** Converts a duration such as `"24h"`, or a number of ms, to ms. Returns `undefined` for an invalid value or 0. */
export function parseDuration(given: unknown): number | undefined {
  const match = typeof given === "string" ? /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(given) : null;
  const ms = match ? Number(match[1]) * UNITS[match[2] as keyof typeof UNITS] : given;
  return typeof ms === "number" && Number.isFinite(ms) && ms > 0 ? ms : undefined;
}
