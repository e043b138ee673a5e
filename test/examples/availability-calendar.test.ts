import { statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  block,
  createTables,
  type DoubleBooking,
  doubleBookings,
  release,
  tellDoubleBookings,
} from "../../examples/availability-calendar/calendar.ts";
import { toICalendar } from "../../examples/availability-calendar/icalendar.ts";
import { installed } from "../package/support/consumer.ts";
import { eventually } from "../support/eventually.ts";
import { between, later } from "./support/between.ts";
import {
  driveBookingAndListing,
  expectRefusals,
  notificationOf,
  platform,
  subscribe,
} from "./support/drive.ts";
import { type Example, startExample } from "./support/example.ts";
import { only, parseICalendar, textOf } from "./support/icalendar.ts";

/** Makes a booking of July 2027. */
function july(bookingCode: string, from: number, to: number, listingId = 7) {
  const day = (number: number) => `2027-07-${String(number).padStart(2, "0")}`;
  return { bookingCode, listingId, checkIn: day(from), checkOut: day(to), nights: to - from };
}

test("double bookings are found, and told once: again if they come again, have other nights, or were not told", () => {
  const db = new DatabaseSync(":memory:");
  createTables(db);
  const tell = (today = "2027-01-01", fails = false) => {
    const told: DoubleBooking[] = [];
    const keep = (one: DoubleBooking) => {
      if (fails) throw new Error("the mail server is down");
      told.push(one);
    };
    tellDoubleBookings(db, today, keep);
    return told.map(
      ({ bookings, firstNight, until }) => `${bookings} ${firstNight.slice(8)}-${until.slice(8)}`,
    );
  };
  block(db, july("B", 1, 4));
  block(db, july("C", 4, 6)); // arrives on the day the other guest leaves
  block(db, july("D", 1, 6, 8));
  expect(tell()).toEqual([]);
  block(db, july("A", 3, 5));
  expect(() => tell("2027-01-01", true)).toThrow("mail server");
  expect(tell()).toEqual(["A,B 03-04", "A,C 04-05"]);
  expect(tell()).toEqual([]);
  block(db, july("A", 2, 5));
  expect(tell()).toEqual(["A,B 02-04"]);
  release(db, july("B", 1, 4));
  expect(tell()).toEqual([]);
  block(db, july("B", 1, 4));
  expect(tell()).toEqual(["A,B 02-04"]);
  expect(doubleBookings(db, "2027-07-05")).toEqual([]);
});

test("a double booking is told when it has lasted for a minute", () => {
  const db = new DatabaseSync(":memory:");
  createTables(db);
  const told: string[] = [];
  const tell = (now: number) =>
    tellDoubleBookings(db, "2027-01-01", ({ bookings }) => told.push(bookings.join()), now - 60_000);
  block(db, july("OLD", 1, 4), 0);
  block(db, july("NEW", 1, 4), 100_000);
  tell(130_000);
  release(db, july("OLD", 1, 4), 140_000); // new code first, then the old one is cancelled
  tell(170_000);
  expect(told).toEqual([]);
  block(db, july("OTHER", 1, 4), 180_000);
  tell(239_999);
  expect(told).toEqual([]);
  tell(240_000);
  // A change that leaves the shared nights as they are is no news.
  block(db, july("OTHER", 1, 5), 250_000);
  for (const now of [260_000, 320_000]) tell(now);
  expect(told).toEqual(["NEW,OTHER"]);
});

test("the iCalendar text carries any name, in lines of 75 octets", () => {
  const names = fc.string({ unit: "binary", maxLength: 200 });
  fc.assert(
    fc.property(names, (name) => {
      const { own, events } = parseICalendar(toICalendar(name, []));
      const kept = name.replace(/\r\n?/g, "\n").replace(/[^\P{Cc}\n\t]/gu, "");
      expect(textOf(only(own, "X-WR-CALNAME"))).toBe(kept);
      expect(events).toEqual([]);
    }),
    {
      numRuns: 80,
      examples: [["Haus „Zur Linde“; 1, rue de l’Église \\ 🏡".repeat(5)], ["a\r\nb\nc\rd\te\u0000"], [""]],
    },
  );
});

const project = await installed();
const start = (options: Omit<Parameters<typeof startExample>[0], "project" | "from">) =>
  startExample({
    project,
    from: "availability-calendar",
    command: [process.execPath, "main.ts"],
    ...options,
  });

/** The secret that the example made and printed. */
async function printedSecret(example: Example): Promise<string | undefined> {
  await example.said("/calendars?key=");
  return /\/calendars\?key=(\S+)/.exec(example.output)?.[1];
}

async function overview(example: Example, secret?: string) {
  const key = secret ?? (await printedSecret(example));
  const response = await fetch(`${example.url}/calendars?key=${key}`);
  expect(response.status).toBe(200);
  return (await response.json()) as {
    doubleBookings: DoubleBooking[];
    unhandled: { ref: string; state: string; error: string }[];
    calendars: { listingId: string; name: string | null; path: string }[];
  };
}

async function calendarOf(example: Example, listingId: number, secret?: string): Promise<string> {
  const { calendars } = await overview(example, secret);
  return `${example.url}${calendars.find((one) => one.listingId === String(listingId))?.path}`;
}

/** Returns the stays in a listing's feed, as `20270701-20270704 #0`. */
async function feed(example: Example, listingId: number, secret?: string): Promise<string[]> {
  const response = await fetch(await calendarOf(example, listingId, secret));
  expect(response.headers.get("content-type")).toBe("text/calendar; charset=utf-8");
  const { events } = parseICalendar(await response.text());
  const days = (event: readonly string[]) =>
    ["DTSTART", "DTEND"].map((name) => only(event, `${name};VALUE=DATE`)).join("-");
  return events.map((event) => `${days(event)} #${only(event, "SEQUENCE")}`).sort();
}

const asFed = ({ checkIn, checkOut }: { checkIn: string; checkOut: string }, revision = 0) =>
  `${checkIn.replaceAll("-", "")}-${checkOut.replaceAll("-", "")} #${revision}`;

test("keeps a feed by duplicate deliveries, and serves it only to those who know its URL", async () => {
  const sandbox = await platform();
  const example = await start({ sandbox });
  await driveBookingAndListing(sandbox, example);
  await expectRefusals(example);
  const [listing, [, last]] = [sandbox.listings.list()[0]!, sandbox.bookings.list()];
  const other = await sandbox.bookings.instantBook({ listingId: 12, guestName: "Ada Lovelace" });
  await example.said(`block ${other.bookingCode}`);
  expect(await feed(example, listing.listingId)).toEqual([asFed(last!)]);
  expect(await overview(example)).toMatchObject({ doubleBookings: [], unhandled: [] });

  const url = await calendarOf(example, listing.listingId);
  const got = await fetch(url);
  const text = await got.text();
  expect(textOf(only(parseICalendar(text).own, "X-WR-CALNAME"))).toBe(listing.listingName);
  const all = text + (await (await fetch(await calendarOf(example, 12))).text());
  for (const private_ of ["Ada", other.bookingCode, last!.bookingCode]) expect(all).not.toContain(private_);

  // An unchanged feed is 304. Each secret opens only its own pages.
  const etag = got.headers.get("etag") as string;
  expect((await fetch(url, { headers: { "if-none-match": etag } })).status).toBe(304);
  expect((await fetch(url, { method: "POST" })).status).toBe(405);
  const token = url.split("/").at(-1);
  for (const path of [
    `/calendars/12/${token}`,
    `/calendars/${listing.listingId}/guess.ics`,
    `/calendars/%E0/${token}`,
    "/calendars?key=",
    `/calendars${new URL(example.hooks).search}`,
    `/calendars?key=${token?.replace(".ics", "")}`,
  ])
    expect((await fetch(example.url + path)).status, path).toBe(404);
  // The file contains secrets and bookings of guests.
  expect(statSync(join(example.directory, "events.db")).mode & 0o077).toBe(0);
  expect(await example.stop()).toEqual([0, null]);

  // The database is lost, and the secret is not. An empty feed would free every night of the subscribers.
  const env = { CALENDAR_SECRET: "mine" };
  const kept = await start({ sandbox, env });
  await subscribe(sandbox, kept);
  const { bookingCode } = await sandbox.bookings.instantBook({ listingId: 12 });
  await kept.said(`block ${bookingCode}`);
  const { pathname } = new URL(await calendarOf(kept, 12, "mine"));
  expect((await fetch(kept.url + pathname)).status).toBe(200);
  await kept.stop();
  const emptied = await start({ sandbox, env });
  const lost = await fetch(emptied.url + pathname);
  expect([lost.status, lost.headers.get("retry-after")]).toEqual([503, "3600"]);
});

test("follows moves, double bookings and unreadable dates, and blocks every night once after a kill -9", async () => {
  const sandbox = await platform();
  const proxy = await between(sandbox);
  const env = { STAYHOOK_BASE_URL: proxy.url, RECONCILE_EVERY: "1s" };
  const first = await start({ sandbox, env });
  await subscribe(sandbox, first);
  const listingId = 7;
  const year = new Date().getUTCFullYear() + 1;
  const days = (from: string, to: string) => ({ checkIn: `${year}-${from}`, checkOut: `${year}-${to}` });
  const a = await sandbox.bookings.instantBook({ listingId, ...days("07-01", "07-04") });
  const b = await sandbox.bookings.instantBook({ listingId, ...days("07-03", "07-04") });
  await first.said(`block ${b.bookingCode}`);
  expect(await feed(first, listingId)).toEqual([asFed(a), asFed(b)]);
  expect((await overview(first)).doubleBookings).toHaveLength(1);
  // One booking may end in a moment, so a minute must pass.
  expect(first.output).not.toContain("DOUBLE");
  const file = new DatabaseSync(join(first.directory, "events.db"));
  file.exec("PRAGMA busy_timeout = 5000; UPDATE stays SET changedAt = changedAt - 60000");
  file.close();
  await first.said(/DOUBLE BOOKING of listing 7: .*07-03 to .*07-04/);
  expect(first.output).toContain(a.bookingCode);
  expect(await first.stop()).toEqual([0, null]);

  // While the example is down, a booking moves. The secret is now the user's own, which the example does not print.
  await sandbox.bookings.alter(b.bookingCode, days("08-02", "08-04"));
  await sandbox.settled();
  const { directory } = first;
  const second = await start({ sandbox, directory, env: { ...env, CALENDAR_SECRET: "mine" } });
  await subscribe(sandbox, second);
  await second.said(`move ${b.bookingCode}: listing 7, ${year}-08-02 to ${year}-08-04`);
  expect((await fetch(`${second.url}/calendars?key=mine`)).status).toBe(200);
  expect(second.output).not.toMatch(/DOUBLE|key=/);
  await sandbox.bookings.alter(a.bookingCode, days("07-08", "07-09"));
  await sandbox.bookings.cancel(a.bookingCode);
  await second.said(`release ${a.bookingCode}`);

  // Without a notification, the reconciler finds new dates. Unreadable dates change nothing in the feed.
  const moved = { checkIn: `${year}-08-03T14:00:00+02:00`, checkOut: `${year}-08-05` };
  proxy.change(new RegExp(`/bookings/${b.bookingCode}$`), (booking) => ({
    ...(booking as object),
    ...moved,
  }));
  await second.said(`move ${b.bookingCode}: listing 7, ${year}-08-03 to ${year}-08-05`);
  const odd = await sandbox.bookings.instantBook({ listingId, checkIn: "next summer", checkOut: "later" });
  await second.said(new RegExp(`booking:${odd.bookingCode}\\) failed`));

  expect(await feed(second, listingId, "mine")).toEqual([`${year}0803-${year}0805 #2`]);

  // Hold the reads. The next notifications are recorded, and their events begin but cannot end.
  proxy.hold(/\/bookings\//);
  for (let count = 1; count < 13; count++)
    await sandbox.bookings.instantBook({ listingId: 8, ...days(`09-${count + 10}`, `09-${count + 11}`) });
  await proxy.held(10);
  await sandbox.settled();
  await second.kill();
  expect(sandbox.deliveries.filter(({ status }) => status !== 200 && status !== undefined)).toEqual([]);
  proxy.release();
  // Start after the leases of the dead process have expired.
  const third = await start({ sandbox, env, directory, command: later(31_000) });
  const expected = sandbox.bookings.list().filter((booking) => booking.listingId === 8);
  await eventually(async () =>
    expect(await feed(third, 8)).toEqual(expected.map((booking) => asFed(booking)).sort()),
  );
  expect(expected).toHaveLength(12);

  // A booking that the host declines later has no nights. The overview lists the unreadable one while it is retried.
  proxy.change(new RegExp(`/bookings/${b.bookingCode}$`), (booking) => ({
    ...(booking as object),
    status: "Declined",
  }));
  await sandbox.send(notificationOf(b), { url: third.hooks });
  await third.said(`release ${b.bookingCode}`);
  expect(await feed(third, listingId)).toEqual([]);
  expect(await overview(third)).toMatchObject({
    doubleBookings: [],
    unhandled: [
      { ref: `booking:${odd.bookingCode}`, state: "retrying", error: expect.stringContaining("checkIn") },
    ],
  });
  expect(await third.stop()).toEqual([0, null]);
});
