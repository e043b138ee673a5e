import { type Cases, check, collect, equal, failed, handled, LONG, parked } from "./harness.ts";

const CONFIRMED = { status: "Confirmed", fields: {} };

export const ledgers: Cases = {
  "each outcome can set the ledger, which is there without a snapshot, and a claim has it": async (bench) => {
    const { store, add, claimLater, settle, shows } = bench;
    const event = await add("booking:A");
    const ends = [
      [failed(0), "of a failure"],
      [{ state: "released" }, "of a released attempt"],
      [failed(0), undefined],
      [parked(), "of a parked event"],
    ] as const;
    let known: string | undefined;
    for (const [outcome, ledger] of ends) {
      const claim = await claimLater(0);
      equal("ledger and previous of the claim", [claim.ledger, claim.previous], [known, undefined]);
      await settle(claim, { ...outcome, ledger });
      known = ledger ?? known;
      equal("ledgerOf() after the attempt", await store.ledgerOf("booking:A"), known);
      equal("snapshotOf() after the attempt", await store.snapshotOf("booking:A"), undefined);
    }
    await shows(event, { state: "parked" });
    await store.replay({ eventId: event.eventId });
    const last = await claimLater(0);
    await settle(last, { ...handled(last, "Confirmed"), ledger: "of a handled event" });
    const snapshot = await store.snapshotOf("booking:A");
    equal(
      "ledger and sequence of the snapshot",
      [snapshot?.ledger, snapshot?.sequence],
      ["of a handled event", 1],
    );
    await bench.handle("booking:A", "Cancelled");
    equal(
      "the ledger after another snapshot",
      (await store.snapshotOf("booking:A"))?.ledger,
      "of a handled event",
    );
  },

  "`null` and an empty text delete the ledger, and nothing else": async (bench) => {
    const { store, add, claimOne, settle, handle } = bench;
    await handle("booking:A", "Confirmed");
    for (const ref of ["booking:A", "booking:B"])
      for (const nothing of [null, ""]) {
        for (const ledger of ["some", nothing]) {
          await add(ref);
          const claim = await claimOne();
          await settle(claim, { ...handled(claim), ledger });
        }
        equal(`ledgerOf() of ${ref}`, await store.ledgerOf(ref), undefined);
        await add(ref);
        const claim = await claimOne();
        equal("ledger of the next claim", claim.ledger, undefined);
        await settle(claim, handled(claim));
      }
    equal("ledgers()", await collect(store.ledgers()), []);
    const snapshot = await store.snapshotOf("booking:A");
    equal("the snapshot", [snapshot?.snapshot.status, snapshot?.sequence], ["Confirmed", 1]);
    check(!Object.hasOwn(snapshot!, "ledger"), "snapshotOf(): expected no field `ledger`");
    equal("pruneSnapshots()", await store.pruneSnapshots({ age: 0, limit: 5 }), 1);
  },

  "an attempt without its lease, and a repeated call, set no ledger": async (bench) => {
    const { store, unit, add, claimOne, claimLater, settle, sleep } = bench;
    await add("booking:A");
    const lost = await claimOne({ leaseDuration: unit });
    await sleep(2);
    const claim = await claimLater(0);
    equal("settle() with a lost lease", await store.settle(lost, { ...failed(0), ledger: "lost" }), false);
    await settle(claim, { ...handled(claim), ledger: "first" });
    equal("a repeated settle()", await store.settle(claim, { ...handled(claim), ledger: "again" }), true);
    equal("ledgerOf()", await store.ledgerOf("booking:A"), "first");
  },

  "a ledger outlives the events and the age of its record, and keeps the snapshot": async (bench) => {
    const { store, add, claimOne, settle, done, handle } = bench;
    for (const ref of ["booking:A", "booking:B"]) {
      await add(ref);
      const claim = await claimOne();
      await settle(claim, {
        ...handled(claim, ref === "booking:A" ? "Confirmed" : undefined),
        ledger: `of ${ref}`,
      });
    }
    await handle("booking:C", "Confirmed");
    equal("pruneSnapshots()", await store.pruneSnapshots({ age: 0, limit: 5 }), 1);
    equal("prune() of the events", await store.prune({ state: "done", age: 0, limit: 5 }), 3);
    await store.discard({ eventId: (await add("booking:B")).eventId });
    await add("booking:B", { source: "timer" }, { dueIn: LONG });
    equal("remove() of a timer", await store.remove("booking:B", "timers"), 1);
    await add("booking:B");
    await done(await claimOne());
    await store.prune({ state: "done", age: 0, limit: 5 });
    equal("ledgers()", await collect(store.ledgers()), [
      { ref: "booking:A", ledger: "of booking:A" },
      { ref: "booking:B", ledger: "of booking:B" },
    ]);
    equal("learn() of a record with a ledger", await store.learn("booking:B", CONFIRMED), true);
    const learnt = await store.snapshotOf("booking:B");
    equal("sequence and ledger after learn()", [learnt?.sequence, learnt?.ledger], [1, "of booking:B"]);
    equal("learn() of the same snapshot", await store.learn("booking:B", CONFIRMED), true);
    equal("ledgerOf() after it", await store.ledgerOf("booking:B"), "of booking:B");
    equal("pruneSnapshots() after learn()", await store.pruneSnapshots({ age: 0, limit: 5 }), 0);
  },

  "`erase` and `eraseAccount` delete ledgers": async (bench) => {
    const { store, add, claimOne, settle } = bench;
    for (const ref of ["booking:A", "booking:B", "a17/booking:A", "a1/booking:A"]) {
      await add(ref);
      const claim = await claimOne();
      await settle(claim, {
        ...handled(claim, ref.endsWith("A") ? "Confirmed" : undefined),
        ledger: `of ${ref}`,
      });
      await store.prune({ state: "done", age: 0, limit: 5 });
    }
    for (const ref of ["booking:A", "booking:B"]) {
      equal("erase() of a record without events", await store.erase(ref), 0);
      equal("ledgerOf() after erase()", await store.ledgerOf(ref), undefined);
    }
    if (store.eraseAccount === undefined) return;
    const erased = await store.eraseAccount("a17");
    equal("eraseAccount()", erased, { events: 0, snapshots: 1, processing: 0 });
    equal("ledgers()", await collect(store.ledgers()), [{ ref: "a1/booking:A", ledger: "of a1/booking:A" }]);
  },

  "`ledgers` yields more than 500 ledgers in the order of their refs, and can start after a ref": async ({
    store,
  }) => {
    const all = Array.from({ length: 520 }, (_, n) => ({ ref: `booking:${1000 + n}`, ledger: `${n}` }));
    await store.restore({ events: [], snapshots: [], ledgers: all });
    equal("ledgers()", await collect(store.ledgers()), all);
    equal("ledgers() with `after`", await collect(store.ledgers({ after: all[9]!.ref })), all.slice(10));
    for await (const snapshot of store.snapshots()) equal("a snapshot", snapshot, undefined);
  },

  "`restore` writes ledgers as given, and skips records that have a snapshot or a ledger": async (bench) => {
    const { store, handle } = bench;
    const text = `quotes '" \\ ; -- 日本 🎉 nul \u0000 lone \ud800 \u001b[]${"x".repeat(8000)}`;
    const seenAt = new Date(Date.now() - LONG);
    const given = { ref: "booking:A", snapshot: CONFIRMED, sequence: 3, seenAt, ledger: text };
    await handle("booking:C", "Confirmed");
    const batch = (ledger: string) => ({
      events: [],
      snapshots: [{ ...given, ledger }],
      ledgers: ["A", "B", "C"].map((name) => ({ ref: `booking:${name}`, ledger })),
    });
    await store.restore(batch(text));
    await store.restore(batch("of a second copy"));
    equal("snapshotOf()", await store.snapshotOf("booking:A"), given);
    equal("ledgers()", await collect(store.ledgers()), [
      { ref: "booking:A", ledger: text },
      { ref: "booking:B", ledger: text },
    ]);
    await store.restore({ events: [], snapshots: [{ ...given, ref: "booking:B" }] });
    equal("snapshotOf() of a record with a ledger", await store.snapshotOf("booking:B"), undefined);
  },

  "an event without a record has no ledger": async ({ store, add, claimOne, settle }) => {
    const { eventId } = await add(null);
    await settle(await claimOne(), { ...failed(0), ledger: "none" });
    const again = await claimOne({ eventId });
    equal("ledger of its next claim", again.ledger, undefined);
    await settle(again, { ...handled(again), ledger: "none" });
    equal("ledgers()", await collect(store.ledgers()), []);
  },
};

export const things: Cases = {
  "events of things are scheduled, found by their source, and not removed with the timers": async (bench) => {
    const { store, add, claimOne, settle, shows } = bench;
    const event = await add("booking:A");
    const claim = await claimOne();
    const thing = (name: string) => ({
      event: bench.newEvent("booking:A", { source: "thing", eventId: `thing:${name}` }),
      dueIn: LONG,
    });
    const [one, two] = [thing("one"), thing("two")];
    await settle(claim, { state: "released", events: [one, two], ledger: "a plan" });
    await shows(event, { state: "pending", attempts: 0, history: [] });
    await shows(one.event, { ...one.event, state: "scheduled" });
    equal("events by their source", (await store.list({ source: "thing", limit: 9 })).length, 2);
    equal("remove() of the timers", await store.remove("booking:A", "timers"), 0);
    const again = await claimOne();
    equal("attempts and ledger of the next claim", [again.attempts, again.ledger], [1, "a plan"]);
    await settle(again, { ...handled(again, "Confirmed"), remove: "timers" });
    await add("booking:A");
    const last = await claimOne();
    await settle(last, { state: "released", remove: [one.event.eventId, last.eventId] });
    equal("get() of a removed thing", await store.get(one.event.eventId), undefined);
    await shows(two.event, { state: "scheduled" });
    await shows(last, { state: "pending" });
  },

  "a released event keeps its due time with a ledger, and is due now without one": async (bench) => {
    const { add, claimOne, claims, settle, tick } = bench;
    const first = await add("booking:A");
    await tick();
    const second = await add("booking:A");
    await tick();
    const claim = await claimOne();
    await settle(claim, { state: "released", ledger: "a plan" });
    await tick();
    const [again] = await claims("after a release with a ledger", first);
    equal("its dueAt", again!.dueAt, claim.dueAt);
    const urgent = bench.newEvent("booking:A", { source: "thing", eventId: "thing:urgent" });
    await settle(again!, {
      state: "released",
      ledger: "a plan",
      events: [{ event: urgent, dueIn: again!.dueAt.getTime() - again!.claimedAt - LONG }],
    });
    const [before] = await claims("after an event that is due for longer was recorded", urgent);
    await settle(before!, handled(before!));
    const [last] = await claims("after that event", first);
    await settle(last!, { state: "released" });
    await claims("after a release without a ledger", second);
  },

  "a done thing is kept by `remove`, and pruned although its record has a snapshot": async (bench) => {
    const { store, add, claimOne, done, handle, tick } = bench;
    await handle("booking:A", "Confirmed");
    const receivedAt = await store.lastReceivedAt();
    await tick();
    const thing = await add("booking:A", { source: "thing" });
    await done(await claimOne());
    equal("lastReceivedAt() after a thing", await store.lastReceivedAt(), receivedAt);
    equal("remove() of a done thing", await store.remove("booking:A", [thing.eventId]), 0);
    equal("prune() of done events", await store.prune({ state: "done", age: 0, limit: 10 }), 2);
    equal("get() of the pruned thing", await store.get(thing.eventId), undefined);
  },
};
