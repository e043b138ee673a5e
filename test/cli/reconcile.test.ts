import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { eventually } from "../support/eventually.ts";
import { appOf, cli, directory, fileStore, platform, serve, start } from "./support.ts";

/** Makes an app that has handled a booking and knows a listing. Both have changed on the platform since then. */
async function app() {
  const file = join(directory(), "events.db");
  const { sandbox, env } = await platform();
  const heard: string[] = [];
  /** Runs the app's process once. */
  const live = async (bookingCode?: string) => {
    const run = appOf(env, { store: fileStore(file) });
    if (bookingCode !== undefined) await run.record(bookingCode);
    await run.webhooks.drain();
    await run.close();
    heard.push(...run.heard);
  };
  await sandbox.bookings.request({ bookingCode: "AB12" });
  await live("AB12");
  const reconcile = (...args: string[]) => cli(["reconcile", "--store", file, ...args], { env });
  return { sandbox, env, file, heard, live, reconcile };
}

describe("reconcile", () => {
  test("adds an event for each change, which the callbacks of the app handle", async () => {
    const { sandbox, heard, live, reconcile } = await app();
    await reconcile();
    await live();
    await sandbox.bookings.approve("AB12");
    const { code, stdout, stderr } = await reconcile("--json");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(JSON.parse(stdout)).toEqual({
      checked: 1,
      changed: 1,
      failed: 0,
      duration: expect.any(Number),
      alarms: [
        { kind: "drift", isActive: false, topics: [] },
        { kind: "missed", ref: "booking:AB12", changes: { status: { from: "Request", to: "Confirmed" } } },
      ],
    });
    expect(heard).toEqual(["booking.Request by webhook"]);
    await live();
    expect(heard).toEqual(["booking.Request by webhook", "booking.Confirmed by reconcile"]);
    expect(JSON.parse((await reconcile("--json")).stdout)).toMatchObject({ changed: 0 });
  });

  test("prints which record could not be read, without the words of the platform", async () => {
    const { sandbox, reconcile } = await app();
    sandbox.faults.set([{ route: "GET /v2/bookings/{bookingCode}", status: 422 }]);
    const { code, stderr } = await reconcile();
    expect(code).toBe(1);
    expect(stderr).toContain("\nbooking:AB12: GET /v2/bookings/AB12 was answered with 422\n");
  });

  test("prints changes, missed notifications and drift of the configuration", async () => {
    const { sandbox, env, reconcile } = await app();
    const { bookingCode } = await sandbox.bookings.approve("AB12");
    await sandbox.bookings.alter(bookingCode, { checkIn: "2030-07-01" });
    const { code, stdout, stderr } = await reconcile();
    expect(code).toBe(0);
    expect(stderr).toMatch(
      /^webhook configuration: delivery is off or not configured\nbooking:AB12: status Request -> Confirmed, checkIn \S+ -> 2030-07-01\nbooking:AB12: changed, but no notification of the change arrived\n$/,
    );
    expect(stdout).toMatch(/^checked\t1\nchanged\t1\nfailed\t0\nduration\t\d+ ms\n$/);
    await cli(["config", "ensure", "--bookings", "https://example.com"], { env });
    expect(await reconcile()).toMatchObject({ code: 0, stderr: "" });
  });

  test("--again adds an event for each known record, for which the callbacks of the app run", async () => {
    const { heard, live, reconcile } = await app();
    await reconcile();
    await live();
    heard.length = 0;
    const { code, stdout } = await reconcile("--again", "--json");
    expect({ code, report: JSON.parse(stdout) }).toMatchObject({
      code: 0,
      report: { checked: 1, changed: 0 },
    });
    await live();
    expect(heard).toEqual(["booking.Request by reconcile"]);
  });

  test("shows its progress on a terminal, but not with --json", async () => {
    const { env, file } = await app();
    const shown = await cli(["reconcile", "--store", file], { env, terminal: true });
    expect(shown.stderr).toContain("records checked: 1");
    expect(shown.stderr.endsWith("\r\u001b[2K")).toBe(true);
    const json = await cli(["reconcile", "--json", "--store", file], { env, terminal: true });
    expect(json.stderr).toBe("");
  });

  test("ends with 1 if a record could not be read", async () => {
    const { sandbox, reconcile } = await app();
    sandbox.faults.set([{ route: "GET /v2/bookings/{bookingCode}", status: 422 }]);
    const { code, stdout } = await reconcile("--json");
    expect({ code, report: JSON.parse(stdout) }).toMatchObject({ code: 1, report: { failed: 1 } });
  });

  test("learns listings on the first pass, or adds events for them with --no-baseline", async () => {
    for (const [args, told] of [
      [[], []],
      [["--no-baseline"], ["listing.Published by reconcile"]],
    ] as const) {
      const { sandbox, heard, live, reconcile } = await app();
      await sandbox.listings.create({ listingId: 7, status: "Published" });
      expect(await reconcile(...args)).toMatchObject({ code: 0 });
      await live();
      expect(heard.slice(1)).toEqual(told);
    }
  });

  test("--watch adds unknown bookings", async () => {
    const { sandbox, heard, live, reconcile } = await app();
    await sandbox.bookings.create({ bookingCode: "NEW1", status: "Confirmed" });
    await sandbox.bookings.create({ bookingCode: "NEW2", status: "Cancelled" });
    expect(await reconcile("--watch", "NEW1", "--watch", "NEW2")).toMatchObject({ code: 0 });
    await live();
    expect(heard.slice(1).sort()).toEqual([
      "booking.Cancelled by reconcile",
      "booking.Confirmed by reconcile",
    ]);
    expect(await reconcile("--watch", "NEW1", "--watch", "NONE")).toMatchObject({
      code: 4,
      stdout: "",
      stderr: expect.stringContaining("There is no booking NONE, so no pass was made."),
    });
  });

  test("ends with 130 on Ctrl-C, and says that the next pass continues", async () => {
    const { env, file } = await app();
    let asked = false;
    const mute = await serve(() => {
      asked = true;
    });
    const running = start(["reconcile", "--store", file], { env: { ...env, STAYHOOK_BASE_URL: mute } });
    await eventually(() => expect(asked).toBe(true));
    running.interrupt();
    const { code, stderr } = await running.ended;
    expect({ code, stderr }).toMatchObject({
      code: 130,
      stderr: expect.stringContaining("The pass was interrupted."),
    });
  });

  test("ends with 5 if the platform is out of reach, and with 3 if it refuses the token", async () => {
    const { sandbox, reconcile } = await app();
    sandbox.faults.set([{ status: 429, retryAfter: 3600 }]);
    const logged = vi.spyOn(console, "warn");
    onTestFinished(() => logged.mockRestore());
    const { code, stdout, stderr } = await reconcile("--json");
    expect(code).toBe(5);
    expect(JSON.parse(stdout)).toMatchObject({ incomplete: "unreachable" });
    expect(JSON.parse(stderr)).toEqual({ warning: { message: expect.stringContaining("out of reach") } });
    expect(logged).not.toHaveBeenCalled();
    expect(await reconcile("--concurrency", "0")).toMatchObject({ code: 2 });
    sandbox.faults.set([{ status: 401 }]);
    const refused = await reconcile();
    expect(refused.code).toBe(3);
    expect(refused.stderr).toContain("refuses the access token");
  });
});
