import { memoryStore } from "stayhook";
import { describe, expect, test, vi } from "vitest";
import { alteredStore, hanging } from "../queue/support.ts";
import {
  advance,
  delivered,
  endlessCallback,
  HOUR,
  handlerOf,
  MINUTE,
  notificationOf,
  useFakeTime,
  watch,
} from "./support.ts";

useFakeTime();

const DAY = 24 * HOUR;

// The defaults in the table in docs/handler.md. Other tests check the effect of each option.
describe("the default", () => {
  test("a body has 16,384 bytes at most", async () => {
    const { deliver } = handlerOf();
    const padded = (length: number) => JSON.stringify(notificationOf()).padEnd(length);
    expect((await deliver(padded(16_384))).status).toBe(200);
    expect((await deliver(padded(16_385))).status).toBe(413);
  });

  test.each([
    { what: "a body may stall", store: {}, body: new ReadableStream(), status: 408 },
    { what: "the store may take", store: { add: hanging }, body: notificationOf(), status: 503 },
  ])("$what for 10 s", async ({ store, body, status }) => {
    const { webhooks } = handlerOf({ store: alteredStore(memoryStore(), store) });
    const answer = watch(webhooks.receive({ method: "POST", url: "/", headers: {}, body }));
    await advance(9_999);
    expect(answer.settled).toBe(false);
    await advance(1);
    expect(answer.result?.status).toBe(status);
  });

  test("10 callbacks run at once", async () => {
    const { callback, signals } = endlessCallback();
    const { deliver } = handlerOf({ on: { unknown: callback } });
    for (let n = 0; n < 25; n += 1) await deliver(notificationOf());
    await advance();
    expect(signals).toHaveLength(10);
  });

  test("a callback is called 12 times at most", async () => {
    const unknown = vi.fn(() => Promise.reject(new Error("no")));
    await delivered({}, { on: { unknown }, backoff: () => 1000 });
    await advance(HOUR);
    expect(unknown).toHaveBeenCalledTimes(12);
  });

  test.each([
    { what: "an attempt has 5 minutes", ms: 5 * MINUTE, closes: false },
    { what: "close lets callbacks finish for 10 s", ms: 10_000, closes: true },
  ])("$what", async ({ ms, closes }) => {
    const { callback, aborted } = endlessCallback();
    const { webhooks } = await delivered({}, { on: { unknown: callback } });
    if (closes) void webhooks.close();
    await advance(ms - 1);
    expect(aborted()).toEqual([false]);
    await advance(1);
    expect(aborted()).toEqual([true]);
    await advance(3_000);
  });

  test("another process takes over 30 s after one has died", async () => {
    const store = memoryStore();
    const dying = {
      store: alteredStore(store, { renew: hanging }),
      on: { unknown: endlessCallback().callback },
    };
    const { event } = await delivered({}, dying);
    const unknown = vi.fn();
    handlerOf({ store, on: { unknown } }).webhooks.start();
    await advance(30_000 - 1);
    expect(unknown).not.toHaveBeenCalled();
    // Any of the processes may take over first, even the one that lost its lease.
    await advance(1_000);
    expect(await event()).toMatchObject({ attempts: 2 });
  });

  test("an event is parked when the platform was out of reach for 3 days", async () => {
    const { deliver, platform, store } = handlerOf();
    platform.answer("*", { status: 503 });
    const { eventId, ...notification } = notificationOf({ bookingCode: "A1" });
    await deliver({ eventId, ...notification });
    await advance(5 * MINUTE);
    // The machine sleeps: the date goes on, and no timer runs.
    vi.setSystemTime(Date.now() + 3 * DAY - 8 * MINUTE);
    await advance(2 * MINUTE);
    expect((await store.get(eventId))?.state).toBe("retrying");
    await advance(2 * MINUTE);
    expect((await store.get(eventId))?.state).toBe("parked");
  });

  test("done events are kept for 7 days, parked ones for 30, a record's status for 400", async () => {
    const { deliver, store, event } = await delivered(
      { bookingCode: "A1" },
      { on: { unknown: () => Promise.reject(new Error("no")) }, maxAttempts: 1 },
    );
    const parked = notificationOf();
    await deliver(parked);
    const kept = async () => [
      (await event())?.state,
      (await store.get(parked.eventId))?.state,
      (await store.snapshotOf("booking:A1"))?.snapshot.status,
    ];
    await advance(7 * DAY - HOUR);
    expect(await kept()).toEqual(["done", "parked", "Confirmed"]);
    await advance(3 * HOUR);
    expect(await kept()).toEqual([undefined, "parked", "Confirmed"]);
    await advance(23 * DAY - 4 * HOUR);
    expect(await kept()).toEqual([undefined, "parked", "Confirmed"]);
    await advance(4 * HOUR);
    expect(await kept()).toEqual([undefined, undefined, "Confirmed"]);
    await advance(370 * DAY - 4 * HOUR);
    expect(await kept()).toEqual([undefined, undefined, "Confirmed"]);
    await advance(4 * HOUR);
    expect(await kept()).toEqual([undefined, undefined, undefined]);
  });
});
