import type { BookingEvent, WebhookCallbacks, WebhookEvent } from "stayhook";
import { describe, expect, test } from "vitest";
import { type Answer, advance, clientOf, HOUR, MINUTE, useFakeTime } from "../support.ts";
import { hostOf, stayed } from "./host.ts";

useFakeTime();

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
    const { platform, notify, tell, told, gone, store } = await hostOf(2);
    platform.answer("A1", answer);
    await notify("A1");
    await advance(5000);
    expect(gone()).toEqual([]);
    await advance(HOUR);
    // The sixth read follows the witness.
    expect(platform.reads.filter((read) => read === "A1")).toHaveLength(6);
    expect(gone()).toEqual(["booking:A1"]);
    expect(told.at(-1)).toMatchObject({
      type: "booking.gone",
      status: "gone",
      booking: { bookingCode: "A1", status: "gone", ...stayed },
      changed: true,
      changes: { status: { from: "Confirmed", to: "gone" } },
      previous: { status: "Confirmed", ...stayed },
      stayChange: { from: { bookingCode: "A1", listingId: 7 }, to: undefined },
      attempt: 1,
    });

    await notify("A1");
    await advance(HOUR);
    expect(gone()).toHaveLength(1);
    expect(await store.counts()).toMatchObject({ done: 4, parked: 0, retrying: 0 });

    await tell("A1", "Confirmed", stayed);
    await advance(1000);
    const stayChange = { from: undefined, to: { listingId: 7 }, changed: true };
    const back = { type: "booking.Confirmed", changed: true, previous: { status: "gone" }, stayChange };
    expect(told.at(-1)).toMatchObject(back);

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
    const { hide, notify } = await hostOf(2, { on });
    hide("A1");
    await notify("A1");
    await advance(HOUR);
    expect(told).toEqual([expected]);
  });

  test("without a callback for it, its events are parked as not-found", async () => {
    const { hide, notify, store } = await hostOf(2, { on: { "booking.Confirmed": () => {} } });
    hide("A1");
    await notify("A1");
    await advance(24 * HOUR);
    expect(await store.list({ state: "parked", limit: 9 })).toMatchObject([{ reason: "not-found" }]);
  });

  test("a callback that fails is called again, and a replay of its event calls it once more", async () => {
    let calls = 0;
    const fails = ({ type }: WebhookEvent) => {
      if (type === "booking.gone" && ++calls < 3) throw new Error("the door does not answer");
    };
    const { platform, notify, store } = await hostOf(2, { on: { fallback: fails } });
    platform.answer("A1", { status: 404 });
    await notify("A1");
    await advance(24 * HOUR);
    expect(calls).toBe(3);
    await store.replay({ type: "booking.gone" });
    await advance(HOUR);
    expect(calls).toBe(4);
  });

  test("with another one that is gone, the list of listings vouches for the last", async () => {
    const { hide, notify, gone } = await hostOf(2);
    for (const code of ["A1", "A2"]) {
      hide(code);
      await notify(code);
      await advance(HOUR);
    }
    expect(gone()).toEqual(["booking:A1", "booking:A2"]);
  });

  test("a listing is gone as well", async () => {
    const { tell, hide, notify, told } = await hostOf(0);
    for (const id of [7, 8]) await tell(id, "Published", { listingName: "Harbour Loft" });
    await advance(2 * MINUTE);
    hide("7");
    await notify(7);
    await advance(HOUR);
    expect(told.at(-1)).toMatchObject({
      type: "listing.gone",
      listing: { listingId: 7, status: "gone", listingName: "Harbour Loft" },
      previous: { status: "Published" },
    });
  });
});

test("the only known listing is not gone because the platform lists one of somebody, but by a known booking", async () => {
  const { tell, list, hide, notify, gone } = await hostOf(0, { giveUpAfter: 3 * HOUR });
  await tell(7, "Published");
  await advance(2 * MINUTE);
  hide("7");
  list();
  await notify(7);
  await advance(HOUR);
  expect(gone()).toEqual([]);
  list(8);
  await advance(HOUR);
  expect(gone()).toEqual([]);
  await tell("A1", "Confirmed", stayed);
  await advance(2 * HOUR);
  expect(gone()).toEqual(["listing:7"]);
});

describe("a timer of a booking that is gone", () => {
  const at = new Date("2026-12-12T11:00:00Z");

  test("waits for booking.gone, and then runs with the same booking", async () => {
    const told: WebhookEvent[] = [];
    const { hide } = await hostOf(2, {
      on: {
        booking: (event) => {
          told.push(event);
          if (event.type === "booking.Confirmed")
            event.timers.set("door-closes", new Date(Date.now() + HOUR));
        },
        "booking.timer.door-closes": (event) => void told.push(event),
      },
    });
    hide("A1");
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
    expect(timer.stayChange).toEqual({ from: undefined, to: undefined, changed: false });
  });

  test("is not run if the callback of booking.gone clears it", async () => {
    const told: string[] = [];
    const fallback = ({ type }: WebhookEvent) => void told.push(type);
    const on: WebhookCallbacks = { "booking.gone": ({ timers }) => timers.clear(), fallback };
    const { hide, notify, webhooks } = await hostOf(2, { on });
    await webhooks.timers("booking:A1").set("door-closes", at);
    hide("A1");
    await notify("A1");
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
  /** Makes a host, and a function that sets whether all is hidden. */
  async function hideable(count: number, giveUpAfter: number) {
    let isHidden = false;
    const makeClient: typeof clientOf = ({ fetch }) =>
      clientOf({ fetch: async (url, init) => (isHidden ? hidden(url) : fetch(url, init)) });
    const host = await hostOf(count, { giveUpAfter, clientOf: makeClient });
    const turn = (isOff: boolean) => {
      isHidden = isOff;
    };
    return { ...host, turn };
  }

  test.each([200, 2, 1])("releases no night and closes no door of a host with %i bookings", async (count) => {
    const host = await hideable(count, 24 * HOUR);
    const { turn, notify, gone, codes, webhooks, observed, logger, told, store } = host;
    for (const code of codes)
      await webhooks.timers(`booking:${code}`).set("door-closes", new Date(Date.now() + 5 * MINUTE));
    turn(true);
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

    turn(false);
    await advance(20 * MINUTE);
    expect(gone()).toEqual([]);
    expect((await store.counts()).parked).toBe(0);
    expect(told.filter(({ type }) => type === "booking.timer.door-closes")).toHaveLength(count);
    expect((await webhooks.health()).state).toBe("running");
  });

  test("parks the events after giveUpAfter", async () => {
    const { turn, notify, gone, store } = await hideable(2, 10 * MINUTE);
    turn(true);
    await notify("A1");
    await advance(HOUR);
    expect(gone()).toEqual([]);
    expect(await store.list({ state: "parked", limit: 9 })).toMatchObject([{ reason: "not-found" }]);
  });
});

test("if all bookings of a host are gone, the list of listings decides after giveUpAfter", async () => {
  const { platform, notify, gone, webhooks } = await hostOf(2, { giveUpAfter: HOUR });
  for (const code of ["A1", "A2"]) platform.answer(code, { status: 404 });
  await notify("A1");
  await advance(HOUR);
  expect(gone()).toEqual([]);
  expect((await webhooks.health()).state).toBe("paused");
  await advance(HOUR);
  expect(gone()).toEqual(["booking:A1"]);
  await notify("A2");
  await advance(HOUR);
  expect(gone()).toEqual(["booking:A1", "booking:A2"]);
});

test("if all bookings of a host are gone and there is no list, a known listing decides after giveUpAfter", async () => {
  const { platform, notify, tell, gone, store } = await hostOf(2, { giveUpAfter: HOUR });
  await tell(7, "Published");
  await advance(MINUTE);
  for (const code of ["A1", "A2", "listings"]) platform.answer(code, { status: 404 });
  await notify("A1");
  await advance(HOUR);
  expect(gone()).toEqual([]);
  await advance(HOUR);
  expect(gone()).toEqual(["booking:A1"]);
  platform.answer("7", { status: 404 });
  await notify("A2");
  await advance(3 * HOUR);
  expect(gone()).toHaveLength(1);
  expect(await store.list({ state: "parked", limit: 9 })).toMatchObject([{ reason: "not-found" }]);
});

test("a new booking opens the pause of a host whose only booking is hidden", async () => {
  const { platform, notify, told, webhooks, gone } = await hostOf(1);
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
  expect(gone()).toEqual(["booking:A1"]);
});
