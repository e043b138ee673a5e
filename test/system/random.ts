import { randomInt } from "node:crypto";

/** Random choices that a test can repeat: the same seed gives the same choices. */
export interface Random {
  /** Returns an integer from 0 to `limit` - 1. */
  below(limit: number): number;
  pick<T>(from: readonly T[]): T;
  /** Returns true once in `times` calls, on average. */
  oneIn(times: number): boolean;
  /** Returns true with a chance from 0 to 1. */
  chance(part: number): boolean;
  bytes(count: number): Buffer;
}

/** Returns and prints the seed of this run. Set `FUZZ_SEED` to repeat a run. */
export function seedOf(what: string): number {
  const seed = Number(process.env.FUZZ_SEED ?? randomInt(2 ** 31));
  console.log(`${what}: FUZZ_SEED=${seed}`);
  return seed;
}

/** Returns a mulberry32 generator. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number): number => Math.floor(next() * limit);
  return {
    below,
    pick: (from) => from[below(from.length)] as (typeof from)[number],
    oneIn: (times) => below(times) === 0,
    chance: (part) => next() < part,
    bytes: (count) => Buffer.from(Array.from({ length: count }, () => below(256))),
  };
}
