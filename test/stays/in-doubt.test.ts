// A hold whose `begin` has not succeeded may exist all the same: its process was killed, or somebody discarded its event.

import { hold } from "stayhook/stays";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { houseOf, setTime, type usual } from "./house.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"] });
  setTime("01 12:00");
});
afterEach(() => void vi.useRealTimers());

type House = ReturnType<typeof houseOf>;

const want: typeof usual = ({ checkIn, checkOut }, { at }) => [
  hold("door", { from: at(checkIn, "15:00"), until: at(checkOut, "11:00") }),
];
const doorOf = (options: Parameters<typeof houseOf>[0] = {}) =>
  houseOf({ want, holds: ["door"], ...options });

/** Handles what is due in a process that is killed within its first call, and waits until its lease has ended. */
async function killedIn(house: House): Promise<string> {
  const called = Promise.withResolvers<string>();
  const act = ({ id }: { readonly id: string }) => {
    called.resolve(id);
    return new Promise(() => {});
  };
  void house.deploy({ want, act, maxAttempts: 2 }).webhooks.drain();
  const id = await called.promise;
  vi.setSystemTime(Date.now() + 31_000);
  return id;
}

/** Handles what is due for a quarter of an hour. */
async function goOn(house: House): Promise<void> {
  for (let n = 0; n < 15; n += 1) {
    vi.setSystemTime(Date.now() + 60_000);
    await house.handle();
  }
}

const stateOf = async (house: House) => {
  const [event] = await house.store.list({ type: "booking.thing.door", limit: 1 });
  return event?.state;
};

describe("every process was killed within begin, and its event is parked", () => {
  test.each([200, 403])("the door closes at its time, also if a read answers %i", async (status) => {
    const house = doorOf({ maxAttempts: 2 });
    await house.book(1, "2026-05-10", "2026-05-13");
    setTime("10 15:00");
    const ids = [await killedIn(house), await killedIn(house)];
    await goOn(house);
    expect(await house.store.list({ state: "parked" })).toHaveLength(1);
    if (status !== 200) house.platform.answer("HX3K9", { status, body: { message: "no" } });
    await house.at("13 10:59");
    expect(house.took()).toEqual([]);
    setTime("13 11:00");
    await goOn(house);
    expect(house.took()).toEqual(["door end 1 10-13"]);
    expect(new Set([...ids, house.calls[0]?.id]).size).toBe(1);
    expect(await house.store.ledgerOf("booking:HX3K9")).toBeUndefined();
  });

  test("an extension: the door closes at its new time", async () => {
    const house = doorOf({ maxAttempts: 2 });
    await house.book(1, "2026-05-10", "2026-05-13");
    await house.at("10 15:00");
    house.platform.booking("HX3K9", "Confirmed", {
      ...{ listingId: 1, checkIn: "2026-05-10", checkOut: "2026-05-14" },
    });
    await house.notify();
    await killedIn(house);
    await killedIn(house);
    await goOn(house);
    house.took();
    await house.at("13 11:00");
    expect(house.took()).toEqual([]);
    await house.at("14 11:00");
    expect(house.took()).toEqual(["door end 1 10-14"]);
  });

  test("shortened before, so that its time is earlier than at first", async () => {
    const house = doorOf({ maxAttempts: 2 });
    await house.book(1, "2026-05-10", "2026-05-13");
    await house.book(1, "2026-05-10", "2026-05-12");
    setTime("10 15:00");
    await killedIn(house);
    await killedIn(house);
    await goOn(house);
    await house.at("12 11:00");
    expect(house.took()).toEqual(["door end 1 10-12"]);
  });
});

test("killed within the begin of an extension: it is called again", async () => {
  const house = doorOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  house.took();
  house.platform.booking("HX3K9", "Confirmed", {
    ...{ listingId: 1, checkIn: "2026-05-10", checkOut: "2026-05-14" },
  });
  await house.notify();
  const id = await killedIn(house);
  await house.notify();
  await house.handle();
  expect(house.took()).toEqual(["door begin 1 10-14"]);
  expect(house.calls.at(-1)?.id).toBe(id);
});

test("killed within end, and confirmed again: the door is closed before it opens anew", async () => {
  const house = doorOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  house.took();
  house.platform.booking("HX3K9", "Cancelled", {
    ...{ listingId: 1, checkIn: "2026-05-10", checkOut: "2026-05-13" },
  });
  await house.notify();
  const id = await killedIn(house);
  await house.book(1, "2026-05-10", "2026-05-13");
  expect(house.took()).toEqual(["door end 1 10-13", "door begin 1 10-13"]);
  expect(house.calls.map((call) => call.id === id)).toEqual([true, true, false]);
});

test("killed within begin, then no read for an hour, then cancelled: the door closes", async () => {
  const house = doorOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  setTime("10 15:00");
  await killedIn(house);
  house.platform.answer("HX3K9", { status: 503 });
  for (let n = 0; n < 4; n += 1) await goOn(house);
  const [event] = await house.store.list({ state: "retrying" });
  expect(event?.history.map(({ outcome }) => outcome)).not.toContain("lost");
  house.platform.booking("HX3K9", "Cancelled", {
    ...{ listingId: 1, checkIn: "2026-05-10", checkOut: "2026-05-13" },
  });
  await house.notify();
  // In the first process, reads pause by a clock that no test can move.
  const next = house.deploy({ want });
  await next.webhooks.drain();
  expect(next.texts()).toEqual(["door end 1 10-13"]);
});

test("the platform is out of reach from before the arrival until after the departure: nothing begins or ends", async () => {
  const house = doorOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  house.platform.answer("HX3K9", { status: 503 });
  await house.at("10 15:00");
  await goOn(house);
  await house.at("13 11:00");
  await goOn(house);
  expect(house.took()).toEqual([]);
  expect(await house.store.ledgerOf("booking:HX3K9")).toBeUndefined();
});

describe("discarded", () => {
  const failing = {
    maxAttempts: 1,
    act: () => {
      throw new Error("the lock is away");
    },
  };

  test.each([
    ["is cancelled", (house: House) => house.book(1, "2026-05-10", "2026-05-13", "Cancelled")],
    ["comes to its end", (house: House) => house.at("13 11:00")],
    ["is told again", (house: House) => house.book(1, "2026-05-10", "2026-05-13")],
  ])("a parked begin: nothing more of it is called if the stay %s", async (_, move) => {
    const house = doorOf(failing);
    await house.book(1, "2026-05-10", "2026-05-13");
    await house.at("10 15:00");
    expect([house.took(), await stateOf(house)]).toEqual([["door begin 1 10-13"], "parked"]);
    await house.store.discard({ type: "booking.thing.door" });
    await move(house);
    expect(house.took()).toEqual([]);
    await house.at("13 11:00");
    expect(house.took()).toEqual([]);
  });

  test("a parked begin, and the stay is extended: that is another occurrence", async () => {
    const house = doorOf(failing);
    await house.book(1, "2026-05-10", "2026-05-13");
    await house.at("10 15:00");
    await house.store.discard({ type: "booking.thing.door" });
    await house.book(1, "2026-05-10", "2026-05-14");
    expect(house.took()).toEqual(["door begin 1 10-13", "door begin 1 10-14"]);
    expect(new Set(house.calls.map(({ id }) => id)).size).toBe(2);
  });

  test.each([
    ["before its time", "11 12:00"],
    ["when it has failed", "13 11:00"],
  ])("an end, %s: it is not called again, however the stay goes on", async (_, time) => {
    let isAway = false;
    const house = doorOf({
      maxAttempts: 1,
      act: () => {
        if (isAway) throw new Error("the lock is away");
      },
    });
    await house.book(1, "2026-05-10", "2026-05-13");
    await house.at("10 15:00");
    isAway = true;
    await house.at(time);
    house.took();
    const [end] = await house.store.list({
      source: "thing",
      state: time.startsWith("13") ? "parked" : "scheduled",
    });
    await house.store.discard({ eventId: end?.eventId });
    isAway = false;
    await house.book(1, "2026-05-10", "2026-05-13", "Cancelled");
    await house.at("13 11:01");
    expect(house.took()).toEqual([]);
  });

  test("a begin before its time: it never begins", async () => {
    const house = doorOf();
    await house.book(1, "2026-05-10", "2026-05-13");
    await house.store.discard({ source: "thing", state: "scheduled", type: undefined });
    await house.book(1, "2026-05-10", "2026-05-13");
    await house.at("10 15:00");
    await house.at("13 11:00");
    expect(house.took()).toEqual([]);
  });
});
