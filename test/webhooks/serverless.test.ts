import { memoryStore } from "stayhook";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { handlerOf, heldCallback, notificationOf } from "./support.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const advance = (ms = 0) => vi.advanceTimersByTimeAsync(ms);

describe("on serverless", () => {
  test("waitUntil gets the work, and no loop starts", async () => {
    const { callback, release } = heldCallback();
    const { deliver, platform, webhooks, store } = handlerOf({ on: { fallback: callback } });
    platform.booking("A1", "Confirmed");
    const waited: Promise<unknown>[] = [];
    const response = await deliver(notificationOf({ bookingCode: "A1" }), {
      waitUntil: (promise) => void waited.push(promise),
    });
    expect(response.status).toBe(200);
    await advance();
    expect(callback).toHaveBeenCalledTimes(1);
    let settled = false;
    Promise.all(waited).then(() => {
      settled = true;
    });
    await advance(1000);
    expect(settled).toBe(false);
    release();
    await advance();
    expect(settled).toBe(true);
    expect((await webhooks.health()).state).toBe("idle");
    await store.add({ ...notificationOf(), ref: null, source: "webhook", topic: null, notification: "{}" });
    await advance(60_000);
    expect(callback).toHaveBeenCalledTimes(1);
  });

  test("waitUntil gets the other due events too, and a duplicate causes it", async () => {
    const store = memoryStore();
    const earlier = handlerOf({ store, autoStart: false });
    const left = notificationOf({ bookingCode: "LEFT" });
    await earlier.deliver(left);
    const { deliver, platform } = handlerOf({ store });
    const waited: Promise<unknown>[] = [];
    await deliver(left, { waitUntil: (promise) => void waited.push(promise) });
    await Promise.all(waited);
    expect(platform.reads).toEqual(["LEFT"]);
  });

  test("waitUntil does not read again with each notification while the platform is out of reach", async () => {
    const { deliver, platform } = handlerOf();
    platform.answer("*", { status: 401 });
    for (let n = 0; n < 20; n += 1) {
      const waited: Promise<unknown>[] = [];
      await deliver(notificationOf({ bookingCode: `B${n}` }), {
        waitUntil: (promise) => void waited.push(promise),
      });
      await Promise.all(waited);
    }
    expect(platform.reads).toEqual(["B0"]);
  });

  test("waitUntil never gets a promise that rejects", async () => {
    const memory = memoryStore();
    const store = new Proxy(memory, {
      get: (target, property: keyof typeof memory) => {
        if (property === "claim") return () => Promise.reject(new Error("no connection"));
        const value = target[property];
        return typeof value === "function" ? (value as () => unknown).bind(target) : value;
      },
    });
    const { deliver, logger } = handlerOf({ store });
    const waited: Promise<unknown>[] = [];
    await deliver(notificationOf(), { waitUntil: (promise) => void waited.push(promise) });
    await Promise.all(waited);
    expect(logger.lines.join()).toMatch(/no connection/);
  });

  test("inline answers when its own event has ended, and handles no other", async () => {
    const { callback, release } = heldCallback();
    const { deliver, platform, webhooks, store } = handlerOf({
      processing: "inline",
      on: { fallback: callback },
    });
    await store.add({
      eventId: "other",
      ref: null,
      source: "webhook",
      topic: null,
      timestamp: "2026-01-01T00:00:00Z",
      notification: "{}",
    });
    platform.booking("A1", "Confirmed");
    let response: Response | undefined;
    deliver(notificationOf({ bookingCode: "A1" })).then((r) => {
      response = r;
    });
    await advance(5000);
    expect(callback).toHaveBeenCalledTimes(1);
    expect(response).toBeUndefined();
    release();
    await advance();
    expect(response?.status).toBe(200);
    expect((await store.get("other"))?.state).toBe("pending");
    expect((await webhooks.health()).state).toBe("idle");
  });

  test("inline answers 200 within replyWithin while the callback goes on", async () => {
    const { callback, release } = heldCallback();
    const { deliver, store } = handlerOf({ processing: "inline", on: { fallback: callback } });
    let response: Response | undefined;
    const notification = notificationOf();
    deliver(notification).then((r) => {
      response = r;
    });
    await advance(24_900);
    expect(response).toBeUndefined();
    await advance(100);
    expect(response?.status).toBe(200);
    release();
    await advance();
    expect((await store.get(notification.eventId))?.state).toBe("done");
  });

  test("inline counts replyWithin from the arrival, with the recording", async () => {
    const memory = memoryStore();
    const store = new Proxy(memory, {
      get: (target, property: keyof typeof memory) => {
        const value = target[property];
        if (property !== "add")
          return typeof value === "function" ? (value as () => unknown).bind(target) : value;
        return async (event: never) => {
          await new Promise((resolve) => setTimeout(resolve, 9_000));
          return target.add(event);
        };
      },
    });
    const { deliver } = handlerOf({
      store,
      processing: "inline",
      on: { fallback: () => new Promise(() => {}) },
    });
    let status: number | undefined;
    deliver(notificationOf()).then((response) => {
      status = response.status;
    });
    await advance(24_900);
    expect(status).toBeUndefined();
    await advance(100);
    expect(status).toBe(200);
  });

  test("inline answers 200 if its callback fails, because the event is recorded", async () => {
    const { deliver, store } = handlerOf({
      processing: "inline",
      on: {
        unknown: () => {
          throw new Error("no");
        },
      },
    });
    const notification = notificationOf();
    expect((await deliver(notification)).status).toBe(200);
    expect(await store.get(notification.eventId)).toMatchObject({
      state: "retrying",
      history: [{ error: "Error: no" }],
    });
  });

  test("inline handles a due event again when its duplicate arrives", async () => {
    const callback = vi.fn().mockRejectedValueOnce(new Error("no"));
    const { deliver } = handlerOf({ processing: "inline", on: { unknown: callback }, backoff: () => 1000 });
    const notification = notificationOf();
    await deliver(notification);
    await deliver(notification);
    expect(callback).toHaveBeenCalledTimes(1);
    await advance(1000);
    await deliver(notification);
    expect(callback).toHaveBeenCalledTimes(2);
  });

  test("inline answers 200 if the store cannot claim", async () => {
    const memory = memoryStore();
    const store = new Proxy(memory, {
      get: (target, property: keyof typeof memory) => {
        if (property === "claim") return () => Promise.reject(new Error("no connection"));
        const value = target[property];
        return typeof value === "function" ? (value as () => unknown).bind(target) : value;
      },
    });
    const { deliver } = handlerOf({ store, processing: "inline" });
    expect((await deliver(notificationOf())).status).toBe(200);
  });

  test("drain handles the due events", async () => {
    const callback = vi.fn();
    const { deliver, webhooks } = handlerOf({ autoStart: false, on: { unknown: callback } });
    await deliver(notificationOf());
    await deliver(notificationOf());
    expect(await webhooks.drain()).toEqual({ done: 2, failed: 0 });
    expect(callback).toHaveBeenCalledTimes(2);
  });
});
