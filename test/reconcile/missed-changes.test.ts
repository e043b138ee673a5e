import { createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import { expect, test, vi } from "vitest";
import { addChange } from "../../src/reconcile/missed-changes.ts";
import type { RecordSnapshot, Snapshot } from "../../src/stores/snapshot.ts";
import { internalsOf } from "../../src/webhooks/internals.ts";

const confirmed: Snapshot = {
  status: "Confirmed",
  fields: { checkIn: null, checkOut: null, listingId: null },
};

const { signal } = new AbortController();

/** Adds the changes of a store. */
const changesOf = (store: Parts["store"], internals: Parts["internals"]) => ({
  add: (...change: Change) => addChange({ store, internals }, ...change),
});
type Parts = Parameters<typeof addChange>[0];
type Change = Parameters<typeof addChange> extends [Parts, ...infer Rest] ? Rest : never;

/** Makes a store and a handler. The handler's client finds one confirmed booking. */
async function seen() {
  const store = memoryStore();
  const client = new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: "secret-token",
    fetch: async () => Response.json({ bookingCode: "A1", status: "Confirmed" }),
  });
  const told: string[] = [];
  const webhooks = createWebhookHandler({
    client,
    store,
    on: { fallback: ({ eventId }) => void told.push(eventId) },
    autoStart: false,
  });
  return { store, webhooks, told, changes: changesOf(store, internalsOf(webhooks)!) };
}

test("a change that was handled meanwhile gets no second event", async () => {
  const { webhooks, told, changes, store } = await seen();
  const eventId = await changes.add("booking:A1", undefined, confirmed, signal);
  expect(await changes.add("booking:A1", undefined, confirmed, signal)).toBeUndefined();
  await webhooks.drain();
  expect(told).toEqual([eventId]);
  // This call is late: it still compares with the time when the store had no snapshot.
  expect(await changes.add("booking:A1", undefined, confirmed, signal)).toBeUndefined();
  expect(await store.counts()).toMatchObject({ pending: 0, done: 1 });
});

test("the id of a change is the same on every machine, and differs from change to change", async () => {
  const [first, second] = [await seen(), await seen()];
  const at = (sequence: number, status: string, checkIn: string | null = null): RecordSnapshot => ({
    ref: "booking:A1",
    snapshot: { status, fields: { checkIn, checkOut: null, listingId: null } },
    sequence,
    seenAt: new Date(),
  });
  const id = await first.changes.add("booking:A1", at(1, "Request"), confirmed, signal);
  // A store may change the order of fields.
  const reordered = {
    ...at(1, ""),
    snapshot: { fields: { listingId: null, checkOut: null, checkIn: null }, status: "Request" },
  };
  expect(await second.changes.add("booking:A1", reordered, confirmed, signal)).toBe(id);
  const others = [
    await first.changes.add("booking:A1", at(3, "Request"), confirmed, signal),
    await first.changes.add("booking:A1", at(1, "Initiated"), confirmed, signal),
    await first.changes.add("booking:A1", at(1, "Request", "2026-07-01"), confirmed, signal),
    await first.changes.add("booking:A1", at(1, "Request"), { ...confirmed, status: "Cancelled" }, signal),
    await first.changes.add("booking:A2", at(1, "Request"), confirmed, signal),
  ];
  expect(others).not.toContain(undefined);
  expect(new Set([id, ...others]).size).toBe(6);
});

test("the handler adds each event, because not every store wakes the handler's queue", async () => {
  const { store, webhooks } = await seen();
  const add = vi.fn(internalsOf(webhooks)!.add);
  const changes = changesOf(store, { add });
  const eventId = await changes.add("booking:A1", undefined, confirmed, signal);
  await changes.add("booking:A1", undefined, confirmed, signal);
  expect(add.mock.calls.map(([event]) => event.eventId)).toEqual([eventId, eventId]);
  expect(await Promise.all(add.mock.results.map(({ value }) => value))).toEqual(["added", "duplicate"]);
});

test("a discarded event is not added again", async () => {
  const { changes, store } = await seen();
  const eventId = await changes.add("booking:A1", undefined, confirmed, signal);
  expect(await store.discard({ eventId })).toBe(1);
  expect(await changes.add("booking:A1", undefined, confirmed, signal)).toBeUndefined();
});

test("a store that never shows the event of an id is asked again at intervals, and no longer after an abort", async () => {
  const { store, webhooks } = await seen();
  const get = vi.spyOn(store, "get").mockResolvedValue(undefined);
  const changes = changesOf(store, internalsOf(webhooks)!);
  await changes.add("booking:A1", undefined, confirmed, signal);
  const stop = new AbortController();
  const adding = changes.add("booking:A1", undefined, confirmed, stop.signal);
  await new Promise((resolve) => setTimeout(resolve, 250));
  stop.abort();
  expect(await adding).toBeUndefined();
  expect(get.mock.calls.length).toBeGreaterThan(1);
  expect(get.mock.calls.length).toBeLessThan(5);
});
