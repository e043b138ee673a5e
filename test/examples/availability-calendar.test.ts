import { statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import * as fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import {
  type BookedNights,
  block,
  blockedStays,
  createTables,
  type DoubleBooking,
  doubleBookings,
  nightsOf,
  release,
  tellDoubleBookings,
} from "../../examples/availability-calendar/calendar.ts";
import { toICalendar } from "../../examples/availability-calendar/icalendar.ts";
import type { SandboxBooking } from "../../src/testing/index.ts";
import { installed } from "../package/support/consumer.ts";
import { between, later } from "./between.ts";
import { type Component, events, only, parseICalendar, textOf } from "./icalendar-parser.ts";
import { driveBookingAndListing, expectRefusals, platform, subscribe } from "./support/drive.ts";
import { type Example, PATIENCE, startExample } from "./support/example.ts";

const today = "2027-01-01";

function newCalendar(): DatabaseSync {
  const db = new DatabaseSync(":memory:");
  createTables(db);
  return db;
}

/** Makes a booking of July 2027. */
function july(bookingCode: string, from: number, to: number, listingId = "7"): BookedNights {
  const day = (number: number) => `2027-07-${String(number).padStart(2, "0")}`;
  return { bookingCode, listingId, checkIn: day(from), checkOut: day(to), nights: to - from };
}

/** Returns the blocked stays of listing 7, as `1-4 #0`: the days of arrival and departure, and the revision. */
const blocked = (db: DatabaseSync) =>
  blockedStays(db, "7", today).map(
    ({ checkIn, checkOut, revision }) =>
      `${Number(checkIn.slice(8))}-${Number(checkOut.slice(8))} #${revision}`,
  );

describe("nights", () => {
  test("are blocked once, however often a confirmation comes", () => {
    const db = newCalendar();
    expect(block(db, july("A", 1, 4))).toBe(true);
    expect(block(db, july("A", 1, 4))).toBe(false);
    expect(blocked(db)).toEqual(["1-4 #0"]);
  });

  test("move with a booking that is confirmed again with other dates or another listing", () => {
    const db = newCalendar();
    block(db, july("A", 1, 4), 1000);
    const [before] = blockedStays(db, "7", today);
    expect(block(db, july("A", 2, 5), 2000)).toBe(true);
    expect(blockedStays(db, "7", today)).toEqual([
      { uid: before?.uid, checkIn: "2027-07-02", checkOut: "2027-07-05", revision: 1, changedAt: 2000 },
    ]);
    block(db, july("A", 2, 5, "8"), 3000);
    expect(blocked(db)).toEqual([]);
    expect(blockedStays(db, "8", today)).toMatchObject([{ uid: before?.uid, revision: 2 }]);
  });

  test("are released by a cancellation, and blocked again under the same uid if the booking comes back", () => {
    const db = newCalendar();
    block(db, july("A", 1, 4), 1000);
    const [before] = blockedStays(db, "7", today);
    expect(release(db, "A", 2000)).toBe(true);
    expect(release(db, "A", 3000)).toBe(false);
    expect(release(db, "never seen", 3000)).toBe(false);
    expect(blocked(db)).toEqual([]);
    expect(block(db, july("A", 1, 4), 4000)).toBe(true);
    expect(blockedStays(db, "7", today)).toMatchObject([{ uid: before?.uid, revision: 2, changedAt: 4000 }]);
  });

  test("of another booking stay blocked when one of two is cancelled", () => {
    const db = newCalendar();
    block(db, july("A", 1, 4));
    block(db, july("B", 3, 6));
    expect(blocked(db)).toEqual(["1-4 #0", "3-6 #0"]);
    release(db, "A");
    expect(blocked(db)).toEqual(["3-6 #0"]);
  });

  test.each([
    ["a date in a form that nobody knows", { checkIn: "1st of July" }, "checkIn"],
    ["no date", { checkOut: null }, "checkOut"],
    ["no nights", { checkOut: "2027-07-01" }, "checkOut"],
    ["no listing", { listingId: null }, "listingId"],
    ["an empty listing", { listingId: "" }, "listingId"],
  ])("of a booking with %s are not blocked, and the error says so", (_, fields, field) => {
    const booking = {
      bookingCode: "A1",
      status: "Confirmed",
      listingId: 7,
      checkIn: "2027-07-01",
      checkOut: "2027-07-04",
    };
    expect(nightsOf(booking)).toMatchObject({ listingId: "7", nights: 3 });
    expect(() => nightsOf({ ...booking, ...fields })).toThrow(
      new RegExp(`^the nights of A1 are not blocked: .*${field}`),
    );
  });
});

describe("double bookings", () => {
  test("are found where two bookings of one listing have a night in common", () => {
    const db = newCalendar();
    block(db, july("B", 1, 4));
    block(db, july("C", 4, 6)); // arrives on the day the other guest leaves
    block(db, july("D", 1, 6, "8"));
    block(db, july("E", 20, 25));
    expect(doubleBookings(db, today)).toEqual([]);
    block(db, july("A", 3, 5));
    block(db, july("F", 21, 23));
    expect(doubleBookings(db, today)).toEqual([
      { listingId: "7", bookings: ["A", "B"], firstNight: "2027-07-03", until: "2027-07-04" },
      { listingId: "7", bookings: ["A", "C"], firstNight: "2027-07-04", until: "2027-07-05" },
      { listingId: "7", bookings: ["E", "F"], firstNight: "2027-07-21", until: "2027-07-23" },
    ]);
    expect(doubleBookings(db, "2027-07-05")).toHaveLength(1);
    release(db, "F");
    release(db, "A");
    expect(doubleBookings(db, today)).toEqual([]);
  });

  test("are told of once, and again if they come again, or with other nights", () => {
    const db = newCalendar();
    const told: DoubleBooking[] = [];
    const tell = () => {
      told.length = 0;
      tellDoubleBookings(db, today, (one) => told.push(one));
      return told.map(({ bookings, firstNight }) => `${bookings} ${firstNight.slice(8)}`);
    };
    block(db, july("A", 1, 4));
    expect(tell()).toEqual([]);
    block(db, july("B", 2, 6));
    expect(tell()).toEqual(["A,B 02"]);
    expect(tell()).toEqual([]);
    block(db, july("C", 5, 7));
    expect(tell()).toEqual(["B,C 05"]);
    block(db, july("B", 3, 6));
    expect(tell()).toEqual(["A,B 03"]);
    release(db, "A");
    expect(tell()).toEqual([]);
    block(db, july("A", 1, 4));
    expect(tell()).toEqual(["A,B 03"]);
  });

  test("are told of again where telling has failed", () => {
    const db = newCalendar();
    block(db, july("A", 1, 4));
    block(db, july("B", 1, 4));
    const fail = () => {
      throw new Error("the mail server is down");
    };
    expect(() => tellDoubleBookings(db, today, fail)).toThrow("mail server");
    const tell = vi.fn();
    tellDoubleBookings(db, today, tell);
    expect(tell).toHaveBeenCalledOnce();
  });
});

describe("the iCalendar text", () => {
  test("has an event for each stay, that ends on the day of departure", () => {
    const db = newCalendar();
    block(db, july("SECRETCODE", 1, 4), Date.UTC(2027, 0, 2, 3, 4, 5, 678));
    block(db, july("SECRETCODE", 30, 31), Date.UTC(2027, 0, 3));
    block(db, july("OTHERCODE", 4, 9), Date.UTC(2027, 0, 2, 3, 4, 5));
    const text = toICalendar("Loft", blockedStays(db, "7", today));
    const [first, second] = events(parseICalendar(text));
    expect(first?.properties.map(({ name, value }) => `${name}:${value}`).slice(1)).toEqual([
      "DTSTAMP:20270102T030405Z",
      "LAST-MODIFIED:20270102T030405Z",
      "SEQUENCE:0",
      "DTSTART:20270704",
      "DTEND:20270709",
      "SUMMARY:Booked",
      "STATUS:CONFIRMED",
      "TRANSP:OPAQUE",
    ]);
    expect(only(second as Component, "SEQUENCE")).toBe("1");
    expect(only(second as Component, "DTSTART")).toBe("20270730");
    expect(only(second as Component, "UID")).not.toBe(only(first as Component, "UID"));
    expect(text).not.toMatch(/CODE/);
  });

  test("is a valid calendar where nothing is blocked", () => {
    expect(events(parseICalendar(toICalendar("Loft", [])))).toEqual([]);
  });

  test("carries any name, in lines of 75 octets", { timeout: PATIENCE }, () => {
    const names = fc.string({ unit: "binary", maxLength: 200 });
    fc.assert(
      fc.property(names, (name) => {
        const calendar = parseICalendar(toICalendar(name, []));
        const kept = name.replace(/\r\n?/g, "\n").replace(/[^\P{Cc}\n\t]/gu, "");
        expect(textOf(only(calendar, "X-WR-CALNAME"))).toBe(kept);
      }),
      {
        numRuns: 80,
        examples: [["Haus „Zur Linde“; 1, rue de l’Église \\ 🏡".repeat(5)], ["a\r\nb\nc\rd\te\u0000"], [""]],
      },
    );
  });
});

describe("the app", async () => {
  const project = await installed();
  const from = "availability-calendar";
  const start = (options: Omit<Parameters<typeof startExample>[0], "project" | "from">) =>
    startExample({ project, from, command: [process.execPath, "main.ts"], ...options });

  /** Fetches the overview from the URL that the example printed. */
  async function overview(example: Example) {
    await example.said("/calendars?key=");
    const key = /\/calendars\?key=(\S+)/.exec(example.output)?.[1];
    const response = await fetch(`${example.url}/calendars?key=${key}`);
    expect(response.status).toBe(200);
    return (await response.json()) as {
      doubleBookings: DoubleBooking[];
      unhandled: { ref: string; state: string; error: string }[];
      calendars: { listingId: string; name: string | null; path: string }[];
    };
  }

  async function calendarOf(example: Example, listingId: number): Promise<string> {
    const { calendars } = await overview(example);
    const found = calendars.find((one) => one.listingId === String(listingId));
    return `${example.url}${found?.path}`;
  }

  /** Returns the stays in a listing's feed, as `20270701-20270704 #0`. */
  async function feed(example: Example, listingId: number): Promise<string[]> {
    const response = await fetch(await calendarOf(example, listingId));
    expect(response.headers.get("content-type")).toBe("text/calendar; charset=utf-8");
    return events(parseICalendar(await response.text())).map(
      (event) => `${only(event, "DTSTART")}-${only(event, "DTEND")} #${only(event, "SEQUENCE")}`,
    );
  }

  const eventOf = ({ bookingCode }: { readonly bookingCode: string }) => ({
    eventId: crypto.randomUUID(),
    timestamp: new Date().toISOString(),
    bookingCode,
    listingId: null,
  });

  const asFed = ({ checkIn, checkOut }: Pick<SandboxBooking, "checkIn" | "checkOut">, revision = 0) =>
    `${checkIn.replaceAll("-", "")}-${checkOut.replaceAll("-", "")} #${revision}`;

  test("keeps a calendar by what is delivered to it twice, and serves it to who knows its URL alone", {
    timeout: 2 * PATIENCE,
  }, async () => {
    const sandbox = await platform();
    const example = await start({ sandbox });
    await driveBookingAndListing(sandbox, example);
    await expectRefusals(example);

    const listing = sandbox.listings.list()[0]!;
    const [, last] = sandbox.bookings.list();
    const other = await sandbox.bookings.instantBook({ listingId: 12, guestName: "Ada Lovelace" });
    await example.said(`block ${other.bookingCode}`);
    expect(await feed(example, listing.listingId)).toEqual([asFed(last!)]);
    expect(await overview(example)).toMatchObject({ doubleBookings: [], unhandled: [] });

    const url = await calendarOf(example, listing.listingId);
    const got = await fetch(url);
    const text = await got.text();
    expect(textOf(only(parseICalendar(text), "X-WR-CALNAME"))).toBe(listing.listingName);
    const all = text + (await (await fetch(await calendarOf(example, 12))).text());
    for (const private_ of ["Ada", other.bookingCode, last!.bookingCode]) expect(all).not.toContain(private_);

    // An unchanged feed is 304. Each secret opens only its own pages.
    const etag = got.headers.get("etag") as string;
    expect((await fetch(url, { headers: { "if-none-match": etag } })).status).toBe(304);
    expect((await fetch(url, { method: "HEAD" })).status).toBe(200);
    expect((await fetch(url, { method: "POST" })).status).toBe(405);
    const token = url.split("/").at(-1);
    const webhookKey = new URL(example.hooks).search;
    for (const path of [
      `/calendars/12/${token}`,
      `/calendars/${listing.listingId}/guess.ics`,
      `/calendars/%E0/${token}`,
      "/calendars",
      "/calendars?key=",
      `/calendars${webhookKey}`,
      `/calendars?key=${token?.replace(".ics", "")}`,
    ])
      expect((await fetch(example.url + path)).status, path).toBe(404);
    // The file contains secrets and bookings of guests.
    expect(statSync(join(example.directory, "events.db")).mode & 0o077).toBe(0);
    expect(await example.stop()).toEqual([0, null]);
  });

  test("tells of a double booking, keeps both, and one when the other is cancelled; takes new dates; opens by a secret of yours", {
    timeout: 2 * PATIENCE,
  }, async () => {
    const sandbox = await platform();
    const proxy = await between(sandbox);
    const env = { STAYHOOK_BASE_URL: proxy.url };
    const first = await start({ sandbox, env });
    await subscribe(sandbox, first);
    const listingId = 7;
    const year = new Date().getUTCFullYear() + 1;
    const days = { checkIn: `${year}-07-01`, checkOut: `${year}-07-04` };
    const a = await sandbox.bookings.instantBook({ listingId, ...days });
    const b = await sandbox.bookings.instantBook({ listingId, ...days, checkIn: `${year}-07-03` });
    await first.said(/DOUBLE BOOKING of listing 7: .*07-03 to .*07-04/);
    expect(first.output).toContain(a.bookingCode);
    expect(await feed(first, listingId)).toEqual([asFed(a), asFed(b)]);
    expect((await overview(first)).doubleBookings).toHaveLength(1);
    await first.kill();

    const second = await start({
      sandbox,
      directory: first.directory,
      env: { ...env, CALENDAR_SECRET: "mine" },
    });
    await subscribe(sandbox, second);
    await sandbox.bookings.cancel(a.bookingCode);
    await second.said(`release ${a.bookingCode}`);
    expect((await fetch(`${second.url}/calendars?key=mine`)).status).toBe(200);
    expect(second.output).not.toMatch(/DOUBLE|key=/); // reported before; it never prints the user's own secret

    // The platform sends no event when dates change, so send another event.
    const moved = { checkIn: `${year}-08-01T14:00:00+02:00`, checkOut: `${year}-08-03` };
    proxy.change(new RegExp(`/bookings/${b.bookingCode}$`), (booking) => ({
      ...(booking as object),
      ...moved,
    }));
    await sandbox.send(eventOf(b));
    await second.said(`move ${b.bookingCode}: listing 7, ${year}-08-01 to ${year}-08-03`);

    // An event with unreadable dates fails and changes nothing. The feed keeps the earlier dates.
    const odd = await sandbox.bookings.instantBook({ listingId, checkIn: "next summer", checkOut: "later" });
    await second.said(`the nights of ${odd.bookingCode} are not blocked`);

    // If a crash cuts off the message about a double booking, the next start sends it.
    await sandbox.bookings.instantBook({ listingId, checkIn: `${year}-08-02`, checkOut: `${year}-08-04` });
    await second.said(/DOUBLE BOOKING of listing 7: .*08-02 to .*08-03/);
    await second.kill();
    const db = new DatabaseSync(join(first.directory, "events.db"));
    db.exec("DELETE FROM toldDoubleBookings");
    db.close();
    const third = await start({ sandbox, env, directory: first.directory });
    await subscribe(sandbox, third);
    await third.said(/DOUBLE BOOKING of listing 7: .*08-02 to .*08-03/);

    // A booking that the host declines later has no nights either.
    proxy.change(new RegExp(`/bookings/${b.bookingCode}$`), (booking) => ({
      ...(booking as object),
      status: "Declined",
    }));
    await sandbox.send(eventOf(b));
    await third.said(`release ${b.bookingCode}`);
    expect(await feed(third, listingId)).toEqual([`${year}0802-${year}0804 #0`]);
    // The overview lists the event with the unreadable dates while it is retried.
    const unhandled = [
      { ref: `booking:${odd.bookingCode}`, state: "retrying", error: expect.stringContaining("checkIn") },
    ];
    await vi.waitFor(
      async () => expect(await overview(third)).toMatchObject({ doubleBookings: [], unhandled }),
      { timeout: PATIENCE, interval: 50 },
    );
  });

  test("moves nights: while it is down, twice in a minute, before a cancellation, and without a notification", {
    timeout: 2 * PATIENCE,
  }, async () => {
    const sandbox = await platform();
    const proxy = await between(sandbox);
    const env = { STAYHOOK_BASE_URL: proxy.url, RECONCILE_EVERY: "1s" };
    const first = await start({ sandbox, env });
    await subscribe(sandbox, first);
    const listingId = 7;
    const year = new Date().getUTCFullYear() + 1;
    const july = (from: number, to: number) => ({
      checkIn: `${year}-07-0${from}`,
      checkOut: `${year}-07-0${to}`,
    });
    const { bookingCode } = await sandbox.bookings.instantBook({ listingId, ...july(1, 3) });
    await first.said(`block ${bookingCode}: listing 7, ${year}-07-01 to ${year}-07-03`);
    expect(await first.stop()).toEqual([0, null]);

    await sandbox.bookings.alter(bookingCode, july(2, 4));
    await sandbox.settled();
    const second = await start({ sandbox, env, directory: first.directory });
    await subscribe(sandbox, second);
    await second.said(`move ${bookingCode}: listing 7, ${year}-07-02 to ${year}-07-04`);

    await sandbox.bookings.alter(bookingCode, july(3, 5));
    await sandbox.bookings.alter(bookingCode, july(4, 6));
    await second.said(`move ${bookingCode}: listing 7, ${year}-07-04 to ${year}-07-06`);
    expect((await feed(second, listingId)).map((stay) => stay.split(" ")[0])).toEqual([
      `${year}0704-${year}0706`,
    ]);

    await sandbox.bookings.alter(bookingCode, july(5, 7));
    await sandbox.bookings.cancel(bookingCode);
    await second.said(`release ${bookingCode}`);
    await sandbox.settled();
    expect(await feed(second, listingId)).toEqual([]);

    const silent = await sandbox.bookings.instantBook({ listingId, ...july(1, 3) });
    await second.said(`block ${silent.bookingCode}`);
    proxy.change(new RegExp(`/bookings/${silent.bookingCode}$`), (booking) => ({
      ...(booking as object),
      ...july(6, 9),
    }));
    await second.said(`move ${silent.bookingCode}: listing 7, ${year}-07-06 to ${year}-07-09`);
    expect(await feed(second, listingId)).toEqual([asFed(july(6, 9), 1)]);
    expect(await second.stop()).toEqual([0, null]);
  });

  test("has every night once after a kill -9 in the middle of its work", {
    timeout: 2 * PATIENCE,
  }, async () => {
    const sandbox = await platform();
    const proxy = await between(sandbox);
    const env = { STAYHOOK_BASE_URL: proxy.url };
    const first = await start({ sandbox, env });
    await subscribe(sandbox, first);
    const listingId = 7;
    const cancelled = await sandbox.bookings.instantBook({ listingId });
    await first.said(`block ${cancelled.bookingCode}`);
    for (let count = 0; count < 10; count++) await sandbox.bookings.instantBook({ listingId });
    await first.said(/(block [\s\S]*){3}/);
    // Hold the reads. The next notifications are recorded, and their events begin but cannot end.
    proxy.hold(/\/bookings\//);
    await sandbox.bookings.cancel(cancelled.bookingCode);
    for (let count = 0; count < 15; count++) await sandbox.bookings.instantBook({ listingId });
    await proxy.held(10);
    await sandbox.settled();
    await first.kill();
    expect(sandbox.deliveries.every(({ status }) => status === 200)).toBe(true);
    proxy.release();

    // Start after the leases of the dead process have expired.
    const second = await start({ sandbox, env, directory: first.directory, command: later(31_000) });
    const expected = sandbox.bookings
      .list()
      .filter(({ status }) => status === "Confirmed")
      .map((booking) => asFed(booking))
      .sort();
    expect(expected).toHaveLength(25);
    await vi.waitFor(async () => expect((await feed(second, listingId)).sort()).toEqual(expected), {
      timeout: PATIENCE,
      interval: 50,
    });
    expect(await second.stop()).toEqual([0, null]);
  });
});
