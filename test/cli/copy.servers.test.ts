import { join } from "node:path";
import pg from "pg";
import { postgresStore } from "stayhook/postgres";
import { sqliteStore } from "stayhook/sqlite";
import type { EventStore, RecordLedger, RecordSnapshot } from "stayhook/store";
import { describe, expect, onTestFinished, test } from "vitest";
import { readState, writeState } from "../../src/reconcile/state.ts";
import { eventually, PATIENCE } from "../support/eventually.ts";
import { postgresUrl } from "../support/postgres-server.ts";
import { cli, directory } from "./support.ts";

const EVENTS = Number(process.env.STAYHOOK_COPY_EVENTS ?? 1200);
const LONG = 60_000;
/** No event that waits so long becomes due while the test runs. */
const HOUR = 3_600_000;
const url = await postgresUrl();

/** Fills a store with events in all states but `processing`. */
async function fill(store: EventStore<never>): Promise<void> {
  const add = (_: unknown, id: number) => {
    const isTimer = id % 5 === 4;
    const event = {
      eventId: isTimer ? `stayhook:timer:booking:B${id}:Door` : `event-${id}`,
      ref: id % 7 === 6 ? null : `booking:B${id % 400}`,
      source: isTimer ? ("timer" as const) : ("webhook" as const),
      topic: id % 2 ? "bookings" : null,
      timestamp: "2026-05-01T12:00:00.000Z",
      notification: JSON.stringify({ id, text: "ä\u0000" }),
    };
    return store.add(event, { dueIn: isTimer ? HOUR : 0 });
  };
  await Promise.all(Array.from({ length: EVENTS }, add));
  const failure = { reason: "callback" as const, entry: { duration: 5, error: "no" } };
  const snapshot = { status: "Confirmed", fields: { checkIn: "2026-07-01" } };
  for (let round = 0; round < 4; round += 1) {
    const claims = await store.claim({ limit: EVENTS / 6, leaseDuration: LONG, worker: "web-1:7" });
    const settle = (claim: (typeof claims)[number], index: number) => {
      if (index % 4 === 0) return store.settle(claim, { state: "parked", ...failure });
      if (index % 4 === 1) return store.settle(claim, { state: "retrying", in: HOUR, ...failure });
      // Some records have a ledger alone.
      const record = claim.ref === null || index % 8 === 7 ? undefined : { snapshot, changed: true };
      const ledger = index % 8 > 3 ? `plan of ${claim.ref}` : undefined;
      return store.settle(claim, {
        ...{ state: "done", type: "booking.Confirmed", entry: { duration: 3 } },
        ...{ record, ledger },
      });
    };
    await Promise.all(claims.map(settle));
  }
}

async function contentOf(store: EventStore<never>) {
  const events = await store.list({ limit: 2 * EVENTS });
  const snapshots: RecordSnapshot[] = [];
  for await (const snapshot of store.snapshots()) snapshots.push(snapshot);
  const ledgers: RecordLedger[] = [];
  for await (const ledger of store.ledgers()) ledgers.push(ledger);
  expect(ledgers.some(({ ref }) => !snapshots.some((snapshot) => snapshot.ref === ref))).toBe(true);
  return {
    ledgers: ledgers.sort((a, b) => (a.ref < b.ref ? -1 : 1)),
    events,
    counts: await store.counts(),
    snapshots: snapshots.sort((a, b) => (a.ref < b.ref ? -1 : 1)),
    lastReceivedAt: await store.lastReceivedAt(),
  };
}

describe("stayhook copy", () => {
  test.skipIf(!url)("takes a subscriber from SQLite to PostgreSQL and back", async () => {
    const folder = directory();
    const [first, last] = [join(folder, "first.db"), join(folder, "last.db")];
    const schema = `copy_${process.pid}_${Date.now()}`;
    const pool = new pg.Pool({ connectionString: url as string, max: 1 });
    onTestFinished(async () => {
      await pool.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
      await pool.end();
    });
    const source = sqliteStore(first);
    await fill(source as EventStore<never>);
    const pass = { complete: true, after: "booking:B3", learned: true, replayed: false, again: null };
    await writeState(source, await readState(source), {
      owner: "dead",
      lease: 60_000,
      elapsed: 5000,
      ...pass,
    });
    const before = await contentOf(source as EventStore<never>);
    await source.close();

    for (const again of [false, true]) {
      const args = ["copy", "--from", first, "--to", url as string, "--schema", schema, "--json"];
      const { code, stdout, stderr } = await cli(args);
      expect([code, stderr, again]).toEqual([0, "", again]);
      expect(JSON.parse(stdout)).toEqual({ events: EVENTS, snapshots: before.snapshots.length });
    }
    const middle = postgresStore({ connectionString: url as string, schema });
    expect(await contentOf(middle as EventStore<never>)).toEqual(before);
    const place = await readState(middle);
    expect(place.state).toMatchObject({ owner: null, ...pass });
    expect(place.sinceBegun).toBeGreaterThanOrEqual(5000);
    expect(await middle.add({ ...before.events[0]!, notification: null })).toBe("duplicate");
    await middle.close();

    const back = await cli(["copy", "--from", url as string, "--to", last, "--schema", schema]);
    expect([back.stderr, back.stdout]).toEqual(["", expect.stringContaining(`${EVENTS} events`)]);
    const store = sqliteStore(last);
    expect(await contentOf(store as EventStore<never>)).toEqual(before);
    // Nothing that is done is claimed again, and all that waits is.
    const waiting = before.events.filter(({ dueAt }) => dueAt !== null && dueAt.getTime() <= Date.now());
    const claimed = new Set<string>();
    for (let rounds = 0; rounds < 20; rounds += 1) {
      for (const claim of await store.claim({ limit: EVENTS, leaseDuration: LONG })) {
        claimed.add(claim.eventId);
        await store.settle(claim, { state: "done", type: "unknown", entry: { duration: 1 } });
      }
    }
    expect([...claimed].sort()).toEqual(waiting.map(({ eventId }) => eventId).sort());
    await store.close();
  });

  test.skipIf(!url)("takes a subscriber from one schema to another", async () => {
    const connectionString = url as string;
    const names = ["from", "to"].map((side) => `copy_${side}_${process.pid}_${Date.now()}`);
    const [from, to] = names.map((schema) => postgresStore({ connectionString, schema }));
    const pool = new pg.Pool({ connectionString, max: 1 });
    onTestFinished(async () => {
      await Promise.all([from!.close(), to!.close()]);
      for (const name of names) await pool.query(`DROP SCHEMA IF EXISTS "${name}" CASCADE`);
      await pool.end();
    });
    await from!.add({ ...event, eventId: "a", timestamp });
    const copied = (...schemas: string[]) =>
      cli(["copy", "--from", connectionString, "--to", connectionString, ...schemas]);
    const same = { code: 2, stderr: expect.stringContaining("the same store") };
    expect(await copied()).toMatchObject(same);
    expect(await copied("--schema", names[0]!)).toMatchObject(same);
    expect(await copied("--schema", names[0]!, "--to-schema", names[1]!)).toMatchObject({ code: 0 });
    expect(await to!.get("a")).toMatchObject({ state: "pending" });
    await to!.erase("booking:A1");
    expect(await copied("--from-schema", names[0]!, "--to-schema", names[1]!)).toMatchObject({ code: 0 });
    expect(await to!.get("a")).toMatchObject({ state: "pending" });
  });

  test("refuses while an event is being processed, and copies an event whose process died", async () => {
    const folder = directory();
    const [from, to] = [join(folder, "from.db"), join(folder, "to.db")];
    const store = sqliteStore(from);
    const event = { ref: "booking:A1", source: "webhook" as const, topic: null, notification: null };
    await store.add({ ...event, eventId: "a", timestamp: "2026-05-01T12:00:00.000Z" });
    await store.claim({ limit: 1, leaseDuration: 3000 });
    const refused = await cli(["copy", "--from", from, "--to", to]);
    expect(refused).toMatchObject({ code: 1 });
    expect(refused.stderr).toMatch(
      /processing 1 of the events in the store of --from, such as a\. Stop the app/,
    );
    // The lease ends.
    const copy = async () =>
      expect(await cli(["copy", "--from", from, "--to", to])).toMatchObject({ code: 0 });
    await eventually(copy, PATIENCE, 500);
    await store.close();
    const copied = sqliteStore(to);
    expect(await copied.get("a")).toMatchObject({ state: "retrying" });
    await copied.close();
  });

  const event = { ref: "booking:A1", source: "webhook" as const, topic: null, notification: null };
  const timestamp = "2026-05-01T12:00:00.000Z";
  const done = { state: "done" as const, type: "unknown", entry: { duration: 1 } };

  test("fails if the app records during the copy", async () => {
    const folder = directory();
    const [from, to] = [join(folder, "from.db"), join(folder, "to.db")];
    const store = sqliteStore(from);
    onTestFinished(() => store.close());
    const add = (name: string, count: number) =>
      Promise.all(
        Array.from({ length: count }, (_, n) => store.add({ ...event, eventId: `${name} ${n}`, timestamp })),
      );
    await add("old", 3000);
    let ended = false;
    const copying = cli(["copy", "--from", from, "--to", to]).finally(() => {
      ended = true;
    });
    for (let round = 0; !ended && round < 10_000; round += 1) {
      await add(`new ${round}`, 1);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const { code, stdout, stderr } = await copying;
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/--from changed during the copy.*Stop the app, empty the store of --to/);
  });

  test.each([
    ["an event", undefined, /already had the event a, which differs .* empty the store of --to/],
    [
      "a record",
      { snapshot: { status: "Confirmed", fields: {} }, changed: true },
      /already had the snapshot of booking:A1, which differs/,
    ],
  ])("fails at a second run if %s has changed since the first", async (_, record, message) => {
    const folder = directory();
    const [from, to] = [join(folder, "from.db"), join(folder, "to.db")];
    const store = sqliteStore(from);
    onTestFinished(() => store.close());
    const handle = async (eventId: string, status: string) => {
      await store.add({ ...event, eventId, timestamp });
      const [claim] = await store.claim({ limit: 1, leaseDuration: LONG });
      const written = record && { ...record, snapshot: { ...record.snapshot, status } };
      await store.settle(claim!, { ...done, record: written });
    };
    if (record) await handle("before", "Request");
    else await store.add({ ...event, eventId: "a", timestamp });
    expect(await cli(["copy", "--from", from, "--to", to])).toMatchObject({ code: 0 });
    if (record) await handle("after", "Confirmed");
    else {
      const [claim] = await store.claim({ limit: 1, leaseDuration: LONG });
      await store.settle(claim!, done);
    }
    const { code, stderr } = await cli(["copy", "--from", from, "--to", to]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(message)]);
  });

  test("names a source that is missing", async () => {
    const stderr = expect.stringMatching(/no file missing\.db.*--from/);
    expect(await cli("copy --from missing.db --to b.db")).toMatchObject({ code: 4, stderr });
  });
});
