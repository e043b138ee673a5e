import { accountOf } from "../../account.ts";
import type { EventFilter } from "../event-filter.ts";
import { noEvents } from "../event-states.ts";
import type { StoredEvent } from "../stored-event.ts";
import {
  type Bench,
  type Cases,
  check,
  equal,
  failed,
  handled,
  idsOf,
  LONG,
  parked,
  rejects,
} from "./harness.ts";

export const reading: Cases = {
  "`list` returns the newest events first, in pages": async ({ store, newEvent, add, tick }) => {
    const newestFirst: string[] = [];
    for (const ref of ["booking:B", "booking:A", null, "booking:A", "listing:1"]) {
      newestFirst.unshift((await add(ref)).eventId);
      await tick();
    }
    const page = async (limit: number, after?: string) =>
      (await store.list({ limit, after })).map(({ eventId }) => eventId);
    equal("ids of all events", await page(10), newestFirst);
    equal("list() without a limit", (await store.list({})).length, 5);
    equal("list() without options", await store.list(), await store.list({}));
    for (const limit of [0, -1, 1.5, Number.NaN, "2" as unknown as number])
      await rejects(`list() with the limit ${limit}`, () => page(limit));
    equal("ids on the first page", await page(2), newestFirst.slice(0, 2));
    equal("ids on the second page", await page(2, newestFirst[1]), newestFirst.slice(2, 4));
    equal("ids on the last page", await page(2, newestFirst[3]), newestFirst.slice(4));
    equal("ids with `after` set to the last event", await page(2, newestFirst[4]), []);
    equal("ids with `after` set to an unknown id", await page(2, newEvent(null).eventId), []);
  },

  "`counts` returns the number of events in every state": async (bench) => {
    equal("counts() of an empty store", await bench.store.counts(), noEvents);
    await oneOfEachState(bench);
    await bench.add("listing:2");
    const expected = { scheduled: 1, pending: 2, processing: 1, retrying: 1, done: 1, parked: 1 };
    equal("counts()", await bench.store.counts(), expected);
  },

  "scheduledDue counts the scheduled events that are due": async ({ store, add, claimOne, done, sleep }) => {
    if (store.scheduledDue === undefined) return;
    equal("scheduledDue() in an empty store", await store.scheduledDue(), 0);
    await add("booking:A", {}, { dueIn: LONG });
    await add("booking:B");
    equal("scheduledDue() before an event is due", await store.scheduledDue(), 0);
    await add("booking:C", {}, { dueIn: 1 });
    await add("booking:D", {}, { dueIn: 1 });
    await sleep(1);
    equal("scheduledDue() when two events are due", await store.scheduledDue(), 2);
    const claims = [await claimOne({ limit: 1 }), await claimOne({ limit: 1 })];
    for (const claim of claims) await done(claim);
    equal("scheduledDue() after one of them is done", await store.scheduledDue(), 1);
  },

  "oldestWaiting is the age of the oldest waiting event": async (bench) => {
    const { store, newEvent, add, claimOne, settle, done, get, tick } = bench;
    equal("oldestWaiting() in an empty store", await store.oldestWaiting(), undefined);
    await add("booking:later", {}, { dueIn: LONG });
    equal("oldestWaiting() with a scheduled event", await store.oldestWaiting(), undefined);
    const newer = await get(await add("booking:B"));
    const receivedAt = new Date(Number(newer.receivedAt) - 4 * LONG);
    const firstDueAt = new Date(Number(newer.receivedAt) - 2 * LONG);
    const older = { ...newer, ...newEvent("booking:A"), traceparent: null, receivedAt, firstDueAt };
    await store.restore({ events: [older], snapshots: [] });
    const isOlder = async () => {
      const age = (await store.oldestWaiting()) ?? 0;
      return age >= 2 * LONG && age < 4 * LONG;
    };
    equal("whether oldestWaiting() counts a pending event", await isOlder(), true);
    const claim = await claimOne({ eventId: older.eventId });
    equal("whether oldestWaiting() counts a leased event", await isOlder(), false);
    await store.renew([claim], 1);
    await tick();
    equal("whether oldestWaiting() counts an event whose lease has ended", await isOlder(), true);
    await settle(claim, failed(LONG));
    equal("whether oldestWaiting() counts a retrying event", await isOlder(), true);
    await store.replay({ eventId: older.eventId });
    for (const claimed of await bench.claim()) await done(claimed);
    equal("oldestWaiting() after all events are done", await store.oldestWaiting(), undefined);
  },

  "firstDueAt is when an event was first due or replayed, and attempts do not change it": async (bench) => {
    const { store, add, claimOne, claimLater, settle, get, tick, unit } = bench;
    const late = await add("booking:A", { source: "timer" }, { dueIn: 2 * unit });
    const { dueAt: time, receivedAt } = await get(late);
    equal("ms from receivedAt to firstDueAt", Number(time) - Number(receivedAt), 2 * unit);
    const first = await claimLater(0);
    equal("dueAt and firstDueAt of the first claim", [first.dueAt, first.firstDueAt], [time, time]);
    await tick();
    await settle(first, failed(0));
    const second = await claimLater(0, { leaseDuration: unit });
    equal("firstDueAt of the second claim", second.firstDueAt, time);
    check(second.dueAt > time!, "dueAt of the second claim: expected the end of the first attempt");
    const leaseEnd = (await get(late)).dueAt;
    const third = await claimLater(0);
    equal("dueAt of a claim after a lost attempt", third.dueAt, leaseEnd);
    await settle(third, parked());
    equal("firstDueAt of a parked event", (await get(late)).firstDueAt, time);
    await tick();
    await store.replay({ eventId: late.eventId });
    const replayed = await get(late);
    check(replayed.firstDueAt > leaseEnd!, "firstDueAt: expected the time of the replay");
    equal("dueAt of a replayed event", replayed.dueAt, replayed.firstDueAt);
    await settle(await claimOne(), failed(LONG));
    await tick();
    await store.replay({ eventId: late.eventId });
    equal(
      "firstDueAt of a retry that was brought forward",
      (await get(late)).firstDueAt,
      replayed.firstDueAt,
    );
    const timer = await add("booking:B", { source: "timer" }, { dueIn: LONG });
    await store.replay({ eventId: timer.eventId });
    const now = await get(timer);
    equal("firstDueAt of a timer that was run now", now.firstDueAt, now.dueAt);
    const moved = { ...timer, timestamp: "2027-01-01T00:00:00.000Z" };
    await store.add(moved, { dueIn: LONG, replace: "moved" });
    const again = await get(timer);
    equal("firstDueAt of a timer that was set again", again.firstDueAt, again.dueAt);
  },

  "changes to returned objects do not change the store": async (bench) => {
    const { store, ended, handle, claimLater, get } = bench;
    await handle("booking:A", "Confirmed", { nights: 1 });
    const event = await ended("booking:A", failed(0));
    const claim = await claimLater(0);
    const read = async () => structuredClone([await get(event), await store.snapshotOf("booking:A")]);
    const before = await read();
    const record = (await store.snapshotOf("booking:A"))!;
    for (const object of [claim, await get(event), ...(await store.list({ limit: 5 }))])
      Reflect.set(object, "notification", "changed");
    (await get(event)).history[0]!.at.setTime(0);
    Reflect.set(claim.previous!.fields, "nights", 9);
    Reflect.set(record.snapshot, "status", "changed");
    record.seenAt.setTime(0);
    equal("the event and the snapshot after the caller's changes", await read(), before);
  },

  "later changes to objects that the caller passed do not change the store": async (bench) => {
    const { store, newEvent, claimOne, get } = bench;
    const event = newEvent("booking:A");
    const given = { ...event };
    const adding = store.add(given);
    given.notification = "changed";
    await adding;
    equal("the stored notification", (await get(event)).notification, event.notification);
    const fields = { nights: 1 };
    const claim = await claimOne();
    const settling = store.settle(claim, handled(claim, "Confirmed", fields));
    fields.nights = 2;
    await settling;
    equal("the stored fields", (await store.snapshotOf("booking:A"))?.snapshot.fields, { nights: 1 });
  },

  "lastReceivedAt is the receivedAt of the newest webhook event": async (bench) => {
    const { store, add, get, tick } = bench;
    await add("booking:A", { source: "reconcile" });
    await add("booking:A", { source: "recheck" }, { dueIn: LONG });
    equal("lastReceivedAt() without a webhook event", await store.lastReceivedAt(), undefined);
    const first = await add("booking:A");
    await tick();
    const { receivedAt } = await get(await add(null));
    equal("lastReceivedAt() with two events", await store.lastReceivedAt(), receivedAt);
    await tick();
    await add("booking:B", { source: "timer" });
    await store.add(first);
    equal("lastReceivedAt() after a timer and a duplicate", await store.lastReceivedAt(), receivedAt);
    for (const claim of await bench.claim()) await bench.done(claim);
    await store.prune({ state: "done", age: 0, limit: 10 });
    await store.erase("booking:A");
    equal("lastReceivedAt() after prune() and erase()", await store.lastReceivedAt(), receivedAt);
    await tick();
    const newest = await get(await add("booking:C"));
    await store.erase("booking:C");
    equal("lastReceivedAt() after erase() of the newest", await store.lastReceivedAt(), newest.receivedAt);
  },
};

export async function oneOfEachState({ add, ended, handle, claimOne, tick }: Bench) {
  const ids: Partial<Record<StoredEvent["state"], string>> = {};
  const note = async (state: StoredEvent["state"], event: Promise<{ readonly eventId: string }>) => {
    ids[state] = (await event).eventId;
    await tick();
  };
  await note("scheduled", add("booking:scheduled", {}, { dueIn: LONG }));
  await note("retrying", ended("booking:retrying", failed(LONG)));
  await note("done", handle("booking:done"));
  await note("parked", ended("booking:parked", parked()));
  await note("processing", add("booking:processing"));
  await claimOne();
  await note("pending", add("booking:pending"));
  return ids as Record<StoredEvent["state"], string>;
}

export const filtering: Cases = {
  "`list` returns only events that match all fields of the filter": async (bench) => {
    const { store, add, ended, tick } = bench;
    await ended("booking:A", { ...parked("not-found"), type: "booking.Request" });
    await tick();
    await oneOfEachState(bench);
    await add("booking:A", { source: "recheck" });
    await tick();
    await store.discard({ eventId: (await add("booking:a", { source: "timer" })).eventId });
    const all = await store.list({ limit: 50 });
    const [newest, , third] = all as [StoredEvent, StoredEvent, StoredEvent];
    for (const filter of [
      { eventId: newest.eventId },
      { ref: "booking:A" },
      { state: "parked" },
      { state: "scheduled" },
      { type: "booking.Request" },
      { reason: "discarded" },
      { source: "webhook" },
      { receivedAfter: third.receivedAt },
      { receivedBefore: third.receivedAt },
      { state: undefined, ref: undefined },
      { receivedAfter: new Date(-8.64e15), receivedBefore: new Date(8.64e15) },
      { receivedAfter: new Date(8.64e15) },
      { ref: "booking:A", state: "parked" },
      { state: "parked", reason: "not-found", type: "booking.Request" },
      { state: "done", source: "timer" },
      { eventId: newest.eventId, ref: "booking:nobody" },
      { source: "webhook", receivedBefore: third.receivedAt },
    ] satisfies EventFilter[])
      await expectList(bench, all, filter);
  },

  "`list` with an account returns its events in each state, and those without a record": async (bench) => {
    const { store, add, ended, handle, tick, newEvent, claimOne } = bench;
    const accounts = ["a17", "A17", "a17-", "a1", "."];
    for (const account of accounts) {
      await ended(`${account}/booking:A`, parked());
      await handle(`${account}/booking:B`);
      await handle(`${account}/listing:1`, "Published");
      await tick();
    }
    for (const account of accounts) {
      await add(`${account}/booking:a/b`);
      await store.add(newEvent(null, { eventId: `${account}/${newEvent(null).eventId}` }));
      await add(`${account}/booking:C`, {}, { dueIn: LONG });
      await tick();
    }
    await add("booking:a17/b");
    await add(null);
    await claimOne({ eventId: (await add("a17/booking:D")).eventId });
    const all = await store.list({ limit: 50 });
    equal("events of a17", (await store.list({ account: "a17", limit: 50 })).length, 7);
    for (const filter of [
      ...["a17", "A17", "a17-", "a1", ".", "nobody"].map((account) => ({ account })),
      { account: "a17", state: "done" },
      { account: "a17", state: "parked" },
      { account: "a17", ref: "a17/booking:A" },
      { account: "a17", ref: "a1/booking:A" },
      { account: "a17", source: "recheck" },
      { account: undefined, state: "done" },
    ] satisfies EventFilter[])
      await expectList(bench, all, filter);
    const page = await store.list({
      account: "a17",
      limit: 2,
      after: all.find((event) => event.state === "processing")!.eventId,
    });
    equal(
      "a page after the newest",
      idsOf(page),
      idsOf(all.filter((event) => accountOf(event) === "a17").slice(1, 3)),
    );
    equal("discard() of an account", await store.discard({ account: "A17" }), 3);
    await rejects("list() with a bad account", () => store.list({ account: "a/b", limit: 1 }));
  },

  "`list` applies `limit` and `after` to the matching events only": async ({
    store,
    add,
    newEvent,
    tick,
  }) => {
    const wanted: string[] = [];
    for (let part = 0; part < 3; part++) {
      await Promise.all(Array.from({ length: 100 }, () => store.add(newEvent(null))));
      await tick();
      wanted.unshift((await add("booking:rare", { source: "reconcile" })).eventId);
    }
    for (const filter of [{ ref: "booking:rare" }, { source: "reconcile" }] as const) {
      const page = async (limit: number, after?: string) =>
        (await store.list({ ...filter, limit, after })).map(({ eventId }) => eventId);
      equal(
        `ids with ${JSON.stringify(filter)}`,
        [await page(9), await page(2)],
        [wanted, wanted.slice(0, 2)],
      );
      equal("ids on the second page", await page(2, wanted[1]), wanted.slice(2));
    }
  },

  "the store rejects a filter with an invalid date, and an unknown field or state": async ({
    store,
    add,
  }) => {
    await add("booking:A");
    for (const wrong of [
      { receivedAfter: new Date(Number.NaN) },
      { receivedBefore: "2026-03-01" },
      { ref: "booking:A", sate: "pending" },
      { state: "pendin" },
    ]) {
      const filter = wrong as EventFilter;
      const what = JSON.stringify(filter);
      await rejects(`list() with ${what}`, () => store.list({ limit: 1, ...filter }));
      await rejects(`replay() with ${what}`, () => store.replay(filter));
      await rejects(`discard() with ${what}`, () => store.discard(filter));
    }
    await rejects("erase() without a ref", () => store.erase(undefined as unknown as string));
    await rejects("remove() without a ref", () => store.remove(undefined as unknown as string, "timers"));
    equal("counts().pending", (await store.counts()).pending, 1);
  },
};

async function expectList({ store }: Bench, all: readonly StoredEvent[], filter: EventFilter): Promise<void> {
  const expected = all.filter(
    (event) =>
      (filter.eventId ?? event.eventId) === event.eventId &&
      (filter.account ?? accountOf(event)) === accountOf(event) &&
      (filter.ref ?? event.ref) === event.ref &&
      (filter.state ?? event.state) === event.state &&
      (filter.type ?? event.type) === event.type &&
      (filter.reason ?? event.reason) === event.reason &&
      (filter.source ?? event.source) === event.source &&
      event.receivedAt >= (filter.receivedAfter ?? new Date(0)) &&
      event.receivedAt < (filter.receivedBefore ?? new Date(8.64e15)),
  );
  const what = `list() with ${JSON.stringify(filter)}`;
  equal(what, await store.list({ ...filter, limit: 50 }), expected);
  equal(`${what} and limit 1`, await store.list({ ...filter, limit: 1 }), expected.slice(0, 1));
}
