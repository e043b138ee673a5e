// An event tells its stay as data: copies of it say the same, wherever the event comes from.
import type { BookingEvent, BookingTimerEvent, StayChange, WebhookCallbacks } from "stayhook";
import { memoryStore, stay } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { advance, clientOf, HOUR, handlerOf, MINUTE, notificationOf, useFakeTime } from "./support.ts";

useFakeTime();

const PARIS = "Europe/Paris";
const times = { checkIn: "2026-12-09T23:00:00Z", checkOut: "2026-12-12T23:00:00Z", listingId: 7 };
const held = { bookingCode: "A1", listingId: 7, checkIn: "2026-12-10", checkOut: "2026-12-13", nights: 3 };
type AnyEvent = BookingEvent | BookingTimerEvent;

/** Makes a handler, and keeps what the events of bookings and their timers tell. */
function watching(options: Parameters<typeof handlerOf>[0] = {}) {
  const events: AnyEvent[] = [];
  const on: WebhookCallbacks = {
    booking: (event: BookingEvent) => void events.push(event),
    "booking.timer.door": (event: BookingTimerEvent) => void events.push(event),
  };
  const handler = handlerOf({ on, recheckAfter: false, timeZone: PARIS, ...options });
  const tell = async (status = "Confirmed", more: object = {}) => {
    handler.platform.booking("A1", status, { ...times, ...more });
    return handler.notify("A1");
  };
  const told = () => events.map(({ type, stay, stayChange, timeZone }) => [type, stay, stayChange, timeZone]);
  return { ...handler, events, tell, told };
}

const data = ({ signal: _, atomically: __, timers: ___, ...rest }: AnyEvent & { atomically?: unknown }) =>
  rest;

test.each<[string, (value: object) => object]>([
  ["a spread", (value) => ({ ...value })],
  ["structuredClone", (value) => structuredClone(value)],
  ["JSON", (value) => JSON.parse(JSON.stringify(value))],
])("%s of an event's data, and of a booking, says the same", async (_, copy) => {
  const { events, tell } = watching();
  await tell();
  await tell("Confirmed", { listingId: 8 });
  for (const event of events) {
    const copied = copy(data(event)) as AnyEvent;
    expect(copied.stay).toEqual(event.stay);
    expect(copied.stayChange).toEqual(event.stayChange);
    expect([copied.timeZone, copied.changes, copied.previous]).toEqual([
      PARIS,
      event.changes,
      event.previous,
    ]);
    const booking = copy(event.booking);
    expect(() => stay(booking)).toThrow(/event\.stay/);
    expect(() => stay(event.booking)).toThrow(/event\.stay/);
    expect(stay(booking, { timeZone: PARIS })).toEqual(stay(event.booking, { timeZone: PARIS }));
  }
  expect(events.map(({ stayChange }) => stayChange)).toEqual([
    { from: undefined, to: held, changed: true },
    { from: held, to: { ...held, listingId: 8 }, changed: true },
  ]);
});

test("nothing is hidden in an event: all its properties are enumerable, and have names", async () => {
  const { events, tell } = watching();
  await tell();
  await tell("Cancelled");
  for (const each of [events[1]!, events[1]!.booking, events[1]!.previous!, events[1]!.stayChange])
    expect(Reflect.ownKeys(each)).toEqual(Object.keys(each));
});

test("`stay` is the stay whether it holds or not, and `timeZone` what the option gave", async () => {
  const { tell, told } = watching({
    timeZone: async ({ listingId }) => (listingId === 7 ? PARIS : undefined),
  });
  await tell("Request");
  await tell("Declined", { listingId: 8 });
  await tell("Declined", { checkIn: "soon" });
  const none = { from: undefined, to: undefined, changed: false };
  const written = { ...held, listingId: 8, checkIn: "2026-12-09", checkOut: "2026-12-12" };
  expect(told()).toEqual([
    ["booking.Request", held, none, PARIS],
    ["booking.Declined", written, none, undefined],
    ["booking.Declined", undefined, none, PARIS],
  ]);
});

describe("the events of a known booking", () => {
  const same: StayChange = { from: held, to: held, changed: false };

  test("of a timer, a replay and an `again` run tell the same stay", async () => {
    const { webhooks, store, tell, told } = watching();
    const eventId = await tell();
    await webhooks.timers("booking:A1").set("door", new Date(Date.now() + HOUR));
    await advance(2 * HOUR);
    await store.replay({ eventId });
    await advance(MINUTE);
    const reconciler = createReconciler(webhooks);
    await reconciler.run({ again: true });
    await reconciler.close();
    await advance(MINUTE);
    expect(told().slice(1)).toEqual([
      ["booking.timer.door", held, same, PARIS],
      ["booking.Confirmed", held, same, PARIS],
      ["booking.Confirmed", held, same, PARIS],
    ]);
  });

  test.each<[string, Parameters<typeof handlerOf>[0], string | undefined]>([
    ["a name", { timeZone: PARIS }, PARIS],
    ["a function", { timeZone: ({ listingId }) => (listingId === 7 ? PARIS : undefined) }, PARIS],
    [
      "a function that needs fields of a model",
      { timeZone: (one) => (one as unknown as { house: { zone: string } }).house.zone },
      undefined,
    ],
  ])("of a gone booking tell no stay, and the zone that %s gives", async (_, options, zone) => {
    const { platform, deliver, webhooks, told, tell, logger } = watching(options);
    platform.booking("B1", "Confirmed", { ...times, house: { zone: PARIS } });
    await deliver(notificationOf({ bookingCode: "B1" }));
    await tell("Confirmed", { house: { zone: PARIS } });
    await webhooks.timers("booking:A1").set("door", new Date(Date.now() + 2 * HOUR));
    platform.answer("A1", { status: 404 });
    await deliver(notificationOf({ bookingCode: "A1" }));
    await advance(3 * HOUR);
    expect(told().slice(2)).toEqual([
      ["booking.gone", undefined, { from: held, to: undefined, changed: true }, zone],
      ["booking.timer.door", undefined, { from: undefined, to: undefined, changed: false }, zone],
    ]);
    const warned = logger.lines.filter((line) => line.includes("the gone booking:A1 has no timeZone"));
    expect(warned.length > 0).toBe(zone === undefined);
  });
});

test("`process` tells the stay, of a notification and of an event that crossed JSON", async () => {
  const { webhooks, platform, told } = watching({ store: memoryStore() });
  platform.booking("A1", "Confirmed", times);
  const notification = notificationOf({ bookingCode: "A1" });
  await webhooks.process(notification);
  await webhooks.process(JSON.stringify(notification));
  const begins = ["booking.Confirmed", held, { from: undefined, to: held, changed: true }, PARIS];
  expect(told()).toEqual([begins, begins]);
});

test("an event without a stay has these fields only if it is of a booking", async () => {
  const keys: string[][] = [];
  const on: WebhookCallbacks = { fallback: (event) => void keys.push(Object.keys(event)) };
  const { platform, deliver, notify } = watching({ on });
  platform.listing(7, "Published");
  await deliver(notificationOf({ listingId: 7 }));
  await notify({});
  expect(keys).toHaveLength(2);
  for (const each of keys) expect(each).not.toContain("stayChange");
});

describe("a first stay that cannot be read", () => {
  test.each<[string, (event: BookingEvent) => unknown]>([
    ["stayChange", (event) => event.stayChange],
    ["a spread", (event) => ({ ...event })],
    ["JSON", (event) => JSON.stringify(data(event))],
    ["destructuring", ({ stayChange }) => stayChange],
  ])("throws for %s, so that the event is tried again and seen", async (_, read) => {
    const done: unknown[] = [];
    const on: WebhookCallbacks = {
      booking: (event: BookingEvent) => {
        read(event);
        done.push(event.attempt);
      },
    };
    const { tell, store, platform } = watching({ on });
    const eventId = await tell("Confirmed", { checkIn: null });
    expect(await store.get(eventId)).toMatchObject({
      state: "retrying",
      reason: "callback",
      history: [{ error: expect.stringContaining("checkIn: is absent") }],
    });
    platform.booking("A1", "Confirmed", times);
    await advance(MINUTE);
    expect([(await store.get(eventId))?.state, done]).toEqual(["done", [2]]);
  });

  test("does not throw for a callback that does not need it, nor for a status that holds none", async () => {
    const { tell, events, store } = watching({
      on: { booking: ({ stay }: BookingEvent) => void seen.push(stay) },
    });
    const seen: unknown[] = [];
    for (const status of ["Confirmed", "Cancelled"]) await tell(status, { listingId: "flat" });
    expect([seen, events]).toEqual([[undefined, undefined], []]);
    expect(await store.list({ state: "retrying", limit: 9 })).toEqual([]);
  });
});

test("a zone that changes the days between two events is a change, once", async () => {
  let zone = "Asia/Tokyo";
  const { webhooks, tell, events } = watching({ timeZone: () => zone });
  await tell("Confirmed", { checkIn: "2026-12-09T14:00:00Z" });
  zone = "Pacific/Auckland";
  const reconciler = createReconciler(webhooks);
  expect(await reconciler.run()).toMatchObject({ changed: 1 });
  await advance(MINUTE);
  expect(await reconciler.run()).toMatchObject({ changed: 0 });
  await reconciler.close();
  await tell("Confirmed", { checkIn: "2026-12-09T14:00:00Z" });
  expect(events.map(({ changes }) => changes.checkIn?.to)).toEqual(["2026-12-09", "2026-12-10", undefined]);
  expect(events[1]?.stayChange).toMatchObject({
    from: { checkIn: "2026-12-09" },
    to: { checkIn: "2026-12-10" },
  });
});

describe("a promise of a zone that never settles", () => {
  test("fails the attempt as a callback does", async () => {
    let asked = 0;
    const never = new Promise<string>(() => {});
    const { tell, store, kinds } = watching({
      timeZone: () => (++asked === 1 ? PARIS : never),
      attemptTimeout: "20s",
      maxAttempts: 1,
    });
    await tell();
    const eventId = await tell();
    await advance(30_000);
    expect(await store.get(eventId)).toMatchObject({ state: "parked", reason: "callback" });
    expect(kinds()).not.toContain("paused");
  });

  test("fails the record in a pass, which goes on; and `close` ends the pass at once", async () => {
    let isStuck = false;
    const { webhooks, tell, platform, notify } = watching({
      timeZone: ({ bookingCode }) => (isStuck && bookingCode === "A1" ? new Promise(() => {}) : PARIS),
      attemptTimeout: "20s",
    });
    await tell();
    platform.booking("B1", "Confirmed", times);
    await notify("B1");
    isStuck = true;
    const reconciler = createReconciler(webhooks);
    // A pass that hangs must fail the test, and not hang it.
    let report: unknown;
    void reconciler.run().then((ended) => {
      report = ended;
    });
    await advance(21_000);
    expect(report).toMatchObject({ checked: 1, failed: 2 });
    const second = reconciler.run();
    await advance(1000);
    await reconciler.close();
    expect(await second.catch((error) => String(error))).toBeDefined();
  });
});

test("the zone is asked for once for each answer of the platform, which may serve several events", async () => {
  let asked = 0;
  const timeZone = async () => {
    asked += 1;
    return PARIS;
  };
  const { platform, deliver, webhooks, told } = watching({ timeZone, autoStart: false });
  platform.booking("A1", "Confirmed", times);
  for (const _ of [1, 2, 3]) await deliver(notificationOf({ bookingCode: "A1" }));
  await advance(1);
  await webhooks.drain();
  expect([platform.reads.length, asked, told().length]).toEqual([1, 1, 3]);
  expect(told()[2]).toEqual(["booking.Confirmed", held, { from: held, to: held, changed: false }, PARIS]);
});

describe("`holds`", () => {
  test("is Confirmed and InHouse by default, in any case", async () => {
    const { tell, events } = watching();
    for (const status of ["inhouse", "CheckedOut", "Cancelled", "InHouse", "CONFIRMED"]) await tell(status);
    expect(events.map(({ stayChange }) => stayChange.to?.nights)).toEqual([3, 3, undefined, 3, 3]);
  });

  test("that a deployment changes begins and ends stays, because `from` is what your side did", async () => {
    const store = memoryStore();
    const deploy = async (holds: readonly string[]) => {
      const { tell, events, webhooks } = watching({ store, holds });
      await tell("Request");
      await webhooks.close();
      return events[0]?.stayChange;
    };
    expect(await deploy(["Confirmed"])).toEqual({ from: undefined, to: undefined, changed: false });
    expect(await deploy(["Request", "Confirmed"])).toEqual({ from: undefined, to: held, changed: true });
    expect(await deploy(["Confirmed"])).toEqual({ from: held, to: undefined, changed: true });
  });

  test("never holds a booking that is gone", async () => {
    const { tell, events, platform, deliver } = watching({ holds: ["gone", "Confirmed"] });
    platform.booking("B1", "Confirmed", times);
    await deliver(notificationOf({ bookingCode: "B1" }));
    await tell();
    platform.answer("A1", { status: 404 });
    await deliver(notificationOf({ bookingCode: "A1" }));
    await advance(HOUR);
    expect(events.at(-1)).toMatchObject({ type: "booking.gone", stayChange: { to: undefined } });
  });
});

test("a client whose method is replaced gives what its booking says", async () => {
  const booking = z
    .object({ bookingCode: z.string(), status: z.string() })
    .transform((one) => ({ ...one, ...times }));
  const makeClient: typeof clientOf = (platform) => {
    const client = clientOf(platform, { models: { booking: booking as never } });
    const get = client.bookings.get.bind(client.bookings);
    client.bookings.get = (async (...args: Parameters<typeof get>) => ({ ...(await get(...args)) })) as never;
    return client;
  };
  const { tell, events } = watching({ clientOf: makeClient });
  await tell("Confirmed", { checkIn: "2020-01-01", checkOut: "2020-01-02" });
  expect(events[0]?.stay).toEqual(held);
});
