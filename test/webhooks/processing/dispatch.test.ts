import { memoryStore, StayhookError, type WebhookEvent } from "stayhook";
import type { EventStore, Outcome } from "stayhook/store";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { handlerOf, notificationOf } from "../support.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const advance = (ms = 0) => vi.advanceTimersByTimeAsync(ms);

describe("the callback for a status", () => {
  test.each(["Initiated", "Request", "Confirmed", "Declined", "Cancelled"] as const)(
    "booking.%s",
    async (status) => {
      const callback = vi.fn();
      const { deliver, platform } = handlerOf({ on: { [`booking.${status}`]: callback } });
      platform.booking("A1", status, { checkIn: "2026-07-01", further: { kept: true } });
      const notification = notificationOf({ bookingCode: "A1" });
      await deliver(notification);
      await advance();
      expect(callback).toHaveBeenCalledTimes(1);
      expect(callback.mock.calls[0]?.[0]).toMatchObject({
        type: `booking.${status}`,
        status,
        booking: { bookingCode: "A1", status, checkIn: "2026-07-01", further: { kept: true } },
        eventId: notification.eventId,
        timestamp: new Date("2026-05-01T12:00:00Z"),
        receivedAt: expect.any(Date),
        notification,
        changed: true,
        attempt: 1,
        source: "webhook",
        signal: expect.any(AbortSignal),
      });
    },
  );

  test.each(["InReview", "Published", "Hidden"] as const)("listing.%s", async (status) => {
    const callback = vi.fn();
    const { deliver, platform } = handlerOf({ on: { [`listing.${status}`]: callback } });
    platform.listing(77, status, { listingName: "By the sea" });
    await deliver(notificationOf({ listingId: 77 }));
    await advance();
    expect(callback.mock.calls[0]?.[0]).toMatchObject({
      type: `listing.${status}`,
      status,
      listing: { listingId: 77, listingName: "By the sea", status },
      changed: true,
    });
    expect(callback.mock.calls[0]?.[0]).not.toHaveProperty("booking");
  });

  test("gets the time of the recording and the number of the attempt, without the outages before", async () => {
    const callback = vi.fn().mockRejectedValueOnce(new Error("no"));
    const { deliver, platform } = handlerOf({ on: { fallback: callback } });
    const recordedAt = new Date();
    platform.answer("A1", { status: 503 });
    await deliver(notificationOf({ bookingCode: "A1" }));
    await advance();
    platform.booking("A1", "Confirmed");
    await advance(30_000);
    const events = callback.mock.calls.map(([event]) => event as WebhookEvent);
    expect(events.map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(events.map(({ receivedAt }) => receivedAt)).toEqual([recordedAt, recordedAt]);
  });

  test("has no topic if the endpoint has none", async () => {
    const callback = vi.fn();
    const { deliver } = handlerOf({ on: { unknown: callback } });
    await deliver(notificationOf());
    await advance();
    expect(callback.mock.calls[0]?.[0]).not.toHaveProperty("topic");
  });

  test("gets source reconcile and no notification for an event of the reconciler", async () => {
    const callback = vi.fn();
    const { webhooks, platform, store } = handlerOf({ on: { fallback: callback } });
    platform.booking("A1", "Confirmed");
    const { eventId, timestamp } = notificationOf();
    await store.add({
      eventId,
      timestamp,
      ref: "booking:A1",
      source: "reconcile",
      topic: null,
      notification: null,
    });
    await webhooks.drain();
    const event = callback.mock.calls[0]?.[0];
    expect(event).toMatchObject({ type: "booking.Confirmed", source: "reconcile" });
    expect(event.notification).toBeUndefined();
  });

  test.each(["Paused", "constructor", "__proto__", "toString", "unknown", "fallback", ""])(
    "a status that is not listed (%j) is unknown",
    async (status) => {
      const unknown = vi.fn();
      const fallback = vi.fn();
      const { deliver, platform } = handlerOf({ on: { "booking.unknown": unknown, fallback } });
      platform.booking("A1", status);
      platform.listing(5, status);
      await deliver(notificationOf({ bookingCode: "A1" }));
      await deliver(notificationOf({ listingId: 5 }));
      await advance();
      expect(unknown.mock.calls[0]?.[0]).toMatchObject({ type: "booking.unknown", status });
      expect(fallback.mock.calls[0]?.[0]).toMatchObject({ type: "listing.unknown", status });
    },
  );

  test("an event without a reference has the type unknown, and nothing is fetched", async () => {
    const unknown = vi.fn();
    const { deliver, platform } = handlerOf({ on: { unknown } });
    await deliver(notificationOf());
    await advance();
    expect(unknown.mock.calls[0]?.[0]).toMatchObject({ type: "unknown", eventId: expect.any(String) });
    expect(platform.reads).toEqual([]);
  });

  test("goes before fallback. Without both, the event is done and its snapshot is kept", async () => {
    const own = vi.fn();
    const fallback = vi.fn();
    const both = handlerOf({ on: { "booking.Confirmed": own, fallback } });
    both.platform.booking("A1", "Confirmed");
    await both.deliver(notificationOf({ bookingCode: "A1" }));
    await advance();
    expect([own.mock.calls.length, fallback.mock.calls.length]).toEqual([1, 0]);

    const none = handlerOf();
    none.platform.booking("A1", "Confirmed");
    const notification = notificationOf({ bookingCode: "A1" });
    await none.deliver(notification);
    await advance();
    expect(await none.store.get(notification.eventId)).toMatchObject({
      state: "done",
      type: "booking.Confirmed",
    });
    expect(await none.store.snapshotOf("booking:A1")).toMatchObject({
      snapshot: { status: "Confirmed" },
      sequence: 1,
    });
  });

  test("inherited callbacks do not run", async () => {
    const inherited = vi.fn();
    const { deliver } = handlerOf({ on: Object.create({ unknown: inherited, fallback: inherited }) });
    await deliver(notificationOf());
    await advance();
    expect(inherited).not.toHaveBeenCalled();
  });
});

describe("the status handled before", () => {
  async function play(statuses: string[], options: Parameters<typeof handlerOf>[0] = {}) {
    const seen: unknown[] = [];
    const handler = handlerOf({
      on: {
        fallback: (event) => {
          if ("status" in event) seen.push([event.status, event.previous?.status, event.changed]);
        },
      },
      ...options,
    });
    const ids: string[] = [];
    for (const status of statuses) {
      handler.platform.booking("A1", status);
      const notification = notificationOf({ bookingCode: "A1" });
      ids.push(notification.eventId);
      await handler.deliver(notification);
      await advance();
    }
    return { ...handler, seen, ids };
  }

  test("is previous.status, and `changed` says whether it is another", async () => {
    const { seen } = await play(["Request", "Confirmed", "Confirmed", "Cancelled"]);
    expect(seen).toEqual([
      ["Request", undefined, true],
      ["Confirmed", "Request", true],
      ["Confirmed", "Confirmed", false],
      ["Cancelled", "Confirmed", true],
    ]);
  });

  test("skipUnchanged: true skips a status that was handled before", async () => {
    const { seen, store } = await play(["Request", "Confirmed", "Confirmed", "Cancelled"], {
      skipUnchanged: true,
    });
    expect(seen.length).toBe(3);
    expect(await store.counts()).toMatchObject({ done: 4 });
  });

  test("skipUnchanged: true skips no replay, and no event without a record", async () => {
    const { seen, store, ids, deliver } = await play(["Confirmed"], { skipUnchanged: true });
    await store.replay({ eventId: ids[0] as string });
    await advance();
    expect(seen.length).toBe(2);
    const unknown = vi.fn();
    const other = handlerOf({ skipUnchanged: true, on: { unknown } });
    await other.deliver(notificationOf());
    await other.deliver(notificationOf());
    await advance();
    expect(unknown).toHaveBeenCalledTimes(2);
    expect(deliver).toBeDefined();
  });

  test("is not the status that a failed callback got", async () => {
    const failing = vi.fn().mockRejectedValueOnce(new Error("no"));
    const { deliver, platform } = handlerOf({ on: { fallback: failing }, backoff: () => 1000 });
    platform.booking("A1", "Confirmed");
    await deliver(notificationOf({ bookingCode: "A1" }));
    await advance(1000);
    expect(failing.mock.calls.map(([event]) => [event.previous?.status, event.attempt])).toEqual([
      [undefined, 1],
      [undefined, 2],
    ]);
  });

  test("each attempt fetches the record again", async () => {
    const seen: string[] = [];
    const { deliver, platform } = handlerOf({
      backoff: () => 1000,
      on: {
        fallback: (event) => {
          seen.push(event.type);
          if (seen.length === 1) throw new Error("no");
        },
      },
    });
    platform.booking("A1", "Request");
    await deliver(notificationOf({ bookingCode: "A1" }));
    await advance();
    platform.booking("A1", "Cancelled");
    await advance(1000);
    expect(seen).toEqual(["booking.Request", "booking.Cancelled"]);
  });
});

describe("atomically", () => {
  /** Makes a store that can end events in transactions, as a database can. */
  function transactionalStore() {
    const memory = memoryStore();
    const table: string[] = [];
    const store: EventStore<string[]> = new Proxy(memory as unknown as EventStore<string[]>, {
      get: (target, property: keyof EventStore) => {
        if (property === "transactional") return true;
        if (property === "settle") {
          return async (claim: never, outcome: Outcome<string[]>) => {
            const transaction: string[] = [];
            if (outcome.state === "done") for (const write of outcome.writes ?? []) await write(transaction);
            const settled = await memory.settle(claim, { ...outcome, writes: undefined } as Outcome);
            if (settled) table.push(...transaction);
            return settled;
          };
        }
        const value = target[property];
        return typeof value === "function" ? (value as () => unknown).bind(target) : value;
      },
    });
    return { store, table };
  }

  test("throws on a store without transactions, and says which stores have them", async () => {
    const callback = vi.fn();
    const { deliver } = handlerOf({ on: { unknown: callback } });
    await deliver(notificationOf());
    await advance();
    const { atomically } = callback.mock.calls[0]?.[0] ?? {};
    expect(() => atomically(() => {})).toThrow(/^event\.atomically\(\) needs a store with transactions/);
  });

  test("passes the writes to the store in order, when the callback has returned", async () => {
    const { store, table } = transactionalStore();
    const atReturn: number[] = [];
    const { deliver } = handlerOf({
      store: store as never,
      on: {
        unknown: async (event) => {
          const { atomically } = event as unknown as { atomically: (write: (tx: string[]) => void) => void };
          atomically((tx) => void tx.push("one"));
          atomically((tx) => void tx.push("two"));
          await Promise.resolve();
          atReturn.push(table.length);
        },
      },
    });
    await deliver(notificationOf());
    await advance();
    expect(atReturn).toEqual([0]);
    expect(table).toEqual(["one", "two"]);
  });

  test("writes nothing if the callback throws", async () => {
    const { store, table } = transactionalStore();
    const { deliver } = handlerOf({
      store: store as never,
      on: {
        unknown: (event) => {
          const { atomically } = event as unknown as { atomically: (write: (tx: string[]) => void) => void };
          atomically((tx) => void tx.push("one"));
          throw new Error("no");
        },
      },
    });
    await deliver(notificationOf());
    await advance();
    expect(table).toEqual([]);
  });

  test("throws after the callback has returned, and without a function", async () => {
    const { store } = transactionalStore();
    let atomically: ((write: unknown) => void) | undefined;
    const { deliver } = handlerOf({
      store: store as never,
      on: {
        unknown: (event) => {
          atomically = (event as unknown as { atomically: (write: unknown) => void }).atomically;
          expect(() => atomically?.("text")).toThrow(TypeError);
        },
      },
    });
    const notification = notificationOf();
    await deliver(notification);
    await advance();
    expect((await store.get(notification.eventId))?.state).toBe("done");
    expect(() => atomically?.(() => {})).toThrow(StayhookError);
  });
});
