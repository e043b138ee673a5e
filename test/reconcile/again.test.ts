// run({ again: true }): the callback runs for each known record, changed or not.
import { fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { memoryStore } from "stayhook";
import { sqliteStore } from "stayhook/sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { machineOf, scene, startSandbox, stateIn, stores } from "./support.ts";

const codesOf = (count: number) => Array.from({ length: count }, (_, n) => `B${n + 10}`);

type Machine = ReturnType<typeof machineOf>;
type Sandbox = Awaited<ReturnType<typeof startSandbox>>;

/** Makes bookings and a listing that the machine has handled, and forgets its callbacks. */
async function known(sandbox: Sandbox, machine: Machine, count: number): Promise<string[]> {
  const codes = codesOf(count);
  for (const bookingCode of codes) {
    await sandbox.bookings.create({ bookingCode, status: "Confirmed", listingId: 7 });
    await machine.notify({ bookingCode });
  }
  await machine.webhooks.drain();
  machine.told.length = 0;
  return codes;
}

const called = (...machines: Machine[]) =>
  machines
    .flatMap(({ told }) => told)
    .map(({ record, source, changed }) => `${record} ${source} ${changed}`)
    .sort();
const unchanged = (records: readonly (string | number)[]) =>
  records.map((record) => `${record} reconcile false`).sort();

describe.each(Object.entries(stores))("%s", (_name, place) => {
  test("the callback runs once for each known record, and again with the next run", async () => {
    const sandbox = await startSandbox();
    const machine = machineOf(sandbox, place()());
    const { listingId } = await sandbox.listings.create({ status: "Published" });
    const over = { status: "Confirmed", checkIn: "2020-01-01", checkOut: "2020-01-03" };
    await sandbox.bookings.create({ ...over, bookingCode: "OLD" });
    await sandbox.bookings.create({ bookingCode: "NO", status: "Declined" });
    for (const bookingCode of ["OLD", "NO"]) await machine.notify({ bookingCode });
    const codes = await known(sandbox, machine, 5);
    await machine.reconciler.run();
    await machine.webhooks.drain();
    machine.told.length = 0;
    const all = [...codes, "OLD", "NO", listingId];
    for (let n = 0; n < 2; n += 1) {
      const report = await machine.reconciler.run({ again: true });
      expect(report).toMatchObject({ checked: all.length, changed: 0, failed: 0 });
      expect(report).not.toHaveProperty("incomplete");
      await machine.webhooks.drain();
      expect(called(machine)).toEqual(unchanged(all));
      machine.told.length = 0;
    }
    // A pass without `again` tells nothing, and no second look follows.
    await machine.reconciler.run();
    await machine.webhooks.drain();
    expect(called(machine)).toEqual([]);
    expect(await machine.store.counts()).toMatchObject({ pending: 0, retrying: 0, scheduled: 0, parked: 0 });
  });

  test("an aborted run is continued by another machine, and each record is told once", async () => {
    const sandbox = await startSandbox();
    const open = place();
    const stop = new AbortController();
    let checked = 0;
    const observe = ({ kind }: { kind: string }) =>
      void (kind === "checked" && ++checked === 5 && stop.abort());
    const first = machineOf(sandbox, open(), { reconciler: { observe, rate: 1000 } });
    const codes = await known(sandbox, first, 20);
    const begun = await first.reconciler.run({ again: true, signal: stop.signal });
    expect(begun.incomplete).toBe("aborted");
    expect(begun.checked).toBeLessThan(12);
    await first.webhooks.drain();
    const second = machineOf(sandbox, open(), { reconciler: { rate: 1000 } });
    // A pass of the schedule between them does not disturb it.
    expect(await second.reconciler.run()).toMatchObject({ checked: 20, changed: 0 });
    expect(await second.reconciler.run({ again: true })).toMatchObject({ checked: 20 - begun.checked });
    await Promise.all([first, second].map(({ webhooks }) => webhooks.drain()));
    expect(called(first, second)).toEqual(unchanged(codes));
    expect(await second.reconciler.run({ again: true })).toMatchObject({ checked: 20 });
  });
});

test("a record that is gone is left out, one that has changed is told once, one that is going away is gone", async () => {
  const { sandbox, ...machine } = await scene({ reconciler: { rate: 1000 } });
  const codes = await known(sandbox, machine, 5);
  const [before, now, changed, ...others] = codes;
  sandbox.faults.set([{ route: `/v2/bookings/${before}`, status: 404 }]);
  await machine.reconciler.run();
  await eventually(async () => {
    await machine.webhooks.drain();
    expect(machine.told.map(({ type }) => type)).toEqual(["booking.gone"]);
  });
  machine.told.length = 0;
  sandbox.faults.set([before, now].map((code) => ({ route: `/v2/bookings/${code}`, status: 404 })));
  await sandbox.bookings.cancel(changed!);
  expect(await machine.reconciler.run({ again: true })).toMatchObject({ checked: 4 });
  await eventually(async () => {
    await machine.webhooks.drain();
    expect(machine.told.length).toBe(4);
  });
  expect(machine.told.map(({ record, type, changed }) => `${record} ${type} ${changed}`).sort()).toEqual(
    [
      `${changed} booking.Cancelled true`,
      `${now} booking.gone true`,
      ...others.map((code) => `${code} booking.Confirmed false`),
    ].sort(),
  );
});

test("listings of the list are told in a store that no pass has filled", async () => {
  const { sandbox, ...machine } = await scene();
  const { listingId } = await sandbox.listings.create({ status: "Published" });
  expect(await machine.reconciler.run({ again: true })).toMatchObject({ checked: 1 });
  await machine.webhooks.drain();
  expect(called(machine)).toEqual([`${listingId} reconcile true`]);
  // It is no pass: the next one is still the first.
  expect(await stateIn(machine.store)).toMatchObject({ complete: false, owner: null });
});

test.each(["background", "inline"] as const)(
  "all reads of a run are at most `rate` a second (%s)",
  async (processing) => {
    const { sandbox, ...machine } = await scene({ handler: { processing }, reconciler: { rate: 20 } });
    await known(sandbox, machine, 50);
    const before = sandbox.requests.length;
    const { duration } = await machine.reconciler.run({ again: true });
    await machine.webhooks.drain();
    const times = sandbox.requests
      .slice(before)
      .filter(({ path }) => path.startsWith("/v2/bookings/"))
      .map(({ receivedAt }) => +receivedAt);
    expect(times).toHaveLength(50);
    expect(duration).toBeGreaterThan(1900);
    // An event may wait a moment, so the reads of a second are not exactly 20.
    for (const [n, time] of times.entries()) if (n >= 30) expect(time - times[n - 30]!).toBeGreaterThan(700);
  },
);

test("two machines at once tell each record once", async () => {
  const { sandbox, ...first } = await scene({ reconciler: { rate: 100 } });
  const codes = await known(sandbox, first, 12);
  const second = machineOf(sandbox, first.store, { reconciler: { rate: 100 } });
  const reports = await Promise.all([first, second].map(({ reconciler }) => reconciler.run({ again: true })));
  expect(reports.map(({ incomplete }) => incomplete).sort()).toEqual(["locked", undefined]);
  await Promise.all([first, second].map(({ webhooks }) => webhooks.drain()));
  expect(called(first, second)).toEqual(unchanged(codes));
});

test("run() and run({ again }) of one reconciler wait for each other, and close() ends both", async () => {
  const { sandbox, ...machine } = await scene({ reconciler: { rate: 1000 } });
  const codes = await known(sandbox, machine, 6);
  const { reconciler, observations } = machine;
  const [pass, again, joined] = await Promise.all([
    reconciler.run(),
    reconciler.run({ again: true }),
    reconciler.run({ again: true }),
  ]);
  expect(pass).toMatchObject({ checked: 6, changed: 0 });
  expect(again).toMatchObject({ checked: 6 });
  expect(joined).toBe(again);
  expect(observations("pass")).toHaveLength(2);
  expect(called(machine)).toEqual(unchanged(codes));
  sandbox.faults.set([{ route: "GET /v2/listings", delay: 200 }]);
  const running = reconciler.run();
  const waiting = expect(reconciler.run({ again: true })).rejects.toThrow(/closed/);
  await reconciler.close();
  expect(await running).toMatchObject({ incomplete: "aborted" });
  await waiting;
});

test("a record whose event is being handled is told afterwards", async () => {
  const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
  let isHeld = false;
  const callback = async () => {
    if (isHeld) await held;
  };
  const { sandbox, ...machine } = await scene({ callback });
  const [bookingCode] = await known(sandbox, machine, 1);
  await sandbox.bookings.cancel(bookingCode!);
  isHeld = true;
  await machine.notify({ bookingCode: bookingCode! });
  await eventually(async () => expect(await machine.store.counts()).toMatchObject({ processing: 1 }));
  const running = machine.reconciler.run({ again: true });
  await eventually(() => expect(machine.observations("checked")).toHaveLength(1));
  expect(called(machine)).toEqual([]);
  letGo();
  expect(await running).toMatchObject({ checked: 1 });
  await machine.webhooks.drain();
  expect(called(machine)).toEqual([`${bookingCode} reconcile false`, `${bookingCode} webhook true`]);
});

test("an outage makes the run incomplete, and the next one goes on", async () => {
  const { sandbox, ...machine } = await scene({ reconciler: { rate: 1000, concurrency: 1 } });
  const codes = await known(sandbox, machine, 30);
  sandbox.faults.set([{ status: 401 }]);
  expect(await machine.reconciler.run({ again: true })).toMatchObject({
    checked: 0,
    incomplete: "unreachable",
  });
  sandbox.faults.set([{ route: "GET /v2/bookings/{bookingCode}", status: 401 }]);
  const report = await machine.reconciler.run({ again: true });
  expect(report.incomplete).toBe("unreachable");
  expect(report.checked).toBeLessThan(30);
  sandbox.faults.clear();
  expect(await machine.reconciler.run({ again: true })).toMatchObject({ checked: 30 - report.checked });
  await eventually(async () => {
    await machine.webhooks.drain();
    expect(called(machine)).toEqual(unchanged(codes));
  });
});

test("after a kill -9 in the middle, another process goes on, and no record is told twice or never", async () => {
  const directory = temporaryFolder();
  const [path, heard] = [join(directory, "events.db"), join(directory, "heard")];
  const store = sqliteStore(path);
  onTestFinished(() => store.close());
  const sandbox = await startSandbox();
  const machine = machineOf(sandbox, store as never, { reconciler: { rate: 1000 } });
  const codes = await known(sandbox, machine, 40);
  await machine.webhooks.close();
  // The checkpoint is written every 2 s, so that the killed process has written none, or an old one.
  const args = { path, heard, baseUrl: sandbox.url, accessToken: sandbox.accessToken, lease: 6000 };
  const child = fork(join(import.meta.dirname, "crashing.ts"), [JSON.stringify({ ...args, again: true })], {
    stdio: "pipe",
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines = () => readFileSync(heard, { encoding: "utf8", flag: "a+" }).split("\n").filter(Boolean);
  await eventually(() => expect(lines().length).toBeGreaterThan(10));
  child.kill("SIGKILL");
  await once(child, "exit");
  const told = lines();
  expect(told.length).toBeLessThan(40);
  // The lock of the dead process has ended.
  const state = await stateIn(store as never);
  const kept = await store.getMeta("stayhook:reconciler");
  await store.setMeta("stayhook:reconciler", JSON.stringify({ ...state, lease: 0 }), {
    expected: kept!.value,
  });
  const second = machineOf(sandbox, store as never, { reconciler: { rate: 1000 } });
  const { checked, incomplete } = await second.reconciler.run({ again: true });
  expect(incomplete).toBeUndefined();
  expect(checked).toBeLessThanOrEqual(40 - told.length);
  await eventually(async () => {
    await second.webhooks.drain();
    const all = [...told, ...second.told.map(({ record }) => String(record))];
    expect(new Set(all)).toEqual(new Set(codes));
    // Only a callback that had run, and whose end the killed process had not recorded yet, runs a second time.
    expect(all.length).toBeLessThanOrEqual(40 + 10);
  });
});

test("`again` must be a boolean", async () => {
  const { reconciler } = machineOf(
    { url: "http://127.0.0.1:1", accessToken: "secret" },
    memoryStore() as never,
  );
  await expect(reconciler.run({ again: "yes" as never })).rejects.toThrow(/again: must be true or false/);
});
