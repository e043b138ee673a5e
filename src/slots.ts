/** Made by {@link createSlots}. */
export interface Slots {
  run<T>(work: () => Promise<T>): Promise<T>;
}

/** Runs at most `max` at once, in the order in which they came. */
export function createSlots(max: number): Slots {
  const waiting: (() => void)[] = [];
  let free = max;
  return {
    async run(work) {
      if (free > 0) free--;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      try {
        return await work();
      } finally {
        const next = waiting.shift();
        if (next) next();
        else free++;
      }
    },
  };
}
