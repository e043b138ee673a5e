import { memoryStore, sharedSecret } from "stayhook";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { handlerOf, heldCallback, notificationOf } from "./support.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const advance = (ms = 0) => vi.advanceTimersByTimeAsync(ms);

describe("a notification", () => {
  test("is answered 200 when it is recorded, before anything is fetched", async () => {
    const { deliver, platform, store } = handlerOf({ autoStart: false });
    const notification = notificationOf({ bookingCode: "A1" });
    const response = await deliver(notification);
    expect(response.status).toBe(200);
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

  test("is not answered before the store has it", async () => {
    const memory = memoryStore();
    let added = false;
    const slow = new Proxy(memory, {
      get: (target, property: keyof typeof memory) => {
        if (property === "add") {
          return async (event: never) => {
            await new Promise((resolve) => setTimeout(resolve, 500));
            added = true;
            return target.add(event);
          };
        }
        const value = target[property];
        return typeof value === "function" ? (value as () => unknown).bind(target) : value;
      },
    });
    const { deliver } = handlerOf({ store: slow });
    let answered = false;
    const delivery = deliver(notificationOf()).then((response) => {
      answered = true;
      return response;
    });
    await advance(499);
    expect([added, answered]).toEqual([false, false]);
    await advance(1);
    expect((await delivery).status).toBe(200);
  });

  test("runs one callback for 200 deliveries at once, in mixed case", async () => {
    const callback = vi.fn();
    const { deliver, platform } = handlerOf({ on: { "booking.Confirmed": callback } });
    platform.booking("A1", "Confirmed");
    const notification = notificationOf({ bookingCode: "A1" });
    const mixed = (n: number) =>
      [...notification.eventId].map((char, i) => ((n >> (i % 8)) & 1 ? char.toUpperCase() : char)).join("");
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, n) => deliver({ ...notification, eventId: mixed(n) })),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    await advance(60_000);
    expect(callback).toHaveBeenCalledTimes(1);
    expect(callback.mock.calls[0]?.[0].eventId).toBe(notification.eventId);
  });

  test("does nothing if it arrives again after it was handled", async () => {
    const callback = vi.fn();
    const { deliver, platform, kinds } = handlerOf({ on: { fallback: callback } });
    platform.booking("A1", "Confirmed");
    const notification = notificationOf({ bookingCode: "A1" });
    await deliver(notification);
    await advance();
    expect((await deliver(notification)).status).toBe(200);
    await advance(60_000);
    expect(callback).toHaveBeenCalledTimes(1);
    expect(kinds()).toEqual(["received", "done", "duplicate"]);
  });

  test("is event.notification with all its fields, and event.topic is the endpoint's", async () => {
    const callback = vi.fn();
    const { deliver } = handlerOf({ on: { unknown: callback } });
    const text = `{"eventId":"${notificationOf().eventId}","timestamp":"2026-05-01 14:00+0200","message":"a\\u0000b\\ud800","nested":{"__proto__":{"x":1}}}`;
    await deliver(text, { topic: "reviews" });
    await advance();
    const event = callback.mock.calls[0]?.[0];
    expect(event).toMatchObject({ type: "unknown", topic: "reviews", attempt: 1, source: "webhook" });
    expect(event.timestamp).toEqual(new Date("2026-05-01T12:00:00Z"));
    expect(event.notification.message).toBe("a\u0000b\ud800");
    expect(JSON.stringify(event.notification)).toBe(JSON.stringify(JSON.parse(text)));
  });

  test("is refused by verify before it is read", async () => {
    const { webhooks, store, kinds } = handlerOf({
      verify: sharedSecret({ query: "key", secret: "s3cret" }),
    });
    const post = (key: string) =>
      webhooks.fetch(
        new Request(`https://subscriber.example/hooks?key=${key}`, {
          method: "POST",
          body: JSON.stringify(notificationOf()),
        }),
      );
    expect((await post("wrong")).status).toBe(401);
    expect((await post("s3cret")).status).toBe(200);
    expect(kinds().slice(0, 2)).toEqual(["refused", "received"]);
    expect(Object.values(await store.counts()).reduce((a, b) => a + b)).toBe(1);
  });

  test("is answered 503 if it cannot be recorded, and is accepted when it is sent again", async () => {
    const memory = memoryStore();
    let failing = true;
    const store = new Proxy(memory, {
      get: (target, property: keyof typeof memory) => {
        if (property === "add" && failing) return () => Promise.reject(new Error("disk full of secrets"));
        const value = target[property];
        return typeof value === "function" ? (value as () => unknown).bind(target) : value;
      },
    });
    const { deliver } = handlerOf({ store });
    const notification = notificationOf();
    const refused = await deliver(notification);
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toMatch(/^\d+$/);
    expect(await refused.text()).not.toMatch(/disk/);
    failing = false;
    expect((await deliver(notification)).status).toBe(200);
  });
});

describe("processing begins", () => {
  test("by itself at the first request", async () => {
    const { deliver, platform, webhooks } = handlerOf();
    expect((await webhooks.health()).state).toBe("idle");
    await deliver(notificationOf({ bookingCode: "A1" }));
    await advance();
    expect(platform.reads).toEqual(["A1"]);
    expect((await webhooks.health()).state).toBe("running");
  });

  test("with start(), which handles the events of an earlier process", async () => {
    const store = memoryStore();
    const before = handlerOf({ store, autoStart: false });
    await before.deliver(notificationOf({ bookingCode: "A1" }));
    const { webhooks, platform } = handlerOf({ store });
    webhooks.start();
    await advance();
    expect(platform.reads).toEqual(["A1"]);
  });

  test("at once, even on a store without notifications", async () => {
    const memory = memoryStore();
    const store = new Proxy(memory, {
      get: (target, property: keyof typeof memory) => {
        if (property === "subscribe") return undefined;
        const value = target[property];
        return typeof value === "function" ? (value as () => unknown).bind(target) : value;
      },
    });
    const { deliver, platform } = handlerOf({ store });
    await deliver(notificationOf({ bookingCode: "A1" }));
    await advance();
    await deliver(notificationOf({ bookingCode: "A2" }));
    await advance();
    expect(platform.reads).toEqual(["A1", "A2"]);
  });

  test("with start() only, if autoStart is false", async () => {
    const { deliver, platform, webhooks } = handlerOf({ autoStart: false });
    await deliver(notificationOf({ bookingCode: "A1" }));
    await advance(60_000);
    expect(platform.reads).toEqual([]);
    webhooks.start();
    await advance();
    expect(platform.reads).toEqual(["A1"]);
  });
});

describe("close", () => {
  test("records notifications as before, lets callbacks finish, and leaves the store open", async () => {
    const { callback, release } = heldCallback();
    const { deliver, webhooks, store } = handlerOf({ on: { fallback: callback } });
    const notification = notificationOf();
    await deliver(notification);
    await advance();
    let closed = false;
    webhooks.close().then(() => {
      closed = true;
    });
    const later = notificationOf();
    expect((await deliver(later)).status).toBe(200);
    await advance(9000);
    expect(closed).toBe(false);
    release();
    await advance();
    expect(closed).toBe(true);
    expect((await store.get(notification.eventId))?.state).toBe("done");
    expect((await deliver(notificationOf())).status).toBe(200);
    await advance(60_000);
    expect((await store.get(later.eventId))?.state).toBe("pending");
  });

  test("waits for the requests that are in flight", async () => {
    const memory = memoryStore();
    const add = vi.spyOn(memory, "add");
    add.mockImplementationOnce(async () => {
      await new Promise((resolve) => setTimeout(resolve, 3000));
      return "added";
    });
    const { deliver, webhooks } = handlerOf({ store: memory });
    const delivery = deliver(notificationOf());
    await advance();
    let closed = false;
    void webhooks.close().then(() => {
      closed = true;
    });
    await advance(2999);
    expect(closed).toBe(false);
    await advance(1);
    expect((await delivery).status).toBe(200);
    expect(closed).toBe(true);
  });

  test("waits no longer than its timeout for a request", async () => {
    const store = memoryStore();
    vi.spyOn(store, "add").mockReturnValueOnce(new Promise(() => {}));
    const { deliver, webhooks } = handlerOf({ store });
    const delivery = deliver(notificationOf());
    await advance();
    let closed = false;
    void webhooks.close({ timeout: "2s" }).then(() => {
      closed = true;
    });
    await advance(1999);
    expect(closed).toBe(false);
    await advance(1);
    expect(closed).toBe(true);
    await advance(10_000);
    expect((await delivery).status).toBe(503);
  });

  test("is called at the end of `await using`", async () => {
    const { webhooks } = handlerOf();
    await webhooks[Symbol.asyncDispose]();
    expect((await webhooks.health()).state).toBe("stopped");
  });

  test("aborts the signal after its timeout, and gives the event back", async () => {
    let signal: AbortSignal | undefined;
    const { deliver, webhooks, store } = handlerOf({
      on: {
        unknown: (event) => {
          signal = event.signal;
          return new Promise(() => {});
        },
      },
    });
    const notification = notificationOf();
    await deliver(notification);
    await advance();
    const closing = webhooks.close({ timeout: 500 });
    await advance(500);
    expect(signal?.aborted).toBe(true);
    await advance(3000);
    await closing;
    expect(await store.get(notification.eventId)).toMatchObject({ state: "pending", attempts: 0 });
  });
});

test("after close, the handler starts nothing, so the store may be closed", async () => {
  const { deliver, webhooks, store, logger } = handlerOf();
  await deliver(notificationOf());
  await advance();
  await webhooks.close();
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

describe("an error that the user's own functions throw", () => {
  const thrown = [undefined, null, "text", new Error("an error"), Object.create(null), Symbol("s")];

  test("in a callback leads to another attempt, never to an unhandled rejection", async () => {
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    for (const value of thrown) {
      for (const callback of [
        () => {
          throw value;
        },
        () => Promise.reject(value),
      ]) {
        const { deliver, store } = handlerOf({ on: { unknown: callback }, maxAttempts: 1 });
        const notification = notificationOf();
        await deliver(notification);
        await advance();
        expect(await store.get(notification.eventId)).toMatchObject({ state: "parked", reason: "callback" });
      }
    }
    vi.useRealTimers();
    await new Promise((resolve) => setTimeout(resolve, 5));
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });

  test("in backoff leaves the event its next attempt", async () => {
    const callback = vi.fn().mockRejectedValueOnce(new Error("no"));
    const { deliver } = handlerOf({
      on: { unknown: callback },
      backoff: () => {
        throw new Error("in backoff");
      },
    });
    await deliver(notificationOf());
    await advance(5100);
    expect(callback).toHaveBeenCalledTimes(2);
  });

  test("in observe or logger changes nothing", async () => {
    const callback = vi.fn();
    const throwing = () => {
      throw new Error("in the logger");
    };
    const { deliver } = handlerOf({
      on: { unknown: callback },
      observe: (event) => {
        if (event.kind === "received") throw new Error("in observe");
        return Promise.reject(new Error("in observe, later"));
      },
      logger: { debug: throwing, info: throwing, warn: throwing, error: throwing },
    });
    expect((await deliver(notificationOf())).status).toBe(200);
    await advance();
    expect(callback).toHaveBeenCalledTimes(1);
  });
});
