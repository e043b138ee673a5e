import { memoryStore, StayhookError, type WebhookEvent } from "stayhook";
import { describe, expect, test, vi } from "vitest";
import { type Called, houseOf } from "../../stays/house.ts";
import { advance, delivered, handlerOf, notificationOf, useFakeTime } from "../support.ts";

useFakeTime();

/** Handles a notification of booking A1 and one of listing 77, which have this status. */
async function withStatus(status: string, on: Parameters<typeof handlerOf>[0] = {}) {
  const handler = handlerOf(on);
  handler.platform.booking("A1", status, { checkIn: "2026-07-01", further: { kept: true } });
  handler.platform.listing(77, status, { listingName: "By the sea" });
  const booking = notificationOf({ bookingCode: "A1" });
  await handler.deliver(booking);
  await handler.notify(77);
  return { ...handler, booking };
}

describe("the callback for a status", () => {
  test.each(["Initiated", "Request", "Confirmed", "Declined", "Cancelled"])("booking.%s", async (status) => {
    const callback = vi.fn();
    const { booking } = await withStatus(status, { on: { [`booking.${status}`]: callback } });
    expect(callback).toHaveBeenCalledTimes(1);
    const event = callback.mock.calls[0]?.[0];
    expect(event).toMatchObject({
      type: `booking.${status}`,
      status,
      booking: { bookingCode: "A1", status, checkIn: "2026-07-01", further: { kept: true } },
      eventId: booking.eventId,
      timestamp: new Date("2026-05-01T12:00:00Z"),
      receivedAt: expect.any(Date),
      notification: booking,
      changed: true,
      attempt: 1,
      source: "webhook",
      signal: expect.any(AbortSignal),
    });
    // The endpoint has no topic.
    expect(event).not.toHaveProperty("topic");
  });

  test.each(["InReview", "Published", "Hidden"])("listing.%s", async (status) => {
    const callback = vi.fn();
    await withStatus(status, { on: { [`listing.${status}`]: callback } });
    expect(callback).toHaveBeenCalledTimes(1);
    const event = callback.mock.calls[0]?.[0];
    const listing = { listingId: 77, listingName: "By the sea", status };
    expect(event).toMatchObject({ type: `listing.${status}`, status, listing, changed: true });
    expect(event).not.toHaveProperty("booking");
  });

  test.each(["Confirmed!", "Cancellled", "Pending", "Draft"])(
    "that is unknown (%s) is one warning",
    async (status) => {
      const { logger, notify } = await withStatus(status, { on: { "booking.Confirmed": () => {} } });
      await notify("A1");
      const told = (kind: string) =>
        `stayhook: the platform sent the status \`${status}\`, which this version does not know. No callback handles it. Add ${kind}.unknown, or ${kind} for all events of a ${kind}`;
      expect(logger.lines).toEqual([told("booking"), told("listing")]);
    },
  );

  test.each(["Paused", "constructor", "__proto__", "toString", "unknown", "fallback", ""])(
    "that is not listed (%j) is unknown, and one warning if a callback handles it",
    async (status) => {
      const [unknown, fallback] = [vi.fn(), vi.fn()];
      const { logger } = await withStatus(status, { on: { "booking.unknown": unknown, fallback } });
      expect(unknown.mock.calls[0]?.[0]).toMatchObject({ type: "booking.unknown", status });
      expect(fallback.mock.calls[0]?.[0]).toMatchObject({ type: "listing.unknown", status });
      expect(logger.lines).toEqual([
        expect.stringContaining("It neither begins nor ends a stay. If you know what it means, say so in"),
        expect.stringContaining(
          "does not know. If you know what it means, say so in the callback listing.unknown",
        ),
      ]);
    },
  );

  test("that is unknown is one warning if `booking` or `listing` handles it", async () => {
    const [booking, listing] = [vi.fn(), vi.fn()];
    const { logger } = await withStatus("Paused", { on: { booking, listing } });
    expect([booking, listing].map(({ mock }) => mock.calls.length)).toEqual([1, 1]);
    expect(logger.lines).toHaveLength(2);
  });

  test("gets the time of the recording and the number of the attempt, without the outages before", async () => {
    const callback = vi.fn().mockRejectedValueOnce(new Error("no"));
    const { platform, notify } = handlerOf({ on: { fallback: callback } });
    const recordedAt = new Date();
    platform.answer("A1", { status: 503 });
    await notify("A1");
    platform.booking("A1", "Confirmed");
    await advance(30_000);
    const events = callback.mock.calls.map(([event]) => event as WebhookEvent);
    expect(events.map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(events.map(({ receivedAt }) => receivedAt)).toEqual([recordedAt, recordedAt]);
  });

  test("an event without a reference has the type unknown, and nothing is fetched", async () => {
    const unknown = vi.fn();
    const { platform } = await delivered({}, { on: { unknown } });
    expect(unknown.mock.calls[0]?.[0]).toMatchObject({ type: "unknown", eventId: expect.any(String) });
    expect(platform.reads).toEqual([]);
  });

  test("goes before fallback. Without both, the event is done and its snapshot is kept", async () => {
    const [own, fallback] = [vi.fn(), vi.fn()];
    await delivered({ bookingCode: "A1" }, { on: { "booking.Confirmed": own, fallback } });
    expect([own.mock.calls.length, fallback.mock.calls.length]).toEqual([1, 0]);
    const { event, store } = await delivered({ bookingCode: "A1" });
    expect(await event()).toMatchObject({ state: "done", type: "booking.Confirmed" });
    const snapshot = { status: "Confirmed" };
    expect(await store.snapshotOf("booking:A1")).toMatchObject({ snapshot, sequence: 1 });
  });

  test("that is inherited does not run", async () => {
    const inherited = vi.fn();
    await delivered({}, { on: Object.create({ unknown: inherited, fallback: inherited }) });
    expect(inherited).not.toHaveBeenCalled();
  });
});

test("a replay runs the callback again, of an unchanged record and of none", async () => {
  const fallback = vi.fn();
  for (const fields of [{ bookingCode: "A1" }, {}]) {
    const { store, notification } = await delivered(fields, { on: { fallback } });
    await store.replay({ eventId: notification.eventId });
    await advance();
  }
  expect(fallback).toHaveBeenCalledTimes(4);
});

test("each attempt reads the record again, and a failed callback leaves no previous status", async () => {
  const failing = vi.fn().mockRejectedValueOnce(new Error("no"));
  const options = { on: { fallback: failing }, backoff: () => 1000 };
  const { platform } = await delivered({ bookingCode: "A1" }, options);
  platform.booking("A1", "Cancelled");
  await advance(1000);
  expect(failing.mock.calls.map(([{ type, previous, attempt }]) => [type, previous, attempt])).toEqual([
    ["booking.Confirmed", undefined, 1],
    ["booking.Cancelled", undefined, 2],
  ]);
});

describe("atomically", () => {
  type Atomic = { atomically: (write: (tx: string[]) => unknown) => void };

  /** Handles a notification on a store that can end events in transactions, as a database can. */
  async function inTransaction(callback: (event: Atomic, table: readonly string[]) => unknown) {
    const table: string[] = [];
    const store = memoryStore<string[]>({
      transaction: async (run) => {
        const transaction: string[] = [];
        await run(transaction);
        table.push(...transaction);
      },
    });
    const unknown = (event: unknown) => callback(event as Atomic, table);
    return { ...(await delivered({}, { store: store as never, on: { unknown } })), table };
  }

  test("throws on a store without transactions, and says which stores have them", async () => {
    const unknown = vi.fn();
    await delivered({}, { on: { unknown } });
    const { atomically } = unknown.mock.calls[0]?.[0] ?? {};
    expect(() => atomically(() => {})).toThrow(/^event\.atomically\(\) needs a store with transactions/);
  });

  test("passes the writes to the store in order, when the callback has returned", async () => {
    const atReturn: number[] = [];
    const { table } = await inTransaction(async ({ atomically }, written) => {
      for (const word of ["one", "two"]) atomically((tx) => tx.push(word));
      await Promise.resolve();
      atReturn.push(written.length);
    });
    expect([atReturn, table]).toEqual([[0], ["one", "two"]]);
  });

  test("writes nothing if the callback throws", async () => {
    const { table } = await inTransaction(({ atomically }) => {
      atomically((tx) => tx.push("one"));
      throw new Error("no");
    });
    expect(table).toEqual([]);
  });

  test("throws after the callback has returned, and without a function", async () => {
    let late: Atomic["atomically"] | undefined;
    const { event } = await inTransaction(({ atomically }) => {
      late = atomically;
      expect(() => atomically("text" as never)).toThrow(TypeError);
    });
    expect((await event())?.state).toBe("done");
    expect(() => late?.(() => {})).toThrow(StayhookError);
  });

  test("throws after the function of a thing has returned", async () => {
    const writes: Atomic["atomically"][] = [];
    const store = memoryStore<string[]>({ transaction: async (run) => void (await run([])) });
    const act = ({ thing }: Called) => void writes.push(thing.atomically as Atomic["atomically"]);
    const house = houseOf({ store: store as never, act });
    await house.book(7, "2030-05-10", "2030-05-13");
    expect(house.took()).toContain("nights begin 7 10-13");
    for (const atomically of writes) expect(() => atomically(() => {})).toThrow(StayhookError);
    expect(writes.length).toBeGreaterThan(0);
  });
});
