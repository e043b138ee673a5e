import { check, equal } from "./expect.ts";
import { type Bench, type Cases, failed, LONG, parked } from "./harness.ts";

/** `subscribe` is optional: a store without it is polled, and passes. */
export const waking: Cases = {
  "an event that is added wakes": async (bench) => {
    await wakes(bench, "add", () => bench.add("booking:A"));
  },

  "a failure wakes: it is due before its lease would have ended": async (bench) => {
    await bench.add("booking:A");
    const claim = await bench.claimOne();
    await wakes(bench, "settle", () => bench.settle(claim, failed(bench.unit)));
  },

  "an attempt that is given back wakes": async (bench) => {
    await bench.add("booking:A");
    const claim = await bench.claimOne();
    await wakes(bench, "settle", () => bench.settle(claim, { state: "released" }));
  },

  "the end of one event wakes for the next of its record": async (bench) => {
    await bench.add("booking:A");
    const claim = await bench.claimOne();
    await bench.add("booking:A");
    await wakes(bench, "settle", () => bench.done(claim));
  },

  "a replay wakes": async (bench) => {
    const event = await bench.add("booking:A");
    await bench.settle(await bench.claimOne(), failed(LONG));
    await wakes(bench, "replay", () => bench.store.replay({ eventId: event.eventId }));
    await bench.settle(await bench.claimOne(), parked());
    await wakes(bench, "replay", () => bench.store.replay({ state: "parked" }));
  },

  "a subscription that has ended is not woken": async ({ store, add, sleep }) => {
    if (store.subscribe === undefined) return;
    let calls = 0;
    const wake = () => {
      calls += 1;
    };
    const ends = [store.subscribe(wake), store.subscribe(wake)];
    for (const end of ends) {
      end();
      end();
    }
    await add("booking:A");
    await sleep(2);
    equal("how often it was woken", calls, 0);
  },

  "a subscriber that throws does no harm": async (bench) => {
    const { store, claim } = bench;
    const end = store.subscribe?.(() => {
      throw new Error("a subscriber's own");
    });
    await wakes(bench, "add", () => bench.add("booking:A"));
    equal("how many can be claimed", (await claim()).length, 1);
    end?.();
  },
};

async function wakes(bench: Bench, what: string, act: () => Promise<unknown>): Promise<void> {
  const { store, eventually, sleep } = bench;
  if (store.subscribe === undefined) {
    await act();
    return;
  }
  // What happened before may still be on its way.
  await sleep(0.5);
  let calls = 0;
  const end = store.subscribe(() => {
    calls += 1;
  });
  check(typeof end === "function", "subscribe: expected a function that ends the subscription");
  await act();
  await eventually(`a wake after ${what}`, async () => calls > 0);
  end();
}
