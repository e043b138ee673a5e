import {
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
import { oneOfEachState } from "./reading.ts";

export const replaying: Cases = {
  "a done event can be replayed": async (bench) => {
    const { store, ended, claimOne, claimLater, settle, done, get, shows } = bench;
    const event = await ended("booking:A", failed(0));
    await done(await claimLater(0), "Confirmed");
    equal("replay", await store.replay({ eventId: event.eventId }), 1);
    await shows(event, { state: "pending", attempts: 0, doneAt: null, reason: null });
    const claim = await claimOne();
    const { attempts: now, replayed, previous, sequence } = claim;
    equal(
      "the claim",
      { now, replayed, status: previous?.status, sequence },
      { now: 1, replayed: true, status: "Confirmed", sequence: 1 },
    );
    await settle(claim, failed(0));
    const again = await claimLater(0);
    equal("the claim after it", [again.attempts, again.replayed], [2, true]);
    await done(again, "Confirmed");
    equal("its state", (await get(event)).state, "done");
  },

  "a parked event can be replayed": async ({ store, ended, claimOne, claimLater, settle, get }) => {
    const event = await ended("booking:A", failed(0));
    await settle(await claimLater(0), unreachable(0));
    await settle(await claimLater(0), parked());
    equal("replay", await store.replay({ eventId: event.eventId }), 1);
    const { state, attempts, reason, dueAt } = await get(event);
    const expected = { state: "pending", attempts: 0, reason: null, due: true };
    equal("the event", { state, attempts, reason, due: dueAt instanceof Date }, expected);
    const { attempts: now, outages, outageFor, replayed } = await claimOne();
    equal(
      "the claim",
      { now, outages, outageFor, replayed },
      { now: 1, outages: 0, outageFor: 0, replayed: true },
    );
  },

  "a replayed event's outages are timed anew": async (bench) => {
    const { store, ended, claimOne, claimLater, settle, sleep } = bench;
    const event = await ended("booking:A", unreachable(0));
    await settle(await claimLater(0), parked());
    await sleep(2);
    const start = performance.now();
    await store.replay({ eventId: event.eventId });
    await settle(await claimOne(), unreachable(0));
    const { outages, outageFor } = await claimLater(0);
    equal("outages", outages, 1);
    between("outageFor", outageFor, 0, Math.ceil(performance.now() - start) + 5);
  },

  "a replayed event is under its record's lock": async ({ store, add, ended, claim, claimOne, done }) => {
    const event = await ended("booking:A", parked());
    await add("booking:A");
    const held = await claimOne();
    equal("replay", await store.replay({ eventId: event.eventId }), 1);
    equal("claim", await claim(), []);
    await done(held, "Confirmed");
    equal("the claimed one", (await claimOne()).eventId, event.eventId);
  },

  "a replay ends once, and is pruned as any other": async ({ store, handle, claimOne, done, get }) => {
    const event = await handle(null);
    await store.replay({ eventId: event.eventId });
    equal("prune, while it waits", await store.prune({ state: "done", age: 0, limit: 10 }), 0);
    equal("counts", await store.counts(), { pending: 1, processing: 0, retrying: 0, done: 0, parked: 0 });
    await done(await claimOne());
    equal("its state", (await get(event)).state, "done");
    equal("prune", await store.prune({ state: "done", age: 0, limit: 10 }), 1);
  },

  "a retrying event is due at once": async ({ store, ended, claimOne, get }) => {
    const event = await ended("booking:A", failed(LONG));
    equal("replay", await store.replay({ eventId: event.eventId }), 1);
    equal("nextDue", await store.nextDue(), 0);
    equal("its state", (await get(event)).state, "retrying");
    const { attempts, replayed } = await claimOne();
    equal("attempts go on", { attempts, replayed }, { attempts: 2, replayed: false });
  },

  "a retrying event's record waits no longer": async ({ store, ended, claimOne }) => {
    const event = await ended("booking:A", unreachable(LONG));
    equal("replay", await store.replay({ eventId: event.eventId }), 1);
    const { attempts, outages } = await claimOne();
    equal("attempts and outages go on", { attempts, outages }, { attempts: 1, outages: 1 });
  },

  "a parked or done event's record waits no longer": async ({ store, ended, handle, claimOne }) => {
    for (const state of ["parked", "done"] as const) {
      const ref = `booking:${state}`;
      const first = await (state === "done" ? handle(ref) : ended(ref, parked()));
      await ended(ref, unreachable(LONG));
      equal("replay", await store.replay({ eventId: first.eventId }), 1);
      const { eventId, replayed } = await claimOne({ limit: 1 });
      equal("the claimed one", { eventId, replayed }, { eventId: first.eventId, replayed: true });
    }
  },

  "pending, processing and unknown events are left alone, and not counted": async (bench) => {
    const { store, newEvent, add, ended, claimOne, done } = bench;
    equal("replay of an unknown one", await store.replay({ eventId: newEvent(null).eventId }), 0);
    await add("booking:A");
    const behind = await ended("booking:A", unreachable(LONG));
    equal("replay of a pending one", await store.replay({ eventId: behind.eventId }), 0);
    between("nextDue, as its record still waits", await store.nextDue(), 1, LONG);
    const event = await add("booking:B");
    const claim = await claimOne();
    equal("replay of one that is processed", await store.replay({ eventId: event.eventId }), 0);
    equal("renew of its lease", (await store.renew([claim], LONG)).length, 1);
    await done(claim);
  },

  "a filter's fields must all match": async ({ store, add, handle, claim, claimOne, settle, get, tick }) => {
    equal("replay in an empty store", await store.replay({ state: "parked" }), 0);
    const given = [];
    for (const ref of ["booking:A", "booking:B", null]) given.push(await add(ref));
    for (const claimed of await claim()) {
      await settle(claimed, parked(claimed.ref === "booking:A" ? "not-found" : "callback"));
    }
    await tick();
    const ended = await handle("booking:C");
    const before = (await get(ended)).receivedAt;
    const none = { state: "parked", reason: "denied", receivedBefore: before } as const;
    equal("replay for another reason", await store.replay(none), 0);
    const one = { state: "parked", reason: "not-found" } as const;
    equal("replay for one reason", await store.replay(one), 1);
    equal("the replayed one", (await claimOne()).eventId, given[0]!.eventId);
    equal("replay of those received before", await store.replay({ receivedBefore: before }), 2);
    const claims = await claim();
    equal(
      "attempts and replayed",
      claims.map(({ attempts, replayed }) => [attempts, replayed]),
      Array(2).fill([1, true]),
    );
    equal("the done one", (await get(ended)).state, "done");
    equal("replay again", await store.replay({ receivedBefore: before }), 0);
  },

  "a replay or discard without a filter is refused": async ({ store, ended }) => {
    await ended("booking:A", parked());
    for (const filter of [{}, { state: undefined }, { type: undefined }]) {
      const what = JSON.stringify(Object.keys(filter));
      await rejects(`replay with ${what}`, () => store.replay(filter));
      await rejects(`discard with ${what}`, () => store.discard(filter));
    }
    equal("counts().parked", (await store.counts()).parked, 1);
  },

  "discard and replay handle more than 1,000 events, each once": async ({ store, newEvent, claim }) => {
    const many = 1_010;
    // Not all without a record: each record's line of events is changed as well.
    const refs = [null, "booking:A", null, "booking:B"];
    await Promise.all(
      Array.from({ length: many }, (_, index) => store.add(newEvent(refs[index % refs.length]!))),
    );
    equal("how many were discarded", await store.discard({ source: "webhook" }), many);
    const none = { pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 };
    equal("counts, once they are discarded", await store.counts(), { ...none, done: many });
    equal("how many were replayed", await store.replay({ state: "done" }), many);
    equal("counts, once they are replayed", await store.counts(), { ...none, pending: many });
    const pending = await store.list({ state: "pending", limit: 2 * many });
    equal("how many are listed", new Set(pending.map(({ eventId }) => eventId)).size, many);
    const claims = await claim({ limit: 20 });
    equal(
      "the claims' attempts",
      claims.map(({ attempts, replayed }) => [attempts, replayed]),
      Array(20).fill([1, true]),
    );
  },
};

export const discarding: Cases = {
  "pending, retrying and parked events become done": async (bench) => {
    const { store, add, claim, get } = bench;
    const ids = await oneOfEachState(bench);
    const before = await get({ eventId: ids.parked });
    const handledBefore = await get({ eventId: ids.done });
    const processingBefore = await get({ eventId: ids.processing });
    equal("discard", await store.discard({ receivedAfter: new Date(0) }), 3);
    const counts = { pending: 0, processing: 1, retrying: 0, done: 4, parked: 0 };
    equal("counts", await store.counts(), counts);
    for (const eventId of [ids.pending, ids.retrying, ids.parked]) {
      const { state, reason, dueAt, doneAt, receivedAt } = await get({ eventId });
      equal(
        "a discarded event",
        { state, reason, dueAt },
        { state: "done", reason: "discarded", dueAt: null },
      );
      check(doneAt instanceof Date && doneAt >= receivedAt, "doneAt: expected a Date, not before receivedAt");
    }
    const { history, lastError, type } = await get({ eventId: ids.parked });
    equal(
      "history, lastError and type are kept",
      [history, lastError, type],
      [before.history, before.lastError, before.type],
    );
    equal("the done event", await get({ eventId: ids.done }), handledBefore);
    equal("the processed event", await get({ eventId: ids.processing }), processingBefore);
    equal("claim", await claim(), []);
    equal("discard again", await store.discard({ receivedAfter: new Date(0) }), 0);
    equal("an event after that", (await add("booking:pending")).ref, "booking:pending");
    equal("how many can be claimed", (await claim()).length, 1);
  },

  "a discarded event's id stays known": async ({ store, add, claimOne }) => {
    const event = await add("booking:A");
    equal("discard", await store.discard({ eventId: event.eventId }), 1);
    equal("add, again", await store.add(event), "duplicate");
    equal("nextDue", await store.nextDue(), undefined);
    equal("oldestWaiting", await store.oldestWaiting(), undefined);
    equal("recordOf", await store.recordOf("booking:A"), undefined);
    equal("replay", await store.replay({ reason: "discarded" }), 1);
    const { eventId, replayed } = await claimOne();
    equal("the claim", [eventId, replayed], [event.eventId, true]);
  },

  "a discarded event is pruned as a done one, by its age since then": async ({ store, ended }) => {
    await ended("booking:A", parked());
    await store.discard({ state: "parked" });
    equal("prune of parked events", await store.prune({ state: "parked", age: 0, limit: 10 }), 0);
    equal("prune, too young", await store.prune({ state: "done", age: LONG, limit: 10 }), 0);
    equal("prune of done events", await store.prune({ state: "done", age: 0, limit: 10 }), 1);
  },

  "the other events of its record are left alone": async ({ store, add, ended, claimOne, get }) => {
    const first = await ended("booking:A", failed(LONG));
    const second = await add("booking:A");
    equal("discard", await store.discard({ eventId: first.eventId }), 1);
    equal("the one behind it", (await claimOne()).eventId, second.eventId);
    const third = await add("booking:A");
    equal("discard while its record is leased", await store.discard({ eventId: third.eventId }), 1);
    equal("the leased one", (await get(second)).state, "processing");
  },

  "a record's wait goes on": async ({ store, add, ended, claim }) => {
    const failing = await add("booking:A");
    await ended("booking:A", unreachable(LONG));
    equal("discard", await store.discard({ eventId: failing.eventId }), 1);
    equal("claim", await claim(), []);
  },
};

export const erasing: Cases = {
  "erase deletes a record's events and its snapshot": async (bench) => {
    const { store, newEvent, add, ended, handle, claimOne } = bench;
    const first = await handle("booking:A", "Confirmed");
    await ended("booking:A", parked());
    await ended("booking:A", failed(LONG));
    await add("booking:A");
    const other = await add("booking:AB");
    const alone = await add(null);
    equal("erase", await store.erase("booking:A"), 4);
    equal("recordOf", await store.recordOf("booking:A"), undefined);
    equal("get of a done event", await store.get(first.eventId), undefined);
    equal(
      "the events of other records",
      (await store.list({ limit: 10 })).map(({ eventId }) => eventId).sort(),
      [other.eventId, alone.eventId].sort(),
    );
    equal("counts", await store.counts(), { pending: 2, processing: 0, retrying: 0, done: 0, parked: 0 });
    equal("erase again", await store.erase("booking:A"), 0);
    equal("erase of an unknown record", await store.erase(newEvent("booking:Z").ref!), 0);
    equal("add of an id that was erased", await store.add(first), "added");
    const { attempts, previous, sequence } = await claimOne({ eventId: first.eventId });
    equal("its claim", [attempts, previous, sequence], [1, undefined, 0]);
  },

  "erase ends the record's wait": async ({ store, add, ended, claimOne }) => {
    await ended("booking:A", unreachable(LONG));
    equal("erase", await store.erase("booking:A"), 1);
    equal("nextDue", await store.nextDue(), undefined);
    const event = await add("booking:A");
    equal("the claimed event", (await claimOne()).eventId, event.eventId);
  },

  "erase rejects while one is processed, and deletes nothing": async (bench) => {
    const { store, add, ended, handle, claimOne, settle } = bench;
    await handle("booking:A", "Request");
    await ended("booking:A", parked());
    await add("booking:A");
    const claim = await claimOne();
    await add("booking:A");
    const before = [await store.list({ limit: 10 }), await store.recordOf("booking:A")];
    await rejects("erase", () => store.erase("booking:A"));
    equal(
      "events and snapshot",
      [await store.list({ limit: 10 }), await store.recordOf("booking:A")],
      before,
    );
    await settle(claim, handled(claim, "Confirmed"));
    equal("erase, once it is done", await store.erase("booking:A"), 4);
  },

  "erase takes an event whose lease has ended": async ({ store, unit, add, claimOne, sleep }) => {
    await add("booking:A");
    const lost = await claimOne({ leaseDuration: unit });
    await sleep(2);
    equal("erase", await store.erase("booking:A"), 1);
    equal("settle with the lost lease", await store.settle(lost, handled(lost, "Confirmed")), false);
    equal("recordOf", await store.recordOf("booking:A"), undefined);
  },

  "erase deletes a record without events, and parked ones without a snapshot": async ({ store, ended }) => {
    await store.learn("listing:1", { status: "listed", fields: {} });
    equal("erase of a snapshot alone", await store.erase("listing:1"), 0);
    equal("recordOf", await store.recordOf("listing:1"), undefined);
    await ended("listing:2", parked());
    equal("erase of a parked event", await store.erase("listing:2"), 1);
    equal("learn afterwards", await store.learn("listing:2", { status: "listed", fields: {} }), true);
  },
};
