import { between, check, equal } from "./expect.ts";
import { type Cases, failed, handled, LONG, parked, unreachable } from "./harness.ts";

export const nextDue: Cases = {
  "it is undefined where nothing is left to do": async ({ store, add, claimOne, done, settle }) => {
    equal("in an empty store", await store.nextDue(), undefined);
    await add("booking:A");
    await done(await claimOne(), "Confirmed");
    await add(null);
    await settle(await claimOne(), parked());
    equal("with all done or parked", await store.nextDue(), undefined);
  },

  "it is 0 where something can be claimed": async ({ store, add, claimOne, settle }) => {
    await add("booking:A");
    equal("with a pending event", await store.nextDue(), 0);
    const claim = await claimOne();
    await add("booking:B");
    equal("with a pending event beside a leased one", await store.nextDue(), 0);
    await claimOne();
    await settle(claim, { state: "released" });
    equal("with one given back", await store.nextDue(), 0);
  },

  "it counts the end of a lease, also for events that wait behind it": async ({ store, add, claimOne }) => {
    await add("booking:A");
    await claimOne({ leaseDuration: LONG });
    between("with a leased event", await store.nextDue(), LONG - 30_000, LONG);
    await add("booking:A");
    between("with another behind it", await store.nextDue(), LONG - 30_000, LONG);
    await add("booking:B");
    await claimOne({ leaseDuration: 3 * LONG });
    between("with a longer lease beside it", await store.nextDue(), LONG - 30_000, LONG);
  },

  "it counts an event's retry": async ({ store, add, claimOne, settle }) => {
    await add("booking:A");
    await settle(await claimOne(), failed(LONG));
    between("with a retry", await store.nextDue(), LONG - 30_000, LONG);
    await add("booking:A");
    equal("with a new event of its record", await store.nextDue(), 0);
  },

  "it counts a record's wait": async ({ store, add, claimOne, settle }) => {
    await add("booking:A");
    await add("booking:A");
    await settle(await claimOne(), unreachable(LONG));
    between("with a record that waits", await store.nextDue(), LONG - 30_000, LONG);
    await add("booking:B");
    await settle(await claimOne(), failed(2 * LONG));
    between("with a later retry beside it", await store.nextDue(), LONG - 30_000, LONG);
  },

  "after that time an event can be claimed": async (bench) => {
    const { store, add, claim, claimOne, settle, sleep, unit } = bench;
    for (const prepare of [
      async () => void (await claimOne({ leaseDuration: 2 * unit })),
      async () => settle(await claimOne(), failed(2 * unit)),
      async () => settle(await claimOne(), unreachable(2 * unit)),
    ]) {
      await add(null);
      await prepare();
      const wait = await store.nextDue();
      check(
        wait !== undefined && wait <= 2 * unit + 5,
        `nextDue: expected at most ${2 * unit} ms, got ${wait}`,
      );
      // A timer may go off a little early by another clock.
      await sleep((wait + 5) / unit);
      const claims = await claim();
      equal("how many can be claimed then", claims.length, 1);
      await settle(claims[0]!, handled(claims[0]!));
    }
  },
};
