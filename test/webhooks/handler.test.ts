import { memoryStore } from "stayhook";
import { describe, expect, test, vi } from "vitest";
import { alteredStore, failing, late, sleep } from "../queue/support.ts";
import {
  advance,
  delivered,
  handlerOf,
  heldCallback,
  notificationOf,
  useFakeTime,
  watch,
} from "./support.ts";

useFakeTime();

describe("a notification", () => {
  test("is answered 200 when it is recorded, before anything is fetched", async () => {
    const store = alteredStore(memoryStore(), { add: late(() => sleep(500)) });
    const { deliver, platform } = handlerOf({ autoStart: false, store });
    const notification = notificationOf({ bookingCode: "A1" });
    const delivery = watch(deliver(notification));
    await advance(499);
    expect(delivery.settled).toBe(false);
    await advance(1);
    expect(delivery.result?.status).toBe(200);
    expect(await store.get(notification.eventId)).toMatchObject({
      state: "pending",
      ref: "booking:A1",
      source: "webhook",
      timestamp: "2026-05-01T12:00:00.000Z",
      notification: JSON.stringify(notification),
    });
    expect(platform.reads).toEqual([]);
  });

  test("whose Request was read and released before is answered 500, and does not count as empty", async () => {
    const { webhooks } = handlerOf({ autoStart: false });
    const body = JSON.stringify(notificationOf());
    const request = new Request("http://localhost/", { method: "POST", body });
    const reader = (request.body as ReadableStream).getReader();
    while (!(await reader.read()).done);
    reader.releaseLock();
    expect((await webhooks.fetch(request)).status).toBe(500);
  });

  test("runs one callback for 200 deliveries at once, in mixed case, and none when it comes again", async () => {
    const callback = vi.fn();
    const { deliver, platform, kinds } = handlerOf({ on: { "booking.Confirmed": callback } });
    platform.booking("A1", "Confirmed");
    const notification = notificationOf({ bookingCode: "A1" });
    const mixed = (n: number) =>
      [...notification.eventId].map((char, i) => ((n >> (i % 8)) & 1 ? char.toUpperCase() : char)).join("");
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, n) => deliver({ ...notification, eventId: mixed(n) })),
    );
    await advance(60_000);
    answers.push(await deliver(notification));
    await advance(60_000);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(callback.mock.calls.map(([{ eventId }]) => eventId)).toEqual([notification.eventId]);
    expect(kinds().at(-1)).toBe("duplicate");
  });

  test("is event.notification with all its fields, and event.topic is the endpoint's", async () => {
    const callback = vi.fn();
    const { deliver } = handlerOf({ on: { unknown: callback } });
    const text = `{"eventId":"${notificationOf().eventId}","timestamp":"2026-05-01 14:00+0200","message":"a\\u0000b\\ud800","nested":{"__proto__":{"x":1}}}`;
    await deliver(text, { topic: "bookings" });
    await advance();
    const event = callback.mock.calls[0]?.[0];
    expect(event).toMatchObject({ type: "unknown", topic: "bookings", attempt: 1, source: "webhook" });
    expect(event.timestamp).toEqual(new Date("2026-05-01T12:00:00Z"));
    expect(event.notification.message).toBe("a\u0000b\ud800");
    expect(JSON.stringify(event.notification)).toBe(JSON.stringify(JSON.parse(text)));
  });

  test("is answered 503 if it cannot be recorded, and is accepted when it is sent again", async () => {
    let isFull = true;
    const { deliver } = handlerOf({
      store: alteredStore(memoryStore(), { add: failing(() => isFull, "disk full of secrets") }),
    });
    const notification = notificationOf();
    const refused = await deliver(notification);
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toMatch(/^\d+$/);
    expect(await refused.text()).not.toMatch(/disk/);
    isFull = false;
    expect((await deliver(notification)).status).toBe(200);
  });
});

describe("processing begins", () => {
  test.each([
    { store: "that notifies", alter: {} },
    { store: "without notifications", alter: { subscribe: () => undefined } },
  ])("by itself at the first request, at once on a store $store", async ({ alter }) => {
    const { platform, webhooks, notify } = handlerOf({ store: alteredStore(memoryStore(), alter) });
    expect((await webhooks.health()).state).toBe("idle");
    for (const bookingCode of ["A1", "A2"]) {
      await notify(bookingCode);
    }
    expect(platform.reads).toEqual(["A1", "A2"]);
    expect((await webhooks.health()).state).toBe("running");
  });

  test("with start() only, if autoStart is false, which handles the events of an earlier process", async () => {
    const { store, platform } = await delivered({ bookingCode: "A1" }, { autoStart: false });
    await advance(60_000);
    expect(platform.reads).toEqual([]);
    const later = handlerOf({ store });
    later.webhooks.start();
    await advance();
    expect(later.platform.reads).toEqual(["A1"]);
  });
});

describe("close", () => {
  test("records notifications as before, lets callbacks finish, and leaves the store open", async () => {
    const { callback, release } = heldCallback();
    const { deliver, webhooks, store, event } = await delivered({}, { on: { fallback: callback } });
    const closing = watch(webhooks.close());
    const later = notificationOf();
    expect((await deliver(later)).status).toBe(200);
    await advance(9000);
    expect(closing.settled).toBe(false);
    release();
    await advance();
    expect(closing.settled).toBe(true);
    expect((await event())?.state).toBe("done");
    expect((await deliver(notificationOf())).status).toBe(200);
    await advance(60_000);
    expect((await store.get(later.eventId))?.state).toBe("pending");
  });

  test.each([
    ["waits for the requests that are in flight", 3000, 10_000, 3000, 200],
    ["waits no longer than its timeout for them", 20_000, "2s", 2000, 503],
  ])("%s", async (_, add, timeout, closed, status) => {
    const store = alteredStore(memoryStore(), { add: late(() => sleep(add)) });
    const { deliver, webhooks } = handlerOf({ store });
    const delivery = watch(deliver(notificationOf()));
    await advance();
    // The first call sets the timeout.
    const closings = [timeout, 0].map((each) => watch(webhooks.close({ timeout: each })));
    const settled = () => closings.map((closing) => closing.settled);
    await advance(closed - 1);
    expect(settled()).toEqual([false, false]);
    await advance(1);
    expect(settled()).toEqual([true, true]);
    await advance(10_000);
    expect(delivery.result?.status).toBe(status);
  });

  test("is called at the end of `await using`, and starts nothing, so the store may be closed", async () => {
    const { deliver, webhooks, store, logger } = await delivered();
    await webhooks[Symbol.asyncDispose]();
    expect((await webhooks.health()).state).toBe("stopped");
    await store.close();
    webhooks.start();
    expect(await webhooks.drain()).toEqual({ done: 0, failed: 0 });
    expect((await deliver(notificationOf())).status).toBe(503);
    await advance(60_000);
    // The one line is about the request. It says what to do.
    expect(logger.lines.filter((line) => /store/.test(line))).toEqual([
      expect.stringMatching(/The event store is closed\. Close the server/),
    ]);
  });
});

describe("an error that the user's own functions throw", () => {
  const throws = (value: unknown) => () => {
    throw value;
  };

  test("in a callback leads to another attempt, never to an unhandled rejection", async () => {
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    const hostile = Object.defineProperty(new Error(), "message", {
      get: throws(new Error("in the getter")),
    });
    for (const value of [undefined, null, 0, "text", 10n, Object.create(null), Symbol("s"), hostile]) {
      for (const unknown of [throws(value), () => Promise.reject(value)]) {
        const { event } = await delivered({}, { on: { unknown }, maxAttempts: 1 });
        expect(await event()).toMatchObject({ state: "parked", reason: "callback" });
      }
    }
    vi.useRealTimers();
    await sleep(5);
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });

  test("in backoff leaves the event its next attempt", async () => {
    const unknown = vi.fn().mockRejectedValueOnce(new Error("no"));
    await delivered({}, { on: { unknown }, backoff: throws(new Error("in backoff")) });
    await advance(5100);
    expect(unknown).toHaveBeenCalledTimes(2);
  });

  test("in logger, while observe throws, changes nothing", async () => {
    const unknown = vi.fn();
    const log = throws(new Error("in the logger"));
    const logger = { debug: log, info: log, warn: log, error: log };
    const { response } = await delivered({}, { on: { unknown }, observe: log, logger });
    expect(response.status).toBe(200);
    expect(unknown).toHaveBeenCalledTimes(1);
  });
});
