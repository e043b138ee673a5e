import { randomUUID } from "node:crypto";
import { memoryStore, type WebhookEvent } from "stayhook";
import type { EventStore } from "stayhook/store";
import { describe, expect, test, vi } from "vitest";
import { advance, handlerOf, notificationOf, useFakeTime } from "../support.ts";

useFakeTime(new Date("2026-05-01T12:00:00Z"));

const rechecksOf = (store: EventStore) => store.list({ limit: 100, source: "recheck" });

/** Makes a handler that has handled booking A1 once, as a Request. */
async function handled(options: Parameters<typeof handlerOf>[0] = {}) {
  const events: WebhookEvent[] = [];
  const handler = handlerOf({ on: { fallback: (event) => void events.push(event) }, ...options });
  handler.platform.booking("A1", "Request");
  const deliver = async (fields: object = {}) => {
    const notification = notificationOf({ bookingCode: "A1", ...fields });
    await handler.deliver(notification);
    await advance();
    return notification;
  };
  await deliver();
  return { ...handler, events, deliver };
}

describe("a record that is unchanged when its notification comes", () => {
  test("is read once more a minute later, and a change then runs the callback", async () => {
    const { events, deliver, platform, store } = await handled();
    // The first event was a change to Request, which is looked at again, too. Each notification moves the second look.
    await advance(1);
    const first = await deliver({ timestamp: "2026-05-01T11:00:00Z" });
    expect(events).toHaveLength(2);
    expect(await rechecksOf(store)).toMatchObject([
      // The store's timestamp is the due time. The event keeps the notification's.
      { state: "scheduled", ref: "booking:A1", timestamp: "2026-05-01T12:01:00.001Z", topic: null },
    ]);
    platform.booking("A1", "Request", { checkIn: "2026-07-01" });
    await advance(59_000);
    expect(events).toHaveLength(2);
    await advance(1_000);
    expect(events[2]).toMatchObject({
      source: "recheck",
      changed: true,
      changes: { checkIn: { from: null, to: "2026-07-01" } },
      notification: undefined,
      timestamp: new Date("2026-05-01T11:00:00Z"),
      decideBy: new Date("2026-05-02T11:00:00Z"),
    });
    const [recheck] = await rechecksOf(store);
    expect(JSON.parse(recheck!.notification!)).toMatchObject({ recheckOf: first.eventId });
    expect(recheck?.eventId).toBe("stayhook:recheck:booking:A1");
  });

  test("runs no callback for the recheck if nothing changed, and adds no further recheck of a request", async () => {
    const { events, deliver, platform, store } = await handled();
    await deliver();
    await advance(60_000);
    expect(platform.reads).toHaveLength(3);
    expect(events).toHaveLength(2);
    expect(await rechecksOf(store)).toMatchObject([{ state: "done", type: "booking.Request" }]);
    await advance(600_000);
    expect(platform.reads).toHaveLength(3);
  });

  test("is rechecked a minute after the last notification of a burst", async () => {
    const { deliver, store, platform } = await handled();
    for (const _ of [1, 2, 3]) {
      await deliver();
      await advance(20_000);
    }
    expect(await rechecksOf(store)).toHaveLength(1);
    const reads = platform.reads.length;
    await advance(39_000);
    expect(platform.reads).toHaveLength(reads);
    await advance(1_000);
    expect(platform.reads).toHaveLength(reads + 1);
    await deliver();
    expect(await rechecksOf(store)).toMatchObject([{ state: "scheduled", attempts: 0 }]);
  });

  test("is rechecked although a stranger sends the recheck's id ahead of time", async () => {
    const { deliver, store, platform, events } = await handled();
    for (const eventId of ["stayhook:recheck:booking:A1", "STAYHOOK:recheck:booking:A1"])
      expect((await deliver({ eventId })).eventId).toBe(eventId);
    expect((await store.counts()).done).toBe(1);
    await deliver();
    platform.booking("A1", "Confirmed");
    await advance(60_000);
    expect(events.at(-1)).toMatchObject({ source: "recheck", type: "booking.Confirmed" });
  });

  test("counts as unchanged if the first read shows a booking that has only been begun", async () => {
    const { deliver, platform, store, events } = await handled();
    platform.booking("B2", "Initiated");
    await deliver({ bookingCode: "B2" });
    expect(await rechecksOf(store)).toMatchObject([{ ref: "booking:B2", state: "scheduled" }, {}]);
    platform.booking("B2", "Confirmed");
    await advance(60_000);
    expect(events.at(-1)).toMatchObject({ source: "recheck", type: "booking.Confirmed" });
  });

  test("waits for the platform if the recheck cannot read the record", async () => {
    const { deliver, platform, store, events } = await handled();
    await deliver();
    platform.answer("A1", { status: 503 });
    await advance(60_000);
    expect(await rechecksOf(store)).toMatchObject([
      { state: "retrying", reason: "unavailable", attempts: 0 },
    ]);
    platform.booking("A1", "Cancelled");
    await advance(60_000);
    expect(events.at(-1)).toMatchObject({ source: "recheck", type: "booking.Cancelled" });
  });

  test("gets its recheck in the step that ends its event", async () => {
    const { deliver, store } = await handled();
    const settle = vi.spyOn(store, "settle");
    await deliver();
    const [, outcome] = settle.mock.lastCall!;
    expect(outcome).toMatchObject({
      state: "done",
      events: [{ event: { source: "recheck" }, dueIn: 60_000, replace: "moved" }],
    });
  });

  test.each([
    { recheckAfter: false as const, reads: 2 },
    { recheckAfter: 5_000, reads: 3 },
  ])("is rechecked as recheckAfter says: $recheckAfter", async ({ recheckAfter, reads }) => {
    const { deliver, platform } = await handled({ recheckAfter });
    await deliver();
    await advance(5_000);
    expect(platform.reads).toHaveLength(reads);
    await advance(600_000);
    expect(platform.reads).toHaveLength(reads);
  });

  test("is not rechecked for a replay, process(), an event of the reconciler, or a listing that changed", async () => {
    const { deliver, platform, store, webhooks } = await handled({ recheckAfter: 1_000 });
    const { eventId } = await deliver();
    await advance(1_000);
    const before = await rechecksOf(store);
    expect(before).toMatchObject([{ state: "done" }]);
    await store.replay({ eventId });
    await advance(5_000);
    await webhooks.process(notificationOf({ bookingCode: "A1" }));
    await store.add({
      eventId: randomUUID(),
      ref: "booking:A1",
      source: "reconcile",
      topic: null,
      timestamp: new Date().toISOString(),
      notification: null,
    });
    await advance(5_000);
    platform.listing(7, "Published");
    await deliver({ bookingCode: null, listingId: 7 });
    expect(await rechecksOf(store)).toEqual(before);
  });
});

describe("a booking that answers under a code of another case", () => {
  /** Makes a platform that finds HX3K9 in any letter case. */
  function caseless(options: Parameters<typeof handlerOf>[0] = {}) {
    const events: WebhookEvent[] = [];
    const handler = handlerOf({ on: { fallback: (event) => void events.push(event) }, ...options });
    const body = { bookingCode: "HX3K9", status: "Confirmed" };
    for (const code of ["HX3K9", "hx3k9", "Hx3K9"]) handler.platform.answer(code, { status: 200, body });
    return { ...handler, events };
  }

  test("is handled once under its own ref by a follow-up event", async () => {
    const { deliver, events, store } = caseless();
    const first = notificationOf({ bookingCode: "hx3k9" });
    await deliver(first, { topic: "bookings" });
    await advance();
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({
      booking: { bookingCode: "HX3K9" },
      source: "webhook",
      topic: "bookings",
      notification: first,
      timestamp: new Date(first.timestamp),
      changed: true,
    });
    expect(events[0]?.eventId).toBe(`stayhook:follow-up:${first.eventId}`);
    expect(await store.get(first.eventId)).toMatchObject({ state: "done", type: "booking.Confirmed" });
    expect(await store.snapshotOf("booking:hx3k9")).toBeUndefined();
    expect(await store.snapshotOf("booking:HX3K9")).toMatchObject({ sequence: 1 });
  });

  test("is the same record for all spellings, outer white space included", async () => {
    const { events, notify } = caseless({ recheckAfter: false });
    for (const bookingCode of ["hx3k9", "Hx3K9", " HX3K9 ", "HX3K9"]) await notify(bookingCode);
    expect(events.map(({ changed }) => changed).toSorted()).toEqual([false, false, false, true]);
  });

  test("is handled inline by a duplicate if the first delivery ended before the follow-up event", async () => {
    const { deliver, events, store } = caseless({ processing: "inline" });
    const first = notificationOf({ bookingCode: "hx3k9" });
    const claim = store.claim.bind(store);
    const claims = vi
      .spyOn(store, "claim")
      .mockImplementation(async (options) => (options.eventId === first.eventId ? claim(options) : []));
    const delivered = deliver(first);
    await advance(25_000);
    await delivered;
    expect(events).toEqual([]);
    claims.mockRestore();
    await deliver(first);
    expect(events).toHaveLength(1);
  });

  test("has one follow-up if its answers change case each time", async () => {
    const { events, store, platform, notify } = caseless();
    // Stop at some point, so that this test fails instead of hanging.
    platform.answer("HX3K9", (reads) => ({
      status: 200,
      body: { bookingCode: reads < 5 ? "hx3k9" : "HX3K9", status: "Confirmed" },
    }));
    await notify("hx3k9");
    expect(events).toHaveLength(1);
    expect(await store.counts()).toMatchObject({ done: 2 });
  });

  test("is handled before an inline answer", async () => {
    const { deliver, events, webhooks } = caseless({ processing: "inline" });
    await deliver(notificationOf({ bookingCode: "hx3k9" }));
    expect(events).toHaveLength(1);
    expect((await webhooks.health()).state).toBe("idle");
  });

  test("is handled again by a replay of the first event", async () => {
    const { deliver, events, store } = caseless();
    const first = notificationOf({ bookingCode: "hx3k9" });
    await deliver(first);
    await advance();
    await store.replay({ eventId: first.eventId });
    await advance();
    expect(events).toHaveLength(2);
  });

  test("is handled by process() directly", async () => {
    const { webhooks, events } = caseless();
    const notification = notificationOf({ bookingCode: "hx3k9" });
    expect(await webhooks.process(notification)).toMatchObject({ eventId: notification.eventId });
    expect(events).toMatchObject([{ eventId: notification.eventId, booking: { bookingCode: "HX3K9" } }]);
  });

  test("with another code or id is an invalid record", async () => {
    const { deliver, store, platform, notify } = handlerOf({ store: memoryStore(), maxAttempts: 1 });
    platform.answer("A1", { status: 200, body: { bookingCode: "B2", status: "Confirmed" } });
    platform.answer("7", { status: 200, body: { listingId: 8, status: "Published" } });
    await deliver(notificationOf({ bookingCode: "A1" }));
    await notify(7);
    expect(await store.list({ limit: 9, reason: "invalid-record" })).toHaveLength(2);
  });
});
