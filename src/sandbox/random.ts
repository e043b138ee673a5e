import { v4 } from "uuid";

/** A stream of random draws. The same seed and purpose give the same stream. */
export interface Random {
  /** Returns a number that is at least 0 and less than 1. */
  next(): number;
  /** Returns an integer from `min` to `max`, including `min` and `max`. */
  integer(min: number, max: number): number;
  pick<T>(list: readonly [T, ...T[]]): T;
  /** Returns a new list in random order. */
  shuffle<T>(list: readonly T[]): T[];
  uuid(): string;
}

/**
 * Makes the stream of random draws for one purpose. The streams of two purposes are independent. For example, drawing
 * delays does not change the booking codes of a seed.
 */
export function createRandom(seed: number, purpose: string): Random {
  let state = hash(`${seed}:${purpose}`);

  // The mulberry32 algorithm.
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const integer = (min: number, max: number): number => min + Math.floor(next() * (max - min + 1));

  return {
    next,
    integer,
    pick: (list) => list[integer(0, list.length - 1)] as (typeof list)[0],
    shuffle<T>(list: readonly T[]): T[] {
      const shuffled = [...list];
      for (let last = shuffled.length - 1; last > 0; last--) {
        const other = integer(0, last);
        [shuffled[last], shuffled[other]] = [shuffled[other] as T, shuffled[last] as T];
      }
      return shuffled;
    },
    uuid: () => v4({ random: Uint8Array.from({ length: 16 }, () => integer(0, 255)) }),
  };
}

export const randomSeed = (): number => Math.floor(Math.random() * 2 ** 32);

// FNV-1a with a final mix. Without the mix, neighboring seeds would start with similar draws.
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index++)
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  return value ^ (value >>> 13);
}
