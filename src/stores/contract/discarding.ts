import { check, equal, rejects } from "./expect.ts";
import { type Cases, failed, handled, LONG, parked, unreachable } from "./harness.ts";
import { oneOfEachState } from "./reading.ts";

export const discarding: Cases = {
  "pending, retrying and parked events become done": async (bench) => {
    const { store, add, get, claim } = bench;
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

  "a discarded event is pruned as a done one, by its age since then": async ({
    store,
    add,
    claimOne,
    settle,
  }) => {
    await add("booking:A");
    await settle(await claimOne(), parked());
    await store.discard({ state: "parked" });
    equal("prune of parked events", await store.prune({ state: "parked", age: 0, limit: 10 }), 0);
    equal("prune, too young", await store.prune({ state: "done", age: LONG, limit: 10 }), 0);
    equal("prune of done events", await store.prune({ state: "done", age: 0, limit: 10 }), 1);
  },

  "the other events of its record are left alone": async ({ store, add, claimOne, settle, get }) => {
    const first = await add("booking:A");
    await settle(await claimOne(), failed(LONG));
    const second = await add("booking:A");
    equal("discard", await store.discard({ eventId: first.eventId }), 1);
    equal("the one behind it", (await claimOne()).eventId, second.eventId);
    const third = await add("booking:A");
    equal("discard while its record is leased", await store.discard({ eventId: third.eventId }), 1);
    equal("the leased one", (await get(second)).state, "processing");
  },

  "a record's wait goes on": async ({ store, add, claim, claimOne, settle }) => {
    const failing = await add("booking:A");
    await add("booking:A");
    await settle(await claimOne(), unreachable(LONG));
    equal("discard", await store.discard({ eventId: failing.eventId }), 1);
    equal("claim", await claim(), []);
  },

  "a discard without a filter is refused": async ({ store, add }) => {
    await add("booking:A");
    await rejects("discard({})", () => store.discard({}));
    await rejects("discard({ type: undefined })", () => store.discard({ type: undefined }));
    equal("counts().pending", (await store.counts()).pending, 1);
  },
};

export const erasing: Cases = {
  "erase deletes a record's events and its snapshot": async (bench) => {
    const { store, add, claimOne, done, settle, newEvent } = bench;
    const ended = await add("booking:A");
    await done(await claimOne(), "Confirmed");
    await add("booking:A");
    await settle(await claimOne(), parked());
    await add("booking:A");
    await settle(await claimOne(), failed(LONG));
    await add("booking:A");
    const other = await add("booking:AB");
    const alone = await add(null);
    equal("erase", await store.erase("booking:A"), 4);
    equal("recordOf", await store.recordOf("booking:A"), undefined);
    equal("get of a done event", await store.get(ended.eventId), undefined);
    equal(
      "the events of other records",
      (await store.list({ limit: 10 })).map(({ eventId }) => eventId).sort(),
      [other.eventId, alone.eventId].sort(),
    );
    equal("counts", await store.counts(), { pending: 2, processing: 0, retrying: 0, done: 0, parked: 0 });
    equal("erase again", await store.erase("booking:A"), 0);
    equal("erase of an unknown record", await store.erase(newEvent("booking:Z").ref!), 0);
    equal("add of an id that was erased", await store.add(ended), "added");
    const { attempts, previous, sequence } = await claimOne({ eventId: ended.eventId });
    equal("its claim", [attempts, previous, sequence], [1, undefined, 0]);
  },

  "erase ends the record's wait": async ({ store, add, claimOne, settle }) => {
    await add("booking:A");
    await settle(await claimOne(), unreachable(LONG));
    equal("erase", await store.erase("booking:A"), 1);
    equal("nextDue", await store.nextDue(), undefined);
    const event = await add("booking:A");
    equal("the claimed event", (await claimOne()).eventId, event.eventId);
  },

  "erase rejects while one is processed, and deletes nothing": async (bench) => {
    const { store, add, claimOne, settle, done } = bench;
    await add("booking:A");
    await done(await claimOne(), "Request");
    await add("booking:A");
    await settle(await claimOne(), parked());
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

  "erase takes an event whose lease has ended": async ({ store, add, claimOne, sleep, unit }) => {
    await add("booking:A");
    const lost = await claimOne({ leaseDuration: unit });
    await sleep(2);
    equal("erase", await store.erase("booking:A"), 1);
    equal("settle with the lost lease", await store.settle(lost, handled(lost, "Confirmed")), false);
    equal("recordOf", await store.recordOf("booking:A"), undefined);
  },

  "erase deletes a record without events, and parked ones without a snapshot": async ({
    store,
    add,
    claimOne,
    settle,
  }) => {
    await store.learn("listing:1", { status: "listed", fields: {} });
    equal("erase of a snapshot alone", await store.erase("listing:1"), 0);
    equal("recordOf", await store.recordOf("listing:1"), undefined);
    await add("listing:2");
    await settle(await claimOne(), parked());
    equal("erase of a parked event", await store.erase("listing:2"), 1);
    equal("learn afterwards", await store.learn("listing:2", { status: "listed", fields: {} }), true);
  },
};
