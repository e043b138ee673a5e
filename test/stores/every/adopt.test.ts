// `stayhook events adopt` on every store: nothing is lost, also if its process died in the middle.

import { expect, test } from "vitest";
import { adoptInto } from "../../../src/cli/adopt.ts";
import type { EventStore } from "../../../src/stores/event-store.ts";
import type { ClaimedEvent } from "../../../src/stores/stored-event.ts";
import { CONFIRMED, storedEvent } from "../event.ts";
import { describeEvery, opened } from "./stores.ts";

const minute = 60_000;
const at = new Date(Date.now() + 600 * minute);
const timer = storedEvent({
  eventId: "stayhook:timer:booking:A1:mail",
  ref: "booking:A1",
  source: "timer",
  state: "scheduled",
  dueAt: at,
  timestamp: at.toISOString(),
  notification: JSON.stringify({ name: "mail", at: at.toISOString() }),
});
const parked = storedEvent({
  ref: "booking:A1",
  state: "parked",
  dueAt: null,
  reason: "callback",
  attempts: 12,
});
const pending = storedEvent({ ref: "listing:7" });
const alone = storedEvent({ ref: null });
const other = storedEvent({ eventId: `b2/${pending.eventId}`, ref: "b2/listing:7" });
const place = JSON.stringify({
  ...{ owner: "dead", lease: 0, elapsed: 5, complete: true, after: null, learned: true, replayed: true },
});

async function filled(store: EventStore<unknown>): Promise<void> {
  const record = { ref: "booking:A1", snapshot: CONFIRMED, sequence: 3, seenAt: new Date() };
  await store.restore({ events: [timer, parked, pending, alone, other], snapshots: [record] });
  await store.setMeta("stayhook:reconciler", place, { expected: undefined });
}

/** The store with some methods of a test. */
const withOwn = (store: EventStore<unknown>, own: object): EventStore<unknown> =>
  new Proxy({} as EventStore<unknown>, {
    get(_, name) {
      const value = Reflect.get(own, name) ?? Reflect.get(store, name);
      return typeof value === "function" ? value.bind(store) : value;
    },
  });

/** What the account must have, whatever happened before. */
async function expectAdopted(store: EventStore<unknown>): Promise<void> {
  const [waiting] = await store.list({ ref: "a17/booking:A1", state: "scheduled", limit: 10 });
  expect(waiting).toMatchObject({
    eventId: `a17/stayhook:timer:booking:A1:mail:${at.toISOString()}`,
    dueAt: at,
    notification: timer.notification,
  });
  expect(await store.get(`a17/${parked.eventId}`)).toMatchObject({ state: "parked", attempts: 12 });
  expect(await store.get(`a17/${pending.eventId}`)).toMatchObject({ state: "pending", ref: "a17/listing:7" });
  expect(await store.get(`a17/${alone.eventId}`)).toMatchObject({ state: "pending", ref: null });
  expect(await store.snapshotOf("a17/booking:A1")).toMatchObject({ snapshot: CONFIRMED, sequence: 3 });
  expect(await store.get(other.eventId)).toMatchObject({ state: "pending" });
  for (const ref of ["booking:A1", "listing:7"]) {
    expect(await store.list({ ref, limit: 10 })).toEqual([]);
    expect(await store.snapshotOf(ref)).toBeUndefined();
  }
  expect((await store.get(alone.eventId))?.state).toBe("done");
  expect(await store.getMeta("stayhook:reconciler")).toBeUndefined();
  const kept = await store.getMeta("a17/stayhook:reconciler");
  expect(JSON.parse(kept?.value ?? "{}")).toMatchObject({ complete: true, learned: true, owner: null });
}

describeEvery(
  () => true,
  (kind) => {
    test("an account gets all events, timers and snapshots, and the reconciler's place", async () => {
      const store = opened(await kind.create());
      await filled(store);
      expect(await adoptInto(store, "a17")).toEqual({ events: 4, snapshots: 1, processing: 0 });
      await expectAdopted(store);
      expect(await adoptInto(store, "a17")).toEqual({ events: 0, snapshots: 0, processing: 0 });
      await expectAdopted(store);
    });

    test("a command that dies after any of its writes goes on at the next call", async () => {
      for (let dies = 1; ; dies += 1) {
        expect(dies).toBeLessThan(20);
        const store = opened(await kind.create());
        await filled(store);
        let writes = 0;
        const dying = Object.fromEntries(
          (["restore", "erase", "discard", "setMeta"] as const).map((name) => [
            name,
            async (...args: readonly unknown[]) => {
              if (++writes > dies) throw new Error("killed");
              return (store[name] as (...args: readonly unknown[]) => Promise<unknown>)(...args);
            },
          ]),
        );
        const ended = await adoptInto(withOwn(store, dying), "a17").then(
          () => true,
          () => false,
        );
        if (!ended) await adoptInto(store, "a17");
        await expectAdopted(store);
        if (ended) break;
      }
    });

    test("a record that a process is handling stays, and is counted", async () => {
      const store = opened(await kind.create());
      await filled(store);
      const [claim] = await store.claim({
        limit: 1,
        leaseDuration: minute,
        eventId: pending.eventId,
        worker: "w",
      });
      expect(claim?.eventId).toBe(pending.eventId);
      expect(await adoptInto(store, "a17")).toMatchObject({ processing: 1 });
      expect((await store.get(pending.eventId))?.state).toBe("processing");
      expect(await store.get(`a17/${pending.eventId}`)).toBeUndefined();
      await store.settle(claim!, { state: "released" });
      expect(await adoptInto(store, "a17")).toMatchObject({ events: 1, processing: 0 });
      await expectAdopted(store);
    });

    test("an event without a record that a process is handling stays, and is counted", async () => {
      const store = opened(await kind.create());
      await filled(store);
      const claim = { limit: 1, leaseDuration: minute, eventId: alone.eventId, worker: "w" };
      const [held] = await store.claim(claim);
      expect(await adoptInto(store, "a17")).toMatchObject({ events: 3, processing: 1 });
      expect((await store.get(alone.eventId))?.state).toBe("processing");
      await store.settle(held!, { state: "released" });
      expect(await adoptInto(store, "a17")).toMatchObject({ events: 1, processing: 0 });
      await expectAdopted(store);
    });

    test("a record that a process claims while it is copied stays, and is counted", async () => {
      const store = opened(await kind.create());
      await filled(store);
      const claims: ClaimedEvent[] = [];
      const restore: typeof store.restore = async (batch) => {
        await store.restore(batch);
        if (batch.events.some(({ ref }) => ref === "a17/listing:7"))
          claims.push(
            ...(await store.claim({
              limit: 1,
              leaseDuration: minute,
              eventId: pending.eventId,
              worker: "w",
            })),
          );
      };
      expect(await adoptInto(withOwn(store, { restore }), "a17")).toMatchObject({ processing: 1 });
      expect((await store.get(pending.eventId))?.state).toBe("processing");
      await store.settle(claims[0]!, { state: "released" });
      await adoptInto(store, "a17");
      await expectAdopted(store);
    });

    test("an event whose process died waits in its account", async () => {
      const store = opened(await kind.create());
      await filled(store);
      await store.claim({ limit: 1, leaseDuration: 300, eventId: pending.eventId, worker: "w" });
      await store.claim({ limit: 1, leaseDuration: 300, eventId: alone.eventId, worker: "w" });
      await new Promise((resolve) => setTimeout(resolve, 400));
      expect(await adoptInto(store, "a17")).toMatchObject({ processing: 0 });
      for (const { eventId } of [pending, alone])
        expect(await store.get(`a17/${eventId}`)).toMatchObject({ state: "retrying" });
    });

    test("events keep their order, a record without events its snapshot, and the account its place", async () => {
      const store = opened(await kind.create());
      const of = (ref: string | null) => Array.from({ length: 3 }, () => storedEvent({ ref }));
      const [some, alone] = [of("booking:A1"), of(null)];
      const old = { ref: "listing:5", snapshot: CONFIRMED, sequence: 1, seenAt: new Date() };
      await store.restore({ events: [...some, ...alone], snapshots: [old] });
      for (const key of ["stayhook:reconciler", "a17/stayhook:reconciler"])
        await store.setMeta(key, key.startsWith("a17") ? place.replace("dead", "alive") : place, {
          expected: undefined,
        });
      expect(await adoptInto(store, "a17")).toEqual({ events: 6, snapshots: 1, processing: 0 });
      const all = await store.list({ account: "a17", limit: 10 });
      const idsOf = (ref: string | null) =>
        all.filter((event) => event.ref === ref).map(({ eventId }) => eventId.slice("a17/".length));
      const newestFirst = (events: readonly { eventId: string }[]) =>
        events.map(({ eventId }) => eventId).toReversed();
      expect(idsOf("a17/booking:A1")).toEqual(newestFirst(some));
      expect(idsOf(null)).toEqual(newestFirst(alone));
      expect(await store.snapshotOf("a17/listing:5")).toMatchObject({ snapshot: CONFIRMED });
      expect((await store.getMeta("a17/stayhook:reconciler"))?.value).toContain("alive");
    });

    test("an event that arrives while its record is copied is moved, too", async () => {
      const store = opened(await kind.create());
      await filled(store);
      const late = storedEvent({ ref: "booking:A1" });
      let isLate = true;
      const restore: typeof store.restore = async (batch) => {
        await store.restore(batch);
        if (isLate) await store.add(late);
        isLate = false;
      };
      await adoptInto(withOwn(store, { restore }), "a17");
      expect(await store.get(`a17/${late.eventId}`)).toMatchObject({ state: "pending" });
      expect(await store.get(late.eventId)).toBeUndefined();
    });
  },
);
