// Each rule of things was written for a schedule that breaks the simpler one.
import { createReconciler } from "stayhook/reconcile";
import { hold, once } from "stayhook/stays";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { houseOf, setTime, usual } from "./house.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"] });
  setTime("01 12:00");
});
afterEach(() => void vi.useRealTimers());

test("a booked stay: nights at once, directions two days before, the door from three to eleven, then the cleaning", async () => {
  const house = houseOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  expect(house.took()).toEqual(["nights begin 1 10-13"]);
  await house.at("08 08:59");
  expect(house.took()).toEqual([]);
  await house.at("08 09:00");
  expect(house.took()).toEqual(["directions 1 10-13"]);
  await house.at("10 15:00");
  expect(house.took()).toEqual(["door begin 1 10-13"]);
  await house.at("13 11:00");
  expect(house.took()).toEqual(["door end 1 10-13", "cleaning 1 10-13"]);
  // The hold without an `until` ends without a call, and then nothing is left.
  setTime("01 12:00");
  vi.setSystemTime(new Date("2026-06-13T00:00:00Z"));
  await house.handle();
  expect(house.took()).toEqual([]);
  expect(await house.store.ledgerOf("booking:HX3K9")).toBeUndefined();
  expect(await house.store.list({ source: "thing", state: "scheduled", limit: 10 })).toEqual([]);
});

test("cancelled at noon of the last night, confirmed again at one, left as planned: cleaned early and at the end", async () => {
  const house = houseOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  house.took();
  setTime("12 12:00");
  await house.book(1, "2026-05-10", "2026-05-13", "Cancelled");
  expect(house.took()).toEqual(["nights end 1 10-13", "door end 1 10-13", "cleaning 1 10-13 early"]);
  setTime("12 13:00");
  await house.book(1, "2026-05-10", "2026-05-13");
  expect(house.took()).toEqual(["nights begin 1 10-13", "door begin 1 10-13"]);
  await house.at("13 11:00");
  expect(house.took()).toEqual(["door end 1 10-13", "cleaning 1 10-13"]);
  const ids = house.calls.filter(({ text }) => /begin|cleaning/.test(text)).map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
});

test("a deploy that moves the mail from nine to ten, and an again run: who has it gets no second one, who waits gets it at ten", async () => {
  const house = houseOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("08 09:00");
  house.platform.booking("LATER", "Confirmed", {
    listingId: 2,
    checkIn: "2026-05-20",
    checkOut: "2026-05-22",
  });
  await house.notify("LATER");
  await house.handle();
  const next = house.deploy({
    want: (stay, context) => [
      ...usual(stay, context).filter((thing) => !("once" in thing) || thing.once !== "directions"),
      once("directions", {
        at: context.at(stay.checkIn, "10:00", { days: -2 }),
        until: context.at(stay.checkIn, "15:00"),
      }),
    ],
  });
  const { incomplete } = await createReconciler(next.webhooks).run({ again: true });
  expect(incomplete).toBeUndefined();
  await next.webhooks.drain();
  setTime("08 10:00");
  await next.webhooks.drain();
  expect(next.texts()).toEqual([]);
  setTime("18 09:30");
  await next.webhooks.drain();
  expect(next.texts()).not.toContain("directions 2 20-22");
  setTime("18 10:00");
  await next.webhooks.drain();
  expect(next.texts().filter((text) => text.startsWith("directions"))).toEqual(["directions 2 20-22"]);
});

test("the first deploy with a known booking: what has passed counts as done, the rest begins", async () => {
  const house = houseOf({ stays: undefined } as never);
  await house.book(1, "2026-05-10", "2026-05-13");
  setTime("11 12:00");
  const next = house.deploy({});
  await house.notify();
  await next.webhooks.drain();
  expect(next.texts()).toEqual(["nights begin 1 10-13", "door begin 1 10-13"]);
  setTime("13 11:00");
  await next.webhooks.drain();
  expect(next.texts().slice(2)).toEqual(["door end 1 10-13", "cleaning 1 10-13"]);
});

test("all down over `until`: the directions are not sent, the door that was never opened begins no more", async () => {
  const house = houseOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  house.took();
  await house.at("13 12:00");
  const took = house.took();
  expect(took).not.toContain("directions 1 10-13");
  expect(took).not.toContain("door begin 1 10-13");
  expect(took).toContain("cleaning 1 10-13");
});

test("down over the check-out, and cancelled meanwhile: the ends come before the cleaning that is due for longer", async () => {
  const house = houseOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  house.took();
  setTime("14 09:00");
  await house.book(1, "2026-05-10", "2026-05-13", "Cancelled");
  expect(house.took()).toEqual(["nights end 1 10-13", "door end 1 10-13", "cleaning 1 10-13"]);
});

test("down over the check-out, and moved to another house meanwhile: its end comes before the begins there", async () => {
  const house = houseOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("12 12:00");
  house.took();
  house.platform.booking("HX3K9", "Confirmed", {
    listingId: 2,
    checkIn: "2026-05-10",
    checkOut: "2026-05-16",
  });
  await house.at("14 12:00");
  expect(house.took()).toEqual([
    ...["nights end 1 10-13", "door end 1 10-13", "nights begin 2 10-16", "door begin 2 10-16"],
    "cleaning 1 10-13",
  ]);
});

test("no process ran while three things became due: they act in the order of rule 8, whatever became due first", async () => {
  const house = houseOf({
    ...{ holds: ["early", "late"], onces: ["second", "first"] },
    want: ({ checkIn }, { at }) => [
      once("first", { at: at(checkIn, "14:00") }),
      once("second", { at: at(checkIn, "09:00") }),
      hold("late", { from: at(checkIn, "15:00") }),
      hold("early", { from: at(checkIn, "08:00"), until: at(checkIn, "16:00") }),
    ],
  });
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 08:00");
  house.took();
  await house.at("10 17:00");
  expect(house.took()).toEqual([
    "early end 1 10-13",
    "late begin 1 10-13",
    "first 1 10-13",
    "second 1 10-13",
  ]);
});

test("with fake timers, a started handler acts at the time of each thing, and not a millisecond before", async () => {
  vi.useRealTimers();
  vi.useFakeTimers();
  setTime("10 14:59");
  const times: string[] = [];
  const house = houseOf({ act: ({ text }) => void times.push(`${text} at ${new Date().toISOString()}`) });
  house.platform.booking("HX3K9", "Confirmed", {
    listingId: 1,
    checkIn: "2026-05-10",
    checkOut: "2026-05-13",
  });
  await house.notify();
  await house.handle();
  const waiting = await house.store.list({ source: "thing", state: "scheduled" });
  expect(new Set(waiting.map(({ dueAt }) => dueAt?.toISOString()))).toEqual(
    new Set(["2026-05-10T13:00:00.000Z", "2026-05-13T09:00:00.000Z"]),
  );
  house.webhooks.start();
  await vi.advanceTimersByTimeAsync(4 * 24 * 60 * 60_000);
  await house.webhooks.close();
  expect(times.slice(2)).toEqual([
    "door begin 1 10-13 at 2026-05-10T13:00:00.000Z",
    "door end 1 10-13 at 2026-05-13T09:00:00.000Z",
    "cleaning 1 10-13 at 2026-05-13T09:00:00.000Z",
  ]);
});

test("a clock that is 5 s behind the one that made the plan: nothing acts before its time, and nothing twice", async () => {
  const house = houseOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  house.took();
  await house.at("10 15:00");
  vi.setSystemTime(Date.now() - 5000);
  await house.notify();
  await house.handle();
  expect(house.took()).toEqual(
    ["directions 1 10-13", "door begin 1 10-13"].filter((text) => !text.startsWith("dir")),
  );
});

test("an extension whose begin was cut off, then cancelled: end gets the stay of that begin", async () => {
  const house = houseOf({
    attemptTimeout: 50,
    act: ({ text }) => (text === "door begin 1 10-14" ? new Promise(() => {}) : undefined),
  });
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  house.took();
  await house.book(1, "2026-05-10", "2026-05-14");
  expect(house.took()).toEqual(["nights begin 1 10-14", "door begin 1 10-14"]);
  await house.book(1, "2026-05-10", "2026-05-14", "Cancelled");
  expect(house.took()).toEqual(["nights end 1 10-14", "door end 1 10-14", "cleaning 1 10-14 early"]);
  const door = house.calls.filter(({ text }) => text.startsWith("door"));
  expect(new Set(door.map(({ id }) => id)).size).toBe(1);
});

test("an extension that was cancelled before its begin was called: end gets the stay of the begin that was", async () => {
  const house = houseOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  house.took();
  house.platform.booking("HX3K9", "Confirmed", {
    listingId: 1,
    checkIn: "2026-05-10",
    checkOut: "2026-05-14",
  });
  const other = house.deploy({ act: () => new Promise(() => {}) });
  await house.notify();
  // It plans, and its first call hangs: that of the nights.
  await other.webhooks.drain({ timeout: 200 });
  await house.book(1, "2026-05-10", "2026-05-14", "Cancelled");
  expect(house.took()).toEqual(
    ["nights end 1 10-14", "door end 1 10-13", "cleaning 1 10-13 early"].map((text) =>
      text.replace("cleaning 1 10-13", "cleaning 1 10-14"),
    ),
  );
});

test("403 at the check-out: the door closes at the fifth refusal, from the ledger", async () => {
  const house = houseOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  house.took();
  house.platform.answer("HX3K9", { status: 403, body: { message: "no" } });
  setTime("13 11:00");
  for (let n = 0; n < 20; n += 1) {
    await house.handle();
    vi.setSystemTime(Date.now() + 60_000);
  }
  expect(house.took()).toEqual(["door end 1 10-13"]);
  expect(house.calls.at(-1)?.thing.booking).toBeUndefined();
});

test("out of reach over giveUpAfter at the check-out: the door closes, from the ledger", async () => {
  const house = houseOf({ giveUpAfter: 0 });
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  house.took();
  house.platform.answer("HX3K9", { status: 503 });
  await house.at("13 11:00");
  expect(house.took()).toEqual(["door end 1 10-13"]);
});

test("erased, then a notification: an id that the user's service knows does not come again", async () => {
  const house = houseOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.store.erase("booking:HX3K9");
  await house.notify();
  await house.handle();
  expect(house.took()).toEqual(["nights begin 1 10-13", "nights begin 1 10-13"]);
  expect(house.calls[0]?.id).not.toBe(house.calls[1]?.id);
});

test("a deploy changes from, until and data of a hold that is on", async () => {
  const house = houseOf();
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  const want = (from: string, until: string, data?: number) =>
    ((stay, { at }) => [
      hold("nights"),
      hold("door", { from: at(stay.checkIn, from), until: at(stay.checkOut, until), data }),
    ]) as typeof usual;
  const later = house.deploy({ want: want("14:00", "12:00") });
  await house.notify();
  await later.webhooks.drain();
  expect(later.texts()).toEqual([]);
  const other = house.deploy({ want: want("14:00", "12:00", 7) });
  await house.notify();
  await other.webhooks.drain();
  expect(other.texts()).toEqual(["door begin 1 10-13"]);
  const notYet = house.deploy({ want: want("18:00", "12:00", 7) });
  await house.notify();
  await notYet.webhooks.drain();
  expect(notYet.texts()).toEqual(["door end 1 10-13"]);
  setTime("10 18:00");
  await notYet.webhooks.drain();
  setTime("13 11:30");
  await notYet.webhooks.drain();
  setTime("13 12:00");
  await notYet.webhooks.drain();
  expect(notYet.texts()).toEqual(["door end 1 10-13", "door begin 1 10-13", "door end 1 10-13"]);
  const [ended, , endedAgain] = notYet.calls;
  expect(ended?.id).not.toBe(endedAgain?.id);
});

test("a begin that takes longer than attemptTimeout holds up no other thing for longer", async () => {
  const signals: AbortSignal[] = [];
  const house = houseOf({
    attemptTimeout: 50,
    want: () => [
      hold("nights"),
      hold("door"),
      once("directions", { at: new Date(), until: new Date("2026-05-30") }),
    ],
    act: ({ text, thing }) => {
      if (!text.startsWith("nights")) return undefined;
      signals.push(thing.signal);
      return new Promise(() => {});
    },
  });
  await house.book(1, "2026-05-10", "2026-05-13");
  expect(house.took()).toEqual(["nights begin 1 10-13", "door begin 1 10-13", "directions 1 10-13"]);
  expect(signals[0]?.aborted).toBe(true);
  expect(await house.webhooks.things("booking:HX3K9")).toMatchObject([
    { name: "nights", state: "failing", error: expect.stringContaining("attemptTimeout") },
    { name: "door", state: "on" },
    { name: "directions", state: "done" },
  ]);
});

test("a booking that vanishes while things are on: they end, once nobody finds it and others are found", async () => {
  const house = houseOf();
  house.platform.booking("OTHER", "Confirmed", {
    listingId: 2,
    checkIn: "2026-08-10",
    checkOut: "2026-08-13",
  });
  await house.notify("OTHER");
  await house.book(1, "2026-05-10", "2026-05-13");
  await house.at("10 15:00");
  house.took();
  house.platform.answer("HX3K9", { status: 404 });
  await house.notify();
  for (let n = 0; n < 20; n += 1) {
    await house.handle();
    vi.setSystemTime(Date.now() + 60_000);
  }
  expect(house.took()).toEqual(["nights end 1 10-13", "door end 1 10-13", "cleaning 1 10-13 early"]);
  expect(house.calls.at(-1)?.thing.booking).toBeUndefined();
});

test("500 cleanings at eleven: each house gets one, and each booking is read once", async () => {
  const house = houseOf({
    want: ({ checkOut }, { at }) => [once("cleaning", { at: at(checkOut, "11:00") })],
  });
  for (let n = 0; n < 500; n += 1) {
    house.platform.booking(`B${n}`, "Confirmed", {
      listingId: n + 1,
      checkIn: "2026-05-10",
      checkOut: "2026-05-13",
    });
    await house.notify(`B${n}`);
  }
  await house.handle();
  const before = house.platform.reads.length;
  await house.at("13 11:00");
  expect(new Set(house.took()).size).toBe(500);
  expect(house.platform.reads.length - before).toBe(500);
});
