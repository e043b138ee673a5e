import type { EventFilter, StoredEvent } from "../event-store.ts";
import { check, equal, rejects } from "./expect.ts";
import { type Bench, type Cases, failed, handled, LONG, parked } from "./harness.ts";

export const filtering: Cases = {
  "each field of a filter narrows the list": async (bench) => {
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
      "with fields that are undefined",
      await store.list({ limit: 50, state: undefined, ref: undefined }),
      all,
    );
  },

  "all fields of a filter must match": async (bench) => {
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

  "the list has `limit` events where few match, and goes on behind one": async ({
    store,
    newEvent,
    tick,
  }) => {
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
      equal(`all with ${what}`, await page(10), wanted);
      equal(`the first page with ${what}`, await page(4), wanted.slice(0, 4));
      equal(`the second page with ${what}`, await page(4, wanted[3]), wanted.slice(4));
    }
  },

  "an invalid date is refused": async ({ store, add }) => {
    await add("booking:A");
    for (const date of [new Date(Number.NaN), "2026-03-01" as unknown as Date, 0 as unknown as Date]) {
      const what = String(date);
      await rejects(`list, receivedAfter ${what}`, () => store.list({ limit: 1, receivedAfter: date }));
      await rejects(`list, receivedBefore ${what}`, () => store.list({ limit: 1, receivedBefore: date }));
      await rejects(`replay, receivedAfter ${what}`, () => store.replay({ receivedAfter: date }));
      await rejects(`discard, receivedBefore ${what}`, () => store.discard({ receivedBefore: date }));
    }
    equal("counts().pending", (await store.counts()).pending, 1);
  },

  "a misspelt field or state matches nothing: it is refused": async ({ store, add }) => {
    await add("booking:A");
    for (const wrong of [{ reff: "booking:A" }, { ref: "booking:A", sate: "pending" }, { state: "pendin" }]) {
      const filter = wrong as EventFilter;
      const what = JSON.stringify(filter);
      await rejects(`list with ${what}`, () => store.list({ limit: 1, ...filter }));
      await rejects(`replay with ${what}`, () => store.replay(filter));
      await rejects(`discard with ${what}`, () => store.discard(filter));
    }
    await rejects("erase without a ref", () => store.erase(undefined as unknown as string));
    equal("counts().pending", (await store.counts()).pending, 1);
  },

  "a date that no event can have is a bound as any other": async ({ store, add }) => {
    await add("booking:A");
    const [first, last] = [new Date(-8.64e15), new Date(8.64e15)];
    equal(
      "between both",
      (await store.list({ limit: 2, receivedAfter: first, receivedBefore: last })).length,
      1,
    );
    equal("after the last", (await store.list({ limit: 2, receivedAfter: last })).length, 0);
    equal("before the first", (await store.list({ limit: 2, receivedBefore: first })).length, 0);
  },
};

/** @returns all events, the newest first */
async function differentEvents({ store, add, claimOne, settle, done, tick }: Bench): Promise<StoredEvent[]> {
  await add("booking:A");
  await settle(await claimOne(), { ...parked("not-found"), type: "booking.Request" });
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
  await add(null);
  await settle(await claimOne(), parked("callback"));
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
  equal("how many events there are", all.length, 9);
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
  const what = `list with ${JSON.stringify(filter)}`;
  equal(what, await store.list({ ...filter, limit: 50 }), expected);
  equal(`${what} and limit 1`, await store.list({ ...filter, limit: 1 }), expected.slice(0, 1));
  const [first] = expected;
  if (first === undefined) return;
  const behind = await store.list({ ...filter, limit: 50, after: first.eventId });
  check(
    behind.length === expected.length - 1,
    `${what}, behind ${first.eventId}: expected ${expected.length - 1} events, got ${behind.length}`,
  );
}
