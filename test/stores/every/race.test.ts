import { expect, test } from "vitest";
import { wrapped } from "../contract/wrapped.ts";
import { race } from "./race.ts";
import { describeEvery, opened } from "./stores.ts";

const EVENTS = Number(process.env.STAYHOOK_RACE_EVENTS ?? 1000);
const SEED = Number(process.env.STAYHOOK_RACE_SEED ?? Date.now() % 1_000_000);

/** `STAYHOOK_RACE_EVENTS=10000` races more events, and `STAYHOOK_RACE_SEED` repeats a seed. */
describeEvery(
  () => true,
  (kind) => {
    test(`four handles, ${EVENTS} events, seed ${SEED}`, { timeout: 120_000 + EVENTS * 60 }, async () => {
      const place = await kind.create();
      const handles = Array.from({ length: 4 }, () => opened(place));
      const start = performance.now();
      const handled = await race(handles, EVENTS, SEED);
      console.log(`race of ${kind.name}: ${handled} events in ${Math.round(performance.now() - start)} ms`);
    });
  },
);

test("the race finds a store that lets two workers have one record", async () => {
  const store = wrapped((inner) => ({
    add: (event, options) => inner.add({ ...event, ref: null }, options),
  }));
  await expect(race([store, store], 300, 1)).rejects.toThrow();
});
