import type { EventFilter, StoredEvent } from "../event-store.ts";
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
    equal("ids with limit 0", await page(0), []);
    equal("ids on the first page", await page(2), newestFirst.slice(0, 2));
    equal("ids on the second page", await page(2, newestFirst[1]), newestFirst.slice(2, 4));
    equal("ids on the last page", await page(2, newestFirst[3]), newestFirst.slice(4));
    equal("ids with `after` set to the last event", await page(2, newestFirst[4]), []);
    equal("ids with `after` set to an unknown id", await page(2, newEvent(null).eventId), []);
  },

  "`list` filters by state, in pages": async (bench) => {
    const { store, get } = bench;
    const ids = await oneOfEachState(bench);
    for (const [state, eventId] of Object.entries(ids)) {
      const rows = await store.list({ state: state as keyof typeof ids, limit: 10 });
      equal(`list() of ${state} events`, rows, [await get({ eventId })]);
    }
    await bench.tick();
    const newer = await bench.add("listing:2");
    const pending = await store.list({ state: "pending", limit: 10, after: newer.eventId });
    equal(
      "ids of pending events, with `after` set to a newer event",
      pending.map(({ eventId }) => eventId),
      [ids.pending],
    );
    const done = await store.list({ state: "done", limit: 10, after: newer.eventId });
    equal(
      "ids of done events, with `after` set to an event in another state",
      done.map(({ eventId }) => eventId),
      [ids.done],
    );
  },

  "attempts and replays do not change an event's place in the list": async (bench) => {
    const { store, add, claimOne, settle, done, tick } = bench;
    const older = await add("booking:A");
    await tick();
    const newer = await add("booking:B");
    await done(await claimOne({ eventId: newer.eventId }));
    await settle(await claimOne(), failed(0));
    await store.replay({ eventId: newer.eventId });
    await store.replay({ eventId: older.eventId });
    const listed = (await store.list({ limit: 10 })).map(({ eventId }) => eventId);
    equal("ids in the list", listed, [newer.eventId, older.eventId]);
  },

  "`counts` returns the number of events in every state": async (bench) => {
    const none = { pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 };
    equal("counts() of an empty store", await bench.store.counts(), none);
    await oneOfEachState(bench);
    await bench.add("listing:2");
    const counts = await bench.store.counts();
    equal("counts() of one event in each state, and one more pending event", counts, {
      pending: 2,
      processing: 1,
      retrying: 1,
      done: 1,
      parked: 1,
    });
  },

  "oldestWaiting is the age of the oldest waiting event": async (bench) => {
    const { store, unit, add, claimOne, settle, done, sleep } = bench;
    equal("oldestWaiting() in an empty store", await store.oldestWaiting(), undefined);
    const start = performance.now();
    const older = await add("booking:A");
    const added = performance.now();
    await sleep(2);
    await add("booking:B");
    await expectAge("oldestWaiting() with two pending events", start, added);

    const claim = await claimOne({ eventId: older.eventId });
    between(
      "oldestWaiting() while the older event is processing",
      await store.oldestWaiting(),
      0,
      performance.now() - added - unit,
    );
    await settle(claim, failed(LONG));
    await expectAge("oldestWaiting() while the older event is retrying", start, added);
    await done(await claimOne({ eventId: (await bench.store.list({ limit: 1 }))[0]!.eventId }));
    await expectAge("oldestWaiting() after the newer event is done", start, added);

    async function expectAge(what: string, from: number, to: number): Promise<void> {
      const least = Math.floor(performance.now() - to) - 5;
      const age = await store.oldestWaiting();
      between(what, age, least, Math.ceil(performance.now() - from) + 5);
    }
  },

  "oldestWaiting counts an event whose lease has ended": async (bench) => {
    const { store, unit, add, claimOne, done, eventually } = bench;
    await add("booking:A");
    await claimOne({ leaseDuration: 2 * unit });
    const age = await eventually("oldestWaiting() to return an age", () => store.oldestWaiting());
    between("the event's age", age, 1, 30_000);
    await done(await claimOne());
    equal("oldestWaiting() after the event is done", await store.oldestWaiting(), undefined);
  },

  "changes to returned objects do not change the store": async (bench) => {
    const { store, add, ended, claimOne, claimLater, done, get } = bench;
    const event = await add("booking:A");
    const before = await get(event);
    await done(await claimOne(), "Confirmed", { nights: 1 });
    equal("state of the event that was read before the claim", before.state, "pending");
    const other = await ended("booking:A", failed(0));
    const claim = await claimLater(0);
    const copy = { ...claim };
    const stored = await get(other);
    const handedOut = [before, claim, stored, ...(await store.list({ limit: 5 }))];
    for (const object of handedOut) {
      Reflect.set(object, "notification", "changed");
      Reflect.set(object, "attempts", 9);
      if (object.receivedAt instanceof Date) object.receivedAt.setTime(0);
    }
    stored.history[0]!.at.setTime(0);
    Reflect.set(stored.history[0]!, "outcome", "changed");
    Reflect.set(claim.previous!.fields, "nights", 9);
    const { notification, attempts, receivedAt, history } = await get(other);
    equal(
      "the stored event after the caller's changes",
      [notification, attempts, Number(receivedAt), history[0]!.outcome, Number(history[0]!.at) > 0],
      [other.notification, 2, copy.receivedAt, "retrying", true],
    );
    const record = (await store.recordOf("booking:A"))!;
    equal("the stored snapshot", record.snapshot, { status: "Confirmed", fields: { nights: 1 } });
    Reflect.set(record.snapshot, "status", "changed");
    record.seenAt.setTime(0);
    const again = (await store.recordOf("booking:A"))!;
    equal("the stored record", [again.snapshot.status, Number(again.seenAt) > 0], ["Confirmed", true]);
  },

  "later changes to objects that the caller passed do not change the store": async (bench) => {
    const { store, newEvent, claimOne, settle, get } = bench;
    const event = newEvent("booking:A");
    const given = { ...event };
    await store.add(given);
    given.notification = "changed";
    equal("the stored notification", (await get(event)).notification, event.notification);
    const fields = { nights: 1 };
    const claim = await claimOne();
    await settle(claim, handled(claim, "Confirmed", fields));
    fields.nights = 2;
    equal("the stored fields", (await store.recordOf("booking:A"))?.snapshot.fields, { nights: 1 });
  },
};

export async function oneOfEachState({ add, ended, handle, claimOne, tick }: Bench) {
  const retrying = await ended("booking:retrying", failed(LONG));
  await tick();
  const handled = await handle("booking:done");
  await tick();
  const given = await ended("booking:parked", parked());
  await tick();
  const processing = await add("booking:processing");
  await claimOne();
  await tick();
  const pending = await add("booking:pending");
  return {
    pending: pending.eventId,
    processing: processing.eventId,
    retrying: retrying.eventId,
    done: handled.eventId,
    parked: given.eventId,
  };
}

export const filtering: Cases = {
  "`list` with one field in the filter returns exactly the matching events": async (bench) => {
    const all = await differentEvents(bench);
    const { store } = bench;
    const newest = all[0]!;
    const third = all[2]!;
    for (const filter of [
      { eventId: newest.eventId },
      { ref: "booking:A" },
      { ref: "booking:a" },
      { state: "parked" },
      { state: "done" },
      { type: "booking.Request" },
      { type: "booking" },
      { reason: "callback" },
      { reason: "discarded" },
      { source: "webhook" },
      { source: "recheck" },
      { receivedAfter: third.receivedAt },
      { receivedBefore: third.receivedAt },
      { receivedBefore: new Date(0) },
      { receivedAfter: new Date(8.64e15) },
    ] as const) {
      await expectList(bench, all, filter);
    }
    equal(
      "list() with a filter whose fields are undefined",
      await store.list({ limit: 50, state: undefined, ref: undefined }),
      all,
    );
  },

  "`list` returns only events that match all fields of the filter": async (bench) => {
    const all = await differentEvents(bench);
    const [newest, , third] = all as [StoredEvent, StoredEvent, StoredEvent];
    for (const filter of [
      { ref: "booking:A", state: "parked" },
      { ref: "booking:A", state: "pending", source: "webhook" },
      { state: "parked", reason: "not-found", type: "booking.Request" },
      { state: "retrying", reason: "callback" },
      { state: "done", reason: "discarded", source: "webhook" },
      { eventId: newest.eventId, ref: newest.ref!, state: newest.state },
      { eventId: newest.eventId, ref: "booking:nobody" },
      { receivedAfter: third.receivedAt, receivedBefore: newest.receivedAt },
      { receivedAfter: newest.receivedAt, receivedBefore: newest.receivedAt },
      { source: "reconcile", receivedBefore: newest.receivedAt },
    ] as const) {
      await expectList(bench, all, filter);
    }
  },

  "`list` applies `limit` and `after` to the matching events only": async (bench) => {
    const { store, newEvent, tick } = bench;
    const wanted: string[] = [];
    for (let part = 0; part < 6; part++) {
      await Promise.all(Array.from({ length: 100 }, () => store.add(newEvent(null))));
      await tick();
      const event = newEvent("booking:rare", { source: "reconcile" });
      await store.add(event);
      wanted.unshift(event.eventId);
      await tick();
    }
    for (const filter of [{ ref: "booking:rare" }, { source: "reconcile" }] as const) {
      const page = async (limit: number, after?: string) =>
        (await store.list({ ...filter, limit, after })).map(({ eventId }) => eventId);
      const what = JSON.stringify(filter);
      equal(`ids of all events with ${what}`, await page(10), wanted);
      equal(`ids on the first page with ${what}`, await page(4), wanted.slice(0, 4));
      equal(`ids on the second page with ${what}`, await page(4, wanted[3]), wanted.slice(4));
    }
  },

  "`list`, `replay` and `discard` reject an invalid date": async ({ store, add }) => {
    await add("booking:A");
    for (const date of [new Date(Number.NaN), "2026-03-01" as unknown as Date, 0 as unknown as Date]) {
      const what = String(date);
      await rejects(`list() with receivedAfter ${what}`, () => store.list({ limit: 1, receivedAfter: date }));
      await rejects(`list() with receivedBefore ${what}`, () =>
        store.list({ limit: 1, receivedBefore: date }),
      );
      await rejects(`replay() with receivedAfter ${what}`, () => store.replay({ receivedAfter: date }));
      await rejects(`discard() with receivedBefore ${what}`, () => store.discard({ receivedBefore: date }));
    }
    equal("counts().pending", (await store.counts()).pending, 1);
  },

  "the store rejects a filter with an unknown field or state": async ({ store, add }) => {
    await add("booking:A");
    for (const wrong of [{ reff: "booking:A" }, { ref: "booking:A", sate: "pending" }, { state: "pendin" }]) {
      const filter = wrong as EventFilter;
      const what = JSON.stringify(filter);
      await rejects(`list() with ${what}`, () => store.list({ limit: 1, ...filter }));
      await rejects(`replay() with ${what}`, () => store.replay(filter));
      await rejects(`discard() with ${what}`, () => store.discard(filter));
    }
    await rejects("erase() without a ref", () => store.erase(undefined as unknown as string));
    equal("counts().pending", (await store.counts()).pending, 1);
  },

  "a filter accepts the earliest and the latest possible Date": async ({ store, add }) => {
    await add("booking:A");
    const [first, last] = [new Date(-8.64e15), new Date(8.64e15)];
    equal(
      "how many events are between the earliest and the latest Date",
      (await store.list({ limit: 2, receivedAfter: first, receivedBefore: last })).length,
      1,
    );
    equal(
      "how many events are after the latest Date",
      (await store.list({ limit: 2, receivedAfter: last })).length,
      0,
    );
    equal(
      "how many events are before the earliest Date",
      (await store.list({ limit: 2, receivedBefore: first })).length,
      0,
    );
  },
};

/** Adds different events. Returns all events, the newest first. */
async function differentEvents(bench: Bench): Promise<StoredEvent[]> {
  const { store, add, ended, claimOne, settle, done, tick } = bench;
  await ended("booking:A", { ...parked("not-found"), type: "booking.Request" });
  await tick();
  await add("booking:B", { source: "reconcile", notification: null });
  await settle(await claimOne(), { ...failed(LONG), type: "booking.Confirmed" });
  await tick();
  await add("booking:A", { source: "recheck", notification: null });
  const claim = await claimOne();
  await settle(claim, { ...handled(claim, "Request"), type: "booking.Request" });
  await tick();
  const discarded = await add("listing:1");
  await store.discard({ eventId: discarded.eventId });
  await tick();
  await ended(null, parked("callback"));
  await tick();
  await add("booking:a", { topic: "bookings" });
  await done(await claimOne());
  await tick();
  await add("booking:C");
  await claimOne();
  await tick();
  await add("booking:A");
  await tick();
  await add("booking:B");
  const all = await store.list({ limit: 50 });
  equal("how many events list() returned", all.length, 9);
  return all;
}

async function expectList({ store }: Bench, all: readonly StoredEvent[], filter: EventFilter): Promise<void> {
  const expected = all.filter(
    (event) =>
      (filter.eventId ?? event.eventId) === event.eventId &&
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
  const [first] = expected;
  if (first === undefined) return;
  const behind = await store.list({ ...filter, limit: 50, after: first.eventId });
  check(
    behind.length === expected.length - 1,
    `${what} and after ${first.eventId}: expected ${expected.length - 1} events, got ${behind.length}`,
  );
}
