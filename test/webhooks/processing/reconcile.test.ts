import { randomUUID } from "node:crypto";
import type { NewEvent } from "stayhook";
import { expect, test, vi } from "vitest";
import { insideOf } from "../../../src/webhooks/inside.ts";
import { handlerOf, notificationOf } from "../support.ts";

const reconcileEvent = (fields: Partial<NewEvent>): NewEvent => ({
  eventId: randomUUID(),
  ref: "listing:7",
  source: "reconcile",
  topic: null,
  timestamp: "2026-05-01T12:00:00.000Z",
  notification: null,
  ...fields,
});

test("an event of the reconciler's runs the callback where there is a change, once, and says where it is from", async () => {
  const fallback = vi.fn();
  const { webhooks, platform, store } = handlerOf({ autoStart: false, on: { fallback } });
  platform.listing(7, "Hidden");
  for (const _ of [1, 2]) await store.add(reconcileEvent({}));
  expect(await webhooks.drain()).toEqual({ done: 2, failed: 0 });
  expect(fallback).toHaveBeenCalledTimes(1);
  const [event] = fallback.mock.calls[0]!;
  expect(event).toMatchObject({
    type: "listing.Hidden",
    source: "reconcile",
    changed: true,
    notification: undefined,
    timestamp: new Date("2026-05-01T12:00:00Z"),
  });
  expect(event).not.toHaveProperty("topic");
});

test("a note writes a status without a callback, and without asking the platform", async () => {
  const fallback = vi.fn();
  const { webhooks, platform, store, deliver } = handlerOf({ autoStart: false, on: { fallback } });
  const note = reconcileEvent({ topic: "note:0:Published" });
  await store.add(note);
  expect(await webhooks.drain()).toEqual({ done: 1, failed: 0 });
  expect(await store.statusOf("listing:7")).toMatchObject({ status: "Published", sequence: 1 });
  expect(await store.get(note.eventId)).toMatchObject({ state: "done", type: "listing.Published" });
  expect(platform.reads).toEqual([]);
  expect(fallback).not.toHaveBeenCalled();

  platform.listing(7, "Hidden");
  await deliver(notificationOf({ listingId: 7 }));
  await webhooks.drain();
  expect(fallback.mock.calls[0]?.[0]).toMatchObject({ previousStatus: "Published", changed: true });
});

test("a note is void where the status has moved on since; replayed, it is void too", async () => {
  const { webhooks, platform, store, deliver } = handlerOf({ autoStart: false });
  platform.listing(7, "Hidden");
  await deliver(notificationOf({ listingId: 7 }));
  const late = reconcileEvent({ topic: "note:0:Published" });
  await store.add(late);
  await webhooks.drain();
  expect(await store.statusOf("listing:7")).toMatchObject({ status: "Hidden", sequence: 1 });
  await store.replay(late.eventId);
  await webhooks.drain();
  expect(await store.statusOf("listing:7")).toMatchObject({ status: "Hidden", sequence: 1 });
});

test("a status may hold whatever it likes, line breaks and colons too", async () => {
  const { webhooks, store } = handlerOf({ autoStart: false });
  await store.add(reconcileEvent({ topic: "note:0:a:b\nc", ref: "booking:A1" }));
  await webhooks.drain();
  expect(await store.statusOf("booking:A1")).toMatchObject({ status: "a:b\nc" });
});

test("a topic that looks like a note makes none of a webhook", async () => {
  const fallback = vi.fn();
  const { webhooks, platform, deliver } = handlerOf({ autoStart: false, on: { fallback } });
  platform.booking("A1", "Confirmed");
  await deliver(notificationOf({ bookingCode: "A1" }), { topic: "note:0:Cancelled" });
  await webhooks.drain();
  expect(fallback.mock.calls[0]?.[0]).toMatchObject({ status: "Confirmed", topic: "note:0:Cancelled" });
});

test("what the reconciler remembers is no record to observe, nor among the statuses", async () => {
  const { webhooks, store, observed } = handlerOf({ autoStart: false });
  await store.add(reconcileEvent({ topic: "note:0:anything", ref: "reconcile:pass" }));
  await webhooks.drain();
  expect(observed).toEqual([]);
  expect(await store.statusOf("reconcile:pass")).toMatchObject({ status: "anything" });
  for await (const { ref } of store.statuses()) expect(ref).toBeUndefined();
});

test("the way in is no part of what is public, and begins and handles only what the user leaves to it", async () => {
  const { webhooks, store } = handlerOf({ autoStart: false });
  expect(Reflect.ownKeys({ ...webhooks }).filter((key) => typeof key === "symbol")).toEqual([]);
  const inside = insideOf(webhooks)!;
  await store.add(reconcileEvent({ topic: "note:0:Published" }));
  inside.begin();
  await inside.handleDue();
  expect((await webhooks.health()).state).toBe("idle");
  expect(await store.counts()).toMatchObject({ pending: 1 });

  const inline = handlerOf({ processing: "inline" });
  await inline.store.add(reconcileEvent({ topic: "note:0:Published" }));
  insideOf(inline.webhooks)!.begin();
  expect((await inline.webhooks.health()).state).toBe("idle");
  await insideOf(inline.webhooks)!.handleDue();
  expect(await inline.store.counts()).toMatchObject({ pending: 0, done: 1 });
  expect(insideOf({})).toBeUndefined();
  expect(insideOf(null)).toBeUndefined();
});
