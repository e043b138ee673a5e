import { memoryStore, type WebhookEvent } from "stayhook";
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { readFrom } from "../../../src/webhooks/processing/read-record.ts";
import { canonicalJson, compare } from "../../../src/webhooks/processing/record.ts";
import { lookAt } from "../../../src/webhooks/processing/snapshots.ts";
import { advance, clientOf, handlerOf, notificationOf, useFakeTime } from "../support.ts";

useFakeTime();

const nights = { checkIn: "2026-07-01", checkOut: "2026-07-04", listingId: 7 };

/** Delivers a notification for each state of booking A1. Returns the events that the callback got. */
async function play(states: readonly object[], options: Parameters<typeof handlerOf>[0] = {}) {
  const events: Record<string, unknown>[] = [];
  const handler = handlerOf({
    on: { fallback: (event: WebhookEvent) => void events.push(event as never) },
    recheckAfter: false,
    ...options,
  });
  const ids: string[] = [];
  for (const state of states) ids.push(await handler.tell("A1", "Confirmed", state));
  const record = await handler.store.snapshotOf("booking:A1");
  return { ...handler, events, record, ids };
}

describe("an event tells what changed", () => {
  test("if a booking moves by a day and keeps its status", async () => {
    const { events, record } = await play([nights, { ...nights, checkOut: "2026-07-05" }]);
    expect(events[0]).toMatchObject({
      changed: true,
      changes: {
        status: { from: undefined, to: "Confirmed" },
        checkIn: { from: undefined, to: "2026-07-01" },
        checkOut: { from: undefined, to: "2026-07-04" },
        listingId: { from: undefined, to: 7 },
      },
      previous: undefined,
    });
    expect(events[1]).toMatchObject({
      changed: true,
      previous: { status: "Confirmed", ...nights },
    });
    expect(events[1]?.changes).toEqual({ checkOut: { from: "2026-07-04", to: "2026-07-05" } });
    expect(record).toMatchObject({
      snapshot: { status: "Confirmed", fields: { ...nights, checkOut: "2026-07-05" } },
      sequence: 2,
    });
  });

  test("and nothing if nothing changed, whatever the format of the dates", async () => {
    const { events, record } = await play([
      nights,
      { ...nights, checkIn: "2026-07-01T15:00:00+02:00", listingId: "7", guest: "Ann" },
    ]);
    expect(events[1]).toMatchObject({ changed: false, changes: {} });
    expect(record?.sequence).toBe(1);
    expect(JSON.stringify(record)).not.toContain("Ann");
  });

  describe("if the user's model keeps none of the fields", () => {
    const short = z.object({ bookingCode: z.string(), status: z.string() });
    const shortOf = (platform: Parameters<typeof clientOf>[0]) =>
      clientOf(platform, { models: { booking: short as never } });

    test("because the fields are read as the platform sent them", async () => {
      const { events, record } = await play([nights, { ...nights, checkOut: "2026-07-05", listingId: "7" }], {
        clientOf: shortOf,
      });
      expect(events[0]?.booking).toEqual({ bookingCode: "A1", status: "Confirmed" });
      expect(events[1]?.changes).toEqual({ checkOut: { from: "2026-07-04", to: "2026-07-05" } });
      expect(record?.snapshot.fields).toEqual({ ...nights, checkOut: "2026-07-05" });
    });

    test("also for events that share one read", async () => {
      const events: Record<string, unknown>[] = [];
      const on = { fallback: (event: WebhookEvent) => void events.push(event as never) };
      const { webhooks, platform, deliver, store } = handlerOf({
        on,
        autoStart: false,
        clientOf: shortOf,
      });
      platform.booking("A1", "Confirmed", nights);
      for (const _ of [1, 2, 3]) await deliver(notificationOf({ bookingCode: "A1" }));
      await advance(1);
      await webhooks.drain();
      expect(platform.reads).toHaveLength(1);
      expect(events.map(({ changed }) => changed)).toEqual([true, false, false]);
      expect((await store.snapshotOf("booking:A1"))?.snapshot.fields).toEqual(nights);
    });

    test("and `track` gets the booking of the model", async () => {
      const { record } = await play([nights], {
        clientOf: shortOf,
        track: { booking: (booking) => ({ fields: Object.keys(booking).join() }) },
      });
      expect(record?.snapshot.fields).toEqual({ fields: "bookingCode,status", ...nights });
    });
  });

  test("if the name of a listing changes", async () => {
    const events: unknown[] = [];
    const { tell } = handlerOf({ on: { fallback: (event) => void events.push(event) } });
    for (const listingName of ["By the sea", "By the lake"]) {
      await tell(7, "Published", { listingName });
    }
    expect(events[1]).toMatchObject({ changes: { listingName: { from: "By the sea", to: "By the lake" } } });
  });

  test("a deployment that tracks one more field changes no record", async () => {
    const store = memoryStore();
    const deploy = async (tracked: Record<string, number>) => {
      const { events, webhooks } = await play([nights], { store, track: { booking: () => tracked } });
      await webhooks.close();
      return events[0];
    };
    await deploy({ guests: 2 });
    expect(await deploy({ guests: 2, pets: 1 })).toMatchObject({
      changed: false,
      changes: {},
      previous: { status: "Confirmed", ...nights, guests: 2 },
    });
    expect(await deploy({ guests: 2, pets: 2 })).toMatchObject({ changes: { pets: { from: 1, to: 2 } } });
  });

  test("also in the stay, whatever `track` returns", async () => {
    const track = { booking: () => ({ guests: 2 }) };
    const { events, record } = await play([nights, { ...nights, checkOut: "2026-07-09" }], { track });
    expect(record?.snapshot.fields).toEqual({ guests: 2, ...nights, checkOut: "2026-07-09" });
    expect(record?.sequence).toBe(2);
    expect(events[0]?.changes).toMatchObject({ guests: { from: undefined, to: 2 } });
    expect(events[1]?.changes).toEqual({ checkOut: { from: "2026-07-04", to: "2026-07-09" } });
    expect(events[1]?.previous).toEqual({ status: "Confirmed", guests: 2, ...nights });
  });
});

test("a status in a form of its own is compared in both forms, and `track` may leave it out again", async () => {
  const store = memoryStore();
  const deploy = async (status: string, shown: Record<string, string | undefined>) => {
    const events: Record<string, unknown>[] = [];
    const { webhooks, platform, deliver } = handlerOf({
      ...{ store, autoStart: false, track: { booking: () => shown } },
      on: { booking: (event) => void events.push({ ...event }) },
    });
    platform.booking("A1", status, nights);
    await deliver(notificationOf({ bookingCode: "A1" }));
    await webhooks.drain();
    await webhooks.close();
    const { changes, previous } = events[0] as { changes: object; previous?: { status: string } };
    return [changes, previous?.status];
  };
  await deploy("Confirmed", {});
  expect(await deploy("Confirmed", { status: "held, unpaid" })).toEqual([{}, "Confirmed"]);
  const paid = { status: { from: "held, unpaid", to: "held, paid" } };
  expect(await deploy("Confirmed", { status: "held, paid" })).toEqual([paid, "held, unpaid"]);
  const cancelled = { status: { from: "Confirmed", to: "Cancelled" } };
  expect(await deploy("Cancelled", { status: "held, paid" })).toEqual([cancelled, "held, paid"]);
  expect(await deploy("Cancelled", { status: undefined })).toEqual([{}, "held, paid"]);
  expect(await deploy("Cancelled", {})).toEqual([{}, "Cancelled"]);
});

describe("a track function", () => {
  const failing: [string, () => unknown, RegExp][] = [
    [
      "throws",
      () => {
        throw new Error("no such field");
      },
      /^StayhookError: track\.booking threw for booking:\S+: Error: no such field$/,
    ],
    ["gives NaN", () => ({ price: Number.NaN }), /track\.booking returned NaN for the field "price"/],
    ["gives Infinity", () => ({ price: Number.POSITIVE_INFINITY }), /returned Infinity/],
    ["gives an object", () => ({ guest: {} }), /type object for the field "guest"/],
    ["gives a bigint", () => ({ price: 1n }), /type bigint/],
    ["gives a status that is no text", () => ({ status: 1 }), /type number for the field "status"/],
    ["names a field __proto__", () => JSON.parse('{"__proto__":1}'), /a field named __proto__/],
    ["gives nothing", () => undefined, /must return an object/],
    ["gives a list", () => [1], /must return an object/],
    ["gives a promise", async () => ({}), /must not return a promise/],
    ["gives more than 4 KiB", () => ({ note: "é".repeat(2048) }), /bytes of JSON\. The limit is 4096/],
  ];

  test.each(failing)(
    "that %s fails the attempt as callback, with a message that says so",
    async (_, track, message) => {
      const { store, ids, events } = await play([nights], { track: { booking: track as never } });
      const event = await store.get(ids[0]!);
      expect(event).toMatchObject({ state: "retrying", reason: "callback", attempts: 1 });
      expect(event?.history.at(-1)?.error).toMatch(message);
      expect(events).toEqual([]);
    },
  );

  test("may return 4 KiB, and undefined counts as null", async () => {
    const note = "é".repeat(2000);
    const { record, events } = await play([nights], {
      track: { booking: () => ({ note, none: undefined }) },
    });
    expect(record?.snapshot.fields).toMatchObject({ note, none: null });
    expect(events[0]).toMatchObject({ changes: { none: { from: undefined, to: null } } });
  });
});

describe("the default fields", () => {
  const bookingFields = (booking: object) =>
    lookAt("booking", readFrom("booking", { bookingCode: "A1", status: "Confirmed", ...booking })).base;

  test.each([
    [{}, { checkIn: null, checkOut: null, listingId: null }],
    [
      { checkIn: "20260701", checkOut: 1_783_123_200 },
      { checkIn: "2026-07-01", checkOut: "2026-07-04" },
    ],
    [
      { checkIn: "soon", checkOut: true },
      { checkIn: "soon", checkOut: true },
    ],
    [
      { checkIn: { day: 1 }, checkOut: [1] },
      { checkIn: '{"day":1}', checkOut: "[1]" },
    ],
    [
      { checkIn: Number.NaN, checkOut: () => {} },
      { checkIn: "null", checkOut: null },
    ],
  ])("of %j are %j", (booking, fields) => {
    expect(bookingFields(booking)).toMatchObject(fields);
  });

  test("never fail: they keep 200 characters of the JSON of a large value", () => {
    const long = "😀".repeat(5_000);
    const getter = Object.defineProperty({}, "checkIn", {
      enumerable: true,
      get: () => {
        throw new Error("no");
      },
    });
    expect(bookingFields({ checkIn: long }).checkIn).toBe(`"${"😀".repeat(199)}`);
    expect(bookingFields({ listingId: { a: long } }).listingId).toBe(`{"a":"${"😀".repeat(194)}`);
    const failing = Object.assign(getter, { bookingCode: "A", status: "S" });
    expect(lookAt("booking", readFrom("booking", failing)).base.checkIn).toBeNull();
    const cycle: Record<string, unknown> = {};
    cycle.self = cycle;
    expect(bookingFields({ checkIn: cycle }).checkIn).toBeNull();
    const name = "x".repeat(3_000);
    const listing = { listingId: 7, status: "Published", listingName: name };
    expect(lookAt("listing", readFrom("listing", listing)).base).toEqual({ listingName: name });
  });
});

test("a comparison looks at own fields only, and canonical JSON sorts the keys at each level", () => {
  const seen = { snapshot: { status: "A", fields: { toString: 1 } }, base: {} };
  expect(compare({ status: "A", fields: {} }, seen).changed).toBe(false);
  const one = { status: "A", fields: { b: 1, a: null } };
  const other = { fields: { a: null, b: 1 }, status: "A" };
  expect(canonicalJson(one)).toBe('{"fields":{"a":null,"b":1},"status":"A"}');
  expect(canonicalJson(other)).toBe(canonicalJson(one));
});
