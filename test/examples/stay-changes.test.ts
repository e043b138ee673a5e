import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { instantAt } from "../../examples/door-codes/local-time.ts";
import { installed } from "../package/support/consumer.ts";
import { platform, subscribe } from "./support/drive.ts";
import { startExample } from "./support/example.ts";

test.each([
  ["2026-07-01", "15:00", "Europe/Lisbon", "2026-07-01T14:00:00.000Z"],
  ["2026-12-01", "15:00", "Europe/Lisbon", "2026-12-01T15:00:00.000Z"],
  ["2026-07-01", "11:00", "America/New_York", "2026-07-01T15:00:00.000Z"],
  ["2026-07-01", "00:30", "Pacific/Kiritimati", "2026-06-30T10:30:00.000Z"],
  // Days of clock changes. In March: before the change, after it, and in the skipped hour. In October: after it.
  ["2026-03-29", "00:30", "Europe/Lisbon", "2026-03-29T00:30:00.000Z"],
  ["2026-03-29", "11:00", "Europe/Lisbon", "2026-03-29T10:00:00.000Z"],
  ["2026-03-29", "01:30", "Europe/Lisbon", "2026-03-29T01:30:00.000Z"],
  ["2026-10-25", "11:00", "Europe/Lisbon", "2026-10-25T11:00:00.000Z"],
])("%s %s in %s is %s", (day, time, timeZone, instant) => {
  expect(instantAt(day, time, timeZone).toISOString()).toBe(instant);
});

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
  const booking = { listingId: 5717008, checkIn: "2026-07-01", checkOut: "2026-07-04" };

  await subscribe(sandbox, codes);
  const { bookingCode } = await sandbox.bookings.instantBook(booking);
  await codes.said(
    `code for ${bookingCode} at 5717008: 2026-07-01T14:00:00.000Z to 2026-07-04T10:00:00.000Z`,
  );
  await subscribe(sandbox, cleaning);
  await sandbox.bookings.alter(bookingCode, { checkOut: "2026-07-05" });
  await cleaning.said(`clean ${bookingCode} on 2026-07-05`);
  await sandbox.bookings.alter(bookingCode, { checkOut: "2026-07-06" });
  await cleaning.said(`clean ${bookingCode} on 2026-07-06, and not on 2026-07-05`);
  // The line is printed before the write is committed.
  await expect.poll(plan).toEqual([{ bookingCode, listingId: 5717008, day: "2026-07-06" }]);

  await subscribe(sandbox, codes);
  await sandbox.bookings.alter(bookingCode, { checkIn: "2026-07-02" });
  await codes.said(
    `code for ${bookingCode} at 5717008: 2026-07-02T14:00:00.000Z to 2026-07-06T10:00:00.000Z`,
  );
  await sandbox.bookings.cancel(bookingCode);
  await codes.said(`no code for ${bookingCode} at 5717008`);
  await subscribe(sandbox, cleaning);
  const { bookingCode: other } = await sandbox.bookings.instantBook(booking);
  await cleaning.said(`clean ${other} on 2026-07-04`);
  await sandbox.bookings.cancel(other);
  await cleaning.said(`no cleaning for ${other}`);
  expect(await codes.stop()).toEqual([0, null]);
  expect(await cleaning.stop()).toEqual([0, null]);
}, 120_000);
