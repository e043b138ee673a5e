import { expect, test } from "vitest";
import { installed } from "../package/support/consumer.ts";
import { expectLines, platform, subscribe } from "./support/drive.ts";
import { startExample } from "./support/example.ts";

const project = await installed();
const from = "node-http.ts";

test("decides, and has nothing to do for what it has no callback for", async () => {
  const sandbox = await platform();
  const example = await startExample({ project, sandbox, from });
  await subscribe(sandbox, example);
  const { bookingCode } = await sandbox.bookings.request();
  await example.said(new RegExp(`^decide on ${bookingCode} by \\d{4}-\\d\\d-\\d\\dT`, "m"));
  const begun = await sandbox.bookings.create({ status: "Initiated" });
  const notification = {
    eventId: crypto.randomUUID(),
    timestamp: new Date(),
    bookingCode: begun.bookingCode,
  };
  expect(await sandbox.send(notification)).toMatchObject({ status: 200 });
  await example.said("nothing to do for booking.Initiated");
});

test("knows after a kill -9 what it has handled", async () => {
  const sandbox = await platform();
  const first = await startExample({ project, sandbox, from });
  await subscribe(sandbox, first);
  const { bookingCode } = await sandbox.bookings.instantBook();
  await first.said(`block ${bookingCode}`);
  await sandbox.bookings.cancel(bookingCode);
  // Events of one booking run in turn, so `release` comes only after the store has recorded the confirmation as done.
  await first.said(`release ${bookingCode}`);
  await sandbox.settled();
  await first.kill();

  const second = await startExample({ project, sandbox, from, directory: first.directory });
  await subscribe(sandbox, second);
  const [confirmation] = sandbox.deliveries;
  expect(await sandbox.send(confirmation?.notification)).toMatchObject({ status: 200 });
  const other = await sandbox.bookings.instantBook();
  await second.said(`block ${other.bookingCode}`);
  // Without the file, the example would release the nights once more.
  expect(second.output).not.toContain(bookingCode);
  expectLines(second, [["block", other.bookingCode]]);
});

test("says which setting is missing", async () => {
  const sandbox = await platform();
  const env = { WEBHOOK_SECRET: undefined };
  await expect(startExample({ project, sandbox, from, env })).rejects.toThrow("secret: must not be missing");
});
