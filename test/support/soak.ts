/**
 * Whether `npm run soak -- tests` runs the tests. Then each table has all its cases. In CI, the tables that take longest
 * have only the cases that can fail while all others pass.
 */
export const isSoak = process.env.STAYHOOK_SOAK === "1";
