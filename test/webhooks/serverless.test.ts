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

const brokenStore = () => alteredStore(memoryStore(), { claim: failing(() => true, "no connection") });
const other = { eventId: "other", ref: null, source: "webhook", topic: null, notification: "{}" } as const;

describe("waitUntil", () => {
  /** Delivers a notification, and returns the work that outlives the answer. */
  async function deliverWith(
    deliver: ReturnType<typeof handlerOf>["deliver"],
    body: unknown = notificationOf(),
  ) {
    const waited: Promise<unknown>[] = [];
    const { status } = await deliver(body, { waitUntil: (promise) => void waited.push(promise) });
    expect(status).toBe(200);
    return Promise.all(waited);
  }

  test("gets the work, and no loop starts", async () => {
    const { callback, release } = heldCallback();
    const { deliver, webhooks, store } = handlerOf({ on: { fallback: callback } });
    const work = watch(deliverWith(deliver));
    await advance(1000);
    expect([callback.mock.calls.length, work.settled]).toEqual([1, false]);
    release();
    await advance();
    expect(work.settled).toBe(true);
    expect((await webhooks.health()).state).toBe("idle");
    await store.add({ ...other, timestamp: new Date().toISOString() });
    await advance(60_000);
    expect(callback).toHaveBeenCalledTimes(1);
  });

  test("gets the other due events too, and a duplicate causes it", async () => {
    const { store, notification } = await delivered({ bookingCode: "LEFT" }, { autoStart: false });
    const { deliver, platform } = handlerOf({ store });
    await deliverWith(deliver, notification);
    expect(platform.reads).toEqual(["LEFT"]);
  });

  test("does not read again with each notification while the platform is out of reach", async () => {
    const { deliver, platform } = handlerOf();
    platform.answer("*", { status: 401 });
    for (let n = 0; n < 20; n += 1) await deliverWith(deliver, notificationOf({ bookingCode: `B${n}` }));
    expect(platform.reads).toEqual(["B0"]);
  });

  test("never gets a promise that rejects", async () => {
    const { deliver, logger } = handlerOf({ store: brokenStore() });
    await deliverWith(deliver);
    expect(logger.lines.join()).toMatch(/no connection/);
  });
});

describe("inline", () => {
  const inline = { processing: "inline" } as const;

  test("answers when its own event has ended, and handles no other", async () => {
    const { callback, release } = heldCallback();
    const { deliver, webhooks, store } = handlerOf({ ...inline, on: { fallback: callback } });
    await store.add({ ...other, timestamp: "2026-01-01T00:00:00Z" });
    const delivery = watch(deliver(notificationOf()));
    await advance(5000);
    expect([callback.mock.calls.length, delivery.settled]).toEqual([1, false]);
    release();
    await advance();
    expect(delivery.result?.status).toBe(200);
    expect((await store.get("other"))?.state).toBe("pending");
    expect((await webhooks.health()).state).toBe("idle");
  });

  test.each([0, 9_000])(
    "answers 200 within replyWithin of the arrival if recording takes %i ms",
    async (ms) => {
      const { callback, release } = heldCallback();
      const store = alteredStore(memoryStore(), { add: late(() => (ms > 0 ? sleep(ms) : undefined)) });
      const { deliver } = handlerOf({ ...inline, store, on: { fallback: callback } });
      const notification = notificationOf();
      const delivery = watch(deliver(notification));
      await advance(24_900);
      expect(delivery.settled).toBe(false);
      await advance(100);
      expect(delivery.result?.status).toBe(200);
      release();
      await advance();
      expect((await store.get(notification.eventId))?.state).toBe("done");
    },
  );

  test("answers 200 if its callback fails, and handles the event again when a duplicate finds it due", async () => {
    const unknown = vi.fn().mockRejectedValueOnce(new Error("no"));
    const { deliver, store } = handlerOf({ ...inline, on: { unknown }, backoff: () => 1000 });
    const notification = notificationOf();
    for (const _ of [1, 2]) expect((await deliver(notification)).status).toBe(200);
    const history = [{ error: expect.stringMatching(/^Error: no\n {4}at /) }];
    expect(await store.get(notification.eventId)).toMatchObject({ state: "retrying", history });
    expect(unknown).toHaveBeenCalledTimes(1);
    await advance(1000);
    await deliver(notification);
    expect(unknown).toHaveBeenCalledTimes(2);
  });

  test("answers 200 if the store cannot claim", async () => {
    const { deliver } = handlerOf({ ...inline, store: brokenStore() });
    expect((await deliver(notificationOf())).status).toBe(200);
  });
});
