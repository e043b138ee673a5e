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
    equal("replay() of the done event", await store.replay({ eventId: event.eventId }), 1);
    await shows(event, { state: "pending", attempts: 0, doneAt: null, reason: null });
    const claim = await claimOne();
    const { attempts, replayed, previous, sequence } = claim;
    equal(
      "the claim of the replayed event",
      { attempts, replayed, status: previous?.status, sequence },
      { attempts: 1, replayed: true, status: "Confirmed", sequence: 1 },
    );
    await settle(claim, failed(0));
    const again = await claimLater(0);
    equal("`attempts` and `replayed` of the second claim", [again.attempts, again.replayed], [2, true]);
    await done(again, "Confirmed");
    equal("the event's state", (await get(event)).state, "done");
  },

  "a parked event can be replayed": async ({ store, ended, claimOne, claimLater, settle, get }) => {
    const event = await ended("booking:A", failed(0));
    await settle(await claimLater(0), unreachable(0));
    await settle(await claimLater(0), parked());
    equal("replay() of the parked event", await store.replay({ eventId: event.eventId }), 1);
    const { state, attempts, reason, dueAt } = await get(event);
    const expected = { state: "pending", attempts: 0, reason: null, due: true };
    equal("the replayed event", { state, attempts, reason, due: dueAt instanceof Date }, expected);
    const { attempts: now, outages, outageFor, replayed } = await claimOne();
    equal(
      "the claim of the replayed event",
      { attempts: now, outages, outageFor, replayed },
      { attempts: 1, outages: 0, outageFor: 0, replayed: true },
    );
  },

  "a replay resets outages and outageFor": async (bench) => {
    const { store, ended, claimOne, claimLater, settle, sleep } = bench;
    const event = await ended("booking:A", unreachable(0));
    await settle(await claimLater(0), parked());
    await sleep(2);
    const start = performance.now();
    await store.replay({ eventId: event.eventId });
    await settle(await claimOne(), unreachable(0));
    const { outages, outageFor } = await claimLater(0);
    equal("outages of the replayed event", outages, 1);
    between("outageFor of the replayed event", outageFor, 0, Math.ceil(performance.now() - start) + 5);
  },

  "a replayed event cannot be claimed while its record is leased": async (bench) => {
    const { store, add, ended, claim, claimOne, done } = bench;
    const event = await ended("booking:A", parked());
    await add("booking:A");
    const held = await claimOne();
    equal("replay() while the record is leased", await store.replay({ eventId: event.eventId }), 1);
    equal("claim() while the record is leased", await claim(), []);
    await done(held, "Confirmed");
    equal("id of the claimed event", (await claimOne()).eventId, event.eventId);
  },

  "a replayed event is not pruned before it is done": async ({ store, handle, claimOne, done, get }) => {
    const event = await handle(null);
    await store.replay({ eventId: event.eventId });
    equal("prune() before the event is done", await store.prune({ state: "done", age: 0, limit: 10 }), 0);
    equal("counts() after prune()", await store.counts(), {
      pending: 1,
      processing: 0,
      retrying: 0,
      done: 0,
      parked: 0,
    });
    await done(await claimOne());
    equal("the event's state", (await get(event)).state, "done");
    equal("prune() after the event is done", await store.prune({ state: "done", age: 0, limit: 10 }), 1);
  },

  "`replay` makes a retrying event due at once": async ({ store, ended, claimOne, get }) => {
    const event = await ended("booking:A", failed(LONG));
    equal("replay() of the retrying event", await store.replay({ eventId: event.eventId }), 1);
    equal("nextDue() after replay()", await store.nextDue(), 0);
    equal("the event's state", (await get(event)).state, "retrying");
    const { attempts, replayed } = await claimOne();
    equal("the claim", { attempts, replayed }, { attempts: 2, replayed: false });
  },

  "`replay` of a retrying event ends its record's wait": async ({ store, ended, claimOne }) => {
    const event = await ended("booking:A", unreachable(LONG));
    equal("replay() of the retrying event", await store.replay({ eventId: event.eventId }), 1);
    const { attempts, outages } = await claimOne();
    equal("the claim", { attempts, outages }, { attempts: 1, outages: 1 });
  },

  "`replay` of a parked or done event ends its record's wait": async ({ store, ended, handle, claimOne }) => {
    for (const state of ["parked", "done"] as const) {
      const ref = `booking:${state}`;
      const first = await (state === "done" ? handle(ref) : ended(ref, parked()));
      await ended(ref, unreachable(LONG));
      equal(`replay() of the ${state} event`, await store.replay({ eventId: first.eventId }), 1);
      const { eventId, replayed } = await claimOne({ limit: 1 });
      equal("the claim", { eventId, replayed }, { eventId: first.eventId, replayed: true });
    }
  },

  "`replay` skips pending, processing and unknown events, and does not count them": async (bench) => {
    const { store, newEvent, add, ended, claimOne, done } = bench;
    equal("replay() of an unknown event", await store.replay({ eventId: newEvent(null).eventId }), 0);
    await add("booking:A");
    const behind = await ended("booking:A", unreachable(LONG));
    equal("replay() of a pending event", await store.replay({ eventId: behind.eventId }), 0);
    between("nextDue() while the record still waits", await store.nextDue(), 1, LONG);
    const event = await add("booking:B");
    const claim = await claimOne();
    equal("replay() of a processing event", await store.replay({ eventId: event.eventId }), 0);
    equal("how many leases renew() extended", (await store.renew([claim], LONG)).length, 1);
    await done(claim);
  },

  "`replay` changes only events that match all fields of the filter": async (bench) => {
    const { store, add, handle, claim, claimOne, settle, get, tick } = bench;
    equal("replay() in an empty store", await store.replay({ state: "parked" }), 0);
    const given = [];
    for (const ref of ["booking:A", "booking:B", null]) given.push(await add(ref));
    for (const claimed of await claim()) {
      await settle(claimed, parked(claimed.ref === "booking:A" ? "not-found" : "callback"));
    }
    await tick();
    const ended = await handle("booking:C");
    const before = (await get(ended)).receivedAt;
    const none = { state: "parked", reason: "denied", receivedBefore: before } as const;
    equal("replay() with a reason that no event has", await store.replay(none), 0);
    const one = { state: "parked", reason: "not-found" } as const;
    equal("replay() with the reason of one event", await store.replay(one), 1);
    equal("id of the replayed event", (await claimOne()).eventId, given[0]!.eventId);
    equal("replay() with receivedBefore", await store.replay({ receivedBefore: before }), 2);
    const claims = await claim();
    equal(
      "`attempts` and `replayed` of the claims",
      claims.map(({ attempts, replayed }) => [attempts, replayed]),
      Array(2).fill([1, true]),
    );
    equal("the state of the done event", (await get(ended)).state, "done");
    equal("second replay() with receivedBefore", await store.replay({ receivedBefore: before }), 0);
  },

  "`replay` and `discard` reject a filter without fields": async ({ store, ended }) => {
    await ended("booking:A", parked());
    for (const filter of [{}, { state: undefined }, { type: undefined }]) {
      const what = JSON.stringify(Object.keys(filter));
      await rejects(`replay() with the undefined fields ${what}`, () => store.replay(filter));
      await rejects(`discard() with the undefined fields ${what}`, () => store.discard(filter));
    }
    equal("counts().parked", (await store.counts()).parked, 1);
  },

  "`discard` and `replay` change more than 1,000 events, each event once": async (bench) => {
    const { store, newEvent, claim } = bench;
    const many = 1_010;
    // Some events share a record, so that the case also tests updates of a record's queue.
    const refs = [null, "booking:A", null, "booking:B"];
    await Promise.all(
      Array.from({ length: many }, (_, index) => store.add(newEvent(refs[index % refs.length]!))),
    );
    equal("how many events were discarded", await store.discard({ source: "webhook" }), many);
    const none = { pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 };
    equal("counts() after discard()", await store.counts(), { ...none, done: many });
    equal("how many events were replayed", await store.replay({ state: "done" }), many);
    equal("counts() after replay()", await store.counts(), { ...none, pending: many });
    const pending = await store.list({ state: "pending", limit: 2 * many });
    equal("how many events are listed", new Set(pending.map(({ eventId }) => eventId)).size, many);
    const claims = await claim({ limit: 20 });
    equal(
      "`attempts` and `replayed` of the claims",
      claims.map(({ attempts, replayed }) => [attempts, replayed]),
      Array(20).fill([1, true]),
    );
  },
};

export const discarding: Cases = {
  "`discard` sets pending, retrying and parked events to done": async (bench) => {
    const { store, add, claim, get } = bench;
    const ids = await oneOfEachState(bench);
    const before = await get({ eventId: ids.parked });
    const handledBefore = await get({ eventId: ids.done });
    const processingBefore = await get({ eventId: ids.processing });
    equal("discard() of all events", await store.discard({ receivedAfter: new Date(0) }), 3);
    const counts = { pending: 0, processing: 1, retrying: 0, done: 4, parked: 0 };
    equal("counts() after discard()", await store.counts(), counts);
    for (const eventId of [ids.pending, ids.retrying, ids.parked]) {
      const { state, reason, dueAt, doneAt, receivedAt } = await get({ eventId });
      equal(
        "state, reason and dueAt of a discarded event",
        { state, reason, dueAt },
        { state: "done", reason: "discarded", dueAt: null },
      );
      check(doneAt instanceof Date && doneAt >= receivedAt, "doneAt: expected a Date at or after receivedAt");
    }
    const { history, lastError, type } = await get({ eventId: ids.parked });
    equal(
      "history, lastError and type of a discarded event",
      [history, lastError, type],
      [before.history, before.lastError, before.type],
    );
    equal("the done event after discard()", await get({ eventId: ids.done }), handledBefore);
    equal("the processing event after discard()", await get({ eventId: ids.processing }), processingBefore);
    equal("claim() after discard()", await claim(), []);
    equal("second discard() of all events", await store.discard({ receivedAfter: new Date(0) }), 0);
    equal("the ref of a new event", (await add("booking:pending")).ref, "booking:pending");
    equal("how many events were claimed", (await claim()).length, 1);
  },

  "the store keeps the id of a discarded event": async ({ store, add, claimOne }) => {
    const event = await add("booking:A");
    equal("discard() of the event", await store.discard({ eventId: event.eventId }), 1);
    equal("add() of the discarded event", await store.add(event), "duplicate");
    equal("nextDue() after discard()", await store.nextDue(), undefined);
    equal("oldestWaiting() after discard()", await store.oldestWaiting(), undefined);
    equal("recordOf() after discard()", await store.recordOf("booking:A"), undefined);
    equal("replay() of discarded events", await store.replay({ reason: "discarded" }), 1);
    const { eventId, replayed } = await claimOne();
    equal("`eventId` and `replayed` of the claim", [eventId, replayed], [event.eventId, true]);
  },

  "`prune` treats a discarded event as done since the discard": async ({ store, ended }) => {
    await ended("booking:A", parked());
    await store.discard({ state: "parked" });
    equal("prune() of parked events", await store.prune({ state: "parked", age: 0, limit: 10 }), 0);
    equal("prune() of young done events", await store.prune({ state: "done", age: LONG, limit: 10 }), 0);
    equal("prune() of any done event", await store.prune({ state: "done", age: 0, limit: 10 }), 1);
  },

  "`discard` does not change other events of the record": async ({ store, add, ended, claimOne, get }) => {
    const first = await ended("booking:A", failed(LONG));
    const second = await add("booking:A");
    equal("discard() of the first event", await store.discard({ eventId: first.eventId }), 1);
    equal("id of the next claimed event", (await claimOne()).eventId, second.eventId);
    const third = await add("booking:A");
    equal("discard() while the record is leased", await store.discard({ eventId: third.eventId }), 1);
    equal("the state of the leased event", (await get(second)).state, "processing");
  },

  "after `discard` of an event that had an outage, its record still waits": async ({
    store,
    add,
    ended,
    claim,
  }) => {
    const failing = await add("booking:A");
    await ended("booking:A", unreachable(LONG));
    equal("discard() of the event that had the outage", await store.discard({ eventId: failing.eventId }), 1);
    equal("claim() while the record waits", await claim(), []);
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
    equal("erase() of the record", await store.erase("booking:A"), 4);
    equal("recordOf() after erase()", await store.recordOf("booking:A"), undefined);
    equal("get() of an erased event", await store.get(first.eventId), undefined);
    equal(
      "ids of the remaining events",
      (await store.list({ limit: 10 })).map(({ eventId }) => eventId).sort(),
      [other.eventId, alone.eventId].sort(),
    );
    equal("counts() after erase()", await store.counts(), {
      pending: 2,
      processing: 0,
      retrying: 0,
      done: 0,
      parked: 0,
    });
    equal("second erase() of the record", await store.erase("booking:A"), 0);
    equal("erase() of an unknown record", await store.erase(newEvent("booking:Z").ref!), 0);
    equal("add() of an erased id", await store.add(first), "added");
    const { attempts, previous, sequence } = await claimOne({ eventId: first.eventId });
    equal("attempts, previous and sequence of the claim", [attempts, previous, sequence], [1, undefined, 0]);
  },

  "erase ends the record's wait": async ({ store, add, ended, claimOne }) => {
    await ended("booking:A", unreachable(LONG));
    equal("erase() of the record", await store.erase("booking:A"), 1);
    equal("nextDue() after erase()", await store.nextDue(), undefined);
    const event = await add("booking:A");
    equal("id of the claimed event", (await claimOne()).eventId, event.eventId);
  },

  "while an event of the record is processed, `erase` rejects and deletes nothing": async (bench) => {
    const { store, add, ended, handle, claimOne, settle } = bench;
    await handle("booking:A", "Request");
    await ended("booking:A", parked());
    await add("booking:A");
    const claim = await claimOne();
    await add("booking:A");
    const before = [await store.list({ limit: 10 }), await store.recordOf("booking:A")];
    await rejects("erase() while an event is processed", () => store.erase("booking:A"));
    equal(
      "events and snapshot after the rejection",
      [await store.list({ limit: 10 }), await store.recordOf("booking:A")],
      before,
    );
    await settle(claim, handled(claim, "Confirmed"));
    equal("erase() once the event is done", await store.erase("booking:A"), 4);
  },

  "`erase` deletes an event whose lease has ended": async ({ store, unit, add, claimOne, sleep }) => {
    await add("booking:A");
    const lost = await claimOne({ leaseDuration: unit });
    await sleep(2);
    equal("erase() of the record", await store.erase("booking:A"), 1);
    equal("settle() with the lost lease", await store.settle(lost, handled(lost, "Confirmed")), false);
    equal("recordOf() after erase()", await store.recordOf("booking:A"), undefined);
  },

  "`erase` works for a record with only a snapshot, and for a record with only events": async (bench) => {
    const { store, ended } = bench;
    await store.learn("listing:1", { status: "listed", fields: {} });
    equal("erase() of a snapshot without events", await store.erase("listing:1"), 0);
    equal("recordOf() after erase()", await store.recordOf("listing:1"), undefined);
    await ended("listing:2", parked());
    equal("erase() of a parked event", await store.erase("listing:2"), 1);
    equal("learn() after erase()", await store.learn("listing:2", { status: "listed", fields: {} }), true);
  },
};
