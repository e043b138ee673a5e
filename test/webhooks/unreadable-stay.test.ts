// A stay that cannot be read moves and ends none: the old stay holds.
import type { BookingEvent, BookingTimerEvent, StayChange, WebhookCallbacks } from "stayhook";
import { describe, expect, test } from "vitest";
import { advance, HOUR, handlerOf, useFakeTime } from "./support.ts";

useFakeTime();

const nights = { checkIn: "2026-07-01", checkOut: "2026-07-04", listingId: 7 };
const held = { bookingCode: "A1", ...nights, nights: 3 };
const same = { from: held, to: held, changed: false };

type State = Record<string, unknown>;

/** Makes a handler, and a function that handles a state of booking A1 and returns its `stayChange`. */
function playing(options: Parameters<typeof handlerOf>[0] = {}, holds?: readonly string[]) {
  const changes: StayChange[] = [];
  const note = (event: BookingEvent | BookingTimerEvent) => void changes.push(event.stayChange);
  const on: WebhookCallbacks = { booking: note, "booking.timer.door": note };
  const handler = handlerOf({ on, recheckAfter: false, maxAttempts: 1, holds, ...options });
  const play = async ({ status = "Confirmed", ...state }: State = {}) => {
    changes.length = 0;
    await handler.tell("A1", status as string, { ...nights, ...state });
    return [...changes];
  };
  const unread = () => handler.logger.lines.filter((line) => line.includes("cannot be read"));
  return { ...handler, changes, play, unread };
}

const unreadable: [string, State][] = [
  ["dates that are null", { checkIn: null, checkOut: null }],
  ["dd/mm/yyyy", { checkIn: "01/07/2026", checkOut: "05/07/2026" }],
  ["a listing that is null", { listingId: null }],
  ["a listing that is text", { listingId: "the yellow house" }],
  ["a listing that a number cannot hold", { listingId: "1552696793824068710" }],
  ["a check-out before the check-in", { checkOut: "2026-06-01" }],
  ["only one date that can be read, which is new", { checkIn: "2026-07-02", checkOut: "soon" }],
];

describe.each(unreadable)("with %s", (_, state) => {
  test("the old stay holds until the stay can be read, also for a timer, and one line says so", async () => {
    const { play, unread, webhooks, changes, store } = playing();
    await play();
    await webhooks.timers("booking:A1").set("door", new Date(Date.now() + HOUR));
    expect(await play(state)).toEqual([same]);
    expect(await play(state)).toEqual([same]);
    changes.length = 0;
    await advance(2 * HOUR);
    expect(changes).toEqual([same]);
    expect(unread()).toEqual([
      expect.stringMatching(
        /the stay of booking:A1 cannot be read: (checkIn|checkOut|listingId)[^?]*[^.?][.?] The stay from 2026-07-01 to 2026-07-04 at listing 7 still holds/,
      ),
    ]);
    const moved = { ...held, checkOut: "2026-07-06", listingId: 8, nights: 5 };
    expect(await play({ checkOut: "2026-07-06", listingId: 8 })).toEqual([
      { from: held, to: moved, changed: true },
    ]);
    expect(await store.list({ state: "parked", limit: 9 })).toEqual([]);
  });

  test("and a status that ends it, the stay ends", async () => {
    const { play, unread } = playing();
    await play();
    await play(state);
    expect(await play({ ...state, status: "Cancelled" })).toEqual([
      { from: held, to: undefined, changed: true },
    ]);
    // No stay is known any more.
    expect(await play(state)).toEqual([]);
    expect(unread()).toHaveLength(1);
  });

  test("and no stay that is known, `stayChange` throws", async () => {
    const { play, unread, store } = playing();
    expect(await play(state)).toEqual([]);
    expect((await store.list({ limit: 9 })).map(({ state, history }) => [state, history.length])).toEqual([
      ["parked", 1],
    ]);
    expect(unread()).toEqual([]);
  });

  test("and an unknown status, the old stay holds", async () => {
    const { play } = playing();
    await play();
    expect(await play({ ...state, status: "CheckedIn" })).toEqual([same]);
    expect(await play({ status: "Cancelled" })).toEqual([{ from: held, to: undefined, changed: true }]);
  });

  test("and a status of `holds`, the old stay holds", async () => {
    const { play } = playing({}, ["Request", "Confirmed"]);
    await play({ status: "Request" });
    expect(await play(state)).toEqual([same]);
    expect(await play({ ...state, status: "Request" })).toEqual([same]);
  });
});

test("a stay that was only asked for does not hold for a confirmation that cannot be read", async () => {
  const on: WebhookCallbacks = {
    "booking.Confirmed": () => {},
    booking: (event: BookingEvent) => void seen.push(event.stayChange.from),
  };
  const seen: unknown[] = [];
  const { play } = playing({ on });
  await play({ status: "Request" });
  await play({ checkIn: null });
  await play({ status: "Cancelled" });
  expect(seen).toEqual([undefined, undefined]);
});

test("a stay of one day has no nights, and is read", async () => {
  const { play, unread } = playing();
  const day = { ...held, checkOut: "2026-07-01", nights: 0 };
  expect(await play({ checkOut: "2026-07-01" })).toEqual([{ from: undefined, to: day, changed: true }]);
  expect(await play()).toEqual([{ from: day, to: held, changed: true }]);
  expect(unread()).toEqual([]);
});

test("each state of a record is told once, and no more than 1,000 are remembered", async () => {
  const { play, unread } = playing();
  await play();
  for (const checkIn of ["soon", "later", "soon"]) await play({ checkIn });
  expect(unread()).toHaveLength(2);
});
