import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { NotFoundError } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { parseDuration } from "../../src/duration.ts";
import { canChange } from "../../src/reconcile/bookings.ts";
import { eventually } from "../support/eventually.ts";
import {
  machineOf,
  readsOf,
  scene,
  startSandbox,
  statusesAt,
  statusesIn,
  stopClock,
  stores,
} from "./support.ts";

const DAY = 86_400_000;
const day = (offset: number) => new Date(Date.now() + offset * DAY).toISOString().slice(0, 10);

async function listen(webhooks: Parameters<typeof toNodeHandler>[0]): Promise<string> {
  const server = createServer(toNodeHandler(webhooks));
  onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe.each(Object.entries(stores))("%s", (_name, place) => {
  test("a pass repairs the state of a subscriber that lost a third of the deliveries", async () => {
    const sandbox = await startSandbox({ delivery: { drop: 1 / 3, shuffle: 20 } });
    const { client, webhooks, reconciler, told, store } = machineOf(sandbox, place()());
    const url = await listen(webhooks);
    await client.webhookConfig.ensure({ endpoints: { bookings: url, listings: url } });
    for (let n = 0; n < 4; n += 1) {
      const { listingId } = await sandbox.listings.submit();
      await sandbox.listings.publish(listingId);
      if (n % 2) await sandbox.listings.hide(listingId);
    }
    const codes: string[] = [];
    for (let n = 0; n < 16; n += 1) {
      const { bookingCode } = await sandbox.bookings.request();
      codes.push(bookingCode);
      if (n % 4 === 1) await sandbox.bookings.approve(bookingCode);
      if (n % 4 === 2) await sandbox.bookings.decline(bookingCode);
      if (n % 4 === 3) await sandbox.bookings.cancel(bookingCode);
    }
    await sandbox.settled();
    await webhooks.drain();
    for (const code of codes.slice(0, 8))
      (await sandbox.bookings.get(code)?.status) === "Request" && (await sandbox.bookings.cancel(code));
    await sandbox.settled();
    await webhooks.drain();
    expect(await statusesIn(store)).not.toEqual(statusesAt(sandbox));
    // If all notifications of a booking were lost, the store does not know the booking. So the user names it.
    for (const code of codes) await reconciler.watch(code);
    const report = await reconciler.run();
    expect(report).toMatchObject({ failed: 0 });
    // The pass does not read bookings that the subscriber knows to be declined.
    expect(report.checked).toBeGreaterThanOrEqual(16);
    expect(report.changed).toBeGreaterThan(0);
    expect(await statusesIn(store)).toEqual(statusesAt(sandbox));
    const latest = Object.fromEntries(told.map(({ record, status }) => [record, status]));
    for (const { bookingCode, status } of sandbox.bookings.list()) expect(latest[bookingCode]).toBe(status);
    for (const { changed, source } of told) if (source === "reconcile") expect(changed).toBe(true);
    expect(await reconciler.run()).toMatchObject({ changed: 0, failed: 0 });
  });

  test("a change runs the callback once over several machines, and a later webhook finds no change", async () => {
    const sandbox = await startSandbox();
    const { bookingCode } = await sandbox.bookings.create({ status: "Request" });
    const { listingId } = await sandbox.listings.create({ status: "InReview" });
    const open = place();
    const machines = [machineOf(sandbox, open()), machineOf(sandbox, open()), machineOf(sandbox, open())];
    const [first] = machines;
    await first!.notify({ bookingCode });
    await first!.webhooks.drain();
    await first!.reconciler.run();
    for (const change of [
      () => sandbox.bookings.approve(bookingCode),
      () => sandbox.bookings.cancel(bookingCode),
    ]) {
      await change();
      await Promise.all(machines.map(({ reconciler }) => reconciler.run()));
      for (const { reconciler } of machines) await reconciler.run();
    }
    await sandbox.listings.publish(listingId);
    await Promise.all(machines.map(({ reconciler }) => reconciler.run()));
    // The first machine handles events in the background, so it may still handle the event of another machine's pass.
    await first!.webhooks.drain();
    const told = machines.flatMap((machine) => machine.told);
    expect(told.map(({ type, source, changed }) => [type, source, changed]).toSorted()).toEqual([
      ["booking.Cancelled", "reconcile", true],
      ["booking.Confirmed", "reconcile", true],
      ["booking.Request", "webhook", true],
      ["listing.Published", "reconcile", true],
    ]);
    await first!.notify({ bookingCode });
    await first!.webhooks.drain();
    expect(machines.flatMap((machine) => machine.told).at(-1) ?? first!.told.at(-1)).toBeDefined();
    expect(first!.told.at(-1)).toMatchObject({ source: "webhook", changed: false, status: "Cancelled" });
  });

  test("bookings that are declined, or over for a week, are no longer read", async () => {
    const sandbox = await startSandbox();
    const booking = async (status: string, checkOut: string) =>
      (await sandbox.bookings.create({ status, checkIn: day(-40), checkOut })).bookingCode;
    const declined = await booking("Declined", day(20));
    const over = [
      await booking("Confirmed", day(-9)),
      await booking("Cancelled", `${day(-9)}T12:00:00+02:00`),
    ];
    const open_ = [
      await booking("Confirmed", day(-6)),
      await booking("Cancelled", day(3)),
      await booking("Request", "some day"),
    ];
    const open = place();
    const first = machineOf(sandbox, open());
    for (const bookingCode of [declined, ...over, ...open_]) await first.notify({ bookingCode });
    await first.webhooks.drain();
    const reads = readsOf(sandbox);
    reads();
    const paths = (codes: string[]) => codes.map((code) => `/v2/bookings/${code}`).toSorted();
    const bookingReads = () =>
      reads()
        .filter((path) => path.startsWith("/v2/bookings/"))
        .toSorted();
    const counts = await first.store.counts();
    expect(await first.reconciler.run()).toMatchObject({ checked: 3, changed: 0, failed: 0 });
    expect(bookingReads()).toEqual(paths(open_));
    await first.reconciler.close();
    const second = machineOf(sandbox, open());
    expect(await second.reconciler.run()).toMatchObject({ checked: 3 });
    expect(bookingReads()).toEqual(paths(open_));
    expect(await statusesIn(second.store)).toEqual(statusesAt(sandbox));
    expect(await second.store.counts()).toEqual(counts);
  });

  test("watch adds a booking without notification, and later passes read it", async () => {
    const sandbox = await startSandbox();
    const { bookingCode } = await sandbox.bookings.create({ status: "Request" });
    const open = place();
    const first = machineOf(sandbox, open(), { handler: { autoStart: false } });
    await first.reconciler.watch(bookingCode);
    await first.reconciler.watch(bookingCode);
    // Another process takes over the booking that the closed process was asked to watch.
    await first.reconciler.close();
    const second = machineOf(sandbox, open());
    await second.reconciler.run();
    expect(second.told).toMatchObject([
      {
        type: "booking.Request",
        source: "reconcile",
        previousStatus: undefined,
        changed: true,
        record: bookingCode,
      },
    ]);
    await sandbox.bookings.approve(bookingCode);
    expect(await second.reconciler.run()).toMatchObject({ checked: 1, changed: 1 });
    expect(second.told).toHaveLength(2);
  });

  test("two machines that watch a booking add one event, and later passes read the booking once it is known", async () => {
    const sandbox = await startSandbox();
    const { bookingCode } = await sandbox.bookings.create({ status: "Request" });
    const open = place();
    const [first, second] = [1, 2].map(() => machineOf(sandbox, open(), { handler: { autoStart: false } }));
    await first!.reconciler.watch(bookingCode);
    await second!.reconciler.watch(bookingCode);
    expect(await second!.reconciler.run()).toMatchObject({ checked: 0 });
    expect(await second!.webhooks.drain()).toEqual({ done: 1, failed: 0 });
    expect(await second!.reconciler.run()).toMatchObject({ checked: 1 });
  });
});

test("watch compares what passes leave out: declined bookings, and stays that are over", async () => {
  const { sandbox, reconciler, webhooks, notify, store, told, observations } = await scene();
  const over = { checkIn: day(-40), checkOut: day(-38) };
  for (const [bookingCode, status, dates] of [
    ["OLD", "Confirmed", over],
    ["SAME", "Confirmed", over],
  ] as const) {
    await sandbox.bookings.create({ bookingCode, status, ...dates });
    await notify({ bookingCode });
  }
  await webhooks.drain();
  told.length = 0;
  await sandbox.bookings.cancel("OLD");
  // The sandbox does not take back that a booking was declined.
  await sandbox.bookings.create({ bookingCode: "NO", status: "Confirmed" });
  await store.learn("booking:NO", { status: "Declined", fields: {} });
  expect(await reconciler.run()).toMatchObject({ checked: 0, changed: 0 });
  await reconciler.watch(["OLD", "NO", "SAME"]);
  expect(await reconciler.run()).toMatchObject({ changed: 2 });
  expect(
    told.map(({ record, type, previousStatus, source }) => [record, type, previousStatus, source]).sort(),
  ).toEqual([
    ["NO", "booking.Confirmed", "Declined", "reconcile"],
    ["OLD", "booking.Cancelled", "Confirmed", "reconcile"],
  ]);
  expect(observations("missed").map(({ ref }) => ref)).toEqual(["booking:OLD", "booking:NO"]);
  await reconciler.watch(["OLD", "NO", "SAME"]);
  expect(await reconciler.run()).toMatchObject({ changed: 0 });
  sandbox.faults.set([{ route: "/v2/bookings/OLD", status: 404 }]);
  await expect(reconciler.watch("OLD")).rejects.toBeInstanceOf(NotFoundError);
});

test("watch of a known booking waits out an outage, and runs no callback if nothing has changed", async () => {
  const { sandbox, reconciler, webhooks, notify, told } = await scene();
  for (const bookingCode of ["A", "B"]) {
    await sandbox.bookings.create({
      bookingCode,
      status: "Confirmed",
      checkIn: day(-40),
      checkOut: day(-38),
    });
    await notify({ bookingCode });
  }
  await webhooks.drain();
  told.length = 0;
  await sandbox.bookings.cancel("A");
  sandbox.faults.set([{ status: 503 }]);
  await reconciler.watch(["A", "B"]);
  sandbox.faults.clear();
  await eventually(async () => {
    await webhooks.drain();
    expect(told).toMatchObject([{ record: "A", status: "Cancelled", source: "reconcile" }]);
  });
});

describe("a pass reads a booking for", () => {
  const snapshot = (checkOut: string, status = "Confirmed") => ({ status, fields: { checkOut } });
  const now = Date.parse("2026-06-20T00:00:00Z");
  const cases: [lookBack: string, checkOut: string, status: string, read: boolean][] = [
    ["7d", "2026-06-13", "Confirmed", true],
    ["7d", "2026-06-12", "Confirmed", false],
    ["7d", "2026-06-13", "Declined", false],
    ["7d", "2026-06-12", "Cancelled", false],
    ["7d", "some day", "Confirmed", true],
    ["30d", "2026-05-21", "Cancelled", true],
    ["30d", "2026-05-20", "Cancelled", false],
    ["1d", "2026-06-19", "Confirmed", true],
    ["1d", "2026-06-18", "Confirmed", false],
  ];
  test.each(cases)("%s: departure %s, %s: %j", (lookBack, checkOut, status, read) => {
    // The last moment of the time, which ends with the last day of departure of all time zones.
    stopClock(now + 86_400_000 - 1);
    expect(canChange(snapshot(checkOut, status), parseDuration(lookBack)!)).toBe(read);
  });
});

test.each([
  [undefined, [-6, -7]],
  ["30d", [-6, -7, -8, -20, -29]],
  [0, []],
])("lookBack: %j reads stays that ended %j days ago", async (lookBack, read) => {
  const { sandbox, reconciler, webhooks, notify } = await scene({ reconciler: { lookBack } });
  for (const ago of [-6, -7, -8, -20, -29, -32]) {
    await sandbox.bookings.create({
      bookingCode: `D${-ago}`,
      status: "Confirmed",
      checkIn: day(-60),
      checkOut: day(ago),
    });
    await notify({ bookingCode: `D${-ago}` });
  }
  await webhooks.drain();
  const reads = readsOf(sandbox);
  reads();
  await reconciler.run();
  const bookings = reads().filter((path) => path.startsWith("/v2/bookings/"));
  expect(bookings.sort()).toEqual(read.map((ago) => `/v2/bookings/D${-ago}`).sort());
});

test("the next pass counts the events of watch, and reads the bookings once they are known", async () => {
  const { sandbox, reconciler, told, webhooks } = await scene({ handler: { autoStart: false } });
  const { bookingCode } = await sandbox.bookings.create({ status: "Confirmed" });
  await reconciler.watch(bookingCode);
  expect(await reconciler.run()).toMatchObject({ checked: 0, changed: 1 });
  expect(await reconciler.run()).toMatchObject({ checked: 0, changed: 0 });
  expect(await webhooks.drain()).toEqual({ done: 1, failed: 0 });
  expect(await reconciler.run()).toMatchObject({ checked: 1, changed: 0 });
  expect(told).toHaveLength(1);
});

test("a pass waits for a running watch", async () => {
  const { sandbox, reconciler, told } = await scene(
    {},
    { faults: [{ route: "GET /v2/bookings/{bookingCode}", delay: 150 }] },
  );
  const { bookingCode } = await sandbox.bookings.create({ status: "Confirmed" });
  void reconciler.watch(bookingCode);
  expect(await reconciler.run()).toMatchObject({ changed: 1 });
  expect(told).toHaveLength(1);
});

test("watch rejects invalid codes and unknown bookings, and waits out an outage", async () => {
  const { sandbox, reconciler, store, webhooks, told } = await scene({
    handler: { autoStart: false, backoff: () => 1 },
  });
  for (const code of ["", "..", "a\nb", 7, null])
    await expect(reconciler.watch(code as string)).rejects.toThrow(/bookingCode: must be a booking's code/);
  await expect(reconciler.watch("NONE")).rejects.toBeInstanceOf(NotFoundError);
  expect(await store.counts()).toMatchObject({ pending: 0, done: 0 });
  const { bookingCode } = await sandbox.bookings.create({ status: "Confirmed" });
  sandbox.faults.set([{ status: 401, times: 1 }]);
  await reconciler.watch(bookingCode);
  expect(await webhooks.drain()).toEqual({ done: 1, failed: 0 });
  expect(told).toMatchObject([{ type: "booking.Confirmed", source: "reconcile" }]);
  await reconciler.run();
  await webhooks.drain();
  expect(told).toHaveLength(1);
});

test("a change that is undone before its event is handled runs no callback until it comes again", async () => {
  const { sandbox, reconciler, webhooks, told, observations } = await scene({
    handler: { autoStart: false },
  });
  const { listingId } = await sandbox.listings.create({ status: "Published" });
  await reconciler.run();
  for (let n = 0; n < 3; n += 1) {
    await sandbox.listings.hide(listingId);
    expect(await reconciler.run()).toMatchObject({ changed: 1 });
    expect(await reconciler.run()).toMatchObject({ changed: 0 });
    await sandbox.listings.publish(listingId);
    expect(await webhooks.drain()).toEqual({ done: 1, failed: 0 });
    expect(told).toEqual([]);
  }
  await sandbox.listings.hide(listingId);
  await reconciler.run();
  await webhooks.drain();
  expect(told).toMatchObject([{ status: "Hidden", previousStatus: "Published", changed: true }]);
  expect(new Set(observations("changed").map(({ eventId }) => eventId)).size).toBe(4);
  expect(await reconciler.run()).toMatchObject({ changed: 0 });
});

test("an event of the reconciler runs no callback if a webhook was faster", async () => {
  const { sandbox, reconciler, webhooks, notify, told, store } = await scene({
    handler: { autoStart: false },
  });
  const { bookingCode } = await sandbox.bookings.create({ status: "Request" });
  await notify({ bookingCode });
  await webhooks.drain();
  await sandbox.bookings.approve(bookingCode);
  await notify({ bookingCode });
  expect(await reconciler.run()).toMatchObject({ changed: 1 });
  expect(await webhooks.drain()).toEqual({ done: 2, failed: 0 });
  expect(told.map(({ source, status, changed }) => [source, status, changed])).toEqual([
    ["webhook", "Request", true],
    ["webhook", "Confirmed", true],
  ]);
  // A replay runs the callback although nothing has changed.
  const [event] = (await store.list({ limit: 100 })).filter(
    ({ ref, source }) => ref === `booking:${bookingCode}` && source === "reconcile",
  );
  await store.replay({ eventId: event!.eventId });
  await webhooks.drain();
  expect(told.at(-1)).toMatchObject({ source: "reconcile", status: "Confirmed", changed: false });
});

test("an event that was parked for its callback is not added again", async () => {
  const callback = vi.fn(() => Promise.reject(new Error("no")));
  const { sandbox, store, reconciler, webhooks } = await scene({
    handler: { autoStart: false, maxAttempts: 2, backoff: () => 0 },
    callback,
  });
  const { listingId } = await sandbox.listings.create({ status: "Published" });
  await reconciler.run();
  await sandbox.listings.hide(listingId);
  await reconciler.run();
  await webhooks.drain();
  await webhooks.drain();
  expect(await store.counts()).toMatchObject({ parked: 1 });
  expect(callback).toHaveBeenCalledTimes(2);
  expect(await reconciler.run()).toMatchObject({ checked: 1, changed: 0 });
  await webhooks.drain();
  expect(callback).toHaveBeenCalledTimes(2);
});

test("an event that was parked because its record could not be read is replayed", async () => {
  const { sandbox, reconciler, webhooks, told, store } = await scene({
    handler: { autoStart: false, backoff: () => 0 },
  });
  const { listingId } = await sandbox.listings.create({ status: "Published" });
  await reconciler.run();
  await sandbox.listings.hide(listingId);
  await reconciler.run();
  sandbox.faults.set([{ route: "/v2/listings/{listingId}", status: 403 }]);
  for (let refusals = 0; refusals < 5; refusals += 1) await webhooks.drain();
  expect(await store.counts()).toMatchObject({ parked: 1 });
  sandbox.faults.clear();
  expect(await reconciler.run()).toMatchObject({ changed: 0 });
  await webhooks.drain();
  expect(told).toMatchObject([{ status: "Hidden", changed: true }]);
});
