import { type Cases, check, equal, failed, LONG, parked, unreachable } from "./harness.ts";

export const pruning: Cases = {
  "prune deletes done events, or parked ones, of an age": async ({ store, ended, handle }) => {
    await handle("booking:A", "Confirmed");
    await ended("booking:B", parked());
    equal("done, too young", await store.prune({ state: "done", age: LONG, limit: 10 }), 0);
    equal("parked, too young", await store.prune({ state: "parked", age: LONG, limit: 10 }), 0);
    equal("done, of any age", await store.prune({ state: "done", age: 0, limit: 10 }), 1);
    equal("counts().parked", (await store.counts()).parked, 1);
    equal("parked, of any age", await store.prune({ state: "parked", age: 0, limit: 10 }), 1);
    equal("list", await store.list({ limit: 10 }), []);
  },

  "the age counts from the end, in ms": async (bench) => {
    const { store, unit, add, claimOne, settle, done, eventually, sleep } = bench;
    const age = 3 * unit;
    for (const state of ["done", "parked"] as const) {
      await add("booking:A");
      const claim = await claimOne();
      await sleep(4);
      const start = performance.now();
      await (state === "done" ? done(claim) : settle(claim, parked()));
      await eventually(`prune of what is ${state} for ${age} ms`, () =>
        store.prune({ state, age, limit: 1 }).then(Boolean),
      );
      const early = Math.round(start + age - performance.now());
      check(early <= 5, `prune: deleted an event ${early} ms too early`);
    }
  },

  "prune deletes no more than `limit`": async ({ store, add, claim, done }) => {
    for (let index = 0; index < 5; index++) await add(null);
    for (const claimed of await claim()) await done(claimed);
    equal("with limit 0", await store.prune({ state: "done", age: 0, limit: 0 }), 0);
    equal("with limit 2", await store.prune({ state: "done", age: 0, limit: 2 }), 2);
    equal("with limit 10", await store.prune({ state: "done", age: 0, limit: 10 }), 3);
  },

  "prune deletes the oldest first, by their end": async ({ store, add, claimOne, settle, done, tick }) => {
    for (const state of ["done", "parked"] as const) {
      const last = await add("booking:A");
      const first = await add("booking:B");
      const claims = [await claimOne({ eventId: first.eventId }), await claimOne({ eventId: last.eventId })];
      for (const claim of claims) {
        await (state === "done" ? done(claim) : settle(claim, parked()));
        await tick();
      }
      equal(`of two that are ${state}, with limit 1`, await store.prune({ state, age: 0, limit: 1 }), 1);
      equal("the one that ended first", await store.get(first.eventId), undefined);
      equal("the one that ended last", (await store.get(last.eventId))?.state, state);
    }
  },

  "prune can be for one reason": async ({ store, add, claim, settle, get }) => {
    const kept = await add(null);
    await add(null);
    const third = await add(null);
    for (const claimed of await claim()) {
      const reason = claimed.eventId === kept.eventId ? "callback" : "not-found";
      await settle(claimed, parked(reason));
    }
    const options = { state: "parked", reason: "not-found", age: 0, limit: 10 } as const;
    equal("what was parked for it", await store.prune(options), 2);
    equal("the one for another reason", (await get(kept)).state, "parked");
    equal("one for that reason", await store.get(third.eventId), undefined);
  },

  "an id that was pruned is unknown": async ({ store, ended, handle, claimOne }) => {
    const one = await handle("booking:A", "Confirmed");
    const other = await ended("booking:B", parked());
    await store.prune({ state: "done", age: 0, limit: 10 });
    await store.prune({ state: "parked", age: 0, limit: 10 });
    equal("get", await store.get(one.eventId), undefined);
    equal("replay", await store.replay({ eventId: other.eventId }), 0);
    equal("add, again", await store.add(one), "added");
    const again = await claimOne();
    equal("its attempts and its record's status", [again.attempts, again.previous?.status], [1, "Confirmed"]);
  },

  "an event that waits is never pruned": async ({ store, add, ended, claimOne }) => {
    await ended("booking:A", failed(LONG));
    await add("booking:B");
    await claimOne();
    await add("booking:B");
    equal("done", await store.prune({ state: "done", age: 0, limit: 10 }), 0);
    equal("parked", await store.prune({ state: "parked", age: 0, limit: 10 }), 0);
    equal(
      "for what made one wait",
      await store.prune({ state: "parked", reason: "callback", age: 0, limit: 10 }),
      0,
    );
    equal("list", (await store.list({ limit: 10 })).length, 3);
  },

  "pruneRecords forgets snapshots of an age": async ({ store, add, handle, claimOne, done }) => {
    await handle("booking:A", "Confirmed");
    equal("too young", await store.pruneRecords({ age: LONG, limit: 10 }), 0);
    equal("of any age", await store.pruneRecords({ age: 0, limit: 10 }), 1);
    equal("recordOf", await store.recordOf("booking:A"), undefined);
    await add("booking:A");
    const claim = await claimOne();
    equal("previous and sequence", [claim.previous, claim.sequence], [undefined, 0]);
    await done(claim, "Confirmed");
    equal("the sequence, from its start", (await store.recordOf("booking:A"))?.sequence, 1);
  },

  "a snapshot that was seen again is young again": async ({ store, unit, handle, sleep }) => {
    for (const ref of ["booking:A", "booking:B"]) {
      await handle(ref, "Confirmed");
    }
    await sleep(9);
    const start = performance.now();
    await handle("booking:A", "Confirmed");
    const age = 8 * unit;
    const forgotten = await store.pruneRecords({ age, limit: 10 });
    // On a very slow machine both events are old, and this case proves nothing.
    if (performance.now() - start >= age) return;
    equal("how many were forgotten", forgotten, 1);
    equal("the one seen again", (await store.recordOf("booking:A"))?.snapshot.status, "Confirmed");
  },

  "pruneRecords forgets no more than `limit`": async ({ store, add, claim, done }) => {
    for (let index = 0; index < 4; index++) await add(`booking:${index}`);
    for (const claimed of await claim()) await done(claimed, "Confirmed");
    equal("with limit 0", await store.pruneRecords({ age: 0, limit: 0 }), 0);
    equal("with limit 3", await store.pruneRecords({ age: 0, limit: 3 }), 3);
    equal("with limit 3, when one is left", await store.pruneRecords({ age: 0, limit: 3 }), 1);
  },

  "a record with an event that waits is not forgotten": async ({ store, add, ended, handle, claimOne }) => {
    const refs = ["booking:pending", "booking:processing", "booking:retrying", "booking:waiting"];
    for (const ref of [...refs, "booking:idle", "booking:parked"]) {
      await handle(ref, "Confirmed");
    }
    await ended("booking:parked", parked());
    await ended("booking:retrying", failed(LONG));
    await ended("booking:waiting", unreachable(LONG));
    await add("booking:processing");
    await claimOne();
    await add("booking:pending");
    equal("how many were forgotten", await store.pruneRecords({ age: 0, limit: 10 }), 2);
    for (const ref of refs)
      equal(`status of ${ref}`, (await store.recordOf(ref))?.snapshot.status, "Confirmed");
  },
};
