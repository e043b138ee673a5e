import { noEvents } from "../event-states.ts";
import type { StoredEvent } from "../stored-event.ts";
import {
  type Bench,
  between,
  type Cases,
  check,
  collect,
  equal,
  failed,
  LONG,
  parked,
  rejects,
  unreachable,
} from "./harness.ts";

const CONFIRMED = { status: "Confirmed", fields: { checkIn: "2026-07-01" } };

export const snapshots: Cases = {
  "`snapshots` yields snapshots in the order of their refs, and can start after a ref": async (bench) => {
    const { store, ended, handle } = bench;
    for (const ref of ["listing:7", "booking:B", "booking:A"])
      await handle(ref, `status of ${ref}`, { n: 1 });
    await handle(null);
    await ended("booking:C", parked());
    const all = await collect(store.snapshots());
    const refs = all.map(({ ref }) => ref);
    equal("refs of the snapshots", refs, ["booking:A", "booking:B", "listing:7"]);
    equal("the first snapshot", all[0], await store.snapshotOf("booking:A"));
    const behind = await collect(store.snapshots({ after: "booking:A" }));
    equal("snapshots() with booking:A as `after`", behind, all.slice(1));
  },

  "`snapshots` yields more than 500 snapshots, each once, and can be stopped early": async ({ store }) => {
    const refs = Array.from({ length: 520 }, (_, index) => `booking:${index}`);
    await Promise.all(refs.map((ref) => store.learn(ref, CONFIRMED)));
    for await (const { snapshot } of store.snapshots()) {
      equal("the first snapshot", snapshot, CONFIRMED);
      break;
    }
    const found = (await collect(store.snapshots())).map(({ ref }) => ref);
    equal("numbers of snapshots and of different refs", [found.length, new Set(found).size], [520, 520]);
  },

  "`learn` adds fields to a snapshot, updates seenAt of an equal one, and does not change another one":
    async (bench) => {
      const { store, handle, tick } = bench;
      await handle("booking:A", "Request", { nights: 1, note: null });
      const { seenAt } = (await store.snapshotOf("booking:A"))!;
      await tick();
      const same = { status: "Request", fields: { note: null, nights: 1 } };
      equal("learn() of an equal snapshot", await store.learn("booking:A", same), true);
      const before = (await store.snapshotOf("booking:A"))!;
      equal("the snapshot and its sequence", [before.snapshot, before.sequence], [same, 1]);
      check(before.seenAt > seenAt, "seenAt: expected a later time after learn() of an equal snapshot");
      for (const snapshot of [
        { status: "Confirmed", fields: { nights: 1, note: null } },
        { status: "Request", fields: { nights: "1", note: null } },
        { status: "Request", fields: { nights: 1 } },
        { status: "Request", fields: { nights: 1, other: null } },
      ])
        equal(`learn() of ${JSON.stringify(snapshot)}`, await store.learn("booking:A", snapshot), false);
      equal("the snapshot after learn()", await store.snapshotOf("booking:A"), before);
      const more = { status: "Request", fields: { nights: 1, note: null, total: 80 } };
      equal("learn() of a further field", await store.learn("booking:A", more, { known: true }), true);
      const after = (await store.snapshotOf("booking:A"))!;
      equal("the snapshot with it, and its sequence", [after.snapshot, after.sequence], [more, 1]);
      equal("learn() without it", await store.learn("booking:A", same), false);
    },

  "`learn` with `known` writes no first snapshot, because the record may have been erased": async (bench) => {
    const { store, handle } = bench;
    await handle("booking:A", "Confirmed", {});
    await store.erase("booking:A");
    equal("learn()", await store.learn("booking:A", CONFIRMED, { known: true }), false);
    equal("snapshotOf()", await store.snapshotOf("booking:A"), undefined);
  },

  "`learn` writes no first snapshot while an event waits, is processing or is parked": async (bench) => {
    const { store, add, claimOne, settle, done } = bench;
    const expectRefused = async (what: string): Promise<void> => {
      equal(`learn() with a ${what} event`, await store.learn("booking:A", CONFIRMED), false);
      equal(`snapshotOf() with a ${what} event`, await store.snapshotOf("booking:A"), undefined);
    };
    await add("booking:A");
    await expectRefused("pending");
    const claim = await claimOne();
    await expectRefused("processing");
    await settle(claim, failed(LONG));
    await expectRefused("retrying");
    await store.replay({ ref: "booking:A" });
    await settle(await claimOne(), parked());
    await expectRefused("parked");
    await store.replay({ ref: "booking:A" });
    await done(await claimOne());
    await add("booking:A", {}, { dueIn: LONG });
    equal("learn() with a done and a scheduled event", await store.learn("booking:A", CONFIRMED), true);
  },

  "pruneSnapshots deletes old snapshots, but not of records with an event that is not done or parked": async (
    bench,
  ) => {
    const { store, add, ended, handle, claimOne } = bench;
    const refs = ["booking:scheduled", "booking:pending", "booking:processing", "booking:retrying"];
    for (const ref of [...refs, "booking:idle", "booking:parked"]) await handle(ref, "Confirmed");
    await ended("booking:parked", parked());
    await ended("booking:retrying", unreachable(LONG));
    await add("booking:scheduled", { source: "timer" }, { dueIn: LONG });
    await add("booking:processing");
    await claimOne();
    await add("booking:pending");
    equal("pruneSnapshots() of young snapshots", await store.pruneSnapshots({ age: LONG, limit: 10 }), 0);
    for (const [limit, count] of [
      [0, 0],
      [1, 1],
      [5, 1],
    ] as const)
      equal(`pruneSnapshots() with limit ${limit}`, await store.pruneSnapshots({ age: 0, limit }), count);
    const left = (await collect(store.snapshots())).map(({ ref }) => ref);
    equal("refs of the snapshots that are left", left.sort(), [...refs].sort());
    await store.learn("booking:idle", CONFIRMED);
    equal("sequence of a new snapshot", (await store.snapshotOf("booking:idle"))?.sequence, 1);
  },
};

export const metas: Cases = {
  "setMeta sets a new key, and getMeta reads its value and age": async ({ store, unit, sleep }) => {
    equal("getMeta() of an unknown key", await store.getMeta("lock"), undefined);
    const start = performance.now();
    equal("setMeta() of a new key", await store.setMeta("lock", "one", { expected: undefined }), true);
    const set = performance.now();
    equal("the value", (await store.getMeta("lock"))?.value, "one");
    await sleep(2);
    const least = Math.floor(performance.now() - set) - 5;
    const { age } = (await store.getMeta("lock"))!;
    between("the value's age", age, least, Math.ceil(performance.now() - start) + 5);
    equal("setMeta() of the same value", await store.setMeta("lock", "one", { expected: "one" }), true);
    const again = await store.getMeta("lock");
    between("age of the newly set value", again?.age, 0, Math.ceil(performance.now() - start) - 2 * unit + 5);
  },

  "setMeta sets a value only if the current value is `expected`": async ({ store }) => {
    for (const [value, expected, answer, now] of [
      ["1", "0", false, undefined],
      ["1", undefined, true, "1"],
      ["2", undefined, false, "1"],
      [undefined, "2", false, "1"],
      ["2", "1", true, "2"],
      [undefined, "2", true, undefined],
    ] as const) {
      const what = `setMeta() of ${value}, with expected ${expected}`;
      equal(what, await store.setMeta("a", value, { expected }), answer);
      equal(`the value after ${what}`, (await store.getMeta("a"))?.value, now);
    }
  },

  "if many calls set one key concurrently, only one call returns true": async ({ store }) => {
    let expected: string | undefined;
    for (let round = 0; round < 3; round++) {
      const values = Array.from({ length: 12 }, (_, index) => `${expected}>${index}`);
      const answers = await Promise.all(values.map((value) => store.setMeta("lock", value, { expected })));
      equal("how many calls of setMeta returned true", answers.filter(Boolean).length, 1);
      expected = (await store.getMeta("lock"))?.value;
      equal("the value of the call that returned true", expected, values[answers.indexOf(true)]);
    }
  },
};

export const pruning: Cases = {
  "`prune` deletes events that have been done or parked for at least `age`": async (bench) => {
    const { store, unit, add, claimOne, settle, done, eventually, sleep } = bench;
    const age = 3 * unit;
    for (const state of ["done", "parked"] as const) {
      await add("booking:A");
      const claim = await claimOne();
      await sleep(4);
      const start = performance.now();
      await (state === "done" ? done(claim) : settle(claim, parked()));
      const other = state === "done" ? "parked" : "done";
      equal(`prune() of ${other} events`, await store.prune({ state: other, age: 0, limit: 1 }), 0);
      await eventually(`prune() to delete an event that has been ${state} for ${age} ms`, () =>
        store.prune({ state, age, limit: 1 }).then(Boolean),
      );
      const early = Math.round(start + age - performance.now());
      check(early <= 5, `prune() deleted an event ${early} ms too early`);
    }
  },

  "`prune` deletes at most `limit` events, in the order in which they became done or parked": async (
    bench,
  ) => {
    const { store, add, claimOne, settle, done, tick } = bench;
    for (const state of ["done", "parked"] as const) {
      const last = await add("booking:A");
      const first = await add("booking:B");
      for (const { eventId } of [first, last]) {
        const claim = await claimOne({ eventId });
        await (state === "done" ? done(claim) : settle(claim, parked()));
        await tick();
      }
      equal("prune() with limit 0", await store.prune({ state, age: 0, limit: 0 }), 0);
      const none = { state, reason: "not-found", age: 0, limit: 9 } as const;
      equal("prune() with another reason", await store.prune(none), 0);
      equal(`prune() of two ${state} events with limit 1`, await store.prune({ state, age: 0, limit: 1 }), 1);
      equal("get() of the event that ended first", await store.get(first.eventId), undefined);
      equal("the state of the event that ended last", (await store.get(last.eventId))?.state, state);
    }
  },

  "`prune` keeps a done timer as long as its record has a snapshot": async (bench) => {
    const { store, add, claimOne, done, handle } = bench;
    await handle("booking:A", "Confirmed");
    const timers = [];
    for (const ref of ["booking:A", "booking:B", null]) {
      timers.push(await add(ref, { source: "timer" }));
      await done(await claimOne());
    }
    equal("prune() of done events", await store.prune({ state: "done", age: 0, limit: 10 }), 3);
    equal("add() of the timer", await store.add(timers[0]!), "duplicate");
    await store.pruneSnapshots({ age: 0, limit: 1 });
    equal("prune() without a snapshot", await store.prune({ state: "done", age: 0, limit: 10 }), 1);
  },
};

/** Reads all events and snapshots, the oldest first, as `npx stayhook copy` does. */
async function readAll({ store }: Bench) {
  return {
    events: (await store.list({ limit: 100 })).reverse(),
    snapshots: await collect(store.snapshots()),
  };
}

export const restoring: Cases = {
  "`restore` writes events and snapshots as given": async (bench) => {
    const { store, add, ended, handle, claimLater, settle } = bench;
    const retry = await ended("booking:A", failed(0));
    await settle(await claimLater(0), failed(LONG));
    const done = await handle("booking:B", "Confirmed", { nights: 2 });
    await ended(null, parked("not-found"));
    await add("booking:C", { source: "timer", topic: "t", traceparent: "00-1-2-01" }, { dueIn: LONG });
    await add("booking:A");
    const batch = await readAll(bench);
    const lastReceivedAt = await store.lastReceivedAt();
    for (const ref of ["booking:A", "booking:B", "booking:C"]) await store.erase(ref);
    await store.discard({ state: "parked" });
    await store.prune({ state: "done", age: 0, limit: 10 });
    equal("events and snapshots before restore()", await readAll(bench), { events: [], snapshots: [] });
    await store.restore(batch);
    equal("events and snapshots after restore()", await readAll(bench), batch);
    equal("lastReceivedAt() after restore()", await store.lastReceivedAt(), lastReceivedAt);
    const duplicates = [await store.add(done), await store.add({ ...retry, ref: null })];
    equal("add() of restored ids", duplicates, ["duplicate", "conflict"]);
    await bench.claims("after restore()", batch.events.at(-1)!);
    const [parkedNow] = await store.list({ state: "parked", limit: 1 });
    equal("replay() of a restored event", await store.replay({ eventId: parkedNow!.eventId }), 1);
    equal("attempts of its claim", (await bench.claimOne()).attempts, 1);
  },

  "`restore` skips ids and refs that are there": async (bench) => {
    const { store, add, handle } = bench;
    await handle("booking:A", "Confirmed");
    const event = await add("booking:A", {}, { dueIn: LONG });
    const before = await readAll(bench);
    const [done, scheduled] = before.events as [StoredEvent, StoredEvent];
    const fresh = { ...scheduled, ...bench.newEvent("booking:A"), traceparent: null };
    const changed = { ...before.snapshots[0]!, snapshot: { status: "Cancelled", fields: {} }, sequence: 9 };
    await store.restore({
      events: [{ ...done, type: "changed" }, { ...scheduled, ref: null, attempts: 7 }, fresh, fresh],
      snapshots: [changed, { ...changed, ref: "booking:B" }],
    });
    equal("events and snapshots after restore()", await readAll(bench), {
      events: [...before.events, fresh],
      snapshots: [...before.snapshots, { ...changed, ref: "booking:B" }],
    });
    equal("add() of the scheduled event", await store.add(event), "duplicate");
  },

  "`restore` rejects a processing event, and writes nothing": async (bench) => {
    const { store, add, claimOne, get, newEvent } = bench;
    const processing = await get(await add("booking:A").then(() => claimOne()));
    const batch = { snapshots: [{ ref: "booking:B", snapshot: CONFIRMED, sequence: 1, seenAt: new Date() }] };
    const one = { ...processing, ...newEvent(null), state: "pending", traceparent: null } as const;
    const other = { ...processing, ...newEvent(null), traceparent: null };
    await rejects("restore()", () => store.restore({ ...batch, events: [one, other] }));
    equal("counts() after restore()", await store.counts(), { ...noEvents, processing: 1 });
    equal("snapshotOf() after restore()", await store.snapshotOf("booking:B"), undefined);
  },
};
