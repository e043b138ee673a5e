import { type BookingEvent, stayChange, type WebhookEvent } from "stayhook";
import { describe, expect, test } from "vitest";
import {
  type Answer,
  advance,
  clientOf,
  HOUR,
  handlerOf,
  MINUTE,
  notificationOf,
  useFakeTime,
} from "../support.ts";

useFakeTime();

const stayed = { listingId: 7, checkIn: "2026-12-09", checkOut: "2026-12-12" };

/** A host whose bookings the handler has read, and what its callbacks were told. */
async function hostWith(count: number, options: Parameters<typeof handlerOf>[0] = {}) {
  const told: WebhookEvent[] = [];
  const on = { fallback: (event: WebhookEvent) => void told.push(event) };
  const handler = handlerOf({ on, recheckAfter: false, ...options });
  const { platform, deliver, store } = handler;
  const codes = Array.from({ length: count }, (_, n) => `A${n + 1}`);
  for (const code of codes) platform.booking(code, "Confirmed", stayed);
  platform.answer("listings", { status: 200, body: [{ listingId: 7, status: "Published" }] });
  const notify = (bookingCode: string) => deliver(notificationOf({ bookingCode }));
  for (const code of codes) await notify(code);
  await advance(1000);
  expect(await store.counts()).toMatchObject({ done: count, retrying: 0 });
  platform.reads.length = 0;
  const gone = () => told.filter(({ type }) => type.endsWith(".gone"));
  return { ...handler, told, gone, codes, notify };
}

const answers: [string, Answer][] = [
  ["404", { status: 404 }],
  ["410", { status: 410 }],
  ["null", { status: 200, body: null }],
  ["{}", { status: 200, body: {} }],
  ["[]", { status: 200, body: [] }],
  ["data: null", { status: 200, body: { data: null } }],
  ["data: []", { status: 200, body: { data: [] } }],
  ["results: []", { status: 200, body: { results: [], total: 0 } }],
];

describe("a booking that was known and is gone", () => {
  test.each(answers)("%s five times runs booking.gone once, until the booking is back", async (_, answer) => {
    const { platform, notify, told, gone, store } = await hostWith(2);
    platform.answer("A1", answer);
    await notify("A1");
    await advance(5000);
    expect(gone()).toEqual([]);
    await advance(HOUR);
    expect(platform.reads.filter((read) => read === "A1")).toHaveLength(5);
    expect(gone()).toMatchObject([
      {
        type: "booking.gone",
        ref: "booking:A1",
        status: "gone",
        booking: { bookingCode: "A1", status: "gone", ...stayed },
        changed: true,
        changes: { status: { from: "Confirmed", to: "gone" } },
        previous: { status: "Confirmed", ...stayed },
        attempt: 5,
      },
    ]);
    const [event] = gone() as [BookingEvent];
    expect(stayChange(event)).toMatchObject({ from: { bookingCode: "A1", listingId: 7 }, to: undefined });

    await notify("A1");
    await advance(HOUR);
    expect(gone()).toHaveLength(1);
    expect(await store.counts()).toMatchObject({ done: 4, parked: 0, retrying: 0 });

    platform.booking("A1", "Confirmed", stayed);
    await notify("A1");
    await advance(1000);
    const back = told.at(-1) as BookingEvent;
    expect(back).toMatchObject({ type: "booking.Confirmed", changed: true, previous: { status: "gone" } });
    expect(stayChange(back)).toMatchObject({ from: undefined, to: { listingId: 7 }, changed: true });

    platform.answer("A1", answer);
    await notify("A1");
    await advance(HOUR);
    expect(gone()).toHaveLength(2);
  });

  test.each([
    [{ "booking.gone": 1, booking: 2, fallback: 3 }, 1],
    [{ booking: 2, fallback: 3 }, 2],
    [{ fallback: 3 }, 3],
  ])("%j: callback %i runs", async (keys, expected) => {
    const told: (number | string)[] = [];
    const on = Object.fromEntries(
      Object.entries(keys).map(([key, number]) => [
        key,
        ({ type }: WebhookEvent) => void (type === "booking.gone" && told.push(number)),
      ]),
    );
    const { platform, deliver } = handlerOf({ on, recheckAfter: false });
    for (const code of ["A1", "A2"]) {
      platform.booking(code, "Confirmed", stayed);
      await deliver(notificationOf({ bookingCode: code }));
    }
    await advance(1000);
    platform.answer("A1", { status: 404 });
    await deliver(notificationOf({ bookingCode: "A1" }));
    await advance(HOUR);
    expect(told).toEqual([expected]);
  });

  test("without a callback for it, its events are parked as not-found", async () => {
    const { platform, deliver, store } = handlerOf({ on: { "booking.Confirmed": () => {} } });
    for (const code of ["A1", "A2"]) platform.booking(code, "Confirmed", stayed);
    for (const bookingCode of ["A1", "A2"]) await deliver(notificationOf({ bookingCode }));
    await advance(1000);
    platform.answer("A1", { status: 404 });
    await deliver(notificationOf({ bookingCode: "A1" }));
    await advance(24 * HOUR);
    expect(await store.list({ state: "parked", limit: 9 })).toMatchObject([{ reason: "not-found" }]);
  });

  test("a callback that fails is called again, and a replay of its event calls it once more", async () => {
    let calls = 0;
    const fails = ({ type }: WebhookEvent) => {
      if (type === "booking.gone" && ++calls < 3) throw new Error("the door does not answer");
    };
    const { platform, notify, store } = await hostWith(2, { on: { fallback: fails } });
    platform.answer("A1", { status: 404 });
    await notify("A1");
    await advance(24 * HOUR);
    expect(calls).toBe(3);
    await store.replay({ type: "booking.gone" });
    await advance(HOUR);
    expect(calls).toBe(4);
  });

  test("with another one that is gone, the list of listings vouches for the last", async () => {
    const { platform, notify, gone } = await hostWith(2);
    platform.answer("A1", { status: 404 });
    await notify("A1");
    await advance(HOUR);
    platform.answer("A2", { status: 404 });
    await notify("A2");
    await advance(HOUR);
    expect(gone()).toMatchObject([{ ref: "booking:A1" }, { ref: "booking:A2" }]);
  });

  test("a listing is gone as well", async () => {
    const told: WebhookEvent[] = [];
    const { platform, deliver } = handlerOf({ on: { listing: (event) => void told.push(event) } });
    for (const listingId of [7, 8]) {
      platform.listing(listingId, "Published", { listingName: "Harbour Loft" });
      await deliver(notificationOf({ listingId }));
    }
    await advance(2 * MINUTE);
    platform.answer("7", { status: 404 });
    await deliver(notificationOf({ listingId: 7 }));
    await advance(HOUR);
    expect(told.at(-1)).toMatchObject({
      type: "listing.gone",
      listing: { listingId: 7, status: "gone", listingName: "Harbour Loft" },
      previous: { status: "Published" },
    });
  });
});

test("the only known listing is not gone because the platform lists one of somebody, but by a known booking", async () => {
  const told: WebhookEvent[] = [];
  const { platform, deliver } = handlerOf({
    on: { listing: (event) => void told.push(event) },
    giveUpAfter: 3 * HOUR,
  });
  platform.listing(7, "Published");
  await deliver(notificationOf({ listingId: 7 }));
  await advance(2 * MINUTE);
  platform.answer("7", { status: 404 });
  platform.answer("listings", { status: 200, body: [] });
  await deliver(notificationOf({ listingId: 7 }));
  await advance(HOUR);
  expect(told).toHaveLength(1);
  platform.answer("listings", { status: 200, body: [{ listingId: 8, status: "Published" }] });
  await advance(HOUR);
  expect(told).toHaveLength(1);
  platform.booking("A1", "Confirmed", stayed);
  await deliver(notificationOf({ bookingCode: "A1" }));
  await advance(2 * HOUR);
  expect(told.slice(1)).toMatchObject([{ type: "listing.gone", ref: "listing:7" }]);
});

describe("a timer of a booking that is gone", () => {
  const at = new Date("2026-12-12T11:00:00Z");

  test("waits for booking.gone, and then runs with the same booking", async () => {
    const told: WebhookEvent[] = [];
    const { platform, deliver } = handlerOf({
      recheckAfter: false,
      on: {
        booking: (event) => {
          told.push(event);
          if (event.type === "booking.Confirmed")
            event.timers.set("door-closes", new Date(Date.now() + HOUR));
        },
        "booking.timer.door-closes": (event) => void told.push(event),
      },
    });
    for (const bookingCode of ["A1", "A2"]) {
      platform.booking(bookingCode, "Confirmed", stayed);
      await deliver(notificationOf({ bookingCode }));
    }
    await advance(1000);
    platform.answer("A1", { status: 404 });
    await advance(3 * HOUR);
    const ofGone = told.filter(({ ref }) => ref === "booking:A1");
    expect(ofGone.map(({ type }) => type)).toEqual([
      "booking.Confirmed",
      "booking.gone",
      "booking.timer.door-closes",
    ]);
    const [, gone, timer] = ofGone as [BookingEvent, BookingEvent, BookingEvent];
    expect(gone.source).toBe("recheck");
    expect(timer.booking).toEqual(gone.booking);
    expect(stayChange(timer)).toEqual({ from: undefined, to: undefined, changed: false });
  });

  test("is not run if the callback of booking.gone clears it", async () => {
    const told: string[] = [];
    const { platform, deliver, webhooks } = handlerOf({
      on: {
        "booking.gone": ({ timers }) => timers.clear(),
        fallback: ({ type }) => void told.push(type),
      },
    });
    for (const bookingCode of ["A1", "A2"]) {
      platform.booking(bookingCode, "Confirmed", stayed);
      await deliver(notificationOf({ bookingCode }));
    }
    await advance(1000);
    await webhooks.timers("booking:A1").set("door-closes", at);
    platform.answer("A1", { status: 404 });
    await deliver(notificationOf({ bookingCode: "A1" }));
    await advance(HOUR);
    expect(await webhooks.timers("booking:A1").list()).toEqual([]);
    expect(told).not.toContain("booking.timer.door-closes");
  });
});

/** What hides every record from the client. */
const hidings: [string, (url: string) => Response][] = [
  ["a wrong token", () => Response.json({ message: "no such booking" }, { status: 404 })],
  ["a wrong base URL", () => new Response("<h1>Not Found</h1>", { status: 404 })],
  ["a gateway", (url) => (url.endsWith("/listings") ? Response.json([]) : Response.json(null))],
];

describe.each(hidings)("%s that hides all", (_name, hidden) => {
  test.each([200, 2, 1])("releases no night and closes no door of a host with %i bookings", async (count) => {
    let isHidden = false;
    const host = await hostWith(count, {
      giveUpAfter: 24 * HOUR,
      clientOf: ({ fetch }) =>
        clientOf({ fetch: async (url, init) => (isHidden ? hidden(url) : fetch(url, init)) }),
    });
    const { notify, gone, codes, webhooks, observed, logger, told, store } = host;
    for (const code of codes)
      await webhooks.timers(`booking:${code}`).set("door-closes", new Date(Date.now() + 5 * MINUTE));
    isHidden = true;
    for (const code of codes) await notify(code);
    await advance(20 * MINUTE);
    expect(gone()).toEqual([]);
    expect(told).toHaveLength(count);
    const paused = observed.find(({ kind }) => kind === "paused");
    expect(paused).toMatchObject({ scope: "bookings", ref: expect.stringMatching(/^booking:A/) });
    expect(await webhooks.health()).toMatchObject({
      state: "paused",
      pauseReason: expect.stringContaining("hide"),
    });
    expect(logger.lines.join("\n")).toContain("Check `baseUrl` and the access token");

    isHidden = false;
    await advance(20 * MINUTE);
    expect(gone()).toEqual([]);
    expect((await store.counts()).parked).toBe(0);
    expect(told.filter(({ type }) => type === "booking.timer.door-closes")).toHaveLength(count);
    expect((await webhooks.health()).state).toBe("running");
  });

  test("parks the events after giveUpAfter", async () => {
    let isHidden = false;
    const { notify, gone, store } = await hostWith(2, {
      giveUpAfter: 10 * MINUTE,
      clientOf: ({ fetch }) =>
        clientOf({ fetch: async (url, init) => (isHidden ? hidden(url) : fetch(url, init)) }),
    });
    isHidden = true;
    await notify("A1");
    await advance(HOUR);
    expect(gone()).toEqual([]);
    expect(await store.list({ state: "parked", limit: 9 })).toMatchObject([{ reason: "not-found" }]);
  });
});

test("if all bookings of a host are gone, the list of listings decides after giveUpAfter", async () => {
  const { platform, notify, gone, webhooks } = await hostWith(2, { giveUpAfter: HOUR });
  for (const code of ["A1", "A2"]) platform.answer(code, { status: 404 });
  await notify("A1");
  await advance(HOUR);
  expect(gone()).toEqual([]);
  expect((await webhooks.health()).state).toBe("paused");
  await advance(HOUR);
  expect(gone()).toMatchObject([{ ref: "booking:A1" }]);
  await notify("A2");
  await advance(HOUR);
  expect(gone()).toMatchObject([{ ref: "booking:A1" }, { ref: "booking:A2" }]);
});

test("if all bookings of a host are gone and there is no list, a known listing decides after giveUpAfter", async () => {
  const { platform, notify, gone, deliver, store } = await hostWith(2, { giveUpAfter: HOUR });
  platform.listing(7, "Published");
  await deliver(notificationOf({ listingId: 7 }));
  await advance(MINUTE);
  for (const code of ["A1", "A2", "listings"]) platform.answer(code, { status: 404 });
  await notify("A1");
  await advance(HOUR);
  expect(gone()).toEqual([]);
  await advance(HOUR);
  expect(gone()).toMatchObject([{ ref: "booking:A1" }]);
  platform.answer("7", { status: 404 });
  await notify("A2");
  await advance(3 * HOUR);
  expect(gone()).toHaveLength(1);
  expect(await store.list({ state: "parked", limit: 9 })).toMatchObject([{ reason: "not-found" }]);
});

test("the token of another account releases no night of a host with one booking", async () => {
  const { platform, notify, gone, deliver } = await hostWith(1);
  platform.listing(7, "Published");
  await deliver(notificationOf({ listingId: 7 }));
  await advance(MINUTE);
  platform.answer("A1", { status: 404 });
  platform.answer("listings", { status: 200, body: [{ listingId: 99, status: "Published" }] });
  await notify("A1");
  await advance(HOUR);
  expect(gone()).toEqual([]);
});

test("a new booking opens the pause of a host whose only booking is hidden", async () => {
  const { platform, notify, told, webhooks, gone } = await hostWith(1);
  platform.answer("A1", { status: 404 });
  platform.answer("listings", { status: 200, body: [] });
  await notify("A1");
  await advance(HOUR);
  expect((await webhooks.health()).state).toBe("paused");
  platform.booking("B1", "Confirmed", stayed);
  await notify("B1");
  await advance(MINUTE);
  expect(told.filter(({ ref }) => ref === "booking:B1")).toMatchObject([{ type: "booking.Confirmed" }]);
  await advance(HOUR);
  expect(gone()).toMatchObject([{ ref: "booking:A1" }]);
});
