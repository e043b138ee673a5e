import { randomUUID } from "node:crypto";
import { memoryStore, type WebhookEvent } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { describe, expect, test, vi } from "vitest";
import { alteredStore, first, sleep } from "../../queue/support.ts";
import { advance, HOUR, handlerOf, notificationOf, useFakeTime } from "../support.ts";

const NOW = new Date("2026-05-01T12:00:00Z");

useFakeTime(NOW);

/** Makes a handler for booking A1 and listing 7, and collects the events of its callback. */
function collecting(options: Parameters<typeof handlerOf>[0] = {}) {
  const events: WebhookEvent[] = [];
  const handler = handlerOf({ on: { fallback: (event) => void events.push(event) }, ...options });
  handler.platform.booking("A1", "Request");
  handler.platform.listing(7, "Published");
  const deliver = async (fields: object, context: object = {}) => {
    const notification = notificationOf({ bookingCode: "A1", ...fields });
    const { status } = await handler.deliver(notification, context);
    await advance();
    return { status, event: events.at(-1)!, notification };
  };
  return { ...handler, events, deliver };
}

describe("decideBy", () => {
  test.each([
    ["the timestamp", "2026-05-01T11:00:00Z", "2026-05-02T11:00:00Z"],
    ["a timestamp 7 days before the receipt", "2026-04-24T12:00:00Z", "2026-04-25T12:00:00Z"],
    ["a timestamp 5 minutes after the receipt", "2026-05-01T12:05:00Z", "2026-05-02T12:05:00Z"],
    ["the receipt, for an older timestamp", "2026-04-24T11:59:59Z", "2026-05-02T12:00:00Z"],
    ["the receipt, for a forged timestamp", "2000-01-01T00:00:00Z", "2026-05-02T12:00:00Z"],
    ["the receipt, for a later timestamp", "2026-05-01T12:05:01Z", "2026-05-02T12:00:00Z"],
    ["the receipt, for no timestamp", undefined, "2026-05-02T12:00:00Z"],
  ])("is 24 h after %s", async (_, timestamp, decideBy) => {
    const { deliver } = collecting();
    const { event } = await deliver({ timestamp });
    expect(event).toMatchObject({ type: "booking.Request", decideBy: new Date(decideBy) });
  });

  test("is 24 h after the read for an event of the reconciler, and absent for other types", async () => {
    const { store, events, deliver, platform } = collecting();
    await store.add({
      eventId: randomUUID(),
      ref: "booking:A1",
      source: "reconcile",
      topic: null,
      timestamp: NOW.toISOString(),
      notification: null,
    });
    platform.booking("A2", "Confirmed");
    await deliver({ bookingCode: "A2" });
    const byType = new Map(events.map((event) => [event.type, event]));
    expect(byType.get("booking.Request")).toMatchObject({
      source: "reconcile",
      decideBy: new Date(NOW.getTime() + 24 * HOUR),
    });
    expect(byType.get("booking.Confirmed")).not.toHaveProperty("decideBy");
  });
});

describe("decideBy of a request that stays one", () => {
  test.each([
    ["failed there", {}],
    ["failed there for good", { maxAttempts: 1 }],
  ])("counts from its first notification, although the callback %s", async (_, options) => {
    let fails = true;
    const deadlines: Date[] = [];
    const { deliver } = collecting({
      ...{ backoff: () => HOUR, ...options },
      on: {
        "booking.Request": ({ decideBy }) => {
          deadlines.push(decideBy);
          if (fails) throw new Error("not yet");
        },
      },
    });
    await deliver({ timestamp: "2026-05-01T10:00:00Z" });
    if ("maxAttempts" in options) await deliver({ timestamp: "2026-05-01T11:00:00Z" });
    fails = false;
    await deliver({ timestamp: "2026-05-01T11:30:00Z" });
    await advance(2 * HOUR);
    expect(deadlines).toEqual([1, 2, 3].map(() => new Date("2026-05-02T10:00:00Z")));
  });

  test("does not count from the notification of an earlier request whose callback still fails", async () => {
    const deadlines: Date[] = [];
    const { deliver, platform } = collecting({
      backoff: () => 24 * HOUR,
      on: {
        "booking.Request": ({ decideBy }) => {
          deadlines.push(decideBy);
          throw new Error("never");
        },
      },
    });
    await deliver({ timestamp: "2026-05-01T10:00:00Z" });
    platform.booking("A1", "Confirmed");
    await deliver({ timestamp: "2026-05-01T10:30:00Z" });
    platform.booking("A1", "Request");
    await deliver({ timestamp: "2026-05-01T11:00:00Z" });
    expect(deadlines.at(-1)).toEqual(new Date("2026-05-02T11:00:00Z"));
  });

  test("counts from an event that 1.1 handled, whose snapshot does not tell the time", async () => {
    const earlier = collecting();
    await earlier.deliver({ timestamp: "2026-05-01T10:00:00Z" });
    const store = memoryStore();
    const events = await earlier.store.list({ limit: 10 });
    for await (const each of earlier.store.snapshots()) {
      const snapshot = { ...each.snapshot, known: undefined };
      await store.restore({ events, snapshots: [{ ...each, snapshot }] });
    }
    const { deliver } = collecting({ store });
    const { event } = await deliver({ timestamp: "2026-05-01T11:00:00Z" });
    expect(event).toMatchObject({ decideBy: new Date("2026-05-02T10:00:00Z") });
  });

  const at = (hours: number) => new Date(NOW.getTime() + hours * HOUR);
  /** A request, whose timer fires an hour before its deadline. */
  function asked() {
    const deadlines: unknown[] = [];
    const fired: Date[] = [];
    const it = collecting({
      recheckAfter: false,
      on: {
        "booking.Request": ({ decideBy, timers, source }) => {
          deadlines.push([source, decideBy]);
          timers.set("decide", new Date(decideBy.getTime() - HOUR));
        },
        "booking.timer.decide": () => void fired.push(new Date()),
        booking: ({ timers }) => timers.clear(),
      },
    });
    const notify = () => it.deliver({ timestamp: new Date().toISOString() });
    const reconciler = createReconciler(it.webhooks);
    const pass = async () => {
      expect(await reconciler.run()).toMatchObject({ changed: 1, failed: 0 });
      await advance();
    };
    it.platform.answer("listings", { status: 200, body: [] });
    return { ...it, deadlines, fired, notify, pass };
  }

  test("is not moved by a silent change that a pass finds, or by a second notification", async () => {
    const { deadlines, fired, notify, pass, platform } = asked();
    await notify();
    await advance(10 * HOUR);
    platform.booking("A1", "Request", { checkIn: "2026-07-02" });
    await pass();
    await advance(10 * HOUR);
    await notify();
    await advance(10 * HOUR);
    expect(deadlines).toEqual([
      ["webhook", at(24)],
      ["reconcile", at(24)],
      ["webhook", at(24)],
    ]);
    expect(fired).toEqual([at(23)]);
  });

  test("counts from the first read if no notification showed it, and from an earlier notification", async () => {
    const { deadlines, notify, pass, platform, webhooks, deliver } = asked();
    platform.booking("A1", "Confirmed");
    await notify();
    platform.booking("A1", "Request");
    await advance(2 * HOUR);
    await pass();
    await advance(2 * HOUR);
    await notify();
    await deliver({ timestamp: at(1).toISOString() });
    expect(deadlines).toEqual([
      ["reconcile", at(26)],
      ["webhook", at(26)],
      ["webhook", at(25)],
    ]);
    await webhooks.close();
  });

  test("is new after another status", async () => {
    const { deadlines, notify, platform } = asked();
    for (const status of ["Request", "Declined", "Request"]) {
      platform.booking("A1", status);
      await notify();
      await advance(2 * HOUR);
    }
    expect(deadlines).toEqual([
      ["webhook", at(24)],
      ["webhook", at(28)],
    ]);
  });
});

describe("a timestamp", () => {
  test.each([undefined, null, "yesterday", {}, 5])(
    "that is %j costs no event: event.timestamp equals event.receivedAt",
    async (timestamp) => {
      const store = memoryStore();
      const { deliver, logger } = collecting({ store });
      const { status, event } = await deliver({ timestamp });
      expect(status).toBe(200);
      expect(event.timestamp).toEqual(event.receivedAt);
      expect(event.notification?.timestamp).toEqual(timestamp);
      expect(logger.lines.filter((line) => line.includes("no readable timestamp"))).toHaveLength(1);
    },
  );

  test("of an event without a notification stays", async () => {
    const { store, events, webhooks } = collecting();
    const event = { eventId: randomUUID(), ref: "booking:A1", source: "webhook", topic: null } as const;
    await store.add({ ...event, timestamp: "2026-04-30T00:00:00.000Z", notification: null });
    await webhooks.drain();
    expect(events[0]).toMatchObject({ timestamp: new Date("2026-04-30"), notification: undefined });
  });

  test("that is unreadable equals the receipt by the store's clock, also in a much later attempt", async () => {
    const failing = vi.fn().mockRejectedValueOnce(new Error("no"));
    const store = alteredStore(memoryStore(), { add: first(() => sleep(1000)) });
    const { deliver } = collecting({ store, on: { fallback: failing }, backoff: () => HOUR });
    await Promise.all([deliver({ timestamp: "yesterday" }), advance(1000)]);
    await advance(HOUR);
    const receivedAt = new Date(NOW.getTime() + 1000);
    expect(failing.mock.calls.map(([{ timestamp }]) => timestamp)).toEqual([receivedAt, receivedAt]);
  });
});

describe("the messages topic", () => {
  test("runs on.message, and reads no record", async () => {
    const message = vi.fn();
    const { deliver, platform, store } = collecting({ on: { message, fallback: () => {} } });
    const { notification } = await deliver(
      { bookingCode: "A1", listingId: {}, text: "hi" },
      { topic: "messages" },
    );
    expect(message).toHaveBeenCalledTimes(1);
    const event = message.mock.calls[0]![0];
    expect(event).toMatchObject({ type: "message", topic: "messages", notification });
    for (const field of ["booking", "listing", "status", "changed", "changes", "previous"])
      expect(event).not.toHaveProperty(field);
    expect(platform.reads).toEqual([]);
    expect(await store.get(notification.eventId)).toMatchObject({
      state: "done",
      type: "message",
      ref: "message:A1",
      notification: null,
    });
  });

  test("runs fallback for each message if there is no on.message", async () => {
    const { deliver, events } = collecting();
    await deliver({}, { topic: "messages" });
    await deliver({}, { topic: "messages" });
    expect(events.map(({ type }) => type)).toEqual(["message", "message"]);
  });

  test("is read from the endpoint's URL, and process() keeps it for forwarded events", async () => {
    const message = vi.fn();
    const { webhooks, store } = handlerOf({ autoStart: false, on: { message } });
    const body = JSON.stringify(notificationOf({ bookingCode: "A1" }));
    const request = new Request("https://you.example/hooks?key=x&topic=messages", { method: "POST", body });
    expect((await webhooks.fetch(request)).status).toBe(200);
    const [event] = await store.list({ limit: 1 });
    await webhooks.process(event!);
    expect(message).toHaveBeenCalledTimes(1);
  });

  test("a failed message is tried again, with its type in the history", async () => {
    const { deliver, store } = collecting({ on: { message: () => Promise.reject(new Error("no")) } });
    const { notification } = await deliver({}, { topic: "messages" });
    expect(await store.get(notification.eventId)).toMatchObject({ state: "retrying", type: "message" });
  });
});
