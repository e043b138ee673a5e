import { type BookingEvent, memoryStore } from "stayhook";
import type { ClaimedEvent } from "stayhook/store";
import { describe, expect, test, vi } from "vitest";
import { RecentAnswers } from "../../../src/webhooks/processing/record.ts";
import { gate } from "../../queue/support.ts";
import { advance, clientOf, handlerOf, notificationOf, platformOf, useFakeTime } from "../support.ts";

useFakeTime();

/** Makes a handler with pending notifications of booking A1. Nothing is processed until `drain`. */
async function waiting(count: number, options: Parameters<typeof handlerOf>[0] = {}) {
  const handler = handlerOf({ autoStart: false, recheckAfter: false, ...options });
  handler.platform.booking("A1", "Confirmed", { guest: { name: "Ann" } });
  const add = async (n: number) => {
    const ids: string[] = [];
    for (let index = 0; index < n; index += 1) {
      const notification = notificationOf({ bookingCode: "A1" });
      ids.push(notification.eventId);
      await handler.deliver(notification);
    }
    await advance(1);
    return ids;
  };
  return { ...handler, add, ids: await add(count) };
}

describe("a recent answer", () => {
  test("serves all waiting events, each with a callback and an object of its own", async () => {
    const events: BookingEvent[] = [];
    const { webhooks, platform } = await waiting(20, {
      on: {
        booking: (event) => {
          events.push(event);
          const { guest } = event.booking as unknown as { guest: { name: string } };
          expect(guest.name).toBe("Ann");
          guest.name = "changed by a callback";
        },
      },
    });
    expect(await webhooks.drain()).toEqual({ done: 20, failed: 0 });
    expect(platform.reads).toEqual(["A1"]);
    expect(events.map(({ changed }) => changed)).toEqual([true, ...Array(19).fill(false)]);
    expect(new Set(events.map(({ booking }) => booking)).size).toBe(20);
  });

  test("does not turn a callback that takes too long into an outage", async () => {
    let calls = 0;
    const { webhooks, store, ids } = await waiting(2, {
      attemptTimeout: "10s",
      on: {
        fallback: () => {
          calls += 1;
          return calls === 1 ? undefined : new Promise<void>(() => {});
        },
      },
    });
    const draining = webhooks.drain();
    await advance(14_000);
    expect(await draining).toEqual({ done: 1, failed: 1 });
    expect(await store.get(ids[1]!)).toMatchObject({ state: "retrying", attempts: 1, reason: "callback" });
  });

  test("keeps the result of a callback that ends within 3 s after close", async () => {
    let calls = 0;
    const held = gate();
    const { webhooks, store, ids } = await waiting(2, {
      on: {
        fallback: async () => {
          calls += 1;
          if (calls === 2) await held.opened;
        },
      },
    });
    webhooks.start();
    await advance(100);
    const closing = webhooks.close({ timeout: 1000 });
    await advance(2000);
    held.open();
    await advance(5000);
    await closing;
    expect(await store.get(ids[1]!)).toMatchObject({ state: "done", attempts: 1 });
  });

  test("is no read that succeeded, so it does not lift the limit on refused reads", async () => {
    const { webhooks, platform, deliver } = handlerOf({ autoStart: false, recheckAfter: false });
    platform.booking("A1", "Confirmed");
    const add = async (count: number, code: (n: number) => string) => {
      for (let n = 0; n < count; n += 1) await deliver(notificationOf({ bookingCode: code(n) }));
      await advance(1);
    };
    const drain = async (seconds: number) => {
      const drained = webhooks.drain();
      await advance(seconds * 1000);
      await drained;
    };
    await add(20, (n) => `forged ${n}`);
    await drain(2);
    await add(50, () => "A1");
    await drain(10);
    expect(platform.reads.filter((code) => code === "A1")).toHaveLength(1);
    const before = platform.reads.length;
    await add(200, (n) => `forged again ${n}`);
    const drained = webhooks.drain();
    await advance(1000);
    expect(platform.reads.length - before).toBeLessThanOrEqual(90);
    await advance(10_000);
    await drained;
  });

  test("does not serve an event that was recorded after the read began", async () => {
    const { webhooks, platform, add } = await waiting(1);
    await webhooks.drain();
    await add(1);
    await webhooks.drain();
    expect(platform.reads).toEqual(["A1", "A1"]);
  });

  test("does not serve an event that was recorded in the same ms", async () => {
    const handler = handlerOf({ autoStart: false, recheckAfter: false });
    handler.platform.booking("A1", "Confirmed");
    for (const _ of [1, 2]) await handler.deliver(notificationOf({ bookingCode: "A1" }));
    await handler.webhooks.drain();
    expect(handler.platform.reads).toEqual(["A1", "A1"]);
  });

  test("does not serve a second attempt, nor any event after an attempt that failed with it", async () => {
    const callback = vi.fn().mockRejectedValueOnce(new Error("no"));
    const { webhooks, platform } = await waiting(2, { on: { fallback: callback }, backoff: () => 1000 });
    await webhooks.drain();
    expect(platform.reads).toEqual(["A1", "A1"]);
    await advance(1000);
    await webhooks.drain();
    expect(platform.reads).toEqual(["A1", "A1", "A1"]);
    expect(callback).toHaveBeenCalledTimes(3);
  });

  test("does not serve an event after an attempt that timed out", async () => {
    const callback = vi.fn().mockReturnValueOnce(new Promise(() => {}));
    const { webhooks, platform } = await waiting(2, {
      on: { fallback: callback },
      attemptTimeout: 1000,
      backoff: () => 60_000,
    });
    const drained = webhooks.drain();
    await advance(5_000);
    expect(await drained).toEqual({ done: 1, failed: 1 });
    expect(platform.reads).toEqual(["A1", "A1"]);
  });

  test("does not serve a replay", async () => {
    const { webhooks, platform, store, ids } = await waiting(2);
    await webhooks.drain();
    await store.replay({ eventId: ids[0]! });
    await webhooks.drain();
    expect(platform.reads).toEqual(["A1", "A1"]);
  });

  test("does not serve an event of the reconciler", async () => {
    const { webhooks, platform, store, ids } = await waiting(1);
    const eventId = ids[0]!.replace(/./, (digit) => (digit === "0" ? "1" : "0"));
    const timestamp = new Date().toISOString();
    const event = { eventId, ref: "booking:A1", topic: null, timestamp, notification: null };
    await store.add({ ...event, source: "reconcile" });
    await advance(1);
    await webhooks.drain();
    expect(platform.reads).toEqual(["A1", "A1"]);
  });

  test("is used for 10 s", async () => {
    const callback = vi.fn(() => new Promise<void>((resolve) => setTimeout(resolve, 6_000)));
    const { webhooks, platform } = await waiting(3, { on: { fallback: callback } });
    const drained = webhooks.drain();
    await advance(18_000);
    await drained;
    expect(callback).toHaveBeenCalledTimes(3);
    expect(platform.reads).toEqual(["A1", "A1"]);
  });

  test("is not used if another process has handled a newer answer", async () => {
    const store = memoryStore();
    const events: unknown[] = [];
    const { webhooks, platform } = await waiting(2, {
      store,
      on: {
        fallback: async ({ status, previous }) => {
          events.push([previous?.status, status]);
          platform.booking("A1", "Cancelled");
        },
      },
    });
    const settle = store.settle.bind(store);
    vi.spyOn(store, "settle").mockImplementationOnce((claim, outcome) => {
      if (outcome.state !== "done") throw new Error("not done");
      // The other process leaves the record in this state.
      const snapshot = { ...outcome.record!.snapshot, status: "Cancelled" };
      return settle(claim, { ...outcome, record: { snapshot, changed: true } });
    });
    await webhooks.drain();
    expect(events).toEqual([
      [undefined, "Confirmed"],
      ["Cancelled", "Cancelled"],
    ]);
  });

  test("is not kept if the model makes other values than plain data", async () => {
    const platform = platformOf();
    platform.booking("A1", "Confirmed");
    const client = clientOf(platform);
    const get = client.bookings.get.bind(client.bookings);
    class Guest {}
    client.bookings.get = ((...args: Parameters<typeof get>) =>
      get(...args).then((booking) => ({ ...booking, guest: new Guest() }))) as never;
    const { webhooks } = await waiting(2, { client });
    await webhooks.drain();
    expect(platform.reads).toEqual(["A1", "A1"]);
  });

  test("is dropped as the oldest of more than 1,000", () => {
    const answers = new RecentAnswers();
    const claimOf = (code: string, fields: Partial<ClaimedEvent> = {}) =>
      ({
        ...{ ref: `booking:${code}`, source: "webhook", replayed: false, attempts: 1, outages: 0 },
        ...{ receivedAt: 1, claimedAt: 2, ...fields },
      }) as ClaimedEvent;
    const booking = { record: { bookingCode: "A", status: "Confirmed" }, sent: {} };
    const found = { read: booking, look: undefined, claimedAt: 2 };
    for (let n = 0; n <= 1_000; n += 1) answers.keep(claimOf(`B${n}`), booking);
    expect(answers.find(claimOf("B0"))).toBeUndefined();
    expect(answers.find(claimOf("B1"))).toEqual(found);
    // A renewed answer counts as the newest.
    for (const code of ["B2", "C", "D"]) answers.keep(claimOf(code), booking);
    expect(answers.find(claimOf("B2"))).toEqual(found);
    expect(answers.find(claimOf("B1"))).toBeUndefined();
    // The store's clock was set back by an hour.
    expect(answers.find(claimOf("C", { receivedAt: -3_600_000, claimedAt: -3_599_999 }))).toBeUndefined();
    expect(answers.find(claimOf("C", { outages: 1 }))).toBeUndefined();
  });
});
