/**
 * Whether `npm run soak -- tests` runs the tests. Then each table has all its cases. In CI, the tables that take longest
 * have only the cases that can fail while all others pass.
 */
export const isSoak = process.env.STAYHOOK_SOAK === "1";

/** Returns the size of a crowd or the number of random runs: `npm test` has small ones, CI and the soak the full ones. */
export const sized = (small: number, full: number): number =>
  isSoak || process.env.CI !== undefined ? full : small;
