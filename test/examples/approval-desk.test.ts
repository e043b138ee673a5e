import { expect, test } from "vitest";
import type { Sandbox } from "../../src/testing/index.ts";
import { installed } from "../package/support/consumer.ts";
import { eventually } from "../support/eventually.ts";
import { between, later } from "./support/between.ts";
import { expectLines, expectRefusals, notificationOf, platform, subscribe } from "./support/drive.ts";
import { type Example, startExample } from "./support/example.ts";

const HOUR = 3_600_000;
const project = await installed();
const start = (options: Omit<Parameters<typeof startExample>[0], "project" | "from">) =>
  startExample({ project, from: "approval-desk", command: [process.execPath, "main.ts"], ...options });

async function page(example: Example, accept = "application/json"): Promise<string> {
  await example.said("/requests?key=");
  const key = /\/requests\?key=(\S+)/.exec(example.output)?.[1];
  const response = await fetch(`${example.url}/requests?key=${key}`, { headers: { accept } });
  expect(response.status).toBe(200);
  expect(response.headers.get("cache-control")).toBe("no-store");
  return response.text();
}

async function listed(example: Example) {
  type Row = { bookingCode: string; listingId: string; checkIn: string | null; decideBy: string };
  return (JSON.parse(await page(example)) as { requests: Row[] }).requests;
}

/** Makes a request whose event happened `ago` ms ago. Resolves when its notification is answered. */
async function request(sandbox: Sandbox, ago: number): Promise<string> {
  const booking = await sandbox.bookings.create({ status: "Request" });
  const sent = await sandbox.send(notificationOf(booking, new Date(Date.now() - ago)));
  expect(sent.status).toBe(200);
  return booking.bookingCode;
}

test("lists what is to be decided, the most urgent first, until it is decided", async () => {
  const sandbox = await platform();
  const example = await start({ sandbox });
  await subscribe(sandbox, example);
  await expectRefusals(example);
  const guest = { bookingCode: "<A&B>", guestName: "Ada Lovelace" };
  const one = await sandbox.bookings.request(guest);
  await example.said("decide on <A&B> by ");
  const others = [
    await sandbox.bookings.request({ checkIn: "next week" }),
    await sandbox.bookings.request(),
  ] as const;
  for (const { bookingCode } of others) await example.said(`decide on ${bookingCode} by `);
  await sandbox.settled();
  const rows = await listed(example);
  const codes = [one, ...others].map(({ bookingCode }) => bookingCode);
  expect(rows.map(({ bookingCode }) => bookingCode)).toEqual(codes);
  // Dates that cannot be read do not hide a request.
  expect(rows.map(({ checkIn }) => checkIn)).toEqual([one.checkIn, null, others[1].checkIn]);
  const { timestamp } = sandbox.deliveries[0]!.notification as { timestamp: string };
  expect(Date.parse(rows[0]!.decideBy)).toBe(Date.parse(timestamp) + 24 * HOUR);
  // The earliest of several events counts, in whatever order they come.
  for (const ago of [5, 9, 1])
    await sandbox.send(notificationOf(others[1], new Date(Date.parse(timestamp) - ago * HOUR)));
  await eventually(async () => {
    const [first] = await listed(example);
    expect(first).toMatchObject({ bookingCode: others[1].bookingCode });
    expect(Date.parse(first!.decideBy)).toBe(Date.parse(timestamp) + 15 * HOUR);
  });
  const html = await page(example, "text/html");
  expect(html).toContain("3 to decide on");
  expect(html).toContain("&#60;A&#38;B&#62;");
  expect(html).toContain(`${one.checkIn} to ${one.checkOut}`);
  expect(html).not.toContain("Ada");

  await sandbox.bookings.approve(one.bookingCode);
  await sandbox.bookings.decline(others[0].bookingCode);
  await sandbox.bookings.cancel(others[1].bookingCode);
  await example.said("decided <A&B>: Confirmed");
  await example.said(`decided ${others[0].bookingCode}: Declined`);
  await example.said(`decided ${others[1].bookingCode}: Cancelled`);
  expect(await listed(example)).toEqual([]);
  await sandbox.settled();
  expect(new Set(sandbox.deliveries.map(({ status }) => status))).toEqual(new Set([200]));
  expectLines(example, [["decided", others[0].bookingCode]]);
  for (const path of ["/requests", "/requests?key=", `/requests${new URL(example.hooks).search}`])
    expect((await fetch(example.url + path)).status, path).toBe(401);
  expect(await example.stop()).toEqual([0, null]);
});

test("reminds once, whatever is killed, and not of what was decided while nobody listened", async () => {
  const sandbox = await platform();
  const proxy = await between(sandbox);
  const env = { STAYHOOK_BASE_URL: proxy.url };
  const first = await start({ sandbox, env });
  await subscribe(sandbox, first);
  const urgent = await request(sandbox, 20 * HOUR);
  const calm = await request(sandbox, HOUR);
  const soon = await request(sandbox, 18 * HOUR - 1500);
  await first.said(`REMINDER: decide on ${urgent}`);
  // The timer was set for a later reminder, and must be set again for this one.
  await first.said(`REMINDER: decide on ${soon}`);
  expect(first.output).not.toContain(`REMINDER: decide on ${calm}`);
  const lost = await request(sandbox, 15 * HOUR);
  await first.said(`decide on ${lost}`);
  // The process is killed while it asks the platform, before it reminds. So the reminder is still open.
  proxy.hold(/\/bookings\//, 1);
  const cut = await request(sandbox, 20 * HOUR);
  await proxy.held(1);
  await first.kill();
  proxy.release();
  // The example is down, so it gets no notification.
  await sandbox.bookings.approve(lost);
  await sandbox.settled();

  // Start 3.5 hours later. Two requests then have half an hour left, and the reminder that was cut off is due.
  const { directory } = first;
  const second = await start({ sandbox, env, directory, command: later(3.5 * HOUR) });
  await second.said(`REMINDER: decide on ${urgent}`);
  await second.said(`REMINDER: decide on ${cut}`);
  const open = async () => (await listed(second)).map(({ bookingCode }) => bookingCode);
  await eventually(async () => expect(await open()).toEqual([urgent, cut, soon, calm]));
  await second.kill();

  const third = await start({ sandbox, env, directory, command: later(3.6 * HOUR) });
  await subscribe(sandbox, third);
  const last = await request(sandbox, 23.5 * HOUR);
  await third.said(`TOO LATE to decide on ${last}`);
  const reminders = [first, second, third].map(({ output }) => output.match(/REMINDER/g)?.length);
  expect(reminders).toEqual([2, 2, undefined]);
  expect(await third.stop()).toEqual([0, null]);
  const wrong = start({ sandbox, env: { REMIND_HOURS: "6,soon" } });
  await expect(wrong).rejects.toThrow("REMIND_HOURS must be hours");
});
