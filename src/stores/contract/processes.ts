import type { EventStore } from "../event-store.ts";
import {
  type Bench,
  between,
  type Cases,
  check,
  equal,
  failed,
  handled,
  LONG,
  parked,
  rejects,
  unreachable,
} from "./harness.ts";

/** Cases for a store that survives a restart. `reopen` closes the store's process, and starts another on its data. */
export const restarting: Readonly<
  Record<string, (bench: Bench, reopen: () => Promise<EventStore<unknown>>) => Promise<void>>
> = {
  "a restart loses nothing": async (bench, reopen) => {
    const { store, add, ended, handle, tick } = bench;
    await handle("booking:A", "Confirmed");
    await ended("booking:B", failed(LONG));
    await ended(null, parked());
    await ended("booking:C", unreachable(LONG));
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

    "one process takes over an event that the other lost": async (bench, other) => {
      const { store, unit, add, claimOne, eventually } = bench;
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
  // Messages of earlier steps may still arrive.
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

/** For stores that say `transactional`; others pass, as an outcome never has `writes` there. */
export const transactions: Cases = {
  "writes run once, in order, with the store's own handle": async (bench) => {
    const ran: string[] = [];
    const handles = new Set<unknown>();
    const write = (name: string) => (tx: unknown) => {
      ran.push(name);
      handles.add(tx);
    };
    if (!(await settleWith(bench, [write("first"), write("second")]))) return;
    equal("what ran", ran, ["first", "second"]);
    equal("how many handles there were", handles.size, 1);
    equal("whether there was one", handles.has(undefined), false);
    equal("counts().done", (await bench.store.counts()).done, 1);
  },

  "a write that throws leaves all as it was, and the lease held": async (bench) => {
    const { store, add, claim, claimOne, done, get } = bench;
    if (store.transactional !== true) return;
    const event = await add("booking:A");
    const claimed = await claimOne();
    const failure = new Error("a write's own");
    const fail = () => {
      throw failure;
    };
    const outcome = { ...handled(claimed, "Confirmed"), writes: [fail] };
    const rejection = await store.settle(claimed, outcome).then(
      () => undefined,
      (error: unknown) => error,
    );
    // By this error, the queue tells a failed write from a connection that was lost during the write.
    check(rejection === failure, "settle: expected it to reject with the very error that the write threw");
    equal("its state", (await get(event)).state, "processing");
    equal("the record's status", await store.recordOf("booking:A"), undefined);
    equal("claim", await claim(), []);
    equal("renew", (await store.renew([claimed], LONG)).length, 1);
    await done(claimed, "Confirmed");
  },

  "with a lost lease nothing is done": async ({ store, unit, add, claimOne, claimLater }) => {
    if (store.transactional !== true) return;
    await add("booking:A");
    const lost = await claimOne({ leaseDuration: unit });
    await claimLater(0);
    const outcome = { ...handled(lost, "Confirmed"), writes: [() => {}] };
    equal("settle with the lost lease", await store.settle(lost, outcome), false);
  },
};

async function settleWith(bench: Bench, writes: ((tx: unknown) => void)[]): Promise<boolean> {
  if (bench.store.transactional !== true) return false;
  await bench.add("booking:A");
  const claim = await bench.claimOne();
  await bench.settle(claim, { ...handled(claim, "Confirmed"), writes });
  return true;
}

export const closing: Cases = {
  "close is safe twice, and at the same time": async ({ store, add }) => {
    await add("booking:A");
    await Promise.all([store.close(), store.close()]);
    await store.close();
  },

  "a closed store takes and gives nothing": async ({ store, newEvent, add, claimOne }) => {
    const event = await add("booking:A");
    const claim = await claimOne();
    await store.close();
    await rejects("add", () => store.add(newEvent("booking:A")));
    await rejects("claim", () => store.claim({ limit: 1, leaseDuration: LONG }));
    await rejects("renew", () => store.renew([claim], LONG));
    await rejects("settle", () => store.settle(claim, { state: "released" }));
    await rejects("nextDue", () => store.nextDue());
    await rejects("prune", () => store.prune({ state: "done", age: 0, limit: 1 }));
    await rejects("pruneRecords", () => store.pruneRecords({ age: 0, limit: 1 }));
    await rejects("list", () => store.list({ limit: 1 }));
    await rejects("get", () => store.get(event.eventId));
    await rejects("counts", () => store.counts());
    await rejects("oldestWaiting", () => store.oldestWaiting());
    await rejects("newestReceived", () => store.newestReceived());
    await rejects("replay", () => store.replay({ state: "done" }));
    await rejects("discard", () => store.discard({ state: "parked" }));
    await rejects("erase", () => store.erase("booking:A"));
    await rejects("recordOf", () => store.recordOf("booking:A"));
    await rejects("records", () => store.records()[Symbol.asyncIterator]().next());
    await rejects("learn", () => store.learn("booking:A", { status: "Confirmed", fields: {} }));
    await rejects("getMeta", () => store.getMeta("key"));
    await rejects("setMeta", () => store.setMeta("key", "value", { expected: undefined }));
  },
};
