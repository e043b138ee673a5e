import { memoryStore, StayhookClient } from "stayhook";
import { createSandbox } from "stayhook/testing";
import { expect, onTestFinished, test } from "vitest";
import { createStays } from "../../examples/at-a-time/stays.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Starts the guide's app beside a sandbox. Its services note what they do. */
async function start() {
  const sandbox = createSandbox({ seed: 1 });
  onTestFinished(() => sandbox.close());
  const client = new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: sandbox.accessToken,
    fetch: sandbox.fetch,
  });
  const store = memoryStore();
  const door = { isBroken: false };
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
    closeDoor: () => (door.isBroken ? Promise.reject(new Error("no answer")) : note("close")()),
    clean: note("clean"),
    decline,
    zoneOf: () => "Europe/Lisbon",
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
  return { sandbox, store, door, did, day, until, pass };
}

test("a stay: a mail, an open door, a closed door and a cleaning", async () => {
  const { sandbox, did, day, until } = await start();
  await sandbox.bookings.instantBook({ checkIn: day(10), checkOut: day(12) });
  await until(8);
  expect(did).toEqual(["close"]);
  await until(9);
  expect(did).toEqual(["close", "mail"]);
  await until(11);
  expect(did).toEqual(["close", "mail", "open"]);
  await until(13);
  expect(did.slice(3).toSorted()).toEqual(["clean", "close"]);
  await until(30);
  expect(did).toHaveLength(5);
});

test("a stay that moves, told or not", async () => {
  const { sandbox, did, day, until } = await start();
  const { bookingCode } = await sandbox.bookings.instantBook({ checkIn: day(10), checkOut: day(12) });
  await until(5);
  await sandbox.bookings.alter(bookingCode, { checkIn: day(20), checkOut: day(22) });
  await until(15);
  expect(did).toEqual(["close"]);
  sandbox.delivery.set({ drop: 1 });
  await sandbox.bookings.alter(bookingCode, { checkIn: day(30), checkOut: day(32) });
  await until(25);
  expect(did).toEqual(["close"]);
  await until(31);
  expect(did).toEqual(["close", "mail", "open"]);
});

test("a stay that moves, and its callback fails for good: nothing is done at the old time", async () => {
  const { sandbox, store, door, did, day, until, pass } = await start();
  const { bookingCode } = await sandbox.bookings.instantBook({ checkIn: day(10), checkOut: day(12) });
  await until(5);
  door.isBroken = true;
  await sandbox.bookings.alter(bookingCode, { checkIn: day(20), checkOut: day(22) });
  await pass(0);
  expect(await store.discard({ type: "booking.Confirmed", state: "retrying" })).toBe(1);
  // The timer of the mail reads the booking, and finds the change once more.
  await until(9);
  expect(await store.discard({ type: "booking.Confirmed", state: "retrying" })).toBe(1);
  await pass(HOUR);
  expect(await store.list({ type: "booking.timer.arrival-mail", state: "done", limit: 9 })).toHaveLength(1);
  expect(did).toEqual(["close"]);
  door.isBroken = false;
  for (const days of [11, 19, 21, 23]) await until(days);
  expect(did).toEqual(["close", "mail", "open", "close", "clean"]);
});

test("a stay that is cancelled without a notification", async () => {
  const { sandbox, did, day, until } = await start();
  const { bookingCode } = await sandbox.bookings.instantBook({ checkIn: day(10), checkOut: day(12) });
  await until(9);
  sandbox.delivery.set({ drop: 1 });
  await sandbox.bookings.cancel(bookingCode);
  await until(30);
  expect(did).toEqual(["close", "mail", "close"]);
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
