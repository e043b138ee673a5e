import { memoryStore, StayhookClient } from "stayhook";
import { createSandbox } from "stayhook/testing";
import { expect, onTestFinished, test } from "vitest";
import { createSubscriber } from "../../examples/at-a-time/stays.ts";
import { eventually } from "../support/eventually.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Starts the guide's app beside a sandbox. Its services note what they do. */
async function start(zoneOf: (listingId: number) => string | undefined = () => "Europe/Lisbon") {
  const sandbox = createSandbox({ seed: 1 });
  onTestFinished(() => sandbox.close());
  const client = new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: sandbox.accessToken,
    fetch: sandbox.fetch,
  });
  const store = memoryStore();
  const cleaner = { isAway: false };
  const did: string[] = [];
  const note = (what: string) => async () => {
    if (did.at(-1) !== what) did.push(what); // a repeated call does no harm
  };
  const decline = async (bookingCode: string) => {
    did.push("decline");
    await sandbox.bookings.decline(bookingCode);
  };
  const { webhooks } = createSubscriber(client, store, {
    block: note("block"),
    release: note("release"),
    mail: (_stay, text) => note(text.startsWith("Your code is 1234") ? "welcome" : "mail")(),
    openDoor: async () => {
      await note("open")();
      return "1234";
    },
    closeDoor: note("close"),
    clean: () => (cleaner.isAway ? Promise.reject(new Error("no answer")) : note("clean")()),
    decline,
    zoneOf,
  });
  onTestFinished(() => webhooks.close({ timeout: 100 }));
  sandbox.deliverTo(webhooks.fetch);
  await client.webhookConfig.ensure({ endpoints: { bookings: "https://app.example/" } });
  const midnight = Math.floor(Date.now() / DAY) * DAY;
  const day = (n: number) => new Date(midnight + n * DAY).toISOString().slice(0, 10);
  const atRest = async () => {
    await sandbox.settled();
    await webhooks.drain();
    expect(await store.counts()).toMatchObject({ pending: 0, processing: 0 });
    expect((await store.nextDue()) ?? HOUR).toBeGreaterThan(1000);
  };
  let passed = 0;
  const pass = async (ms: number) => {
    await sandbox.settled();
    await webhooks.drain();
    await sandbox.advance(ms);
    passed += ms;
    // A thing may wait for a change for a moment.
    for (let n = 0; n < 2; n += 1) {
      await eventually(atRest);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };
  /** Moves the clock to a day from today. */
  const until = (days: number) => pass(midnight + days * DAY - Date.now() - passed);
  return { sandbox, store, cleaner, did, day, until, pass };
}

test("a stay: nights, mails, a door that opens and closes, and a cleaning", async () => {
  const { sandbox, did, day, until } = await start();
  await sandbox.bookings.instantBook({ checkIn: day(10), checkOut: day(12) });
  await until(7);
  expect(did).toEqual(["block"]);
  await until(9);
  expect(did).toEqual(["block", "mail"]);
  await until(11);
  expect(did).toEqual(["block", "mail", "open", "welcome"]);
  await until(13);
  expect(did.slice(4)).toEqual(["close", "clean"]);
  await until(60); // the nights are forgotten without a call
  expect(did).toHaveLength(6);
});

test("a stay that moves, told or not", async () => {
  const { sandbox, did, day, until } = await start();
  const { bookingCode } = await sandbox.bookings.instantBook({ checkIn: day(10), checkOut: day(12) });
  await until(5);
  await sandbox.bookings.alter(bookingCode, { checkIn: day(20), checkOut: day(22) });
  await until(15);
  expect(did).toEqual(["block"]); // again, for the new days
  sandbox.delivery.set({ drop: 1 });
  await sandbox.bookings.alter(bookingCode, { checkIn: day(30), checkOut: day(32) });
  // Nobody looked while the old stay would have been, so nobody knows whether the guest was there: it is cleaned.
  await until(25);
  expect(did).toEqual(["block", "clean"]); // after the nights are blocked for the new days
  await until(31);
  // All three are due by now, and what begins comes first.
  expect(did.slice(2)).toEqual(["open", "mail", "welcome"]);
});

test("a cleaning that fails holds nothing else up, and is parked by itself", async () => {
  const { sandbox, store, cleaner, did, day, until, pass } = await start();
  const { bookingCode } = await sandbox.bookings.instantBook({
    listingId: 7,
    checkIn: day(2),
    checkOut: day(8),
  });
  await until(4);
  cleaner.isAway = true;
  await sandbox.bookings.alter(bookingCode, { listingId: 9 });
  await pass(HOUR);
  expect(did).toEqual([
    "block",
    "mail",
    "open",
    "welcome",
    "release",
    "close",
    "block",
    "open",
    "mail",
    "welcome",
  ]);
  const [failing] = await store.list({ type: "booking.thing.cleaning", state: "retrying" });
  expect(failing?.history.at(-1)?.error).toContain("no answer");
  cleaner.isAway = false;
  await pass(HOUR);
  expect(did.at(-1)).toBe("clean");
});

test("a house without a zone: the log tells, and the stay begins when the house has a zone", async () => {
  const zones = new Map([[7, "Europe/Lisbon"]]);
  const { sandbox, store, did, day, until, pass } = await start((listingId) => zones.get(listingId));
  const { bookingCode } = await sandbox.bookings.instantBook({
    listingId: 7,
    checkIn: day(2),
    checkOut: day(8),
  });
  for (const days of [1, 3]) await until(days);
  expect(did).toEqual(["block", "mail", "open", "welcome"]);
  await sandbox.bookings.alter(bookingCode, { listingId: 99 });
  await pass(HOUR);
  expect(did.slice(4)).toEqual(["release", "close", "clean"]);
  const [alarm] = await store.list({ state: "retrying" });
  expect(alarm).toMatchObject({ type: "booking.thing" });
  expect(alarm?.history.at(-1)?.error).toContain("99");
  zones.set(99, "Europe/Lisbon");
  await until(5);
  expect(did.slice(7).toSorted()).toEqual(["block", "mail", "open", "welcome"]);
  await until(9);
  expect(did.slice(11)).toEqual(["close", "clean"]);
});

test("a stay that is cancelled without a notification", async () => {
  const { sandbox, did, day, until } = await start();
  const { bookingCode } = await sandbox.bookings.instantBook({ checkIn: day(10), checkOut: day(12) });
  await until(9);
  sandbox.delivery.set({ drop: 1 });
  await sandbox.bookings.cancel(bookingCode);
  await until(30);
  // The time of the door reads the booking, and finds the change. Nobody knows whether the guest was there.
  expect(did.slice(0, 2)).toEqual(["block", "mail"]);
  expect(did.slice(2)).toEqual(["release", "clean"]);
});

test("a request that nobody decides is declined an hour before the deadline", async () => {
  const { sandbox, did, pass } = await start();
  await sandbox.bookings.request();
  const { bookingCode } = await sandbox.bookings.request();
  await pass(0.9 * DAY);
  await sandbox.bookings.decline(bookingCode);
  await pass(1.6 * DAY);
  expect(did).toEqual(["decline"]);
});
