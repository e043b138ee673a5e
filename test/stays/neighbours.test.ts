// Cases beside those of schedules.test.ts: what is due late, played by hand, wanted wrongly, or over.
import { InvalidArgumentError, memoryStore } from "stayhook";
import { createStays, hold, type Json, once } from "stayhook/stays";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { handlerOf } from "../webhooks/support.ts";
import { houseOf, setTime, type usual } from "./house.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"] });
  setTime("01 12:00");
});
afterEach(() => void vi.useRealTimers());

const door = ({ checkIn, checkOut }: Parameters<typeof usual>[0], { at }: Parameters<typeof usual>[1]) =>
  hold("door", { from: at(checkIn, "15:00"), until: at(checkOut, "11:00") });

test("a hold that has ended leaves nothing in the ledger 30 days after the check-out", async () => {
  const house = houseOf({ want: (stay, context) => [door(stay, context)] });
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  await house.at("13 11:00");
  expect(house.took()).toEqual(["door begin 1 10-13", "door end 1 10-13"]);
  expect(await house.store.ledgerOf("booking:HX3K9")).toBeUndefined();
});

test.each([
  ["a thing", undefined],
  [
    "the event that tells why `want` throws",
    () => {
      throw new Error("no price");
    },
  ],
])("%s that was parked is remembered until its event is deleted", async (_, broken) => {
  const house = houseOf({
    maxAttempts: 1,
    want: broken ?? (({ checkOut }, { at }) => [once("cleaning", { at: at(checkOut, "11:00") })]),
    act: () => {
      throw new Error("the crew is away");
    },
  });
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("13 11:00");
  await house.at("06-13 12:00");
  expect(await house.store.list({ state: "parked" })).toHaveLength(1);
  expect(await house.store.ledgerOf("booking:HX3K9")).toBeDefined();
  await house.store.prune({ state: "parked", age: 0, limit: 10 });
  await house.at("06-14 12:00");
  await house.at("06-15 12:00");
  expect(await house.store.ledgerOf("booking:HX3K9")).toBeUndefined();
  expect(await house.store.list({ source: "thing", state: "scheduled" })).toEqual([]);
});

test("a hold without an `until` needs no event for its end", async () => {
  const house = houseOf({ want: () => [hold("nights")] });
  await house.book(1, "2026-05-10", "2026-05-13");
  const waiting = await house.store.list({ source: "thing", state: "scheduled" });
  expect(waiting.map(({ notification }) => notification)).toEqual(['{"forgets":true}']);
});

test("what is due at once acts before the callback of a change that has waited, and that may hang", async () => {
  const order: string[] = [];
  const house = houseOf({
    act: ({ text }) => void order.push(text),
    on: { booking: () => void order.push("the callback") },
  });
  house.platform.booking("HX3K9", "Confirmed", {
    ...{ listingId: 1, checkIn: "2026-05-10", checkOut: "2026-05-13" },
  });
  await house.notify();
  await house.notify();
  vi.setSystemTime(Date.now() + 5000);
  await house.handle();
  expect(order).toEqual(["nights begin 1 10-13", "the callback", "the callback"]);
});

test("one event looks at a booking at the time of each hold that has not begun, and 30 days after the check-out", async () => {
  const house = houseOf({ want: (stay, context) => [door(stay, context)] });
  const looks = async () => {
    const all = await house.store.list({ source: "thing", state: "scheduled" });
    return all.flatMap(({ notification, dueAt }) =>
      notification === '{"forgets":true}' ? [dueAt?.toISOString()] : [],
    );
  };
  await house.book(1, "2026-05-10", "2026-05-13");
  expect(await looks()).toEqual(["2026-05-13T09:00:00.000Z"]);
  await house.book(1, "2026-05-10", "2026-05-12");
  expect(await looks()).toEqual(["2026-05-12T09:00:00.000Z"]);
  await house.at("10 15:00");
  expect(await looks()).toEqual(["2026-06-11T00:00:00.000Z"]);
});

test("`value` is what begin last returned that was not undefined, and what is on at a house gives it to its things", async () => {
  const failing = ["door begin 1 10-14", "door end 1 10-14"];
  const house = houseOf({
    want: ({ checkIn, checkOut }, { at }) => [
      hold("door"),
      once("directions", { at: at(checkIn, "15:00") }),
      once("cleaning", { at: at(checkOut, "11:00") }),
    ],
    act: ({ text }) => {
      if (text === failing[0]) throw new Error(`${failing.shift()} fails once`);
      return text === "door begin 1 10-13" ? "1234" : undefined;
    },
  });
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.book(1, "2026-05-10", "2026-05-14");
  await house.at("10 15:00");
  await house.book(2, "2026-05-10", "2026-05-14");
  await house.at("14 11:00");
  const seen = house.calls.map(({ text, thing }) => [text, thing.value, thing.values]);
  expect(seen).toEqual([
    ["door begin 1 10-13", undefined, {}],
    ["door begin 1 10-14", "1234", { door: "1234" }],
    ["door begin 1 10-14", "1234", {}],
    ["directions 1 10-14", undefined, { door: "1234" }],
    ["door end 1 10-14", "1234", { door: "1234" }],
    ["door begin 2 10-14", undefined, {}],
    ["door end 1 10-14", "1234", { door: "1234" }],
    ["cleaning 2 10-14", undefined, {}],
  ]);
});

test("data whose members come in another order is no change, and data up to 2 kB is kept", async () => {
  const filler = "x".repeat(2000);
  let data: Json = { b: [{ d: 1, c: 2 }], a: filler };
  const house = houseOf({ want: () => [hold("nights", { data })] });
  await house.book(1, "2026-05-10", "2026-05-13");
  data = { a: filler, b: [{ c: 2, d: 1 }] };
  await house.book(1, "2026-05-10", "2026-05-13");
  expect(house.took()).toEqual(["nights begin 1 10-13"]);
  expect(house.calls[0]?.thing.data).toEqual(data);
  data = [2];
  await house.book(1, "2026-05-10", "2026-05-13");
  expect(house.took()).toEqual(["nights begin 1 10-13"]);
});

test.each<[string, () => unknown, string]>([
  ["a name twice", () => [hold("nights"), hold("nights")], "want.1: nights: this name is there twice"],
  [
    "an invalid date",
    () => [hold("nights", { until: new Date("x") })],
    "want.0: nights: `until` must be a valid Date",
  ],
  [
    "too much data",
    () => [hold("nights", { data: "x".repeat(2047) })],
    "has 2049 bytes of JSON, and at most 2048",
  ],
  ["a name that `apply` lacks", () => [hold("pool")], "want.0: pool: `apply` has no such thing"],
  [
    "a once in the place of a hold",
    () => [once("nights", { at: new Date() })],
    "want.0: nights: a once needs a function in `apply`",
  ],
])("want gives %s: its event fails with an InvalidArgumentError", async (_, want, error) => {
  const house = houseOf({ want: want as never });
  await house.book(1, "2026-05-10", "2026-05-13");
  expect(house.took()).toEqual([]);
  const [problem] = await house.store.list({ type: "booking.thing", limit: 10 });
  expect(problem?.history.at(-1)?.error).toMatch(/^InvalidArgumentError: /);
  expect(problem?.history.at(-1)?.error).toContain(error);
});

test("the store's clock is ahead of the process: what is due by the store acts", async () => {
  const own = memoryStore();
  const store = new Proxy(own, {
    get(_, name) {
      if (name === "claim")
        return async (options: Parameters<typeof own.claim>[0]) =>
          (await own.claim(options)).map((claim) => ({ ...claim, claimedAt: claim.claimedAt + 5000 }));
      const value: unknown = Reflect.get(own, name);
      return typeof value === "function" ? value.bind(own) : value;
    },
  });
  const house = houseOf({ store, want: (stay, context) => [door(stay, context)] });
  await house.book(1, "2026-05-10", "2026-05-13");
  for (const seconds of [50, 57]) {
    vi.setSystemTime(new Date(`2026-05-10T14:59:${seconds}+02:00`));
    const waiting = await store.list({ source: "thing", state: "scheduled" });
    for (const { eventId, notification } of waiting)
      if (notification?.includes("door")) await store.replay({ eventId });
    await house.handle();
    expect(house.took()).toEqual(seconds === 50 ? [] : ["door begin 1 10-13"]);
  }
});

test("a timeZone that never answers is like one that throws: the old house ends, and an event of its own fails", async () => {
  let hangs = false;
  const house = houseOf({
    attemptTimeout: 2000,
    timeZone: () => (hangs ? new Promise<string>(() => {}) : "Europe/Paris"),
    on: { booking: ({ timeZone }) => void zones.push(timeZone) },
  });
  const zones: (string | undefined)[] = [];
  await house.book(1, "2026-05-10", "2026-05-13");
  house.took();
  hangs = true;
  await house.book(2, "2026-05-10", "2026-05-13");
  expect(house.took()).toEqual(["nights end 1 10-13"]);
  expect(zones).toEqual(["Europe/Paris", undefined]);
  const failing = await house.store.list({ source: "thing", state: "retrying" });
  expect(failing.map(({ type, history }) => [type, history.at(-1)?.error])).toEqual([
    ["booking.thing", expect.stringContaining("timeZone gave no zone for booking:HX3K9 within 1000 ms")],
  ]);
});

test("a want that is not pure, such as one with a time from now on, keeps no callback from its call", async () => {
  let asked = 0;
  const called = vi.fn();
  const house = houseOf({
    want: () => {
      asked += 1;
      if (asked > 50) throw new Error("asked without end");
      return [once("directions", { at: new Date(Date.now() + 3_600_000 + asked) })];
    },
    on: { booking: called },
  });
  await house.book(1, "2026-05-10", "2026-05-13");
  expect(called).toHaveBeenCalledTimes(1);
  expect(asked).toBe(1);
});

test("a want whose data are never the same begins each hold once for each read", async () => {
  let asked = 0;
  const want = () => {
    asked += 1;
    if (asked > 50) throw new Error("asked without end");
    return [hold("nights", { data: { asked } }), hold("door", { data: { asked } })];
  };
  const called = vi.fn();
  const house = houseOf({ want, on: { booking: called } });
  await house.book(1, "2026-05-10", "2026-05-13");
  expect(house.took()).toEqual(["nights begin 1 10-13", "door begin 1 10-13"]);
  expect(asked).toBe(1);
  expect(called).toHaveBeenCalledTimes(1);
});

test("a hold whose `until` is not after its `from` never begins, and that is told once", async () => {
  const house = houseOf({
    want: ({ checkIn }, { at }) => [
      hold("door", { from: at(checkIn, "15:00"), until: at(checkIn, "15:00") }),
      hold("nights"),
    ],
  });
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.book(2, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  expect(house.took()).toEqual(["nights begin 1 10-13", "nights end 1 10-13", "nights begin 2 10-13"]);
  const told = house.logger.lines.filter((line) => line.includes("the hold door never begins"));
  expect(told).toHaveLength(1);
});

test("what `apply` no longer knows is left as it is, and told once; the version that knows it ends it", async () => {
  const house = houseOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  house.took();
  const next = house.deploy({ holds: ["nights"], want: () => [hold("nights")], onces: [] });
  await house.notify();
  await next.webhooks.drain();
  setTime("13 11:00");
  await next.webhooks.drain();
  vi.setSystemTime(Date.now() + 5 * 60_000);
  await next.webhooks.drain();
  expect(next.texts()).toEqual([]);
  expect(house.logger.lines.filter((line) => line.includes("`apply` has no door"))).toHaveLength(1);
  vi.setSystemTime(Date.now() + 24 * 3_600_000);
  await house.handle();
  expect(house.took().toSorted()).toEqual(["cleaning 1 10-13", "door end 1 10-13"]);
});

test("all that is due at once after a change costs one read, also with a callback", async () => {
  const called = vi.fn();
  const house = houseOf({ want: () => [hold("nights"), hold("door")], on: { booking: called } });
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.book(2, "2026-05-10", "2026-05-13");
  expect(house.took()).toHaveLength(6);
  expect([called.mock.calls.length, house.platform.reads.length]).toEqual([2, 2]);
});

test("a thing that finds a change is planned anew, and the change gets its callback", async () => {
  const houses: unknown[] = [];
  const house = houseOf({
    on: { booking: ({ changes, source }) => void houses.push([source, changes.listingId]) },
  });
  await house.book(1, "2026-05-10", "2026-05-13");
  house.took();
  house.platform.booking("HX3K9", "Confirmed", {
    listingId: 2,
    checkIn: "2026-05-10",
    checkOut: "2026-05-13",
  });
  await house.at("10 15:00");
  expect(house.took()).toEqual([
    "nights end 1 10-13",
    "nights begin 2 10-13",
    "door begin 2 10-13",
    "cleaning 1 10-13 early",
  ]);
  expect(houses.slice(1)).toEqual([["recheck", { from: 1, to: 2 }]]);
});

test("timers.clear() of a callback leaves the things alone, and clears the timers", async () => {
  const house = houseOf({
    on: {
      booking: ({ timers, status }) => {
        if (status === "Cancelled") timers.clear();
        else timers.set("remind", new Date("2026-05-20T10:00:00Z"));
      },
      "booking.timer.remind": () => {},
    },
  });
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  house.took();
  await house.book(1, "2026-05-10", "2026-05-13", "Cancelled");
  expect(house.took()).toEqual(["nights end 1 10-13", "door end 1 10-13", "cleaning 1 10-13 early"]);
  expect(await house.store.list({ source: "timer" })).toEqual([]);
});

test("a handler without `stays` leaves the things of a store alone", async () => {
  const house = houseOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  house.took();
  const other = handlerOf({ store: house.store, clientOf: () => house.client, autoStart: false });
  setTime("10 15:00");
  await other.webhooks.drain();
  vi.setSystemTime(Date.now() + 24 * 3_600_000);
  await house.handle();
  expect(house.took()).toEqual(["door begin 1 10-13"]);
});

test("a process ended after it had recorded a plan, and the stay is extended: the door that was to close stays open", async () => {
  const own = memoryStore();
  let isDead = false;
  const store = new Proxy(own, {
    get(_, name) {
      if (name === "claim") return (options: never) => (isDead ? [] : own.claim(options));
      if (name === "settle")
        return async (...given: Parameters<typeof own.settle>) => {
          const [claim, { state }] = given;
          isDead ||= state === "released" && claim.source === "thing";
          return own.settle(...given);
        };
      const value: unknown = Reflect.get(own, name);
      return typeof value === "function" ? value.bind(own) : value;
    },
  });
  let data = 1;
  const want: typeof usual = (stay, context) => [door(stay, context), hold("nights", { data })];
  const house = houseOf({ store, want });
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  house.took();
  data = 2;
  await house.at("13 11:00");
  expect([isDead, house.took()]).toEqual([true, []]);
  isDead = false;
  house.platform.booking("HX3K9", "Confirmed", {
    listingId: 1,
    checkIn: "2026-05-10",
    checkOut: "2026-05-14",
  });
  const next = house.deploy({ want });
  await next.webhooks.drain();
  expect(next.texts().toSorted()).toEqual(["door begin 1 10-14", "nights begin 1 10-14"]);
});

test("what `end` returns is nobody's value", async () => {
  const house = houseOf({
    want: () => [hold("nights")],
    act: ({ text }) => (text.includes("end") ? () => {} : 1),
  });
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.book(1, "2026-05-10", "2026-05-13", "Cancelled");
  expect(house.took()).toEqual(["nights begin 1 10-13", "nights end 1 10-13"]);
  expect(await house.store.counts()).toMatchObject({ retrying: 0 });
});

test("want throws: its event is parked, and tried again at the next plan", async () => {
  let isBroken = true;
  const house = houseOf({
    maxAttempts: 1,
    want: () => {
      if (isBroken) throw new Error("no price");
      return [hold("nights")];
    },
  });
  await house.book(1, "2026-05-10", "2026-05-13");
  const told = async () =>
    (await house.store.list({ type: "booking.thing" })).map(({ state, history }) => [state, history.length]);
  expect(await told()).toEqual([["parked", 1]]);
  setTime("01 13:00");
  await house.notify();
  await house.handle();
  expect(await told()).toEqual([["parked", 2]]);
  isBroken = false;
  setTime("01 14:00");
  await house.notify();
  await house.handle();
  expect(await told()).toEqual([["done", 3]]);
  expect(house.took()).toEqual(["nights begin 1 10-13"]);
});

test("no process ran, and the end was discarded: it does not come back to take its place", async () => {
  const house = houseOf({
    ...{ holds: ["early"], onces: ["mail"] },
    want: ({ checkIn }, { at }) => [
      once("mail", { at: at(checkIn, "09:00") }),
      hold("early", { from: at(checkIn, "08:00"), until: at(checkIn, "11:00") }),
    ],
  });
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 08:00");
  house.took();
  const [end] = (await house.store.list({ source: "thing", state: "scheduled", limit: 50 })).filter(
    ({ notification }) => JSON.parse(notification ?? "{}").name === "early",
  );
  setTime("10 12:00");
  await house.store.discard({ eventId: end?.eventId });
  await house.handle();
  expect(house.took()).toEqual(["mail 1 10-13"]);
});

test("run now before its time, while another thing changes: it waits for its time", async () => {
  let total = 1;
  const house = houseOf({ want: (stay, context) => [hold("nights", { data: total }), door(stay, context)] });
  await house.book(1, "2026-05-10", "2026-05-13");
  house.took();
  total = 2;
  const [row] = (await house.store.list({ source: "thing", state: "scheduled", limit: 50 })).filter(
    ({ notification }) => JSON.parse(notification ?? "{}").name === "door",
  );
  await house.store.replay({ eventId: row?.eventId });
  await house.handle();
  expect(house.took()).toEqual(["nights begin 1 10-13"]);
  await house.at("10 15:00");
  expect(house.took()).toEqual(["door begin 1 10-13"]);
});

test("run now before its time: an end still comes before what is due with it", async () => {
  const house = houseOf({
    want: (stay, context) => [
      once("cleaning", { at: context.at(stay.checkOut, "11:00") }),
      door(stay, context),
    ],
  });
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  house.took();
  for (const { eventId } of await house.store.list({ source: "thing", state: "scheduled", limit: 50 }))
    await house.store.replay({ eventId });
  await house.handle();
  expect(house.took()).toEqual([]);
  await house.at("13 11:00");
  expect(house.took()).toEqual(["door end 1 10-13", "cleaning 1 10-13"]);
});

test("timeZone throws for a stay that no longer holds: nothing is wanted, so that all ends", async () => {
  let isAway = false;
  const house = houseOf({
    timeZone: () => {
      if (isAway) throw new Error("the database of zones is away");
      return "Europe/Paris";
    },
  });
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  house.took();
  isAway = true;
  await house.book(1, "2026-05-10", "2026-05-13", "Cancelled");
  expect(house.took()).toEqual(["nights end 1 10-13", "door end 1 10-13", "cleaning 1 10-13 early"]);
});

test("track throws: its event fails, but what follows the stay needs no field of it", async () => {
  let isBroken = false;
  const told = vi.fn();
  const house = houseOf({
    on: { booking: told },
    track: {
      booking: () => {
        if (isBroken) throw new Error("no such field");
        return { total: 1 };
      },
    },
  });
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  house.took();
  told.mockClear();
  isBroken = true;
  await house.book(2, "2026-05-10", "2026-05-13");
  expect(house.took()).toEqual([
    ...["nights end 1 10-13", "door end 1 10-13", "nights begin 2 10-13", "door begin 2 10-13"],
    "cleaning 1 10-13 early",
  ]);
  await house.at("13 11:00");
  expect(house.took()).toEqual(["door end 2 10-13", "cleaning 2 10-13"]);
  expect(told).not.toHaveBeenCalled();
  const failing = (await house.store.list({ limit: 100 })).filter(({ state }) => state !== "done");
  expect(
    failing
      .filter(({ state }) => state !== "scheduled")
      .map(({ type, history }) => [type, history.at(-1)?.error]),
  ).toEqual([
    ["booking.Confirmed", "StayhookError: track.booking threw for booking:HX3K9: Error: no such field"],
  ]);
});

test("timeZone throws for a platform that sends times: the old house ends, the new one waits, and nothing else does", async () => {
  let isAway = false;
  const told: unknown[] = [];
  const house = houseOf({
    timeZone: () => {
      if (isAway) throw new Error("the database of zones is away");
      return "Europe/Paris";
    },
    on: {
      booking: ({ status, stay, stayChange, changes }) => {
        told.push([status, stay?.checkIn, stayChange.from?.listingId, stayChange.to?.checkIn, changes]);
      },
    },
  });
  const book = (listingId: number) => house.book(listingId, "2026-05-09T22:00:00Z", "2026-05-12T22:00:00Z");
  await book(1);
  await house.at("10 15:00");
  house.took();
  told.length = 0;
  isAway = true;
  await book(1);
  expect(house.took()).toEqual([]);
  await book(2);
  expect(house.took()).toEqual(["nights end 1 10-13", "door end 1 10-13", "cleaning 1 10-13 early"]);
  // The days that nobody knows are no change.
  expect(told).toEqual([
    ["Confirmed", undefined, 1, "2026-05-10", {}],
    ["Confirmed", undefined, 1, "2026-05-10", { listingId: { from: 1, to: 2 } }],
  ]);
  const failing = await house.store.list({ type: "booking.thing" });
  expect(failing.map(({ state, history }) => [state, history.at(-1)?.error])).toEqual([
    ["retrying", "StayhookError: timeZone threw for booking:HX3K9: Error: the database of zones is away"],
  ]);
  isAway = false;
  vi.setSystemTime(Date.now() + 60_000);
  await house.handle();
  expect(house.took()).toEqual(["nights begin 2 10-13", "door begin 2 10-13"]);
  isAway = true;
  await house.at("13 11:00");
  expect(house.took()).toEqual(["door end 2 10-13", "cleaning 2 10-13"]);
});

test("timeZone throws for the first stay of a platform that sends times: to read stayChange throws that error", async () => {
  const house = houseOf({
    timeZone: () => {
      throw new Error("the database of zones is away");
    },
    on: { booking: ({ stayChange }) => void stayChange },
  });
  await house.book(1, "2026-05-09T22:00:00Z", "2026-05-12");
  const events = await house.store.list({ state: "retrying" });
  expect(events.map(({ state, history }) => [state, history.at(-1)?.error])).toEqual(
    Array.from({ length: 2 }, () => [
      "retrying",
      "StayhookError: timeZone threw for booking:HX3K9: Error: the database of zones is away",
    ]),
  );
});

test("want returns what is no thing: an InvalidArgumentError names its place", async () => {
  const house = houseOf({ want: () => [hold("nights"), false] as never });
  await house.book(1, "2026-05-10", "2026-05-13");
  expect(house.took()).toEqual([]);
  const [problem] = await house.store.list({ type: "booking.thing", limit: 10 });
  expect(problem?.history.at(-1)?.error).toBe(
    "InvalidArgumentError: want.1: must be a hold(…) or a once(…), not a boolean",
  );
});

test("a stay that needed nothing moves late to a house that needs a mail: the mail is sent", async () => {
  const house = houseOf({
    want: ({ listingId, checkIn, checkOut }, { at }) =>
      listingId === 1 ? [] : [once("directions", { at: at(checkIn, "15:00"), until: at(checkOut, "11:00") })],
  });
  await house.book(1, "2026-05-10", "2026-05-13");
  setTime("11 12:00");
  await house.book(2, "2026-05-10", "2026-05-13");
  expect(house.took()).toEqual(["directions 2 10-13"]);
});

test("a begin that failed to the end may have opened the door: it closes at its time, also if nothing is read", async () => {
  for (const status of [200, 403]) {
    setTime("01 12:00");
    const house = houseOf({
      maxAttempts: 2,
      want: (stay, context) => [door(stay, context)],
      act: ({ text }) => {
        if (text.includes("begin")) throw new Error("the lock has not answered");
      },
    });
    await house.book(1, "2026-05-10", "2026-05-13");
    await house.at("10 15:00");
    await house.at("10 16:00");
    await house.at("10 17:00");
    expect(house.took()).toEqual(["door begin 1 10-13", "door begin 1 10-13"]);
    if (status !== 200) house.platform.answer("HX3K9", { status, body: { message: "no" } });
    await house.at("13 10:59");
    expect(house.took()).toEqual([]);
    await house.at("13 11:00");
    for (let n = 0; n < 20; n += 1) {
      vi.setSystemTime(Date.now() + 60_000);
      await house.handle();
    }
    expect(house.took()).toEqual(["door end 1 10-13"]);
    expect(house.calls[0]?.id).toBe(house.calls.at(-1)?.id);
  }
});

test("wrong calls say what to do: createStays without options, atomically without transactions, and after the call", async () => {
  expect(() => createStays(undefined as never)).toThrow(InvalidArgumentError);
  expect(() => createStays(undefined as never)).toThrow("createStays needs the options { want, apply }");
  const transaction = (run: (tx: unknown) => void | Promise<void>) => run("tx");
  const errors: unknown[] = [];
  for (const store of [memoryStore(), memoryStore({ transaction })]) {
    let late: (() => void) | undefined;
    const house = houseOf({
      store,
      want: () => [hold("nights")],
      act: ({ thing }) => {
        late = () => thing.atomically("no function");
        late();
      },
    });
    await house.book(1, "2026-05-10", "2026-05-13");
    const [event] = await store.list({ type: "booking.thing.nights" });
    errors.push(event?.history.at(-1)?.error);
    expect(late).toThrow(
      store.transactional ? "atomically() of the thing nights was called after" : "atomically()",
    );
  }
  expect(errors).toEqual([
    expect.stringMatching(
      /^StayhookError: atomically\(\) of the thing nights needs a store with transactions/,
    ),
    expect.stringMatching(/^TypeError: atomically\(\) of the thing nights takes a function/),
  ]);
});
