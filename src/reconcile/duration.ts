const UNITS = { ms: 1, s: 1000, m: 60_000, h: 60 * 60_000, d: 24 * 60 * 60_000 } as const;

/** `"24h"` and the like, or a number of ms, in ms; `undefined` for anything else, and for what is not above 0. */
export function parseDuration(given: unknown): number | undefined {
  const ms = typeof given === "string" ? written(given) : given;
  return typeof ms === "number" && Number.isFinite(ms) && ms > 0 ? ms : undefined;
}

function written(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text);
  return match ? Number(match[1]) * UNITS[match[2] as keyof typeof UNITS] : undefined;
}
