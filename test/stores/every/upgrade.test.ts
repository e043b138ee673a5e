import { expect, test } from "vitest";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { withFiringId } from "../../../src/stores/firing-id.ts";
import { machineOf, startSandbox, statusesIn } from "../../reconcile/support.ts";
import { DONE } from "../event.ts";
import { CODES, expectedOf, placeOf, versions } from "../fixtures/fixtures.ts";
import { describeEvery, opened } from "./stores.ts";

/** Handles every event that is due. Fails if two events of a record have a lease at once. */
async function handleAll(store: EventStore<unknown>): Promise<string[]> {
  const handled: string[] = [];
  for (let round = 0; round < 100; round += 1) {
    const claims = await store.claim({ limit: 50, leaseDuration: 60_000 });
    if (claims.length === 0) break;
    const refs = claims.flatMap(({ ref }) => ref ?? []);
    expect(new Set(refs).size).toBe(refs.length);
    for (const claim of claims) {
      // A second look changes nothing, and an event without a record has no snapshot.
      const isPlain = claim.ref === null || claim.source === "recheck";
      expect(await store.settle(claim, isPlain ? { ...DONE, record: undefined } : DONE)).toBe(true);
      handled.push(claim.eventId);
    }
  }
  return handled;
}

async function snapshotsOf(store: EventStore<unknown>) {
  const snapshots = [];
  for await (const snapshot of store.snapshots()) snapshots.push(snapshot);
  return snapshots;
}

describeEvery(
  ({ name }) => name !== "memory",
  (kind) => {
    for (const version of versions) {
      test(`reads each event and snapshot that ${version} wrote`, async () => {
        const store = opened(await placeOf(version, kind));
        const { counts, events, snapshots } = expectedOf(version, kind.name);
        expect(await store.counts()).toEqual(counts);
        expect(await store.list({ limit: 2000 })).toEqual(events.map(withFiringId));
        expect(await snapshotsOf(store)).toEqual(snapshots);
        expect(await store.getMeta("a-key")).toMatchObject({ value: "a value" });
      });

      test(`handles each event that ${version} left, once, and keeps timers for their time`, async () => {
        const store = opened(await placeOf(version, kind));
        const { counts, events } = expectedOf(version, kind.name);
        // The second looks were due a minute after the fixture was made.
        const looks = events.filter(({ state, source }) => state === "scheduled" && source === "recheck");
        const waiting = events.filter(({ state }) => ["pending", "processing", "retrying"].includes(state));
        const open = [...waiting, ...looks];
        expect((await handleAll(store)).sort()).toEqual(open.map(({ eventId }) => eventId).sort());
        const scheduled = counts.scheduled! - looks.length;
        const handled = { pending: 0, processing: 0, retrying: 0, done: counts.done! + open.length };
        expect(await store.counts()).toEqual({ ...counts, ...handled, scheduled });
        // Parked events come back, and an event that is known stays a duplicate.
        expect(await store.replay({ state: "parked" })).toBe(counts.parked);
        expect(await handleAll(store)).toHaveLength(counts.parked!);
        const { eventId, ref, topic, timestamp, notification, traceparent } = open[0]!;
        const again = {
          eventId,
          ref,
          source: "webhook",
          topic,
          timestamp,
          notification,
          traceparent,
        } as const;
        expect(await store.add(again)).toBe("duplicate");
      });

      test(`timers that ${version} set fire, and its reconciler's place holds`, async () => {
        const sandbox = await startSandbox();
        const store = opened(await placeOf(version, kind)) as EventStore<never>;
        // The sandbox has the bookings of that day again, with the dates that they had.
        const { snapshots } = expectedOf(version, kind.name);
        for (const bookingCode of CODES) {
          const known = snapshots.find(({ ref }) => ref === `booking:${bookingCode}`)!.snapshot;
          await sandbox.bookings.create({ ...known.fields, bookingCode, status: "Request" });
        }
        for (const code of CODES.slice(0, 5)) await sandbox.bookings.approve(code);
        await handleAll(store);
        const machine = machineOf(sandbox, store, { reconciler: { rate: 1000 } });
        const place = JSON.parse((await store.getMeta("stayhook:reconciler"))!.value);
        expect(place).toMatchObject({ owner: null, complete: true, learned: true });
        // The bookings of the other events are not in this sandbox, so the pass finds that they are gone.
        expect((await machine.reconciler.run()).checked).toBe(CODES.length);
        await machine.webhooks.drain();
        const told = machine.told.filter(
          ({ source, record }) => source === "reconcile" && CODES.includes(String(record)),
        );
        expect(told.map(({ record }) => record).sort()).toEqual(CODES.slice(0, 5));
        expect(told.every(({ previousStatus }) => previousStatus === "Request")).toBe(true);
        expect(await statusesIn(store)).toMatchObject({ [`booking:${CODES[0]}`]: "Confirmed" });

        const timers = await store.list({ state: "scheduled", limit: 100 });
        expect(timers.map(({ ref }) => ref).sort()).toEqual(CODES.map((code) => `booking:${code}`));
        expect(await store.replay({ state: "scheduled" })).toBe(CODES.length);
        await machine.webhooks.drain();
        const fired = machine.events.filter(({ source }) => source === "timer");
        expect(fired.map(({ eventId }) => eventId).sort()).toEqual(
          timers.map(({ eventId }) => eventId).sort(),
        );
      });
    }
  },
);
