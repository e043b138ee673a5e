import { DatabaseSync } from "node:sqlite";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { createTables, deadlineOf, decide, open, openRequests } from "../../examples/approval-desk/desk.ts";
import type { Sandbox } from "../../src/testing/index.ts";
import { installed } from "../package/support/consumer.ts";
import { between, later } from "./between.ts";
import { expectLines, expectRefusals, platform, subscribe } from "./support/drive.ts";
import { type Example, PATIENCE, startExample } from "./support/example.ts";

const HOUR = 3_600_000;
const noon = Date.UTC(2027, 0, 1, 12);

function openDesk(): DatabaseSync {
  const db = new DatabaseSync(":memory:");
  onTestFinished(() => db.close());
  createTables(db);
  return db;
}

/** Makes the event of a booking request, `after` ms after noon. */
function asked(bookingCode: string, after = 0, fields: object = {}) {
  const booking = {
    bookingCode,
    status: "Request",
    listingId: 7,
    checkIn: "2027-07-01",
    checkOut: "2027-07-04",
    ...fields,
  };
  return { booking, decideBy: new Date(noon + after + 24 * HOUR) };
}

const ask = (db: DatabaseSync, { booking, decideBy }: ReturnType<typeof asked>) =>
  open(db, booking, decideBy);

const codes = (db: DatabaseSync) => openRequests(db, noon).map(({ bookingCode }) => bookingCode);

describe("the desk", () => {
  test("has each request once, the most urgent first", () => {
    const db = openDesk();
    expect(ask(db, asked("B", HOUR))).toBe(true);
    expect(ask(db, asked("A", 2 * HOUR))).toBe(true);
    expect(ask(db, asked("B", HOUR))).toBe(false);
    expect(codes(db)).toEqual(["B", "A"]);
    expect(openRequests(db, noon)[0]).toEqual({
      bookingCode: "B",
      listingId: "7",
      checkIn: "2027-07-01",
      checkOut: "2027-07-04",
      decideBy: noon + 25 * HOUR,
    });
  });

  test("takes the earliest deadline of several events, in whatever order they come", () => {
    const db = openDesk();
    for (const after of [HOUR, 0, 2 * HOUR]) {
      const { booking, decideBy } = asked("A", after);
      open(db, booking, deadlineOf(db, "A", decideBy));
    }
    expect(openRequests(db, noon)).toMatchObject([{ decideBy: noon + 24 * HOUR }]);
  });

  test("takes a request whose dates and listing cannot be read", () => {
    const db = openDesk();
    ask(db, asked("A", 0, { checkIn: "next week", listingId: undefined }));
    expect(openRequests(db, noon)).toMatchObject([{ checkIn: null, checkOut: null, listingId: null }]);
  });

  test("forgets what is decided on", () => {
    const db = openDesk();
    ask(db, asked("A"));
    expect(decide(db, "A")).toBe(true);
    expect(decide(db, "A")).toBe(false);
    expect(openRequests(db, noon)).toEqual([]);
  });
});

describe("the app", async () => {
  const project = await installed();
  const from = "approval-desk";
  const start = (options: Omit<Parameters<typeof startExample>[0], "project" | "from">) =>
    startExample({ project, from, command: [process.execPath, "main.ts"], ...options });

  async function page(example: Example, accept = "application/json"): Promise<string> {
    await example.said("/requests?key=");
    const key = /\/requests\?key=(\S+)/.exec(example.output)?.[1];
    const response = await fetch(`${example.url}/requests?key=${key}`, { headers: { accept } });
    expect(response.status).toBe(200);
    expect(response.headers.get("cache-control")).toBe("no-store");
    return response.text();
  }

  async function listed(example: Example) {
    const { requests } = JSON.parse(await page(example)) as {
      requests: { bookingCode: string; decideBy: string; minutesLeft: number }[];
    };
    return requests;
  }

  /** Makes a request whose event happened `ago` ms ago. Resolves when its notification is answered. */
  async function request(sandbox: Sandbox, ago: number): Promise<string> {
    const { bookingCode } = await sandbox.bookings.create({ status: "Request" });
    const timestamp = new Date(Date.now() - ago).toISOString();
    const sent = await sandbox.send({
      eventId: crypto.randomUUID(),
      timestamp,
      bookingCode,
      listingId: null,
    });
    expect(sent.status).toBe(200);
    return bookingCode;
  }

  test("lists what is to be decided, until it is, by what is delivered to it twice", {
    timeout: 2 * PATIENCE,
  }, async () => {
    const sandbox = await platform();
    const example = await start({ sandbox });
    await subscribe(sandbox, example);
    await expectRefusals(example);
    const one = await sandbox.bookings.request({ bookingCode: "<A&B>", guestName: "Ada Lovelace" });
    await example.said("decide on <A&B> by ");
    const others = [await sandbox.bookings.request(), await sandbox.bookings.request()];
    for (const { bookingCode } of others) await example.said(`decide on ${bookingCode} by `);
    await sandbox.settled();
    const rows = await listed(example);
    expect(rows).toHaveLength(3);
    const timestamp = (sandbox.deliveries[0]!.notification as { timestamp: string }).timestamp;
    expect(Date.parse(rows[0]!.decideBy)).toBe(Date.parse(timestamp) + 24 * HOUR);
    expect(rows[0]!.minutesLeft).toBeGreaterThan(23 * 60);
    const html = await page(example, "text/html");
    expect(html).toContain("3 to decide on");
    expect(html).toContain("&#60;A&#38;B&#62;");
    expect(html).toContain(`${one.checkIn} to ${one.checkOut}`);
    expect(html).not.toContain("Ada");

    const { listingId } = await sandbox.listings.submit();
    await sandbox.listings.publish(listingId);
    await sandbox.bookings.approve(one.bookingCode);
    await sandbox.bookings.decline(others[0]!.bookingCode);
    await sandbox.bookings.cancel(others[1]!.bookingCode);
    await example.said("decided <A&B>: Confirmed");
    await example.said(`decided ${others[0]!.bookingCode}: Declined`);
    await example.said(`decided ${others[1]!.bookingCode}: Cancelled`);
    expect(await listed(example)).toEqual([]);
    await sandbox.settled();
    expect(sandbox.deliveries.map(({ status }) => status)).toEqual(Array(14).fill(200));
    expectLines(
      example,
      others.flatMap(({ bookingCode }) => [
        ["decide on", bookingCode],
        ["decided", bookingCode],
      ]),
    );

    for (const path of ["/requests", "/requests?key=", `/requests${new URL(example.hooks).search}`])
      expect((await fetch(example.url + path)).status, path).toBe(401);
    expect(await example.stop()).toEqual([0, null]);
  });

  test("reminds once, whatever is killed, and not of what was decided while nobody listened", {
    timeout: 2 * PATIENCE,
  }, async () => {
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
    // The first event finds this booking as Initiated. The guest requests it afterwards.
    const { bookingCode: begun } = await sandbox.bookings.create({ status: "Initiated" });
    const timestamp = new Date().toISOString();
    const eventOf = () => ({ eventId: crypto.randomUUID(), timestamp, bookingCode: begun, listingId: null });
    await sandbox.send(eventOf());
    await vi.waitUntil(() => sandbox.requests.some(({ path }) => path.endsWith(begun)), {
      timeout: PATIENCE,
    });
    proxy.change(new RegExp(`/bookings/${begun}$`), (booking) => ({
      ...(booking as object),
      status: "Request",
    }));
    await sandbox.send(eventOf());
    await first.said(`decide on ${begun}`);
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
    const second = await start({
      sandbox,
      env,
      directory: first.directory,
      command: later(3.5 * HOUR),
    });
    await second.said(`REMINDER: decide on ${urgent}`);
    await second.said(`REMINDER: decide on ${cut}`);
    await vi.waitFor(
      async () =>
        expect((await listed(second)).map(({ bookingCode }) => bookingCode)).toEqual([
          urgent,
          cut,
          soon,
          calm,
          begun,
        ]),
      { timeout: PATIENCE },
    );
    await second.kill();

    const third = await start({ sandbox, env, directory: first.directory, command: later(3.6 * HOUR) });
    await subscribe(sandbox, third);
    const last = await request(sandbox, 23.5 * HOUR);
    await third.said(`TOO LATE to decide on ${last}`);
    expect(third.output.match(/REMINDER/g)).toBeNull();
    expect(second.output.match(/REMINDER/g)).toHaveLength(2);
    expect(first.output.match(/REMINDER/g)).toHaveLength(2);
    expect(await third.stop()).toEqual([0, null]);
  });

  test("refuses hours that are none", { timeout: 2 * PATIENCE }, async () => {
    const sandbox = await platform();
    const started = start({ sandbox, env: { REMIND_HOURS: "6,soon" } });
    await expect(started).rejects.toThrow("REMIND_HOURS must be hours");
  });
});
