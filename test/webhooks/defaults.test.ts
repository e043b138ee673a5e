import { memoryStore } from "stayhook";
import type { EventStore } from "stayhook/store";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { handlerOf, notificationOf } from "./support.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const advance = (ms = 0) => vi.advanceTimersByTimeAsync(ms);
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Replaces methods of a memory store. */
function storeWith(altered: Partial<EventStore>, memory = memoryStore()): EventStore {
  return new Proxy(memory, {
    get: (target, property: keyof EventStore) => {
      const value = altered[property] ?? target[property];
      return typeof value === "function" ? (value as () => unknown).bind(target) : value;
    },
  });
}

/** Returns an object with the status of the answer. The status is `undefined` until the answer arrives. */
function statusOf(answer: Promise<{ readonly status: number }>) {
  const seen: { status: number | undefined } = { status: undefined };
  answer.then(({ status }) => {
    seen.status = status;
  });
  return seen;
}

// The defaults in the table in docs/handler.md. Other tests check the effect of each option.
describe("the default", () => {
  test("a body has 65,536 bytes at most", async () => {
    const { deliver } = handlerOf();
    const padded = (length: number) => JSON.stringify(notificationOf()).padEnd(length);
    expect((await deliver(padded(65_536))).status).toBe(200);
    expect((await deliver(padded(65_537))).status).toBe(413);
  });

  test("a body may stall for 10 s", async () => {
    const { webhooks } = handlerOf();
    const body = new ReadableStream<Uint8Array>();
    const seen = statusOf(webhooks.receive({ method: "POST", url: "/", headers: {}, body }));
    await advance(9_999);
    expect(seen.status).toBeUndefined();
    await advance(1);
    expect(seen.status).toBe(408);
  });

  test("the store has 10 s to record", async () => {
    const { deliver } = handlerOf({ store: storeWith({ add: () => new Promise(() => {}) }) });
    const seen = statusOf(deliver(notificationOf()));
    await advance(9_999);
    expect(seen.status).toBeUndefined();
    await advance(1);
    expect(seen.status).toBe(503);
  });

  test("10 callbacks run at once", async () => {
    const callback = vi.fn(() => new Promise(() => {}));
    const { deliver } = handlerOf({ on: { unknown: callback } });
    for (let n = 0; n < 25; n += 1) await deliver(notificationOf());
    await advance();
    expect(callback).toHaveBeenCalledTimes(10);
  });

  test("a callback is called 12 times at most", async () => {
    const callback = vi.fn(() => Promise.reject(new Error("no")));
    const { deliver } = handlerOf({ on: { unknown: callback }, backoff: () => 1000 });
    await deliver(notificationOf());
    await advance(HOUR);
    expect(callback).toHaveBeenCalledTimes(12);
  });

  test("an attempt has 5 minutes", async () => {
    let signal: AbortSignal | undefined;
    const { deliver } = handlerOf({
      on: {
        unknown: (event) => {
          signal = event.signal;
          return new Promise(() => {});
        },
      },
    });
    await deliver(notificationOf());
    await advance(5 * MINUTE - 1);
    expect(signal?.aborted).toBe(false);
    await advance(1);
    expect(signal?.aborted).toBe(true);
  });

  test("another process takes over 30 s after one has died", async () => {
    const store = memoryStore();
    const renew = () => new Promise<never>(() => {});
    const dying = handlerOf({
      store: storeWith({ renew }, store),
      on: { unknown: () => new Promise(() => {}) },
    });
    await dying.deliver(notificationOf());
    await advance();
    const callback = vi.fn();
    handlerOf({ store, on: { unknown: callback } }).webhooks.start();
    await advance(30_000 - 1);
    expect(callback).not.toHaveBeenCalled();
    // Any of the processes may take over first, even the one that lost its lease.
    await advance(1_000);
    expect((await store.list({ limit: 1 }))[0]).toMatchObject({ attempts: 2 });
  });

  test("an event is parked when the platform was out of reach for 3 days", async () => {
    const { deliver, platform, store } = handlerOf();
    platform.answer("*", { status: 503 });
    const notification = notificationOf({ bookingCode: "A1" });
    await deliver(notification);
    await advance(3 * DAY - MINUTE);
    expect((await store.get(notification.eventId))?.state).toBe("retrying");
    await advance(2 * MINUTE);
    expect((await store.get(notification.eventId))?.state).toBe("parked");
  });

  test("done events are kept for 7 days, parked ones for 30, a record's status for 400", async () => {
    const { deliver, platform, store } = handlerOf({
      on: { unknown: () => Promise.reject(new Error("no")) },
      maxAttempts: 1,
    });
    platform.booking("A1", "Confirmed");
    const done = notificationOf({ bookingCode: "A1" });
    const parked = notificationOf();
    await deliver(done);
    await deliver(parked);
    await advance();
    const kept = async () => ({
      done: (await store.get(done.eventId))?.state,
      parked: (await store.get(parked.eventId))?.state,
      status: (await store.snapshotOf("booking:A1"))?.snapshot.status,
    });
    const all = { done: "done", parked: "parked", status: "Confirmed" };
    await advance(7 * DAY - HOUR);
    expect(await kept()).toEqual(all);
    await advance(3 * HOUR);
    expect(await kept()).toEqual({ ...all, done: undefined });
    await advance(23 * DAY - 4 * HOUR);
    expect(await kept()).toEqual({ ...all, done: undefined });
    await advance(4 * HOUR);
    expect(await kept()).toEqual({ ...all, done: undefined, parked: undefined });
    await advance(370 * DAY - 4 * HOUR);
    expect((await kept()).status).toBe("Confirmed");
    await advance(4 * HOUR);
    expect((await kept()).status).toBeUndefined();
  });

  test("close lets callbacks finish for 10 s", async () => {
    let signal: AbortSignal | undefined;
    const { deliver, webhooks } = handlerOf({
      on: {
        unknown: (event) => {
          signal = event.signal;
          return new Promise(() => {});
        },
      },
    });
    await deliver(notificationOf());
    await advance();
    const closing = webhooks.close();
    await advance(9_999);
    expect(signal?.aborted).toBe(false);
    await advance(1);
    expect(signal?.aborted).toBe(true);
    await advance(3_000);
    await closing;
  });
});
