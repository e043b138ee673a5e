import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { memoryStore } from "stayhook";
import { afterEach, expect, test, vi } from "vitest";
import type { EventStore } from "../../src/stores/event-store.ts";
import { describeEvery } from "../stores/every/stores.ts";
import { play, type Stage, stepsOf } from "./timers-play.ts";

// A failure prints the seed. STAYHOOK_TIMERS_SEED=<seed> repeats the run, STAYHOOK_TIMERS_RUNS sets how many there are.
const { STAYHOOK_TIMERS_SEED, STAYHOOK_TIMERS_RUNS } = process.env;
const seed = Number(STAYHOOK_TIMERS_SEED ?? Math.floor(Math.random() * 2 ** 31));

afterEach(() => {
  vi.useRealTimers();
});

function runs(numRuns: number): fc.Parameters<unknown> {
  console.log(`seed: ${seed}`);
  return { numRuns: Number(STAYHOOK_TIMERS_RUNS ?? numRuns), seed };
}

test("timers fire for the last time that was set, and never early or after a clear: a fake clock", async () => {
  await fc.assert(
    fc.asyncProperty(stepsOf(true, 25), async (steps) => {
      vi.useFakeTimers({ now: new Date("2026-05-01T12:00:00Z") });
      const written: string[] = [];
      const store = memoryStore<string[]>({
        transaction: async (run) => {
          const notes: string[] = [];
          await run(notes); // rejects if the lease was lost, so that the notes are dropped, as a rollback does
          // A COMMIT takes time, in which processes are killed and the clock is set.
          await new Promise((resolve) => setTimeout(resolve, 90_000));
          written.push(...notes);
        },
      });
      const stage: Stage = {
        unit: 60_000,
        stepClock: (ms) => void vi.setSystemTime(Date.now() + ms),
        wait: (ms) => vi.advanceTimersByTimeAsync(ms),
        open: () => store as unknown as EventStore<unknown>,
        write: (tx, text) => void (tx as string[]).push(text),
        written: async () => written,
      };
      expect(await play(stage, steps)).toEqual([]);
    }),
    runs(100),
  );
});

describeEvery(
  ({ name }) => name === "SQLite" || name === "PostgreSQL",
  (kind) => {
    test("timers fire for the last time that was set, and never early or after a clear", async () => {
      await fc.assert(
        fc.asyncProperty(stepsOf(false, 12), async (steps) => {
          const place = await kind.create();
          await place.sql("CREATE TABLE fired (note VARCHAR(80) NOT NULL)");
          const stores: EventStore<unknown>[] = [];
          const stage: Stage = {
            unit: 60,
            wait: (ms) => sleep(ms),
            open: () => {
              stores.push(place.open());
              return stores.at(-1)!;
            },
            write: (tx, note) => kind.write!(tx, `INSERT INTO fired (note) VALUES ('${note}')`),
            written: async () => (await place.sql("SELECT note FROM fired")).map(({ note }) => String(note)),
          };
          const wrong = await play(stage, steps);
          await Promise.all(stores.map((store) => store.close()));
          expect(wrong).toEqual([]);
        }),
        runs(6),
      );
    });
  },
);
