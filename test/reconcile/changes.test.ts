import { createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import { expect, test, vi } from "vitest";
import { Changes } from "../../src/reconcile/changes.ts";
import { Notes } from "../../src/reconcile/notes.ts";
import { insideOf } from "../../src/webhooks/inside.ts";

/** A change that two machines see, and what the one that is slower finds. */
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
  return { store, webhooks, told, changes: new Changes(store, insideOf(webhooks)!) };
}

test("who sees a change that was handled since adds nothing for it", async () => {
  const { webhooks, told, changes, store } = await seen();
  const eventId = await changes.add("booking:A1", undefined, "Confirmed");
  expect(await changes.add("booking:A1", undefined, "Confirmed")).toBeUndefined();
  await webhooks.drain();
  expect(told).toEqual([eventId]);
  // Late: it has the status as it was before.
  expect(await changes.add("booking:A1", undefined, "Confirmed")).toBeUndefined();
  expect(await store.counts()).toMatchObject({ pending: 0, done: 1 });
});

test("the id is the same on every machine, and says which change it is", async () => {
  const [first, second] = [await seen(), await seen()];
  const at = (sequence: number, status: string) => ({
    ref: "booking:A1",
    status,
    sequence,
    seenAt: new Date(),
  });
  const id = await first.changes.add("booking:A1", at(1, "Request"), "Confirmed");
  expect(await second.changes.add("booking:A1", at(1, "Request"), "Confirmed")).toBe(id);
  const others = [
    await first.changes.add("booking:A1", at(3, "Request"), "Confirmed"),
    await first.changes.add("booking:A1", at(1, "Initiated"), "Confirmed"),
    await first.changes.add("booking:A1", at(1, "Request"), "Cancelled"),
    await first.changes.add("booking:A2", at(1, "Request"), "Confirmed"),
  ];
  expect(others).not.toContain(undefined);
  expect(new Set([id, ...others]).size).toBe(5);
});

test("the handler hears of what was added, and of nothing else: not every store tells it", async () => {
  const { store, webhooks } = await seen();
  const added = vi.fn();
  const changes = new Changes(store, { ...insideOf(webhooks)!, added });
  const eventId = await changes.add("booking:A1", undefined, "Confirmed");
  await changes.add("booking:A1", undefined, "Confirmed");
  expect(added.mock.calls).toEqual([[eventId]]);
});

test("a note whose record has moved on until its turn writes nothing", async () => {
  const { store, webhooks, told } = await seen();
  const ref = "listing:7";
  const event = { ref, source: "webhook", topic: null, timestamp: new Date().toISOString() } as const;
  await store.add({ ...event, eventId: "00000000-0000-4000-8000-000000000000", notification: "{}" });
  const [claim] = await store.claim({ limit: 1, leaseDuration: 10_000 });
  const added = vi.fn();
  await new Notes(store, { ...insideOf(webhooks)!, added }).write(ref, undefined, "Published");
  expect(added).toHaveBeenCalledOnce();
  await store.settle(claim!, { state: "done", type: "listing.Hidden", status: "Hidden" });
  expect(await webhooks.drain()).toEqual({ done: 1, failed: 0 });
  expect(await store.statusOf(ref)).toMatchObject({ status: "Hidden", sequence: 1 });
  expect(told).toEqual([]);
});

test("a webhook is no note, whatever its topic is called", async () => {
  const { webhooks, told, store } = await seen();
  const body = {
    eventId: "00000000-0000-4000-8000-000000000000",
    timestamp: new Date().toISOString(),
    bookingCode: "A1",
    listingId: null,
  };
  await webhooks.receive({ method: "POST", url: "/", headers: {}, body, topic: "note:0:Hidden" });
  await webhooks.drain();
  expect(told).toEqual([body.eventId]);
  expect(await store.statusOf("booking:A1")).toMatchObject({ status: "Confirmed" });
});

test("of two that swap the same status for another, one is told that it was too late", async () => {
  const { store, webhooks } = await seen();
  const notes = new Notes(store, insideOf(webhooks)!);
  const swaps = ["one", "other"].map((status) => notes.swap("reconcile:test", undefined, status));
  const swapped = await Promise.all(swaps);
  expect(swapped.toSorted()).toEqual([false, true]);
  const status = swapped[0] ? "one" : "other";
  expect(await store.statusOf("reconcile:test")).toMatchObject({ status, sequence: 1 });
});
