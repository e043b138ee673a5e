import { cpSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { installed } from "../package/support/consumer.ts";
import { root } from "../package/support/pack.ts";
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
  await sandbox.bookings.alter(bookingCode, { checkOut: day(5) });
  await cleaning.said(`clean ${bookingCode} on ${day(5)}`);
  await sandbox.bookings.alter(bookingCode, { checkOut: day(6) });
  await cleaning.said(`clean ${bookingCode} on ${day(6)}, and not on ${day(5)}`);
  // The line is printed before the write is committed.
  await expect.poll(plan).toEqual([{ bookingCode, listingId: 5717008, day: day(6) }]);

  await subscribe(sandbox, codes);
  await sandbox.bookings.cancel(guest);
  await codes.said(new RegExp(`code for ${guest}[^]*no code for ${guest}[^]*no code for ${guest}`));
  expect(codes.output).not.toContain(past);
  await subscribe(sandbox, cleaning);
  const { bookingCode: other } = await sandbox.bookings.instantBook(booking);
  await cleaning.said(`clean ${other} on ${day(4)}`);
  await sandbox.bookings.cancel(other);
  await cleaning.said(`no cleaning for ${other}`);
  expect(await codes.stop()).toEqual([0, null]);
  expect(await cleaning.stop()).toEqual([0, null]);
});

test("a plan of 1.1, with one row for each booking, takes a second cleaning", async () => {
  const project = await installed();
  const sandbox = await platform();
  const directory = mkdtempSync(join(project.directory, "app-"));
  cpSync(join(root, "examples/cleaning"), directory, { recursive: true });
  const db = new DatabaseSync(join(directory, "events.db"));
  onTestFinished(() => db.close());
  db.exec("PRAGMA busy_timeout = 5000");
  db.exec("CREATE TABLE cleanings (bookingCode TEXT PRIMARY KEY, listingId INTEGER, day TEXT) STRICT");
  db.exec("INSERT INTO cleanings VALUES ('OLD', 7, '2026-05-01')");
  const app = { project, sandbox, from: "cleaning", directory, command: [process.execPath, "main.ts"] };
  const example = await startExample(app);
  db.exec("INSERT INTO cleanings VALUES ('OLD', 9, '2026-05-04')");
  expect(db.prepare("SELECT listingId FROM cleanings ORDER BY day").all()).toEqual([
    { listingId: 7 },
    { listingId: 9 },
  ]);
  expect(await example.stop()).toEqual([0, null]);
});
