import type { EventStore } from "../event-store.ts";
import { between, equal } from "./expect.ts";
import { type Bench, failed, handled, LONG, parked, unreachable } from "./harness.ts";

/** Cases for a store that survives a restart. `reopen` closes the store's process, and starts another on its data. */
export const restarting: Readonly<
  Record<string, (bench: Bench, reopen: () => Promise<EventStore<unknown>>) => Promise<void>>
> = {
  "a restart loses nothing": async (bench, reopen) => {
    const { store, add, claimOne, done, settle, tick } = bench;
    await add("booking:A");
    await done(await claimOne(), "Confirmed");
    await add("booking:B");
    await settle(await claimOne(), failed(LONG));
    await add(null);
    await settle(await claimOne(), parked());
    await add("booking:C");
    await settle(await claimOne(), unreachable(LONG));
    await tick();
    const pending = await add("booking:A");
    await store.add(bench.newEvent("booking:D", { source: "recheck" }), { dueIn: LONG });
    await store.setMeta("lock", "held", { expected: undefined });
    const read = async (from: EventStore<unknown>) => [
      await from.list({ limit: 10 }),
      await from.counts(),
      await from.recordOf("booking:A"),
      await from.newestReceived(),
      (await from.getMeta("lock"))?.value,
    ];
    const before = await read(store);
    const again = await reopen();
    equal("events, counts, snapshot, newestReceived and meta", await read(again), before);
    equal("add of a known id", await again.add(pending), "duplicate");
    const claims = await again.claim({ limit: 10, leaseDuration: LONG });
    const seen = claims.map(({ eventId, previous, sequence }) => [eventId, previous?.status, sequence]);
    equal("the claims", seen, [[pending.eventId, "Confirmed", 1]]);
  },

  "a lease outlives the process that took it": async ({ add, claimOne }, reopen) => {
    await add("booking:A");
    const claim = await claimOne();
    const again = await reopen();
    equal("claim", await again.claim({ limit: 10, leaseDuration: LONG }), []);
    between("nextDue", await again.nextDue(), LONG - 30_000, LONG);
    equal("settle with it", await again.settle(claim, { state: "released" }), true);
  },
};

/** Cases for a store that several processes use at once. `other` is a second one's handle. */
export const sharing: Readonly<Record<string, (bench: Bench, other: EventStore<unknown>) => Promise<void>>> =
  {
    "two processes see the same": async ({ store, add, claimOne, done, get }, other) => {
      const event = await add("booking:A");
      equal("add by the other", await other.add(event), "duplicate");
      await done(await claimOne(), "Confirmed");
      equal("get by the other", await other.get(event.eventId), await get(event));
      equal("recordOf by the other", await other.recordOf("booking:A"), await store.recordOf("booking:A"));
    },

    "of adds by two with one id, one is added": async ({ store, newEvent }, other) => {
      for (let round = 0; round < 10; round++) {
        const event = newEvent(null);
        const answers = await Promise.all([
          store.add(event),
          other.add(event),
          store.add(event),
          other.add(event),
        ]);
        equal("how often it was added", answers.filter((answer) => answer === "added").length, 1);
      }
    },

    "of two that set one key, one does": async ({ store }, other) => {
      for (let round = 0; round < 10; round++) {
        const key = `lock ${round}`;
        const expected = undefined;
        const answers = await Promise.all([
          store.setMeta(key, "store", { expected }),
          other.setMeta(key, "other", { expected }),
        ]);
        equal("how many of them did", answers.filter(Boolean).length, 1);
        const values = [(await store.getMeta(key))?.value, (await other.getMeta(key))?.value];
        equal("the value, as both read it", values, Array(2).fill(answers[0] ? "store" : "other"));
      }
    },

    "two never hold one record": async ({ store, add, claim, claimOne }, other) => {
      await add("booking:A");
      await add("booking:A");
      await claimOne();
      equal("claim by the other", await other.claim({ limit: 10, leaseDuration: LONG }), []);
      for (let index = 0; index < 20; index++) await add(`listing:${index % 10}`);
      const theirs = other.claim({ limit: 6, leaseDuration: LONG });
      const refs = [...(await claim({ limit: 6 })), ...(await theirs)].map(({ ref }) => ref);
      equal("how many records both hold", refs.length - new Set(refs).size, 0);
      equal("counts by the other", await other.counts(), await store.counts());
    },

    "one process takes over an event that the other lost": async (
      { store, add, claimOne, eventually, unit },
      other,
    ) => {
      await add("booking:A");
      const lost = await claimOne({ leaseDuration: unit });
      const held = await eventually("the other's claim", async () => {
        const [first] = await other.claim({ limit: 1, leaseDuration: LONG });
        return first;
      });
      equal("settle with the lost lease", await store.settle(lost, { state: "released" }), false);
      equal("settle by the other", await other.settle(held, handled(held)), true);
    },

    "an event that one process adds wakes the other": async ({ add, eventually, sleep }, other) => {
      if (other.subscribe === undefined) return;
      let calls = 0;
      const end = other.subscribe(() => {
        calls += 1;
      });
      // A subscription may need its connection first.
      await sleep(4);
      calls = 0;
      await add("booking:A");
      await eventually("a wake through the other process", async () => calls > 0);
      end();
    },
  };
