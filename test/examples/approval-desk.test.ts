import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import {
  createTables,
  decide,
  forget,
  open,
  openRequests,
  takeReminder,
} from "../../examples/approval-desk/desk.ts";
import { Reminders, type RemindersOptions } from "../../examples/approval-desk/reminders.ts";
import type { Sandbox } from "../../src/testing/index.ts";
import { installed } from "../package/support/consumer.ts";
import { between, later } from "./between.ts";
import { expectLines, expectRefusals, platform, subscribe } from "./support/drive.ts";
import { type Example, PATIENCE, startExample } from "./support/example.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const noon = Date.UTC(2027, 0, 1, 12);

function newFile(): string {
  const directory = mkdtempSync(join(tmpdir(), "stayhook-desk-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return join(directory, "desk.db");
}

function openDesk(file = ":memory:"): DatabaseSync {
  const db = new DatabaseSync(file);
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
  return { booking, timestamp: new Date(noon + after), decideBy: new Date(noon + after + 24 * HOUR) };
}

const codes = (db: DatabaseSync) => openRequests(db, noon).map(({ bookingCode }) => bookingCode);

describe("the desk", () => {
  test("has each request once, the most urgent first", () => {
    const db = openDesk();
    expect(open(db, asked("B", HOUR))).toBe(true);
    expect(open(db, asked("A", 2 * HOUR))).toBe(true);
    expect(open(db, asked("B", HOUR))).toBe(false);
    expect(codes(db)).toEqual(["B", "A"]);
    expect(openRequests(db, noon)[0]).toEqual({
      bookingCode: "B",
      listingId: "7",
      checkIn: "2027-07-01",
      checkOut: "2027-07-04",
      decideBy: noon + 25 * HOUR,
      reminded: null,
    });
  });

  test("takes the first of several events for the request's own, in whatever order they come", () => {
    const db = openDesk();
    open(db, asked("A", HOUR));
    open(db, asked("A", 0));
    open(db, asked("A", 2 * HOUR, { checkOut: "2027-07-05" }));
    expect(openRequests(db, noon)).toMatchObject([{ decideBy: noon + 24 * HOUR, checkOut: "2027-07-05" }]);
  });

  test("takes a request whose dates and listing cannot be read", () => {
    const db = openDesk();
    open(db, asked("A", 0, { checkIn: "next week", listingId: undefined }));
    expect(openRequests(db, noon)).toMatchObject([{ checkIn: null, checkOut: null, listingId: null }]);
  });

  test("forgets what is decided on, and nothing that happened before that brings it back", () => {
    const db = openDesk();
    open(db, asked("A"));
    open(db, asked("B"));
    expect(decide(db, "A", new Date(noon + HOUR))).toBe(true);
    expect(decide(db, "A", new Date(noon))).toBe(false);
    expect(open(db, asked("A"))).toBe(false);
    expect(open(db, asked("A", HOUR))).toBe(false);
    expect(codes(db)).toEqual(["B"]);
    // The guest has made a new request.
    expect(open(db, asked("A", 2 * HOUR))).toBe(true);
    expect(codes(db)).toEqual(["B", "A"]);
  });

  test("gives each reminder away once, to whoever takes it first", () => {
    const file = newFile();
    const [db, other] = [openDesk(file), openDesk(file)];
    open(db, asked("A"));
    expect(takeReminder(db, "A", 6 * HOUR)).toBe(true);
    expect(takeReminder(other, "A", 6 * HOUR)).toBe(false);
    expect(takeReminder(other, "A", HOUR)).toBe(true);
    expect(takeReminder(db, "A", 6 * HOUR)).toBe(false);
    expect(takeReminder(db, "B", HOUR)).toBe(false);
  });

  test("does not take a request that was seen decided on first", () => {
    const db = openDesk();
    expect(decide(db, "A", new Date(noon + HOUR))).toBe(false);
    expect(open(db, asked("A"))).toBe(false);
    expect(codes(db)).toEqual([]);
  });
});

describe("reminders", () => {
  beforeEach(() => void vi.useFakeTimers({ now: noon }));
  afterEach(() => void vi.useRealTimers());

  /** Makes reminders 6 h before, 1 h before, and at the deadline. They are logged as `<code> <minutes left>`. */
  function remind(db: DatabaseSync, options: Partial<RemindersOptions> = {}) {
    const said: string[] = [];
    const reminders = new Reminders({
      db,
      leads: [6 * HOUR, HOUR, 0],
      isOpen: async () => true,
      remind: ({ bookingCode }, left) => void said.push(`${bookingCode} ${left / MINUTE}`),
      ...options,
    });
    onTestFinished(() => reminders.stop());
    reminders.schedule();
    return { said, reminders };
  }

  test("come at their times, once each", async () => {
    const db = openDesk();
    open(db, asked("A"));
    const { said } = remind(db);
    expect(vi.getTimerCount()).toBe(1);
    await vi.advanceTimersByTimeAsync(18 * HOUR - 1);
    expect(said).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(said).toEqual(["A 360"]);
    await vi.advanceTimersByTimeAsync(5 * HOUR - 1);
    expect(said).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(said).toEqual(["A 360", "A 60"]);
    await vi.advanceTimersByTimeAsync(HOUR);
    expect(said).toEqual(["A 360", "A 60", "A 0"]);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("wait for one timer, whatever there is on the desk, and none where it is empty", async () => {
    const db = openDesk();
    const { said, reminders } = remind(db);
    expect(vi.getTimerCount()).toBe(0);
    for (let index = 0; index < 50; index++) open(db, asked(`A${index}`, index));
    reminders.schedule();
    reminders.schedule();
    expect(vi.getTimerCount()).toBe(1);
    await vi.advanceTimersByTimeAsync(18 * HOUR + 50);
    expect(said).toHaveLength(50);
  });

  test("are not repeated after a restart, and not missed for one", async () => {
    const file = newFile();
    const first = openDesk(file);
    open(first, asked("A"));
    const before = remind(first);
    await vi.advanceTimersByTimeAsync(18 * HOUR);
    expect(before.said).toEqual(["A 360"]);
    before.reminders.stop();
    await vi.advanceTimersByTimeAsync(2 * HOUR);
    const after = remind(openDesk(file));
    await vi.advanceTimersByTimeAsync(3 * HOUR - 1);
    expect(after.said).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(after.said).toEqual(["A 60"]);
  });

  test("that were missed are made up for by the most urgent one", async () => {
    const db = openDesk();
    open(db, asked("A"));
    open(db, asked("B", -10 * HOUR));
    vi.setSystemTime(noon + 23.5 * HOUR);
    const { said } = remind(db);
    await vi.advanceTimersByTimeAsync(0);
    expect(said).toEqual(["B -570", "A 30"]);
    await vi.advanceTimersByTimeAsync(HOUR);
    expect(said).toEqual(["B -570", "A 30", "A 0"]);
  });

  test("come once where two processes are at one file, or one dies after it has taken one", async () => {
    const file = newFile();
    const db = openDesk(file);
    open(db, asked("A"));
    const [one, other] = [remind(db), remind(openDesk(file))];
    await vi.advanceTimersByTimeAsync(18 * HOUR);
    expect([...one.said, ...other.said]).toEqual(["A 360"]);

    const dies = remind(openDesk(file), {
      remind: () => new Promise<void>(() => {}), // the process dies during this call
    });
    one.reminders.stop();
    other.reminders.stop();
    await vi.advanceTimersByTimeAsync(5 * HOUR);
    dies.reminders.stop();
    const next = remind(openDesk(file));
    await vi.advanceTimersByTimeAsync(0);
    expect(next.said).toEqual([]);
    await vi.advanceTimersByTimeAsync(HOUR);
    expect(next.said).toEqual(["A 0"]);
  });

  test("that fail are not repeated, and hold up no others", async () => {
    const error = vi.spyOn(console, "error").mockImplementation(() => {});
    onTestFinished(() => error.mockRestore());
    const db = openDesk();
    open(db, asked("A"));
    open(db, asked("B", 1));
    const said: string[] = [];
    remind(db, {
      remind: ({ bookingCode }, left) => {
        said.push(`${bookingCode} ${Math.round(left / MINUTE)}`);
        if (bookingCode === "A") throw new Error("the mail server is down");
      },
    });
    await vi.advanceTimersByTimeAsync(20 * HOUR);
    expect(said).toEqual(["A 360", "B 360"]);
    expect(error).toHaveBeenCalledOnce();
  });

  test("do not come for what was decided on, told or not", async () => {
    const db = openDesk();
    for (const code of ["A", "B", "C", "D"]) open(db, asked(code));
    const { said, reminders } = remind(db, {
      isOpen: async (bookingCode) => {
        if (bookingCode === "C") throw new Error("the platform is out of reach");
        // An event decides the booking while the platform answers.
        if (bookingCode === "D") decide(db, "D", new Date());
        return bookingCode !== "B";
      },
    });
    decide(db, "A", new Date(noon + HOUR));
    reminders.schedule();
    await vi.advanceTimersByTimeAsync(18 * HOUR);
    expect(said).toEqual(["C 360"]);
    expect(codes(db)).toEqual(["C"]);
  });

  test("end with the desk", async () => {
    const db = openDesk();
    open(db, asked("A"));
    const { said, reminders } = remind(db);
    reminders.stop();
    reminders.schedule();
    expect(vi.getTimerCount()).toBe(0);
    await vi.advanceTimersByTimeAsync(24 * HOUR);
    expect(said).toEqual([]);
  });

  test("wait for a deadline that is further away than a timer goes", async () => {
    const db = openDesk();
    open(db, asked("A", 40 * 24 * HOUR));
    const { said } = remind(db);
    await vi.advanceTimersByTimeAsync(HOUR);
    expect(said).toEqual([]);
    await vi.advanceTimersByTimeAsync(40 * 24 * HOUR + 17 * HOUR);
    expect(said).toEqual(["A 360"]);
  });

  test("go on after the file could not be read", async () => {
    const error = vi.spyOn(console, "error").mockImplementation(() => {});
    onTestFinished(() => error.mockRestore());
    const db = openDesk();
    open(db, asked("A"));
    const { said } = remind(db);
    db.exec("ALTER TABLE requests RENAME TO away");
    await vi.advanceTimersByTimeAsync(18 * HOUR);
    await vi.advanceTimersByTimeAsync(MINUTE);
    expect(error).toHaveBeenCalledTimes(2);
    db.exec("ALTER TABLE away RENAME TO requests");
    await vi.advanceTimersByTimeAsync(MINUTE);
    expect(said).toEqual(["A 358"]);
    expect(error).toHaveBeenCalledTimes(2);
  });

  test("leave what is forgotten alone", async () => {
    const db = openDesk();
    open(db, asked("A"));
    const { said } = remind(db);
    forget(db, "A");
    await vi.advanceTimersByTimeAsync(24 * HOUR);
    expect(said).toEqual([]);
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
