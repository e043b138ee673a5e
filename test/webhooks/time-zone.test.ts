// The handler's option `timeZone`: the days of a platform that sends times in place of dates.
import { type BookingEvent, createWebhookHandler, memoryStore, stay, type WebhookCallbacks } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { shared } from "../../src/copies.ts";
import { clientOf, handlerOf, platformOf, useFakeTime } from "./support.ts";

useFakeTime();

const PARIS = "Europe/Paris";
const times = { checkIn: "2026-12-09T23:00:00Z", checkOut: "2026-12-12T23:00:00Z", listingId: 7 };
const days = { checkIn: "2026-12-10", checkOut: "2026-12-13", nights: 3 };

/** Handles the states of booking A1, and returns what each callback saw. */
async function seenOf(
  states: readonly object[],
  options: Parameters<typeof handlerOf>[0] = {},
): Promise<{ seen: unknown[][]; handler: ReturnType<typeof handlerOf>; warnings: () => string[] }> {
  const seen: unknown[][] = [];
  const on: WebhookCallbacks = {
    booking: (event: BookingEvent) => {
      const { from, to } = event.stayChange;
      const { bookingCode: _, listingId: __, ...days } = event.stay!;
      seen.push([days, from?.checkIn, to?.checkIn, event.previous?.checkIn, event.changed]);
    },
  };
  const handler = handlerOf({ on, recheckAfter: false, maxAttempts: 1, ...options });
  for (const state of states) await handler.tell("A1", "Confirmed", state);
  return { seen, handler, warnings: () => handler.logger.lines.filter((line) => line.includes("timeZone")) };
}

test.each([
  ["text with an offset", times],
  ["another offset", { ...times, checkIn: "2026-12-10T08:00:00+09:00" }],
  [
    "seconds",
    { ...times, checkIn: Date.parse(times.checkIn) / 1000, checkOut: Date.parse(times.checkOut) / 1000 },
  ],
  ["ms", { ...times, checkIn: Date.parse(times.checkIn), checkOut: String(Date.parse(times.checkOut)) }],
  ["dates", { ...times, checkIn: "2026-12-10", checkOut: "2026-12-13" }],
])("with a zone, all days are those of that zone: %s", async (_, sent) => {
  // biome-ignore lint/suspicious/noThenProperty: a query of an ORM, which runs when something awaits it.
  const lazily = { then: (resolve: (zone: string) => void) => resolve(PARIS) };
  for (const timeZone of [PARIS, () => PARIS, async () => PARIS, () => lazily as never]) {
    const { seen, handler, warnings } = await seenOf([sent, sent, { ...sent, listingId: 8 }], { timeZone });
    expect(seen).toEqual([
      [days, undefined, "2026-12-10", undefined, true],
      [days, "2026-12-10", "2026-12-10", "2026-12-10", false],
      [days, "2026-12-10", "2026-12-10", "2026-12-10", true],
    ]);
    const reconciler = createReconciler(handler.webhooks);
    expect(await reconciler.run()).toMatchObject({ checked: 1, changed: 0 });
    handler.platform.booking("A1", "Confirmed", { ...sent, checkOut: "2026-12-20", listingId: 8 });
    expect(await reconciler.run()).toMatchObject({ changed: 1 });
    await reconciler.close();
    expect(warnings()).toEqual([]);
  }
});

test("the function gets the booking, and `track` its zone and the stay in it", async () => {
  const tracked: unknown[] = [];
  const zones = new Map([[7, "Asia/Tokyo"]]);
  await seenOf([times, { ...times, listingId: 8 }, { ...times, checkIn: "soon", listingId: 8 }], {
    timeZone: ({ listingId }) => zones.get(listingId as number),
    track: {
      booking: (booking, { timeZone, stay: own, account }) => {
        tracked.push([timeZone, own?.checkIn, account, stay(booking, { timeZone: PARIS }).checkOut]);
        return {};
      },
    },
  });
  expect(tracked).toEqual([
    ["Asia/Tokyo", "2026-12-10", undefined, "2026-12-13"],
    [undefined, "2026-12-09", undefined, "2026-12-13"],
  ]);
});

test.each([
  ["a Date", (text: string) => new Date(text)],
  ["a time as text", (text: string) => `${text.slice(0, 10)}T23:00:00Z`],
])("the value of a model counts if the platform's is no day: %s", async (_, make) => {
  const booking = z
    .object({ bookingCode: z.string(), status: z.string(), checkIn: z.string(), checkOut: z.string() })
    .transform((one) => {
      const iso = (text: string) => `${text.slice(6)}-${text.slice(3, 5)}-${text.slice(0, 2)}T23:00:00Z`;
      return { ...one, checkIn: make(iso(one.checkIn)), checkOut: make(iso(one.checkOut)) };
    });
  const makeClient: typeof clientOf = (platform) =>
    clientOf(platform, { models: { booking: booking as never } });
  const sent = { checkIn: "09/12/2026", checkOut: "12/12/2026", listingId: 7 };
  const { seen, handler } = await seenOf([sent, { ...sent, listingId: 8 }], {
    clientOf: makeClient,
    timeZone: PARIS,
  });
  expect(seen).toEqual([
    [days, undefined, "2026-12-10", undefined, true],
    [days, "2026-12-10", "2026-12-10", "2026-12-10", true],
  ]);
  expect(handler.logger.lines).toEqual([]);
});

test("`track` may keep a `Date` of a model", async () => {
  const booking = z
    .object({ bookingCode: z.string(), status: z.string() })
    .transform((one) => ({ ...one, checkIn: new Date("2026-12-09T23:00:00Z"), at: new Date(0) }));
  const makeClient: typeof clientOf = (platform) =>
    clientOf(platform, { models: { booking: booking as never } });
  const track = { booking: ({ checkIn, at }: never) => ({ checkIn, at }) };
  const options = { clientOf: makeClient, timeZone: PARIS, track: track as never, on: {} };
  const { handler } = await seenOf([times], options);
  const snapshot = await handler.store.snapshotOf("booking:A1");
  expect(snapshot?.snapshot.fields).toMatchObject({ checkIn: "2026-12-10", at: "1970-01-01T00:00:00.000Z" });
});

test("the platform's value counts if both are days", async () => {
  const booking = z
    .object({ bookingCode: z.string(), status: z.string() })
    .transform((one) => ({ ...one, checkIn: "2020-01-01", checkOut: "2020-01-02" }));
  const makeClient: typeof clientOf = (platform) => clientOf(platform, { models: { booking } });
  const { seen } = await seenOf([times], { clientOf: makeClient, timeZone: PARIS });
  expect(seen).toMatchObject([[days, undefined, "2026-12-10", undefined, true]]);
});

describe("without a zone", () => {
  test.each([
    ["text with an offset", times],
    ["seconds", { ...times, checkOut: Date.parse(times.checkOut) / 1000 }],
    ["ms", { ...times, checkIn: Date.parse(times.checkIn) }],
  ])("%s is one warning a process, whatever the number of handlers", async (_, sent) => {
    shared("zoneWarning", () => ({ isTold: false })).isTold = false;
    const all: string[] = [];
    for (const timeZone of [undefined, () => undefined]) {
      const { seen, warnings } = await seenOf([sent, { ...sent, listingId: 8 }], { timeZone });
      expect(seen.map(([, , to]) => to)).toEqual(["2026-12-09", "2026-12-09"]);
      all.push(...warnings());
    }
    expect(all).toEqual([expect.stringContaining("Set the handler's option timeZone")]);
  });

  test.each([
    { checkIn: "2026-12-09", checkOut: "2026/12/12" },
    { checkIn: "2026-12-09T23:00:00", checkOut: 20261212 },
  ])("%j is no warning", async (sent) => {
    expect((await seenOf([{ ...times, ...sent }])).warnings()).toEqual([]);
  });
});

test.each([
  [
    "throws",
    () => {
      throw new Error("no zone");
    },
    "timeZone threw for booking:A1: Error: no zone",
  ],
  ["returns no zone", () => "Europe/Pari", 'timeZone returned "Europe/Pari" for booking:A1, which is not'],
  [
    "rejects",
    async () => {
      throw new Error("no zone");
    },
    "timeZone threw for booking:A1: Error: no zone",
  ],
  ["resolves to null", async () => null, "For booking:A1 it returned null"],
  ["returns null", () => null, "For booking:A1 it returned null"],
])("a function that %s fails the attempt", async (_, timeZone, message) => {
  const { seen, handler } = await seenOf([times], { timeZone: timeZone as never });
  expect(seen).toEqual([]);
  const [event] = await handler.store.list({ state: "parked", limit: 9 });
  expect(event).toMatchObject({ reason: "callback", history: [{ error: expect.stringContaining(message) }] });
});

test.each(["Europe/Pari", "", 7, null])("%j is refused at the start", (timeZone) => {
  const options = { client: clientOf(platformOf()), store: memoryStore(), on: {}, verify: false as const };
  expect(() => createWebhookHandler({ ...options, timeZone: timeZone as never })).toThrow(
    /^timeZone: must be an IANA/,
  );
});
