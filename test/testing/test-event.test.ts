import { describe, expect, it, onTestFinished } from "vitest";
import { memoryCalendar, onConfirmed } from "../../examples/testing/subscriber.ts";
import {
  createWebhookHandler,
  memoryStore,
  StayhookClient,
  stay,
  type WebhookEvent,
  WebhookNotification,
} from "../../src/index.ts";
import { createSandbox, createTestEvent } from "../../src/testing/index.ts";
import type { TestEventType } from "../../src/testing/test-event-types.ts";

const types: readonly TestEventType[] = [
  ...(["Initiated", "Request", "Confirmed", "Declined", "Cancelled", "unknown"] as const).map(
    (status) => `booking.${status}` as const,
  ),
  ...(["InReview", "Published", "Hidden", "unknown"] as const).map((status) => `listing.${status}` as const),
  ...(["message", "unknown"] as const),
];
const make = createTestEvent as (
  type: string,
  fields?: unknown,
) => WebhookEvent & { commit(): Promise<void> };

/** Starts a handler beside a sandbox, without a server. `seen` gets the events of its callbacks. */
function start() {
  const sandbox = createSandbox();
  onTestFinished(() => sandbox.close());
  const { accessToken, fetch } = sandbox;
  const client = new StayhookClient({ baseUrl: "https://any.example", accessToken, fetch });
  const seen: WebhookEvent[] = [];
  const fallback = (event: WebhookEvent) => void seen.push(event);
  const webhooks = createWebhookHandler({
    client,
    store: memoryStore(),
    autoStart: false,
    on: { "booking.timer.door-code": fallback, fallback },
  });
  sandbox.deliverTo(webhooks.fetch);
  return { sandbox, webhooks, seen };
}

describe("createTestEvent", () => {
  it.each(types)("%s: has the fields of the event that a handler passes to a callback", async (type) => {
    const { sandbox, webhooks, seen } = start();
    const [kind, name = ""] = type.split(".");
    const status = name === "unknown" ? "OnHold" : name;
    const bookingCode = kind === "booking" ? (await sandbox.bookings.create({ status })).bookingCode : null;
    const listingId = kind === "listing" ? (await sandbox.listings.create({ status })).listingId : null;
    const timestamp = new Date().toISOString();
    const notification = { eventId: crypto.randomUUID(), timestamp, bookingCode, listingId };
    const topic = type === "message" ? "?topic=messages" : "";
    await sandbox.send(notification, { url: `https://subscriber.example/${topic}` });
    await webhooks.drain();
    const [real] = seen;
    const made = make(type);

    const kinds = (event: object) =>
      Object.fromEntries(
        Object.entries(event).map(([field, value]) => [field, Object.prototype.toString.call(value)]),
      );
    expect(kinds(made)).toEqual(kinds(real as object));
    expect(made.changes && Object.keys(made.changes)).toEqual(real?.changes && Object.keys(real.changes));
    expect(made.type).toBe(real?.type);
    expect(Object.keys(made.notification ?? {})).toEqual(Object.keys(notification));
    expect(WebhookNotification.safeParse(made.notification).success).toBe(true);
    expect(made.status).toBe(real?.status);
    // So that `"booking" in event` tells the events of bookings from all others.
    const records = ["booking", "listing"];
    for (const event of [made, real as object])
      expect(records.filter((key) => key in event)).toEqual(records.filter((each) => each === kind));
    const booking = "booking" in made ? made.booking : undefined;
    const listing = "listing" in made ? made.listing : undefined;
    expect((booking ?? listing)?.status).toBe(made.status);
    if (booking) expect(stay(booking).nights).toBe(3);
    const ids = { bookingCode: booking?.bookingCode ?? null, listingId: listing?.listingId ?? null };
    expect(made.notification).toMatchObject(ids);
  });

  it("is the first attempt of a first webhook event by default", () => {
    const before = Date.now();
    const event = createTestEvent("booking.Request");
    expect(event).toMatchObject({
      previous: undefined,
      changed: true,
      changes: {
        status: { from: undefined, to: "Request" },
        checkIn: { from: undefined, to: event.booking.checkIn },
        checkOut: { from: undefined, to: event.booking.checkOut },
        listingId: { from: undefined, to: event.booking.listingId },
      },
      attempt: 1,
      source: "webhook",
      receivedAt: event.timestamp,
      notification: { eventId: event.eventId, timestamp: event.timestamp.toISOString() },
    });
    expect(event.timestamp.getTime()).toBeGreaterThanOrEqual(before);
    expect(Number(event.decideBy) - event.timestamp.getTime()).toBe(24 * 3_600_000);
    expect(event.signal.aborted).toBe(false);
    expect(event.eventId).not.toBe(createTestEvent("booking.Request").eventId);
    expect("topic" in event).toBe(false);
  });

  it("takes each field", () => {
    const { signal } = new AbortController();
    const fields = {
      eventId: "11111111-2222-4333-8444-555555555555",
      timestamp: new Date("2026-07-01T10:00:00Z"),
      receivedAt: new Date("2026-07-01T10:00:05Z"),
      source: "reconcile",
      topic: "bookings",
      attempt: 4,
      signal,
      changed: true,
      decideBy: new Date("2026-07-03T10:00:00Z"),
    } as const;
    const booking = { bookingCode: "B7", guests: 2 };
    const event = createTestEvent("booking.Request", { ...fields, booking });
    expect(event).toMatchObject(fields);
    expect(event.notification).toBeUndefined();
    const made = { checkIn: "2026-07-15", checkOut: "2026-07-18", listingId: expect.any(Number) };
    expect(event.booking).toEqual({ ...booking, ...made, status: "Request" });
    const notification = { eventId: fields.eventId, timestamp: "2026-07-01T10:00:00Z", more: 1 };
    expect(createTestEvent("unknown", { notification }).notification).toBe(notification);
  });

  it.each([
    ["HX3K9", undefined, "message:HX3K9"],
    [" HX3K9 ", "a17", "a17/message:HX3K9"],
    ["", undefined, null],
    [null, undefined, null],
    [undefined, "a17", null],
  ])(
    "of a message with the booking code %j and the account %s has the ref %s",
    (bookingCode, account, ref) => {
      const notification = { eventId: crypto.randomUUID(), bookingCode };
      expect(createTestEvent("message", { notification, account }).ref).toBe(ref);
      expect(createTestEvent("unknown", { notification, account }).ref).toBeNull();
    },
  );

  it("has the decideBy of the handler: from the receipt, if the timestamp is not plausible", () => {
    const timestamp = new Date("2026-07-01T10:00:00Z");
    const receivedAt = new Date("2026-08-01T10:00:00Z");
    const event = createTestEvent("booking.Request", { timestamp, receivedAt });
    expect(event.decideBy).toEqual(new Date("2026-08-02T10:00:00Z"));
    const of = (source: "reconcile" | "recheck") => createTestEvent("booking.Request", { source });
    expect(of("reconcile")).toMatchObject({ decideBy: expect.any(Date), notification: undefined });
    expect(of("recheck")).toMatchObject({ decideBy: expect.any(Date), notification: undefined });
  });

  it("compares the record with previous", () => {
    const same = { checkIn: "2026-07-01", checkOut: "2026-07-04", listingId: 7 };
    const of = (fields: object) => createTestEvent("booking.Confirmed", { booking: same, ...fields });
    expect(of({ previous: { status: "Request" } })).toMatchObject({
      previous: { ...same, status: "Request" },
      changes: { status: { from: "Request", to: "Confirmed" } },
      changed: true,
    });
    expect(of({ previous: { ...same, status: "Confirmed", checkIn: "2026-06-30" } })).toMatchObject({
      changed: true,
      changes: { checkIn: { from: "2026-06-30", to: "2026-07-01" } },
    });
    expect(of({ previous: { ...same, status: "Confirmed" } })).toMatchObject({ changed: false, changes: {} });
    expect(of({ changed: false })).toMatchObject({ changed: false, changes: {} });
    expect(of({ previous: { status: "Confirmed" } }).changed).toBe(false);
    const paused = { status: "Paused", previous: { status: "Paused" } };
    expect(createTestEvent("listing.unknown", paused).changed).toBe(false);
    const changes = { guests: { from: 1, to: 2 } };
    expect(of({ previous: { status: "Confirmed" }, changes })).toMatchObject({ changed: true, changes });
  });

  it("derives a missing date from the given one, and keeps null", () => {
    const of = (booking: object) => createTestEvent("booking.Confirmed", { booking }).booking;
    const three = { checkIn: "2027-02-27", checkOut: "2027-03-02", nights: 3 };
    expect(stay(of({ checkIn: "2027-02-27" }))).toEqual(three);
    expect(stay(of({ checkOut: "2027-03-02" }))).toEqual(three);
    expect(of({ checkIn: null }).checkIn).toBeNull();
  });

  it.each<[string, unknown, string]>([
    ["booking.Confirmd", {}, "type"],
    ["constructor", {}, "type"],
    ["booking", {}, "type"],
    ["booking.Confirmed", null, "fields"],
    ["booking.Confirmed", { atempt: 2 }, "atempt"],
    ["booking.Confirmed", { decideBy: new Date() }, "decideBy"],
    ["booking.Confirmed", { listing: {} }, "listing"],
    ["booking.Confirmed", { booking: 7 }, "booking"],
    ["booking.Confirmed", { status: "Declined" }, "status"],
    ["booking.Confirmed", { booking: { status: "Declined" } }, "status"],
    ["booking.unknown", { status: "Confirmed" }, "status"],
    ["booking.unknown", { status: "A", booking: { status: "B" } }, "status"],
    ["booking.unknown", { status: 7 }, "status"],
    ["unknown", { status: "Confirmed" }, "status"],
    ["message", { changes: {} }, "changes"],
    ["booking.Confirmed", { timestamp: new Date("no") }, "timestamp"],
    ["booking.Confirmed", { timestamp: "2026-07-01" }, "timestamp"],
  ])("refuses %s with %j", (type, fields, at) => {
    const refused = { name: "InvalidArgumentError", issues: [expect.objectContaining({ path: [at] })] };
    expect(() => make(type, fields)).toThrow(expect.objectContaining(refused));
    if (at === "type")
      expect(() => make(type)).toThrow(/^type: must be one of .*booking\.Confirmed, .*, or booking\.timer/);
  });
});

describe("atomically", () => {
  it("collects writes, and commit runs each once, in order", async () => {
    const event = createTestEvent("booking.Confirmed", { tx: [] as string[] });
    const sold: string[][] = [];
    event.atomically((tx) => sold.push([...tx, "first"]));
    event.atomically(async () => {
      await null;
      sold.push(["second"]);
    });
    event.atomically(() => sold.push(["third"]));
    expect(sold).toEqual([]);
    for (let commits = 0; commits < 2; commits += 1) await event.commit();
    expect(sold).toEqual([["first"], ["second"], ["third"]]);
    event.atomically(() => {
      throw new Error("full");
    });
    event.atomically(() => sold.push(["after"]));
    await expect(event.commit()).rejects.toThrow("full");
    expect(sold).toHaveLength(3);
    expect(() => event.atomically("write" as never)).toThrow(TypeError);
  });

  it("throws without a tx, and can be replaced", () => {
    const event = make("booking.Confirmed") as unknown as { atomically(write: () => void): void };
    expect(() => event.atomically(() => {})).toThrow("Give createTestEvent the field `tx`");
    const writes: unknown[] = [];
    const write = () => {};
    createTestEvent("listing.Hidden", {
      atomically: (given: (tx: string) => unknown) => void writes.push(given),
    }).atomically(write);
    expect(writes).toEqual([write]);
  });
});

describe("the stay of a test event", () => {
  const times = { checkIn: "2026-12-09T23:00:00Z", checkOut: "2026-12-12T23:00:00Z" };

  it("has the days of `timeZone`, as a handler's event has", () => {
    const { stay, stayChange, timeZone } = createTestEvent("booking.Confirmed", {
      booking: { bookingCode: "A1", listingId: 7, ...times },
      timeZone: "Europe/Paris",
    });
    const days = {
      bookingCode: "A1",
      listingId: 7,
      checkIn: "2026-12-10",
      checkOut: "2026-12-13",
      nights: 3,
    };
    expect([stay, stayChange, timeZone]).toEqual([
      days,
      { from: undefined, to: days, changed: true },
      "Europe/Paris",
    ]);
    expect(createTestEvent("booking.Confirmed", { booking: times }).stay?.checkIn).toBe("2026-12-09");
    expect(() => createTestEvent("booking.Confirmed", { timeZone: "Europe/Pari" })).toThrow(/^timeZone: /);
  });

  it("may be given, and is none of a gone booking or a listing", () => {
    const given = { from: undefined, to: undefined, changed: false };
    const event = createTestEvent("booking.Confirmed", { stayChange: given, booking: { checkIn: "soon" } });
    expect([event.stay, event.stayChange]).toEqual([undefined, given]);
    const gone = createTestEvent("booking.gone");
    expect([gone.stay, gone.stayChange.from?.nights, gone.stayChange.to]).toEqual([undefined, 3, undefined]);
    expect(createTestEvent("listing.Published")).not.toHaveProperty("stayChange");
    // @ts-expect-error a listing has no stay
    expect(() => createTestEvent("listing.Published", { stayChange: given })).toThrow(/not a field/);
  });

  it("that cannot be read throws where a spread or JSON reads it", () => {
    const event = createTestEvent("booking.Confirmed", { booking: { checkIn: "soon" } });
    expect(() => ({ ...event })).toThrow(/^checkIn: /);
    expect(() => JSON.stringify(event)).toThrow(/^checkIn: /);
    expect(event.booking.checkIn).toBe("soon");
  });
});

describe("timers", () => {
  it("makes the event of a timer, with the fields of the event that a handler passes to a callback", async () => {
    const at = new Date(Date.now() - 1000);
    const { sandbox, webhooks, seen } = start();
    const { bookingCode } = await sandbox.bookings.create({ status: "Confirmed" });
    const timestamp = new Date().toISOString();
    const notification = { eventId: crypto.randomUUID(), timestamp, bookingCode, listingId: null };
    await sandbox.send(notification, { url: "https://subscriber.example/" });
    await webhooks.drain();
    await webhooks.timers(`booking:${bookingCode}`).set("door-code", at);
    await webhooks.drain();
    const real = seen.at(-1);
    if (real === undefined || !("booking" in real)) throw new Error("the timer's event has no booking");
    expect("listing" in real).toBe(false);
    const { booking, receivedAt } = real;
    const made = make("booking.timer.door-code", { booking, timer: { at }, receivedAt });
    const plain = (event: WebhookEvent) => ({
      ...event,
      ...{ client: 0, signal: 0, atomically: 0, timers: Object.keys(event.timers ?? {}).sort() },
    });
    expect(Object.keys(made).sort()).toEqual(Object.keys(real).sort());
    expect(plain(made)).toEqual(plain(real));
  });

  it("collects the timers that a callback sets and clears", () => {
    const timers = new Map([["old", new Date(0)]]);
    const event = createTestEvent("booking.Confirmed", { timers });
    event.timers.set("door-code", new Date(5));
    event.timers.set("mail", new Date(6));
    event.timers.clear("mail");
    expect([...timers.keys()]).toEqual(["old", "door-code"]);
    expect(timers.get("door-code")).toEqual(new Date(5));
    event.timers.clear();
    expect(timers.size).toBe(0);
    expect(() => event.timers.set("Door", new Date())).toThrow("lower-case letters");
    expect(() => event.timers.set("door", new Date(Number.NaN))).toThrow("valid Date");
  });

  it("has a timer of its own in every event about a record, and none in others", () => {
    expect(() => createTestEvent("listing.Hidden").timers.set("photos", new Date())).not.toThrow();
    expect(make("message").timers).toBeUndefined();
    expect(() => make("message", { timers: new Map() })).toThrow("is not a field of message");
    expect(() => make("booking.Confirmed", { timers: {} })).toThrow("must be a Map");
    expect(() => make("booking.Confirmed", { timer: { at: new Date() } })).toThrow("is not a field");
    expect(() => make("booking.timer.Door")).toThrow("lower-case letters");
    expect(() => make("booking.timer.door", { timer: { at: "15:00" } })).toThrow("must be a valid Date");
    expect(make("listing.timer.photos")).toMatchObject({ status: "Published", source: "timer" });
  });
});

it("plays a zone and times with an offset at the subscriber of docs/testing.md", async () => {
  const { blocked, calendar } = memoryCalendar();
  const times = { checkIn: "2026-12-09T23:00:00Z", checkOut: "2026-12-12T23:00:00Z" };
  const booking = { bookingCode: "HX3K9", listingId: 7, ...times };
  await onConfirmed(calendar)(createTestEvent("booking.Confirmed", { booking, timeZone: "Europe/Paris" }));
  expect([...blocked]).toEqual([["HX3K9", "7: 2026-12-10 to 2026-12-13"]]);
});
