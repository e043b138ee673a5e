import {
  Booking,
  type BookingEvent,
  type BookingStay,
  type BookingTimerEvent,
  createWebhookHandler,
  localTime,
  memoryStore,
  type StayChange,
  type WebhookCallbacks,
} from "stayhook";
import { createTestEvent } from "stayhook/testing";
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { randomOf } from "../system/random.ts";
import {
  advance,
  clientOf,
  HOUR,
  handlerOf,
  MINUTE,
  notificationOf,
  platformOf,
  useFakeTime,
} from "./support.ts";

useFakeTime();

const nights = { checkIn: "2026-07-01", checkOut: "2026-07-04", listingId: 7 };
const held: BookingStay = { bookingCode: "A1", ...nights, nights: 3 };
type State = { status?: string; checkOut?: string; listingId?: number | string | undefined };

/** Handles each state of booking A1, and returns the `stayChange` of each event. */
async function changesOf(
  states: readonly State[],
  options: Parameters<typeof handlerOf>[0] = {},
  holds?: readonly string[],
): Promise<StayChange[]> {
  const changes: StayChange[] = [];
  const on: WebhookCallbacks = {
    booking: (event: BookingEvent) => void changes.push(event.stayChange),
  };
  const handler = handlerOf({ on, recheckAfter: false, holds, ...options });
  for (const state of states) await handler.tell("A1", "Confirmed", { ...nights, ...state });
  await handler.webhooks.close();
  return changes;
}

describe("stayChange", () => {
  test.each(["Confirmed", [""], [7], null])("the handler refuses %j as `holds`", (holds) => {
    expect(() => handlerOf({ holds: holds as never })).toThrow(/^holds: must be an array of statuses/);
  });

  test("gives no `from` for the first event, and both sides of a move", async () => {
    expect(await changesOf([{}, { listingId: 8 }, { listingId: 8 }])).toEqual([
      { from: undefined, to: held, changed: true },
      { from: held, to: { ...held, listingId: 8 }, changed: true },
      { from: { ...held, listingId: 8 }, to: { ...held, listingId: 8 }, changed: false },
    ]);
  });

  test.each(["Initiated", "Request", "Declined", "Cancelled"])(
    "%s ends a stay, and begins none",
    async (status) => {
      expect(await changesOf([{ status }, {}, { status }])).toEqual([
        { from: undefined, to: undefined, changed: false },
        { from: undefined, to: held, changed: true },
        { from: held, to: undefined, changed: true },
      ]);
    },
  );

  test("a status that this version does not know neither begins nor ends a stay, but may move it", async () => {
    const moved = { ...held, checkOut: "2026-07-05", nights: 4 };
    const states = [
      { status: "CheckedIn" },
      {},
      { status: "CheckedIn" },
      { status: "InHouse", checkOut: "2026-07-05" },
      { status: "Cancelled" },
      { status: "Ended" },
    ];
    expect((await changesOf(states)).map(({ from, to }) => [from, to])).toEqual([
      [undefined, undefined],
      [undefined, held],
      [held, held],
      [held, moved],
      [moved, undefined],
      [undefined, undefined],
    ]);
  });

  test("takes the statuses of `holds`", async () => {
    const states = [{ status: "Request" }, { status: "CheckedIn" }, { status: "Confirmed" }];
    const changes = await changesOf(states, {}, ["Request", "CheckedIn"]);
    expect(changes.map(({ from, to }) => [from, to])).toEqual([
      [undefined, held],
      [held, held],
      [held, undefined],
    ]);
  });

  test("knows the stay whatever `track` returns", async () => {
    const shown: unknown[] = [];
    const on: WebhookCallbacks = {
      booking: (event: BookingEvent) => {
        shown.push({ ...event.previous });
        shown.push({ ...event }.stayChange);
      },
    };
    await changesOf([{}, { status: "Cancelled" }], { on, track: { booking: () => ({ guests: 2 }) } });
    expect(shown.slice(2)).toEqual([
      { status: "Confirmed", guests: 2, ...nights },
      { from: held, to: undefined, changed: true },
    ]);
  });

  test("on a timer, `from` is `to`, and both are undefined for a stay that has ended", async () => {
    const seen: StayChange[] = [];
    const on: WebhookCallbacks = {
      booking: ({ timers }: BookingEvent) => timers.set("door", localTime("2026-07-01", "15:00", "UTC")),
      "booking.timer.door": (event: BookingTimerEvent) => void seen.push(event.stayChange),
    };
    await changesOf([{}], { on });
    expect(seen).toEqual([{ from: held, to: held, changed: false }]);
    await changesOf([{ status: "Cancelled" }], { on });
    expect(seen.slice(1)).toEqual([{ from: undefined, to: undefined, changed: false }]);
  });

  test.each([
    ["in a form of the user's", () => ({ checkIn: "1 July", checkOut: "4 July", listingId: "seven" })],
    ["as numbers", () => ({ checkIn: 1, checkOut: 4, listingId: 0 })],
    ["in part", () => ({ checkOut: null })],
  ])("knows the stay if `track` keeps it %s", async (_, booking) => {
    const states = [{}, { listingId: 8 }, { status: "Cancelled", listingId: 8 }];
    const changes = await changesOf(states, { track: { booking } });
    expect(changes.map(({ from, to }) => [from, to])).toEqual([
      [undefined, held],
      [held, { ...held, listingId: 8 }],
      [{ ...held, listingId: 8 }, undefined],
    ]);
  });

  test.each([
    ["leaves out", z.object({ bookingCode: z.string(), status: z.string() })],
    [
      "converts",
      Booking.transform((booking) => ({
        ...booking,
        checkIn: "on 1 July",
        checkOut: null,
        listingId: "flat",
      })),
    ],
  ])("reads both sides as the platform sent them, if the model %s the stay", async (_, booking) => {
    const client = (platform: Parameters<typeof clientOf>[0]) => clientOf(platform, { models: { booking } });
    const changes = await changesOf([{}, { listingId: "8" }, { status: "Declined" }], { clientOf: client });
    expect(changes.map(({ from, to }) => [from, to])).toEqual([
      [undefined, held],
      [held, { ...held, listingId: 8 }],
      [{ ...held, listingId: 8 }, undefined],
    ]);
  });

  test("reads the stay of the booking that was asked for, if the answer has another one, too", async () => {
    const booking = z.object({ bookingCode: z.string(), status: z.string() });
    const { webhooks, platform, deliver } = handlerOf({
      autoStart: false,
      clientOf: (given) => clientOf(given, { models: { booking } }),
      on: { booking: ({ stay }) => void seen.push(stay) },
    });
    const seen: unknown[] = [];
    const [own, other] = [
      { bookingCode: "A1", status: "Confirmed", listingId: 7, checkIn: "2026-07-01", checkOut: "2026-07-04" },
      { bookingCode: "B2", status: "Confirmed", listingId: 8, checkIn: "2026-08-01", checkOut: "2026-08-04" },
    ];
    platform.answer("A1", { status: 200, body: { data: other, booking: own } });
    platform.answer("B2", { status: 200, body: { data: own, booking: other } });
    for (const bookingCode of ["A1", "B2"]) await deliver(notificationOf({ bookingCode }));
    await webhooks.drain();
    expect(seen).toMatchObject([{ listingId: 7 }, { listingId: 8 }]);
  });

  test("takes the model's value if the platform sends a field by another name", async () => {
    const booking = Booking.transform((one) => ({ ...one, listingId: (one as { flat?: number }).flat }));
    const client = (platform: Parameters<typeof clientOf>[0]) => clientOf(platform, { models: { booking } });
    const states = [{ listingId: undefined, flat: 9 }, { status: "Cancelled" }];
    const changes = await changesOf(states, { clientOf: client });
    expect(changes.map(({ from, to }) => [from, to])).toEqual([
      [undefined, { ...held, listingId: 9 }],
      [{ ...held, listingId: 9 }, undefined],
    ]);
  });

  test.each([
    ["", undefined],
    [" if `holds` names the first", ["Confirmed", "CheckedIn"]],
    [" if `holds` names only the first", ["CheckedIn"]],
    [" if `holds` names the last", ["InHouse"]],
  ])("knows the stay behind a chain of unknown statuses%s", async (_, holds) => {
    const chain = ["CheckedIn", "InHouse", "Late", "CheckedIn", "Late", "Ended", "Cancelled"];
    const states = ["Confirmed", ...chain].map((status) => ({ status }));
    const changes = await changesOf(states, {}, holds);
    // A stay begins with the first status that `holds` names.
    const first = states.findIndex(({ status }) => (holds ?? ["Confirmed"]).includes(status));
    expect(changes.map(({ from, to }) => [from, to])).toEqual(
      states.map(({ status }, index) => [
        index > first ? held : undefined,
        index >= first && status !== "Cancelled" ? held : undefined,
      ]),
    );
  });

  test("a chain of unknown statuses makes no snapshot larger", async () => {
    const store = memoryStore();
    const chain = Array.from({ length: 30 }, (_, index) => ({
      status: `Step${index}${"!".repeat(index * 5)}`,
    }));
    const changes = await changesOf([{}, ...chain, { status: "Cancelled" }], { store });
    expect(changes.at(-1)).toEqual({ from: held, to: undefined, changed: true });
    await changesOf([{}, ...chain], { store });
    expect((await store.snapshotOf("booking:A1"))?.snapshot.known?.length).toBeLessThan(100);
  });

  test("`from` is the stay of the last event that a callback handled, if a status has no callback", async () => {
    const changes: StayChange[] = [];
    const note = (event: BookingEvent) => void changes.push(event.stayChange);
    const on: WebhookCallbacks = { "booking.Confirmed": note, "booking.Cancelled": note };
    await changesOf([{}, { status: "Declined" }, { status: "Late" }, { listingId: 8 }], { on });
    expect(changes.slice(1)).toEqual([{ from: held, to: { ...held, listingId: 8 }, changed: true }]);
  });

  test("an attempt that failed does not count: the next one gets the same `from`", async () => {
    const seen: unknown[] = [];
    const on: WebhookCallbacks = {
      booking: (event: BookingEvent) => {
        const { from, to } = event.stayChange;
        seen.push([from?.listingId, to?.listingId]);
        if (seen.length === 2 || seen.length === 3) throw new Error("the door does not answer");
      },
    };
    const handler = handlerOf({ on, recheckAfter: false });
    for (const listingId of [7, 8]) await handler.tell("A1", "Confirmed", { ...nights, listingId });
    handler.platform.booking("A1", "Confirmed", { ...nights, listingId: 9 });
    await advance(10 * MINUTE);
    expect(seen).toEqual([
      [undefined, 7],
      [7, 8],
      [7, 9],
      [7, 9],
    ]);
  });

  test("as long as no callback has handled an event, the last one counts", async () => {
    const changes: StayChange[] = [];
    const on: WebhookCallbacks = { "booking.Cancelled": (event) => void changes.push(event.stayChange) };
    const states = ["Initiated", "Confirmed", "CheckedIn", "InHouse", "Cancelled", "Cancelled"];
    await changesOf(
      states.map((status) => ({ status })),
      { on },
    );
    expect(changes).toEqual([
      { from: held, to: undefined, changed: true },
      { from: undefined, to: undefined, changed: false },
    ]);
  });

  describe.each(["Ended", "Cancelled by host", "Expired"])(
    "the unknown status %s, with a timer set,",
    (status) => {
      /** Returns which callbacks ran, and the listings of `from` and `to` for each. */
      async function playWith(
        on: (note: (event: BookingEvent | BookingTimerEvent) => void) => WebhookCallbacks,
      ) {
        const ran: unknown[] = [];
        const note = (event: BookingEvent | BookingTimerEvent) => {
          const { from, to } = event.stayChange;
          ran.push([event.type, event.status, from?.listingId, to?.listingId]);
        };
        const handler = handlerOf({ on: on(note), recheckAfter: false });
        const tell = async (next: string) => {
          await handler.tell("A1", next, nights);
        };
        await tell("Confirmed");
        await handler.webhooks.timers("booking:A1").set("door", new Date(Date.now() + HOUR));
        await tell(status);
        await advance(2 * HOUR);
        await tell("Cancelled");
        const warnings = handler.logger.lines.filter((line) => line.includes(`\`${status}\``));
        await handler.webhooks.close();
        return { ran: ran.slice(1), warnings: warnings.length };
      }
      const timerRan = ["booking.timer.door", status, 7, 7];

      test("without a callback: one warning, the timer fires, and the stay holds until a known status", async () => {
        const { ran, warnings } = await playWith((note) => ({
          "booking.Confirmed": note,
          "booking.Cancelled": note,
          "booking.timer.door": note,
        }));
        expect(ran).toEqual([timerRan, ["booking.Cancelled", "Cancelled", 7, undefined]]);
        expect(warnings).toBe(1);
      });

      test("with `booking`: one warning, and the stay holds for it and for the timer", async () => {
        const { ran, warnings } = await playWith((note) => ({ booking: note, "booking.timer.door": note }));
        expect(ran).toEqual([
          ["booking.unknown", status, 7, 7],
          timerRan,
          ["booking.Cancelled", "Cancelled", 7, undefined],
        ]);
        expect(warnings).toBe(1);
      });

      test("with a callback for unknown statuses that clears the timers: none fires", async () => {
        const { ran } = await playWith((note) => ({
          booking: note,
          "booking.unknown": ({ timers }) => timers.clear(),
          "booking.timer.door": note,
        }));
        expect(ran).toEqual([["booking.Cancelled", "Cancelled", 7, undefined]]);
      });

      test("as the first status that is seen: the timer fires, but no stay has begun", async () => {
        const seen: StayChange[] = [];
        const on: WebhookCallbacks = {
          booking: ({ timers }: BookingEvent) => timers.set("door", new Date(0)),
          "booking.timer.door": (event: BookingTimerEvent) => void seen.push(event.stayChange),
        };
        await changesOf([{ status }], { on });
        expect(seen).toEqual([{ from: undefined, to: undefined, changed: false }]);
      });
    },
  );

  test("sends a code again if only the check-out moves after the arrival, once, and with a key of its own", async () => {
    const arrival = new Date(Date.now() + HOUR);
    const sent: string[] = [];
    let fails = 0;
    const send = (stay: BookingStay, key: string) => {
      if (fails-- > 0) throw new Error("the mail server is down");
      sent.push(`${stay.checkOut} ${key.slice(0, 14)}`);
    };
    const on: WebhookCallbacks = {
      booking: (event: BookingEvent) => {
        const { from, to } = event.stayChange;
        if (!to) return event.timers.clear();
        event.timers.set("send-code", arrival);
        if (from && from.checkOut !== to.checkOut && arrival.getTime() <= Date.now()) send(to, event.eventId);
      },
      "booking.timer.send-code": (event: BookingTimerEvent) => {
        const { to } = event.stayChange;
        if (to) send(to, event.eventId);
      },
    };
    const handler = handlerOf({ on, recheckAfter: false });
    let notifications = 0;
    const tell = async (checkOut: string) => {
      handler.platform.booking("A1", "Confirmed", { ...nights, checkOut });
      const eventId = `0000000${notifications++}-0000-4000-8000-000000000000`;
      await handler.notify({ bookingCode: "A1", eventId });
    };
    await tell("2026-07-04");
    await tell("2026-07-05"); // before the arrival, so the timer will send the new date
    await advance(HOUR);
    await tell("2026-07-05");
    fails = 1;
    await tell("2026-07-06");
    await advance(10 * MINUTE);
    await tell("2026-07-06");
    expect(sent).toEqual(["2026-07-05 stayhook:timer", "2026-07-06 00000003-0000-"]);
    await handler.webhooks.close();
  });

  test("throws if a stay holds that cannot be read, and not for one that has ended", () => {
    const event = (status: "Confirmed" | "Cancelled") =>
      createTestEvent(`booking.${status}`, { booking: { checkIn: "soon" } });
    expect(() => event("Confirmed").stayChange).toThrow("checkIn");
    expect(event("Cancelled").stayChange.to).toBeUndefined();
  });

  test("in a test's timer, `from` is `to`, unless the test says otherwise", () => {
    const booking = { bookingCode: "A1", ...nights };
    const fired = createTestEvent("booking.timer.door", { booking });
    expect(fired.stayChange).toEqual({ from: held, to: held, changed: false });
    const ended = createTestEvent("booking.timer.door", { booking, status: "Cancelled" });
    expect(ended.stayChange).toEqual({ from: undefined, to: undefined, changed: false });
    const previous = { status: "Confirmed", listingId: 6 };
    const moved = createTestEvent("booking.timer.door", { booking, previous });
    expect(moved.stayChange).toEqual({ from: { ...held, listingId: 6 }, to: held, changed: true });
  });

  test("takes the fields that a test's `previous` leaves out from the booking", () => {
    const booking = { bookingCode: "A1", ...nights };
    const previous = { status: "Confirmed", checkOut: "2026-07-09" };
    const event = createTestEvent("booking.Confirmed", { booking, previous });
    expect(event.previous).toEqual(previous);
    expect(event.stayChange.from).toEqual({ ...held, checkOut: "2026-07-09", nights: 8 });
  });

  test("reads a test's own `previous`", () => {
    const booking = { bookingCode: "A1", ...nights };
    const previous = { status: "Confirmed", ...nights, listingId: 6 };
    const event = createTestEvent("booking.Cancelled", { booking, previous });
    expect(event.stayChange).toEqual({ from: { ...held, listingId: 6 }, to: undefined, changed: true });
  });

  test("agrees with a model, whatever happens to a booking", async () => {
    const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
    const random = randomOf(seed);
    const pick = <T>(values: readonly T[]): T => values[random.below(values.length)]!;
    for (let round = 0; round < 20; round += 1) {
      const states = Array.from({ length: 8 }, () => ({
        status: pick([
          "Confirmed",
          "Confirmed",
          "Request",
          "Declined",
          "Cancelled",
          "CheckedIn",
          "canceled",
          "CONFIRMED",
        ]),
        listingId: pick([7, 8]),
        checkOut: pick(["2026-07-04", "2026-07-06"]),
      }));
      let side: object | undefined;
      const expected = states.map(({ status, listingId, checkOut }) => {
        const from = side;
        const stays = /^confirmed$/i.test(status) || (status === "CheckedIn" && side !== undefined);
        side = stays
          ? { ...held, listingId, checkOut, nights: checkOut === "2026-07-04" ? 3 : 5 }
          : undefined;
        return [from, side];
      });
      const changes = await changesOf(states);
      expect(
        changes.map(({ from, to }) => [from, to]),
        `seed ${seed}, round ${round}`,
      ).toEqual(expected);
    }
  });
});

describe("on.booking and on.listing", () => {
  test("run for each event of a record without a callback of its own, before `fallback`, and not for timers", async () => {
    const ran: string[] = [];
    const note = (key: string) => (event: { type: string }) => void ran.push(`${key}: ${event.type}`);
    const handler = handlerOf({
      recheckAfter: false,
      on: {
        "booking.Confirmed": ({ type, timers }) => {
          timers.set("door", new Date(0));
          ran.push(`own: ${type}`);
        },
        booking: note("booking"),
        listing: note("listing"),
        fallback: note("fallback"),
      },
    });
    for (const status of ["Confirmed", "Declined", "Ended"]) await handler.tell("A1", status, nights);
    for (const status of ["Hidden", "Sold"]) await handler.tell(7, status);
    await handler.notify({});
    expect(ran).toEqual([
      "own: booking.Confirmed",
      "fallback: booking.timer.door",
      "booking: booking.Declined",
      "booking: booking.unknown",
      "listing: listing.Hidden",
      "listing: listing.unknown",
      "fallback: unknown",
    ]);
  });

  test("a misspelt key gets the nearest one", () => {
    const options = { client: clientOf(platformOf()), store: memoryStore(), verify: false as const };
    const on = { bookings: () => {} } as unknown as WebhookCallbacks;
    expect(() => createWebhookHandler({ ...options, on })).toThrow("did you mean booking?");
  });
});
