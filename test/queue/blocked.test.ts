import { stat } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { done, first, gate, idsOf, queueOf, sleep } from "./support.ts";

function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

/** Makes a call of the store take a few ms, like that of a server. */
const slow =
  <A extends unknown[], R>(own: (...args: A) => Promise<R>) =>
  async (...args: A): Promise<R> => {
    await sleep(5);
    const answer = await own(...args);
    await sleep(5);
    return answer;
  };

// These tests block the real event loop, because fake timers do not ring late.
describe("a blocked event loop", () => {
  test("runs no event twice, and is logged once a minute", async () => {
    const { queue, add, ran, store, logged, kinds } = queueOf({
      alter: { claim: slow, settle: slow, renew: slow, nextDue: slow },
      leaseDuration: 1500,
      work: async ({ eventId }, { answered }) => {
        answered("record");
        await sleep(50);
        if (eventId.startsWith("blocks")) block(2000);
        else await sleep(200);
        return done;
      },
    });
    const ids = ["blocks 1", ...idsOf(9)];
    await add(...ids);
    queue.start();
    await eventually(async () => expect(await store.counts()).toMatchObject({ done: 10 }));
    await add("blocks 2");
    await eventually(async () => expect(await store.counts()).toMatchObject({ done: 11 }));
    await sleep(500);
    expect(ran).toEqual([...ids, "blocks 2"]);
    expect(kinds()).toEqual(Array(11).fill("done"));
    // A busy machine may be late with a renewal besides.
    const told = logged.filter((line) => line.includes("blocked"));
    expect(told).toEqual([expect.stringMatching(/the event loop was blocked for \d+ s/)]);
    expect(await store.get("blocks 2")).toMatchObject({ state: "done", attempts: 1 });
    await queue.close(0);
  });

  test("is logged even if all attempts end before the next timer rings", async () => {
    const { queue, add, logged, kinds } = queueOf({
      leaseDuration: 600,
      work: () => {
        block(1000);
        return done;
      },
    });
    await add("a");
    queue.start();
    await eventually(() =>
      expect(logged).toEqual([expect.stringMatching(/the event loop was blocked for \d+ s/)]),
    );
    expect(kinds()).toEqual(["done"]);
    await queue.close(0);
  });

  test("loses no answer of the store that arrives meanwhile", async () => {
    const asked = gate();
    const { queue, add, ran, kinds, logged } = queueOf({
      alter: {
        settle: first(async () => {
          asked.open();
          // Like the answer of a server, the result of I/O arrives after the timers that are due.
          for (let n = 0; n < 10; n += 1) await stat(".");
        }),
      },
      leaseDuration: 600,
      work: async ({ eventId }) => {
        if (eventId === "blocks") {
          await asked.opened;
          await new Promise((resolve) => setImmediate(resolve));
          block(1000);
        }
        return done;
      },
    });
    await add("a", "blocks");
    queue.start();
    await eventually(() => expect(kinds()).toEqual(["done", "done"]));
    expect(ran).toEqual(["a", "blocks"]);
    expect(logged.join()).not.toMatch(/did not record/);
    await queue.close(0);
  });
});
