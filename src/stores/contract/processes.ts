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

/** Cases for a store that survives a restart. `reopen` closes the store, and opens a new store on the same data. */
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
    await add("booking:D", { source: "recheck" }, { dueIn: LONG });
    await store.setMeta("lock", "held", { expected: undefined });
    const read = async (from: EventStore<unknown>) => [
      await from.list({ limit: 10 }),
      await from.counts(),
      await from.snapshotOf("booking:A"),
      await from.lastReceivedAt(),
      (await from.getMeta("lock"))?.value,
    ];
    const before = await read(store);
    const again = await reopen();
    equal("events, counts, snapshot, lastReceivedAt and meta after the restart", await read(again), before);
    equal("add() of a stored id after the restart", await again.add(pending), "duplicate");
    const claims = await again.claim({ limit: 10, leaseDuration: LONG });
    const seen = claims.map(({ eventId, previous, sequence }) => [eventId, previous?.status, sequence]);
    equal("eventId, previous status and sequence of the claims", seen, [[pending.eventId, "Confirmed", 1]]);
  },

  "a lease stays valid after a restart": async ({ add, claimOne }, reopen) => {
    await add("booking:A");
    const claim = await claimOne();
    const again = await reopen();
    equal("claim() after the restart", await again.claim({ limit: 10, leaseDuration: LONG }), []);
    between("nextDue() after the restart", await again.nextDue(), LONG - 30_000, LONG);
    equal("settle() with the lease after a restart", await again.settle(claim, { state: "released" }), true);
  },
};

/** Cases for a store that several processes use at once. `other` is the store of a second process. */
export const sharing: Readonly<Record<string, (bench: Bench, other: EventStore<unknown>) => Promise<void>>> =
  {
    "two processes see the same data": async ({ store, add, claimOne, done, get }, other) => {
      const event = await add("booking:A");
      equal("add() by the second process", await other.add(event), "duplicate");
      await done(await claimOne(), "Confirmed");
      equal("get() by the second process", await other.get(event.eventId), await get(event));
      equal(
        "snapshotOf() by the second process",
        await other.snapshotOf("booking:A"),
        await store.snapshotOf("booking:A"),
      );
    },

    "if two processes add one id, only one call returns `added`": async ({ store, newEvent }, other) => {
      for (let round = 0; round < 10; round++) {
        const event = newEvent(null);
        const answers = await Promise.all([store, other, store, other].map((each) => each.add(event)));
        equal("the answers", answers.sort(), ["added", ...Array(3).fill("duplicate")]);
      }
    },

    "if two processes set one key, only one call returns true": async ({ store }, other) => {
      for (let round = 0; round < 10; round++) {
        const key = `lock ${round}`;
        const expected = undefined;
        const answers = await Promise.all([
          store.setMeta(key, "store", { expected }),
          other.setMeta(key, "other", { expected }),
        ]);
        equal("how many calls of setMeta returned true", answers.filter(Boolean).length, 1);
        const values = [(await store.getMeta(key))?.value, (await other.getMeta(key))?.value];
        equal("the values that both processes read", values, Array(2).fill(answers[0] ? "store" : "other"));
      }
    },

    "two processes never lease the same record": async ({ store, add, claim }, other) => {
      for (let index = 0; index < 20; index++) await add(`listing:${index % 10}`);
      const theirs = other.claim({ limit: 6, leaseDuration: LONG });
      const refs = [...(await claim({ limit: 6 })), ...(await theirs)].map(({ ref }) => ref);
      equal("how many records both processes leased", refs.length - new Set(refs).size, 0);
      equal("counts() by the second process", await other.counts(), await store.counts());
    },

    "an event that one process adds during a claim by the other is claimed": async (bench, other) => {
      const { store, add, claimOne, done, newEvent } = bench;
      for (let round = 0; round < 10; round++) {
        await add("booking:A");
        const claimed = await claimOne();
        const event = newEvent("booking:A");
        const [answer] = await Promise.all([other.add(event), done(claimed)]);
        equal("add() beside settle()", answer, "added");
        equal("nextDue() of both processes", [await store.nextDue(), await other.nextDue()], [0, 0]);
        const next = await claimOne();
        equal("id of the claimed event", next.eventId, event.eventId);
        await done(next);
      }
    },

    "a process takes over an event whose lease another process has lost": async (bench, other) => {
      const { store, unit, add, claimOne, eventually } = bench;
      await add("booking:A");
      const lost = await claimOne({ leaseDuration: unit });
      const held = await eventually("claim() by the second process to return an event", async () => {
        const [first] = await other.claim({ limit: 1, leaseDuration: LONG });
        return first;
      });
      equal("settle() with the lost lease", await store.settle(lost, { state: "released" }), false);
      equal("settle() by the second process", await other.settle(held, handled(held)), true);
    },

    "an event that one process adds wakes the subscriber of the other process": async (bench, other) => {
      // Wait first, because the subscription may have to open a connection.
      await wakes(bench, "add() by another process", () => bench.add("booking:A"), other, 4);
    },
  };

/** Cases for `subscribe`. A store without this method passes all of these cases. */
export const waking: Cases = {
  "whatever makes an event due wakes the subscriber": async (bench) => {
    const { store, add, claimOne, newEvent, settle, get } = bench;
    const event = await wakes(bench, "add() of an event", () => add("booking:A"));
    await wakes(bench, "settle() as released", async () => settle(await claimOne(), { state: "released" }));
    // The retry is due before the end of the lease, so a caller that waits for the lease must wake earlier.
    await wakes(bench, "settle() as retrying", async () => settle(await claimOne(), failed(LONG / 2)));
    await wakes(bench, "replay() of a retry", () => store.replay({ eventId: event.eventId }));
    const held = await claimOne();
    const events = [{ event: newEvent("booking:B") }];
    await wakes(bench, "settle() with events", () => settle(held, { ...handled(held), events }));
    await bench.done(await claimOne());
    await wakes(bench, "replay() of a done event", () => store.replay({ state: "done", ref: "booking:A" }));
    const restored = { ...(await get(event)), ...newEvent("booking:C"), traceparent: null };
    await wakes(bench, "restore()", () => store.restore({ events: [restored], snapshots: [] }));
  },

  "a subscriber is not called after its subscription has ended": async ({ store, add, sleep }) => {
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
    equal("how many times the subscriber was called", calls, 0);
  },

  "an error in a subscriber does not affect the store": async (bench) => {
    bench.store.subscribe?.(() => {
      throw new Error("error of a subscriber");
    });
    await wakes(bench, "add()", () => bench.add("booking:A"));
    await bench.claimOne();
  },
};

async function wakes<T>(bench: Bench, what: string, act: () => Promise<T>, store = bench.store, wait = 0.5) {
  if (store.subscribe === undefined) return act();
  let calls = 0;
  const end = store.subscribe(() => {
    calls += 1;
  });
  // Wait until the wake-ups of earlier steps have arrived, so that `calls` does not count them.
  await bench.sleep(wait);
  calls = 0;
  const result = await act();
  await bench.eventually(`${what} to call the subscriber`, async () => calls > 0);
  end();
  return result;
}

/** Cases for transactional stores. With any other store, each case returns early and passes. */
export const transactions: Cases = {
  "the functions in `writes` run once, in order, with the same transaction handle": async (bench) => {
    const { store, add, claimOne, settle } = bench;
    if (store.transactional !== true) return;
    await add("booking:A");
    const claim = await claimOne();
    const ran: [string, unknown][] = [];
    const writes = ["first", "second"].map((name) => (tx: unknown) => void ran.push([name, tx]));
    for (let times = 0; times < 2; times++) await settle(claim, { ...handled(claim, "Confirmed"), writes });
    equal(
      "the functions in `writes` that ran",
      ran.map(([name]) => name),
      ["first", "second"],
    );
    check(
      ran[0]![1] !== undefined && ran[0]![1] === ran[1]![1],
      "expected one transaction handle for both writes",
    );
  },

  "if a function in `writes` throws, `settle` records nothing and the lease is still held": async (bench) => {
    const { store, add, claim, claimOne, done, get } = bench;
    if (store.transactional !== true) return;
    const event = await add("booking:A");
    const claimed = await claimOne();
    const failure = new Error("error of a function in `writes`");
    const fail = () => {
      throw failure;
    };
    const outcome = { ...handled(claimed, "Confirmed"), writes: [fail] };
    const rejection = await store.settle(claimed, outcome).then(
      () => undefined,
      (error: unknown) => error,
    );
    // `settle` must reject with the error of the function. Any other error tells the queue that the store failed.
    check(rejection === failure, "settle(): expected a rejection with the error that the write threw");
    equal("the event's state", (await get(event)).state, "processing");
    equal("snapshotOf() after the failed settle()", await store.snapshotOf("booking:A"), undefined);
    equal("claim() after the failed settle()", await claim(), []);
    equal("how many leases renew() extended", (await store.renew([claimed], LONG)).length, 1);
    await done(claimed, "Confirmed");
  },

  "`settle` with `writes` and a lost lease returns false": async (bench) => {
    const { store, unit, add, claimOne, claimLater } = bench;
    if (store.transactional !== true) return;
    await add("booking:A");
    const lost = await claimOne({ leaseDuration: unit });
    await claimLater(0);
    let ran = false;
    const write = () => {
      ran = true;
    };
    const outcome = { ...handled(lost, "Confirmed"), writes: [write] };
    equal("settle() with the lost lease", await store.settle(lost, outcome), false);
    equal("whether the write ran", ran, false);
  },
};

export const closing: Cases = {
  "`close` can be called several times, also concurrently": async ({ store, add }) => {
    await add("booking:A");
    await Promise.all([store.close(), store.close()]);
    await store.close();
    await store[Symbol.asyncDispose]();
  },

  "after close, all other methods reject": async ({ store, newEvent, add, claimOne }) => {
    const event = await add("booking:A");
    const claim = await claimOne();
    await store.close();
    const calls: Record<string, () => Promise<unknown>> = {
      add: () => store.add(newEvent("booking:A")),
      claim: () => store.claim({ limit: 1, leaseDuration: LONG }),
      renew: () => store.renew([claim], LONG),
      settle: () => store.settle(claim, { state: "released" }),
      remove: () => store.remove("booking:A", "timers"),
      nextDue: () => store.nextDue(),
      list: () => store.list({ limit: 1 }),
      get: () => store.get(event.eventId),
      counts: () => store.counts(),
      oldestWaiting: () => store.oldestWaiting(),
      lastReceivedAt: () => store.lastReceivedAt(),
      replay: () => store.replay({ state: "done" }),
      discard: () => store.discard({ state: "parked" }),
      erase: () => store.erase("booking:A"),
      snapshotOf: () => store.snapshotOf("booking:A"),
      snapshots: () => store.snapshots()[Symbol.asyncIterator]().next(),
      learn: () => store.learn("booking:A", { status: "Confirmed", fields: {} }),
      getMeta: () => store.getMeta("key"),
      setMeta: () => store.setMeta("key", "value", { expected: undefined }),
      prune: () => store.prune({ state: "done", age: 0, limit: 1 }),
      pruneSnapshots: () => store.pruneSnapshots({ age: 0, limit: 1 }),
      restore: () => store.restore({ events: [], snapshots: [] }),
    };
    for (const [name, call] of Object.entries(calls)) await rejects(`${name}() after close`, call);
  },
};
