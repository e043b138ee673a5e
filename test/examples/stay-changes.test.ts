import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { installed } from "../package/support/consumer.ts";
import { eventually } from "../support/eventually.ts";
import { platform, subscribe } from "./support/drive.ts";
import { startExample } from "./support/example.ts";

test("a door code and a cleaning follow a booking that moves and is cancelled", async () => {
  const project = await installed();
  const sandbox = await platform();
  const codes = await startExample({
    project,
    sandbox,
    from: "door-codes",
    command: [process.execPath, "main.ts"],
    env: { EVENTS_DB: "codes.db", LISTING_ZONES: '{"5717008":"Europe/Lisbon"}' },
  });
  const cleaning = await startExample({
    project,
    sandbox,
    from: "cleaning",
    command: [process.execPath, "main.ts"],
    env: { EVENTS_DB: "cleaning.db" },
  });
  const orders = () => {
    const db = new DatabaseSync(join(cleaning.directory, "cleaning.db"));
    onTestFinished(() => db.close());
    return db.prepare("SELECT bookingCode, listingId FROM cleanings").all();
  };
  const day = (n: number) => new Date(Date.now() + n * 86_400_000).toISOString().slice(0, 10);
  /** A stay that begins `from` days from now. The code works from 15:00 on its first day. */
  const staying = (from: number) => ({ listingId: 5717008, checkIn: day(from), checkOut: day(9) });
  const booking = { listingId: 5717008, checkIn: day(2), checkOut: day(4) };

  await subscribe(sandbox, codes);
  const { bookingCode: past } = await sandbox.bookings.instantBook({
    listingId: 5717008,
    checkIn: day(-9),
    checkOut: day(-4),
  });
  const { bookingCode } = await sandbox.bookings.instantBook(booking);
  const { bookingCode: guest } = await sandbox.bookings.instantBook(staying(-2));
  await codes.said(`\ncode for ${guest} at 5717008`);
  await sandbox.bookings.alter(guest, staying(2));
  await codes.said(`no code for ${guest} at 5717008`);
  await sandbox.bookings.alter(guest, staying(-1));
  await codes.said(new RegExp(`no code for ${guest}[^]*\ncode for ${guest} at 5717008`));
  await subscribe(sandbox, cleaning);
  const reads = () => sandbox.requests.filter(({ path }) => path.endsWith(guest)).length;
  const before = reads();
  await sandbox.bookings.alter(guest, staying(-2)); // the app sees the guest, who is in the house
  await eventually(() => expect(reads()).toBeGreaterThan(before));
  await sandbox.settled();
  await sandbox.bookings.alter(guest, { ...staying(-2), listingId: 7 });
  await cleaning.said(`clean 5717008 after ${guest}: the guest has left early`);
  // The line is printed before the write is committed.
  await eventually(async () => expect(await orders()).toEqual([{ bookingCode: guest, listingId: 5717008 }]));
  // A stay that begins later needs no cleaning before its end.
  await sandbox.bookings.alter(bookingCode, { checkOut: day(5) });
  await sandbox.bookings.cancel(bookingCode);

  await subscribe(sandbox, codes);
  await sandbox.bookings.cancel(guest);
  await codes.said(new RegExp(`code for ${guest}[^]*no code for ${guest}[^]*no code for ${guest}`));
  expect(codes.output).not.toContain(past);
  expect(orders()).toHaveLength(1);
  expect(await codes.stop()).toEqual([0, null]);
  expect(await cleaning.stop()).toEqual([0, null]);
});
