import type { RecordSnapshot } from "../event-store.ts";
import { between, type Cases, check, equal, failed, LONG, parked, unreachable } from "./harness.ts";

const CONFIRMED = { status: "Confirmed", fields: { checkIn: "2026-07-01" } };

export const recording: Cases = {
  "`records` yields snapshots in the order of their refs, and can start after a ref": async (bench) => {
    const { store, add, claim, settle, done } = bench;
    for (const ref of ["listing:7", "booking:B", null, "booking:A", "booking:C"]) await add(ref);
    for (const claimed of await claim()) {
      if (claimed.ref === "booking:C") await settle(claimed, parked());
      else await done(claimed, claimed.ref === null ? undefined : `status of ${claimed.ref}`, { n: 1 });
    }
    const all = await collect(store.records());
    equal(
      "refs of the records",
      all.map(({ ref }) => ref),
      ["booking:A", "booking:B", "listing:7"],
    );
    equal("the first record", all[0], await store.recordOf("booking:A"));
    equal("the first snapshot", all[0]?.snapshot, { status: "status of booking:A", fields: { n: 1 } });
    const behind = await collect(store.records({ after: "booking:A" }));
    equal("records() with booking:A as `after`", behind, all.slice(1));
    equal("records() with the last ref as `after`", await collect(store.records({ after: "listing:7" })), []);
  },

  "a caller can stop iterating records() early, and start again": async ({ store, add, claim, done }) => {
    for (let index = 0; index < 30; index++) await add(`booking:${index + 10}`);
    for (const claimed of await claim()) await done(claimed, "Confirmed");
    for await (const { ref } of store.records()) {
      equal("the first ref", ref, "booking:10");
      break;
    }
    equal("how many records the second iteration returned", (await collect(store.records())).length, 30);
  },

  "`records` yields more than 500 records, each record once": async ({ store }) => {
    const count = 520;
    await Promise.all(
      Array.from({ length: count }, (_, index) => store.learn(`booking:${index}`, CONFIRMED)),
    );
    const refs = (await collect(store.records())).map(({ ref }) => ref);
    equal(
      "how many records records() returned, and how many different records",
      [refs.length, new Set(refs).size],
      [count, count],
    );
  },

  "`learn` writes the first snapshot of a record": async ({ store, add, claimOne }) => {
    equal("learn() of a first snapshot", await store.learn("booking:A", CONFIRMED), true);
    const record = (await store.recordOf("booking:A"))!;
    equal("the record", [record.ref, record.snapshot, record.sequence], ["booking:A", CONFIRMED, 1]);
    await add("booking:A");
    const { previous, sequence } = await claimOne();
    equal("previous and sequence of the claim", [previous, sequence], [CONFIRMED, 1]);
  },

  "`learn` of an equal snapshot updates only seenAt": async ({ store, tick }) => {
    const fields = { a: 1, b: null, c: "x" };
    await store.learn("booking:A", { status: "Request", fields });
    const before = (await store.recordOf("booking:A"))!;
    await tick();
    equal(
      "learn() of an equal snapshot",
      await store.learn("booking:A", { status: "Request", fields: { c: "x", b: null, a: 1 } }),
      true,
    );
    const { seenAt, ...rest } = (await store.recordOf("booking:A"))!;
    equal("recordOf(), other than seenAt", rest, { ref: before.ref, snapshot: before.snapshot, sequence: 1 });
    check(seenAt > before.seenAt, "seenAt: expected a later time after learn() of an equal snapshot");
  },

  "`learn` does not change a stored snapshot": async ({ store, handle }) => {
    await handle("booking:A", "Request", { nights: 1, note: null });
    const before = await store.recordOf("booking:A");
    for (const snapshot of [
      { status: "Confirmed", fields: { nights: 1, note: null } },
      { status: "Request", fields: { nights: 2, note: null } },
      { status: "Request", fields: { nights: "1", note: null } },
      { status: "Request", fields: { nights: 1, note: null, more: true } },
      { status: "Request", fields: { nights: 1 } },
      { status: "Request", fields: { nights: 1, other: null } },
    ]) {
      equal(`learn() of ${JSON.stringify(snapshot)}`, await store.learn("booking:A", snapshot), false);
    }
    equal("the record after learn()", await store.recordOf("booking:A"), before);
  },

  "`learn` writes a first snapshot only if all events of the record are done": async (bench) => {
    const { store, add, claimOne, settle, done } = bench;
    const expectRefused = async (what: string): Promise<void> => {
      equal(`learn() with a ${what} event`, await store.learn("booking:A", CONFIRMED), false);
      equal(`recordOf() with a ${what} event`, await store.recordOf("booking:A"), undefined);
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
    equal("learn() with only a done event", await store.learn("booking:A", CONFIRMED), true);
  },

  "if concurrent calls of `learn` have different snapshots, only one returns true": async ({ store }) => {
    const statuses = ["Request", "Confirmed", "Declined", "Cancelled", "Expired", "Paid"];
    const answers = await Promise.all(
      statuses.map((status) => store.learn("booking:A", { status, fields: {} })),
    );
    equal("how many calls of learn returned true", answers.filter(Boolean).length, 1);
    const record = await store.recordOf("booking:A");
    equal("the record", [record?.snapshot.status, record?.sequence], [statuses[answers.indexOf(true)], 1]);
  },

  "pruneRecords deletes snapshots that learn wrote": async ({ store }) => {
    await store.learn("booking:A", CONFIRMED);
    equal("pruneRecords() of a young snapshot", await store.pruneRecords({ age: LONG, limit: 10 }), 0);
    equal("pruneRecords() of any age", await store.pruneRecords({ age: 0, limit: 10 }), 1);
    equal("recordOf() after pruneRecords()", await store.recordOf("booking:A"), undefined);
  },
};

async function collect(records: AsyncIterable<RecordSnapshot>): Promise<RecordSnapshot[]> {
  const all: RecordSnapshot[] = [];
  for await (const record of records) all.push(record);
  return all;
}

export const metas: Cases = {
  "setMeta sets a new key, and getMeta reads its value and age": async ({ store, unit, sleep }) => {
    equal("getMeta() of an unknown key", await store.getMeta("lock"), undefined);
    const start = performance.now();
    equal("setMeta() of a new key", await store.setMeta("lock", "one", { expected: undefined }), true);
    const set = performance.now();
    const first = await store.getMeta("lock");
    equal("the value", first?.value, "one");
    await sleep(2);
    const least = Math.floor(performance.now() - set) - 5;
    const later = await store.getMeta("lock");
    between("the value's age", later?.age, least, Math.ceil(performance.now() - start) + 5);
    equal("setMeta() of the same value", await store.setMeta("lock", "one", { expected: "one" }), true);
    const again = await store.getMeta("lock");
    between("age of the newly set value", again?.age, 0, Math.ceil(performance.now() - start) - 2 * unit + 5);
  },

  "setMeta sets a value only if the current value is `expected`": async ({ store }) => {
    equal("setMeta() of an unknown key", await store.setMeta("a", "1", { expected: "0" }), false);
    equal("getMeta() of the unknown key", await store.getMeta("a"), undefined);
    equal("deletion of an unknown key", await store.setMeta("a", undefined, { expected: "0" }), false);
    await store.setMeta("a", "1", { expected: undefined });
    equal("setMeta() expecting no value", await store.setMeta("a", "2", { expected: undefined }), false);
    equal("setMeta() expecting another value", await store.setMeta("a", "2", { expected: "10" }), false);
    equal("deletion expecting another value", await store.setMeta("a", undefined, { expected: "2" }), false);
    equal("the unchanged value", (await store.getMeta("a"))?.value, "1");
    equal("setMeta() expecting the stored value", await store.setMeta("a", "2", { expected: "1" }), true);
    equal("the new value", (await store.getMeta("a"))?.value, "2");
    equal("deletion of the stored value", await store.setMeta("a", undefined, { expected: "2" }), true);
    equal("getMeta() of the deleted key", await store.getMeta("a"), undefined);
    equal(
      "deletion of an unknown key, expecting no value",
      await store.setMeta("a", undefined, { expected: undefined }),
      true,
    );
  },

  "getMeta returns each key's own value unchanged": async ({ store }) => {
    const values = {
      "reconcile:lock": "",
      "reconcile:Lock": '{"a": 1}',
      "ключ '\"%_": "日本 🎉 '; --",
      long: "x".repeat(20_000),
    };
    for (const [key, value] of Object.entries(values)) {
      equal(`setMeta() of the key ${key}`, await store.setMeta(key, value, { expected: undefined }), true);
    }
    for (const [key, value] of Object.entries(values)) {
      equal(`getMeta() of the key ${key}`, (await store.getMeta(key))?.value, value);
    }
    equal(
      "setMeta() expecting an empty value",
      await store.setMeta("reconcile:lock", "x", { expected: "" }),
      true,
    );
  },

  "if many calls set one key concurrently, only one call returns true": async ({ store }) => {
    const set = (expected: string | undefined) =>
      Promise.all(
        Array.from({ length: 12 }, (_, index) => store.setMeta("lock", `${expected}>${index}`, { expected })),
      );
    let expected: string | undefined;
    for (let round = 0; round < 3; round++) {
      const answers = await set(expected);
      equal("how many calls of setMeta returned true", answers.filter(Boolean).length, 1);
      const value = (await store.getMeta("lock"))?.value;
      equal("the value of the call that returned true", value, `${expected}>${answers.indexOf(true)}`);
      expected = value;
    }
  },

  "pruning and erasing events and records does not delete meta values": async ({ store, ended, handle }) => {
    await store.setMeta("booking:A", "kept", { expected: undefined });
    equal("counts()", await store.counts(), { pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 });
    equal("list() with only a meta value", await store.list({ limit: 10 }), []);
    equal("recordOf() with only a meta value", await store.recordOf("booking:A"), undefined);
    await handle("booking:A", "Confirmed");
    await ended("booking:B", parked());
    await store.prune({ state: "done", age: 0, limit: 10 });
    await store.pruneRecords({ age: 0, limit: 10 });
    await store.erase("booking:A");
    await store.erase("booking:B");
    equal("the value after pruning and erasing", (await store.getMeta("booking:A"))?.value, "kept");
  },
};

export const newestReceived: Cases = {
  "newestReceived is the receivedAt of the newest webhook event": async (bench) => {
    const { store, newEvent, add, get, tick } = bench;
    equal("newestReceived() in an empty store", await store.newestReceived(), undefined);
    await add("booking:A", { source: "reconcile" });
    await store.add(newEvent("booking:A", { source: "recheck" }), { dueIn: LONG });
    equal("newestReceived() without a webhook event", await store.newestReceived(), undefined);
    const first = await add("booking:A");
    equal("newestReceived() with one event", await store.newestReceived(), (await get(first)).receivedAt);
    await tick();
    const second = await add(null);
    const expected = (await get(second)).receivedAt;
    equal("newestReceived() with two events", await store.newestReceived(), expected);
    await tick();
    await add("booking:B", { source: "recheck" });
    await store.add(first);
    equal("newestReceived() after a recheck and a duplicate", await store.newestReceived(), expected);
  },

  "pruning and erasing do not change newestReceived": async ({ store, add, claimOne, done, get }) => {
    const event = await add("booking:A");
    const { receivedAt } = await get(event);
    await done(await claimOne());
    equal("prune() of the event", await store.prune({ state: "done", age: 0, limit: 10 }), 1);
    equal("newestReceived() after prune()", await store.newestReceived(), receivedAt);
    const other = await add("booking:B");
    const { receivedAt: later } = await get(other);
    equal("erase() of the event", await store.erase("booking:B"), 1);
    equal("newestReceived() after erase()", await store.newestReceived(), later);
  },
};

export const pruning: Cases = {
  "`prune` deletes old events in the given state": async ({ store, ended, handle }) => {
    await handle("booking:A", "Confirmed");
    await ended("booking:B", parked());
    equal("prune() of recent done events", await store.prune({ state: "done", age: LONG, limit: 10 }), 0);
    equal("prune() of recent parked events", await store.prune({ state: "parked", age: LONG, limit: 10 }), 0);
    equal("prune() of any done event", await store.prune({ state: "done", age: 0, limit: 10 }), 1);
    equal("counts().parked", (await store.counts()).parked, 1);
    equal("prune() of any parked event", await store.prune({ state: "parked", age: 0, limit: 10 }), 1);
    equal("list() after prune()", await store.list({ limit: 10 }), []);
  },

  "`prune` measures age from the time at which the event became done or parked": async (bench) => {
    const { store, unit, add, claimOne, settle, done, eventually, sleep } = bench;
    const age = 3 * unit;
    for (const state of ["done", "parked"] as const) {
      await add("booking:A");
      const claim = await claimOne();
      await sleep(4);
      const start = performance.now();
      await (state === "done" ? done(claim) : settle(claim, parked()));
      await eventually(`prune() to delete an event that has been ${state} for ${age} ms`, () =>
        store.prune({ state, age, limit: 1 }).then(Boolean),
      );
      const early = Math.round(start + age - performance.now());
      check(early <= 5, `prune() deleted an event ${early} ms too early`);
    }
  },

  "`prune` deletes at most `limit` events": async ({ store, add, claim, done }) => {
    for (let index = 0; index < 5; index++) await add(null);
    for (const claimed of await claim()) await done(claimed);
    equal("prune() with limit 0", await store.prune({ state: "done", age: 0, limit: 0 }), 0);
    equal("prune() with limit 2", await store.prune({ state: "done", age: 0, limit: 2 }), 2);
    equal("prune() with limit 10", await store.prune({ state: "done", age: 0, limit: 10 }), 3);
  },

  "`prune` deletes events in the order in which they became done or parked": async (bench) => {
    const { store, add, claimOne, settle, done, tick } = bench;
    for (const state of ["done", "parked"] as const) {
      const last = await add("booking:A");
      const first = await add("booking:B");
      const claims = [await claimOne({ eventId: first.eventId }), await claimOne({ eventId: last.eventId })];
      for (const claim of claims) {
        await (state === "done" ? done(claim) : settle(claim, parked()));
        await tick();
      }
      equal(`prune() of two ${state} events with limit 1`, await store.prune({ state, age: 0, limit: 1 }), 1);
      equal("get() of the event that ended first", await store.get(first.eventId), undefined);
      equal("the state of the event that ended last", (await store.get(last.eventId))?.state, state);
    }
  },

  "`prune` deletes only events with the given reason": async ({ store, add, claim, settle, get }) => {
    const kept = await add(null);
    await add(null);
    const third = await add(null);
    for (const claimed of await claim()) {
      const reason = claimed.eventId === kept.eventId ? "callback" : "not-found";
      await settle(claimed, parked(reason));
    }
    const options = { state: "parked", reason: "not-found", age: 0, limit: 10 } as const;
    equal("prune() of parked events with one reason", await store.prune(options), 2);
    equal("the state of an event with another reason", (await get(kept)).state, "parked");
    equal("get() of an event with the pruned reason", await store.get(third.eventId), undefined);
  },

  "the store forgets the id of a pruned event": async ({ store, ended, handle, claimOne }) => {
    const one = await handle("booking:A", "Confirmed");
    const other = await ended("booking:B", parked());
    await store.prune({ state: "done", age: 0, limit: 10 });
    await store.prune({ state: "parked", age: 0, limit: 10 });
    equal("get() of a pruned event", await store.get(one.eventId), undefined);
    equal("replay() of a pruned event", await store.replay({ eventId: other.eventId }), 0);
    equal("add() of a pruned id", await store.add(one), "added");
    const again = await claimOne();
    equal("claim's attempts and previous status", [again.attempts, again.previous?.status], [1, "Confirmed"]);
  },

  "`prune` keeps pending, processing and retrying events": async ({ store, add, ended, claimOne }) => {
    await ended("booking:A", failed(LONG));
    await add("booking:B");
    await claimOne();
    await add("booking:B");
    equal("prune() of done events", await store.prune({ state: "done", age: 0, limit: 10 }), 0);
    equal("prune() of parked events", await store.prune({ state: "parked", age: 0, limit: 10 }), 0);
    equal(
      "prune() with the reason of the retrying event",
      await store.prune({ state: "parked", reason: "callback", age: 0, limit: 10 }),
      0,
    );
    equal("how many events list() returned", (await store.list({ limit: 10 })).length, 3);
  },

  "pruneRecords deletes old snapshots": async ({ store, add, handle, claimOne, done }) => {
    await handle("booking:A", "Confirmed");
    equal("pruneRecords() of a young snapshot", await store.pruneRecords({ age: LONG, limit: 10 }), 0);
    equal("pruneRecords() of any age", await store.pruneRecords({ age: 0, limit: 10 }), 1);
    equal("recordOf() after pruneRecords()", await store.recordOf("booking:A"), undefined);
    await add("booking:A");
    const claim = await claimOne();
    equal("previous and sequence of the claim", [claim.previous, claim.sequence], [undefined, 0]);
    await done(claim, "Confirmed");
    equal("sequence of the new snapshot", (await store.recordOf("booking:A"))?.sequence, 1);
  },

  "pruneRecords measures age from seenAt": async ({ store, unit, handle, sleep }) => {
    for (const ref of ["booking:A", "booking:B"]) {
      await handle(ref, "Confirmed");
    }
    await sleep(9);
    const start = performance.now();
    await handle("booking:A", "Confirmed");
    const age = 8 * unit;
    const forgotten = await store.pruneRecords({ age, limit: 10 });
    // On a very slow machine, both snapshots are older than `age`, and the case proves nothing.
    if (performance.now() - start >= age) return;
    equal("how many snapshots were deleted", forgotten, 1);
    equal("the status of booking:A", (await store.recordOf("booking:A"))?.snapshot.status, "Confirmed");
  },

  "pruneRecords deletes at most `limit` snapshots": async ({ store, add, claim, done }) => {
    for (let index = 0; index < 4; index++) await add(`booking:${index}`);
    for (const claimed of await claim()) await done(claimed, "Confirmed");
    equal("pruneRecords() with limit 0", await store.pruneRecords({ age: 0, limit: 0 }), 0);
    equal("pruneRecords() with limit 3", await store.pruneRecords({ age: 0, limit: 3 }), 3);
    equal("pruneRecords() of the last snapshot", await store.pruneRecords({ age: 0, limit: 3 }), 1);
  },

  "pruneRecords skips records with a pending, processing or retrying event": async (bench) => {
    const { store, add, ended, handle, claimOne } = bench;
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
    equal("how many snapshots were deleted", await store.pruneRecords({ age: 0, limit: 10 }), 2);
    for (const ref of refs)
      equal(`status of ${ref}`, (await store.recordOf(ref))?.snapshot.status, "Confirmed");
  },
};
