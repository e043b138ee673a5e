import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { installed } from "../package/support/consumer.ts";
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
  const plan = () => {
    const db = new DatabaseSync(join(cleaning.directory, "cleaning.db"));
    onTestFinished(() => db.close());
    return db.prepare("SELECT bookingCode, listingId, day FROM cleanings").all();
  };
  /** A stay that begins `from` days from now. The code works from 15:00 on its first day. */
  const staying = (from: number) => {
    const day = (n: number) => new Date(Date.now() + n * 86_400_000).toISOString().slice(0, 10);
    return { listingId: 5717008, checkIn: day(from), checkOut: day(9) };
  };
  const booking = { listingId: 5717008, checkIn: "2026-07-01", checkOut: "2026-07-04" };

  await subscribe(sandbox, codes);
  const { bookingCode } = await sandbox.bookings.instantBook(booking);
  await codes.said(`no code for ${bookingCode} at 5717008`);
  const { bookingCode: guest } = await sandbox.bookings.instantBook(staying(-2));
  await codes.said(`\ncode for ${guest} at 5717008`);
  await sandbox.bookings.alter(guest, staying(2));
  await codes.said(`no code for ${guest} at 5717008`);
  await sandbox.bookings.alter(guest, staying(-1));
  await codes.said(new RegExp(`no code for ${guest}[^]*\ncode for ${guest} at 5717008`));
  await subscribe(sandbox, cleaning);
  await sandbox.bookings.alter(bookingCode, { checkOut: "2026-07-05" });
  await cleaning.said(`clean ${bookingCode} on 2026-07-05`);
  await sandbox.bookings.alter(bookingCode, { checkOut: "2026-07-06" });
  await cleaning.said(`clean ${bookingCode} on 2026-07-06, and not on 2026-07-05`);
  // The line is printed before the write is committed.
  await expect.poll(plan).toEqual([{ bookingCode, listingId: 5717008, day: "2026-07-06" }]);

  await subscribe(sandbox, codes);
  await sandbox.bookings.cancel(guest);
  await codes.said(new RegExp(`code for ${guest}[^]*no code for ${guest}[^]*no code for ${guest}`));
  await subscribe(sandbox, cleaning);
  const { bookingCode: other } = await sandbox.bookings.instantBook(booking);
  await cleaning.said(`clean ${other} on 2026-07-04`);
  await sandbox.bookings.cancel(other);
  await cleaning.said(`no cleaning for ${other}`);
  expect(await codes.stop()).toEqual([0, null]);
  expect(await cleaning.stop()).toEqual([0, null]);
});
