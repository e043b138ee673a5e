import { memoryStore, StayhookClient } from "stayhook";
import { createSandbox } from "stayhook/testing";
import { expect, onTestFinished, test } from "vitest";
import { createStays } from "../../examples/at-a-time/stays.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Starts the guide's app beside a sandbox. Its services note what they do. */
async function start(zoneOf: (listingId: number) => string = () => "Europe/Lisbon") {
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
  const { webhooks } = createStays(client, store, {
    mail: note("mail"),
    openDoor: note("open"),
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
  let passed = 0;
  const pass = async (ms: number) => {
    await sandbox.settled();
    await webhooks.drain();
    await sandbox.advance(ms);
    passed += ms;
    for (let n = 0; n < 3; n += 1) {
      await sandbox.settled();
      await webhooks.drain();
      await new Promise((resolve) => setTimeout(resolve, 150)); // a timer may wait for a change
    }
  };
  /** Moves the clock to a day from today. */
  const until = (days: number) => pass(midnight + days * DAY - Date.now() - passed);
  return { sandbox, store, cleaner, did, day, until, pass };
}

test("a stay: a mail, an open door, a closed door and a cleaning", async () => {
  const { sandbox, did, day, until } = await start();
  await sandbox.bookings.instantBook({ checkIn: day(10), checkOut: day(12) });
  await until(8);
  expect(did).toEqual([]);
  await until(9);
  expect(did).toEqual(["mail"]);
  await until(11);
  expect(did).toEqual(["mail", "open"]);
  await until(13);
  expect(did.slice(2).toSorted()).toEqual(["clean", "close"]);
  await until(30);
  expect(did).toHaveLength(4);
});

test("a stay that moves, told or not", async () => {
  const { sandbox, did, day, until } = await start();
  const { bookingCode } = await sandbox.bookings.instantBook({ checkIn: day(10), checkOut: day(12) });
  await until(5);
  await sandbox.bookings.alter(bookingCode, { checkIn: day(20), checkOut: day(22) });
  await until(15);
  expect(did).toEqual([]);
  sandbox.delivery.set({ drop: 1 });
  await sandbox.bookings.alter(bookingCode, { checkIn: day(30), checkOut: day(32) });
  // The timers of the old stay are late, so its code may be half set.
  await until(25);
  expect(did).toEqual(["close"]);
  await until(31);
  expect(did).toEqual(["close", "mail", "open"]);
});

test("a stay that moves, and its callback fails for good: nothing is cleaned or mailed at the old time", async () => {
  const { sandbox, store, cleaner, did, day, until, pass } = await start();
  const { bookingCode } = await sandbox.bookings.instantBook({ checkIn: day(10), checkOut: day(12) });
  await until(9);
  await until(11);
  cleaner.isAway = true;
  await sandbox.bookings.alter(bookingCode, { checkIn: day(20), checkOut: day(22) });
  await pass(0);
  expect(did).toEqual(["mail", "open", "close"]);
  expect(await store.discard({ type: "booking.Confirmed", state: "retrying" })).toBe(1);
  // The timers of the old stay read the booking, find the change, and handle it first.
  await until(12.6);
  expect(await store.discard({ type: "booking.Confirmed", state: "retrying" })).toBe(2);
  await pass(HOUR);
  expect(did.filter((what) => what !== "close")).toEqual(["mail", "open"]);
  cleaner.isAway = false;
  await sandbox.bookings.alter(bookingCode, { checkOut: day(23) });
  for (const days of [19, 21, 24]) await until(days);
  expect(did.slice(3)).toEqual(["mail", "open", "close", "clean"]);
});

test("a house without a zone: the log tells, and the stay begins when the house has a zone", async () => {
  const zones = new Map([[7, "Europe/Lisbon"]]);
  const { sandbox, store, did, day, until, pass } = await start((listingId) => {
    const zone = zones.get(listingId);
    if (zone === undefined) throw new Error(`no zone for house ${listingId}`);
    return zone;
  });
  const { bookingCode } = await sandbox.bookings.instantBook({
    listingId: 7,
    checkIn: day(2),
    checkOut: day(8),
  });
  for (const days of [1, 3]) await until(days);
  await sandbox.bookings.alter(bookingCode, { listingId: 99 });
  await pass(HOUR);
  expect(did).toEqual(["mail", "open", "close", "clean"]);
  const [alarm] = await store.list({ state: "retrying", limit: 9 });
  expect(alarm).toMatchObject({ type: "booking.timer.try-again" });
  expect(alarm?.history.at(-1)?.error).toContain("no zone for house 99");
  zones.set(99, "Europe/Lisbon");
  await until(5);
  expect(did.slice(4).toSorted()).toEqual(["mail", "open"]);
  await until(9);
  expect(did.slice(6).toSorted()).toEqual(["clean", "close"]);
});

test("a stay that is cancelled without a notification", async () => {
  const { sandbox, did, day, until } = await start();
  const { bookingCode } = await sandbox.bookings.instantBook({ checkIn: day(10), checkOut: day(12) });
  await until(9);
  sandbox.delivery.set({ drop: 1 });
  await sandbox.bookings.cancel(bookingCode);
  await until(30);
  expect(did).toEqual(["mail", "close"]);
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
