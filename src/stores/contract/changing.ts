import { noEvents } from "../event-states.ts";
import {
  type Cases,
  check,
  equal,
  failed,
  handled,
  idsOf,
  LONG,
  parked,
  rejects,
  unreachable,
} from "./harness.ts";
import { oneOfEachState } from "./reading.ts";

export const replaying: Cases = {
  "a done or parked event can be replayed": async (bench) => {
    const { store, ended, claimOne, claimLater, settle, done, handle, get, shows } = bench;
    for (const ref of ["booking:A", "booking:B"]) {
      await handle(ref, "Confirmed");
      const event = await ended(ref, unreachable(0));
      const last = await claimLater(0);
      await settle(last, ref === "booking:A" ? handled(last) : parked());
      const { history } = await get(event);
      equal("replay() of the event", await store.replay({ eventId: event.eventId }), 1);
      await shows(event, { state: "pending", attempts: 0, doneAt: null, reason: null, history });
      const claim = await claimOne();
      const { attempts, outages, outageFor, replayed, previous, sequence } = claim;
      equal(
        "the claim of the replayed event",
        { attempts, outages, outageFor, replayed, status: previous?.status, sequence },
        { attempts: 1, outages: 0, outageFor: 0, replayed: true, status: "Confirmed", sequence: 1 },
      );
      await settle(claim, failed(0));
      const again = await claimLater(0);
      equal("`attempts` and `replayed` of the second claim", [again.attempts, again.replayed], [2, true]);
      await done(again);
    }
  },

  "`replay` makes a retrying event due now": async ({ store, ended, claimOne, shows }) => {
    const event = await ended("booking:A", failed(LONG));
    equal("replay() of the retrying event", await store.replay({ eventId: event.eventId }), 1);
    equal("nextDue() after replay()", await store.nextDue(), 0);
    await shows(event, { state: "retrying" });
    equal("second replay() of the event", await store.replay({ eventId: event.eventId }), 0);
    const { attempts, replayed } = await claimOne();
    equal("the claim", { attempts, replayed }, { attempts: 2, replayed: false });
  },

  "`replay` and `discard` change a scheduled event only if the filter names it": async (bench) => {
    const { store, add, claims, get } = bench;
    const first = await add("booking:A", { source: "timer" }, { dueIn: LONG });
    const second = await add("booking:A", {}, { dueIn: LONG });
    const before = [await get(first), await get(second)];
    for (const filter of [
      { ref: "booking:A" },
      { source: "timer" },
      { receivedAfter: new Date(0) },
    ] as const) {
      const what = JSON.stringify(filter);
      equal(`replay() with ${what}`, await store.replay(filter), 0);
      equal(`discard() with ${what}`, await store.discard(filter), 0);
    }
    equal("the events", [await get(first), await get(second)], before);
    equal("replay() by id", await store.replay({ eventId: first.eventId }), 1);
    await claims("after replay() by id", first);
    equal("replay() by state", await store.replay({ state: "scheduled", ref: "booking:A" }), 1);
    equal("discard() by state", await store.discard({ state: "scheduled" }), 1);
    const third = await add("booking:B", {}, { dueIn: LONG });
    equal("discard() by id", await store.discard({ eventId: third.eventId }), 1);
    equal("counts()", await store.counts(), { ...noEvents, processing: 1, done: 2 });
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
    const refs = [null, "booking:A", null, "booking:B"];
    const events = Array.from({ length: many }, (_, index) => newEvent(refs[index % refs.length]!));
    await Promise.all(events.map((event) => store.add(event)));
    equal("how many events were discarded", await store.discard({ source: "webhook" }), many);
    equal("counts() after discard()", await store.counts(), { ...noEvents, done: many });
    equal("how many events were replayed", await store.replay({ state: "done" }), many);
    equal("counts() after replay()", await store.counts(), { ...noEvents, pending: many });
    const pending = await store.list({ state: "pending", limit: 2 * many });
    equal("how many events are listed", new Set(idsOf(pending)).size, many);
    for (const { attempts, replayed } of await claim({ limit: 20 }))
      equal("`attempts` and `replayed` of a claim", [attempts, replayed], [1, true]);
  },
};

export const discarding: Cases = {
  "`discard` sets pending, retrying and parked events to done": async (bench) => {
    const { store, add, claim, claims, get } = bench;
    const ids = await oneOfEachState(bench);
    const kept = () =>
      Promise.all([ids.done, ids.processing, ids.scheduled].map((eventId) => get({ eventId })));
    const before = [await kept(), await get({ eventId: ids.parked })] as const;
    const everything = { receivedAfter: new Date(0) };
    equal("discard() of all events", await store.discard(everything), 3);
    equal("counts()", await store.counts(), { ...noEvents, scheduled: 1, processing: 1, done: 4 });
    for (const eventId of [ids.pending, ids.retrying, ids.parked]) {
      const { state, reason, dueAt, doneAt, receivedAt } = await get({ eventId });
      equal(
        "a discarded event",
        { state, reason, dueAt },
        { state: "done", reason: "discarded", dueAt: null },
      );
      check(doneAt instanceof Date && doneAt >= receivedAt, "doneAt: expected a Date at or after receivedAt");
    }
    const { history, type, attempts } = await get({ eventId: ids.parked });
    const { parked: was } = { parked: before[1] };
    equal("history, type and attempts", [history, type, attempts], [was.history, was.type, was.attempts]);
    equal("the other events after discard()", await kept(), before[0]);
    equal("claim() after discard()", await claim(), []);
    equal("second discard() of all events", await store.discard(everything), 0);
    await claims("of a new event", await add("booking:pending"));
    const replayed = { reason: "discarded", ref: "booking:retrying" } as const;
    equal("replay() of one of the events", await store.replay(replayed), 1);
    equal("counts().done", (await store.counts()).done, 3);
  },
};

export const erasing: Cases = {
  "`erase` deletes a record's events and its snapshot": async (bench) => {
    const { store, add, ended, handle, claimOne } = bench;
    const first = await handle("booking:A", "Confirmed");
    await ended("booking:A", parked());
    await ended("booking:A", failed(LONG));
    await add("booking:A", { source: "timer" }, { dueIn: LONG });
    await add("booking:A");
    const others = [await add("booking:AB"), await add(null)];
    equal("erase() of the record", await store.erase("booking:A"), 5);
    equal("snapshotOf() after erase()", await store.snapshotOf("booking:A"), undefined);
    equal("get() of an erased event", await store.get(first.eventId), undefined);
    equal("ids of the remaining events", idsOf(await store.list({ limit: 10 })), idsOf(others));
    equal("counts() after erase()", await store.counts(), { ...noEvents, pending: 2 });
    equal("second erase() of the record", await store.erase("booking:A"), 0);
    equal("add() of an erased id", await store.add(first), "added");
    const { attempts, previous, sequence } = await claimOne({ eventId: first.eventId });
    equal("attempts, previous and sequence of the claim", [attempts, previous, sequence], [1, undefined, 0]);
  },

  "`erase` of a booking also deletes its messages, of this spelling and account only": async (bench) => {
    const { store, add, claimOne, done, settle } = bench;
    const names = ["message:A", "message:a", "a17/message:A", "message:AB", "messages:A"];
    const events = [];
    for (const ref of names) {
      events.push(await add(ref));
      await done(await claimOne());
    }
    equal("erase() of the messages of another booking", await store.erase("listing:A"), 0);
    const held = await add("message:A");
    const claim = await claimOne();
    await add("booking:A");
    await rejects("erase() while a message is processed", () => store.erase("booking:A"));
    equal("events after the rejection", (await store.list({ limit: 9 })).length, 7);
    await settle(claim, parked());
    equal("erase() of the booking", await store.erase("booking:A"), 3);
    equal("get() of an erased message", await store.get(held.eventId), undefined);
    equal("the other messages", idsOf(await store.list({ limit: 9 })), idsOf(events.slice(1)));
    equal("erase() of a booking of an account", await store.erase("a17/booking:A"), 1);
    equal("erase() of messages alone", await store.erase("message:a"), 1);
  },

  "while an event of the record is processed, `erase` rejects and deletes nothing": async (bench) => {
    const { store, add, ended, handle, claimOne, settle } = bench;
    await handle("booking:A", "Request");
    await ended("booking:A", parked());
    await add("booking:A");
    const claim = await claimOne();
    await add("booking:A");
    const read = async () => [await store.list({ limit: 10 }), await store.snapshotOf("booking:A")];
    const before = await read();
    await rejects("erase() while an event is processed", () => store.erase("booking:A"));
    equal("events and snapshot after the rejection", await read(), before);
    await settle(claim, handled(claim, "Confirmed"));
    equal("erase() once the event is done", await store.erase("booking:A"), 4);
  },

  "`eraseAccount` deletes all of an account in any number of steps, except what is being processed": async (
    bench,
  ) => {
    const { store, add, ended, handle, claimOne, settle, newEvent } = bench;
    if (store.eraseAccount === undefined) return;
    const settled = await handle("A17/booking:A", "Confirmed");
    await ended("a17/booking:A", parked());
    for (let number = 0; number < 6; number++) await handle(`a17/booking:${number}`, "Confirmed");
    const event = newEvent(null, { eventId: `a17/${newEvent(null).eventId}` });
    await store.add(event);
    await settle(await claimOne(), { state: "done", type: "unknown", entry: { duration: 1 } });
    await store.learn("a17/listing:1", { status: "Published", fields: {} });
    const others = [settled, await add("a1/booking:A"), await add("booking:a17/b")];
    await add("a17/booking:A", { source: "timer" }, { dueIn: LONG });
    await Promise.all(Array.from({ length: 254 }, (_, number) => add(`a17/booking:${number}`)));
    const claim = await claimOne({ eventId: (await add("a17/booking:X")).eventId });
    equal("eraseAccount()", await store.eraseAccount("a17"), { events: 263, snapshots: 7, processing: 1 });
    equal("what is left of it", idsOf(await store.list({ account: "a17", limit: 9 })), [claim.eventId]);
    await settle(claim, handled(claim, "Confirmed"));
    equal("eraseAccount() again", await store.eraseAccount("a17"), {
      events: 1,
      snapshots: 1,
      processing: 0,
    });
    equal("eraseAccount() of none", await store.eraseAccount("a17"), {
      events: 0,
      snapshots: 0,
      processing: 0,
    });
    equal("the other events", idsOf(await store.list({ limit: 9 })), idsOf(others.toReversed()));
    equal("the other snapshot", (await store.snapshotOf("A17/booking:A"))?.sequence, 1);
    equal("nextDue() of the others", await store.nextDue(), 0);
    await rejects("eraseAccount() of a bad account", () => store.eraseAccount!("a/b"));
  },
};
