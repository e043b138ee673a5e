import { expect, test } from "vitest";
import { randomOf } from "../../system/random.ts";
import { wrapped } from "../contract/wrapped.ts";
import { patient } from "./patient.ts";
import { createProxy } from "./proxy.ts";
import { race } from "./race.ts";
import { describeEvery, opened } from "./stores.ts";

const EVENTS = Number(process.env.STAYHOOK_RACE_EVENTS ?? 1000);
/** Most of the time goes into new connections. */
const FAULTY_EVENTS = Number(process.env.STAYHOOK_RACE_EVENTS ?? 100);
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

describeEvery(
  ({ url }) => url !== undefined,
  (kind) => {
    test(`four handles, ${FAULTY_EVENTS} events, cut and late packets, seed ${SEED}`, {
      timeout: 120_000 + FAULTY_EVENTS * 100,
    }, async () => {
      const place = await kind.create();
      await opened(place).nextDue();
      const proxy = await createProxy(kind.url!);
      const handles = Array.from({ length: 4 }, () => patient(opened(place, { url: proxy.url })));
      for (const handle of handles) await handle.nextDue();
      proxy.faults = randomOf(SEED);
      await race(handles, FAULTY_EVENTS, SEED);
      const failures = handles.reduce((sum, handle) => sum + handle.failures, 0);
      console.log(
        `race of ${kind.name}: ${FAULTY_EVENTS} events, ${proxy.cuts} connections cut, ${failures} calls failed`,
      );
      // A driver may repeat what was cut, so that no call fails.
      expect(proxy.cuts).toBeGreaterThan(0);
    });
  },
);

test("the race finds a store that lets two workers have one record", async () => {
  const store = wrapped((inner) => ({
    add: (event, options) => inner.add({ ...event, ref: null }, options),
  }));
  await expect(race([store, store], 300, 1)).rejects.toThrow();
});
