import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { eventOf } from "../event.ts";
import { startProcess } from "../processes.ts";
import { describeEvery, type Kind } from "./stores.ts";
import type { Point, WorkerOptions } from "./worker.ts";

// Long enough for renewals on a busy machine: each renewal may take a sixth of the lease.
const LEASE = 4000;
const EVENTS = 6;
/** `STAYHOOK_CRASH_SEED` repeats the moments at which a process is killed. */
const SEED = Number(process.env.STAYHOOK_CRASH_SEED ?? Date.now() % 1_000_000);
const SERVERS: readonly Point[] = [
  "in the callback",
  "in the writes",
  "before the commit",
  "after the commit",
];
const POINTS: Partial<Record<Kind["name"], { killedAt: readonly Point[]; frozenAt: readonly Point[] }>> = {
  // The writes of SQLite are synchronous: a process that is frozen in them holds the database's write lock.
  SQLite: {
    killedAt: ["in the callback", "before the commit", "after the commit"],
    frozenAt: ["in the callback"],
  },
  PostgreSQL: { killedAt: SERVERS, frozenAt: ["in the callback", "in the writes", "before the commit"] },
  MySQL: { killedAt: SERVERS, frozenAt: ["in the callback"] },
};

/** Makes a database with tables for the callbacks of the workers. */
async function created(kind: Kind, events = EVENTS) {
  const place = await kind.create();
  for (const table of ["handled", "begun"]) await place.sql(`CREATE TABLE ${table} (event VARCHAR(36))`);
  const store = place.open();
  const ids = Array.from({ length: events }, () => randomUUID()).sort();
  for (const [index, id] of ids.entries()) await store.add(eventOf(`booking:HM${index % 3}`, id));
  const rows = async (table: "begun" | "handled") =>
    (await place.sql(`SELECT event FROM ${table}`)).map(({ event }) => String(event)).sort();
  const done = async () =>
    (await store.list({ state: "done", limit: 10_000 })).map(({ eventId }) => eventId).sort();
  return {
    store,
    sql: place.sql,
    rows,
    done,
    start: (options: Partial<WorkerOptions> = {}) =>
      startProcess(join(import.meta.dirname, "worker.ts"), {
        ...{ place: place.place, ahead: 0, leaseDuration: LEASE, concurrency: 3 },
        ...options,
      } satisfies WorkerOptions),
    async expectOnce(expected: readonly string[] = ids) {
      expect(await rows("handled")).toEqual([...expected].sort());
      expect(await store.counts()).toMatchObject({ done: expected.length, parked: 0 });
      await store.close();
    },
  };
}

const ENDED = { code: 0, signal: null, output: "", errors: "" };

describeEvery(
  ({ name }) => name in POINTS,
  (kind) => {
    const { killedAt, frozenAt } = POINTS[kind.name]!;

    test.concurrent.each(killedAt)(
      "a worker killed %s: each event's writes exist exactly once",
      async (standAt) => {
        const { start, done, rows, expectOnce } = await created(kind);
        expect(await start({ standAt, dies: true }).ended).toMatchObject({ signal: "SIGKILL", errors: "" });
        const before = await done();
        // The second worker's clock is ten minutes ahead. The result must be the same.
        expect(await start({ ahead: 600_000 }).ended).toEqual(ENDED);
        const begun = await rows("begun");
        for (const eventId of before) expect(begun.filter((event) => event === eventId)).toHaveLength(1);
        await expectOnce();
      },
    );

    test.concurrent.each(frozenAt)(
      "a worker frozen %s until its lease has ended: each event's writes exist exactly once",
      async (standAt) => {
        const { start, rows, expectOnce } = await created(kind);
        // A worker that freezes in a callback must run one event at a time. Otherwise it may also freeze in a transaction
        // of another event. The server ends such a transaction only after a minute.
        const first = start({ standAt, concurrency: standAt === "in the callback" ? 1 : 3 });
        while ((await first.said()) !== standAt);
        // The frozen worker may hold a transaction. The server ends it, so the second worker can handle all events.
        const second = await start({ ahead: -600_000 }).ended;
        expect([second.code, second.signal], second.errors).toEqual([0, null]);
        expect((await rows("handled")).length).toBeGreaterThanOrEqual(EVENTS);
        first.child.kill("SIGCONT");
        first.child.send("continue");
        const { code, signal, errors } = await first.ended;
        expect([code, signal], errors).toEqual([0, null]);
        await expectOnce();
      },
    );

    test("three workers at once handle each event once", async () => {
      const { start, rows, expectOnce } = await created(kind, 60);
      const workers = Array.from({ length: 3 }, () => start());
      for (const { ended } of workers) expect(await ended).toEqual(ENDED);
      expect(new Set(await rows("begun")).size).toBe((await rows("begun")).length);
      await expectOnce();
    });

    test("two workers that receive and handle events of the same records handle each event once", async () => {
      const { start, rows, expectOnce } = await created(kind, 0);
      const answered: string[] = [];
      const receives = Array.from({ length: 2 }, () => Array.from({ length: 200 }, () => randomUUID()));
      const workers = receives.map((ids) => start({ receives: ids }));
      for (const { child } of workers) child.on("message", (id) => answered.push(String(id)));
      for (const { ended } of workers) expect(await ended).toEqual(ENDED);
      const ids = receives.flat();
      expect(answered.filter((id) => id !== "started").sort()).toEqual(ids.toSorted());
      expect(await rows("begun")).toEqual(ids.toSorted());
      await expectOnce(ids);
    });

    test(`kill -9 at random moments loses no event that was answered with 200, seed ${SEED}`, async () => {
      const { store, sql, start, rows, done, expectOnce } = await created(kind, 0);
      const answered = new Set<string>();
      for (let round = 0; round < 3; round++) {
        // More than a process can receive before it is killed.
        const receives = Array.from({ length: 1000 }, () => randomUUID());
        const { child, ended, said } = start({ receives, ahead: round * 60_000 });
        child.on("message", (eventId) => answered.add(String(eventId)));
        await said();
        const before = answered.size;
        await eventually(() => expect(answered.size).toBeGreaterThan(before + 1));
        const wait = (SEED * (round + 7)) % 400;
        await sleep(wait);
        child.kill("SIGKILL");
        expect(await ended, `killed after ${wait} ms`).toMatchObject({ signal: "SIGKILL", errors: "" });
        expect(await rows("handled")).toEqual(await done());
      }
      answered.delete("started");
      expect(answered.size).toBeGreaterThan(0);
      const events = await store.list({ limit: 10_000 });
      const kept = new Set(events.map(({ eventId }) => eventId));
      expect([...answered].filter((eventId) => !kept.has(eventId))).toEqual([]);
      const states = Map.groupBy(events, ({ state }) => state);
      for (const [state, count] of Object.entries(await store.counts()))
        expect(count, state).toBe(states.get(state as "done")?.length ?? 0);
      if (kind.name === "SQLite")
        expect(await sql("PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
      expect(await start({ ahead: 600_000 }).ended).toEqual(ENDED);
      // A server may commit the last statement of a killed process after its death.
      const all = await store.list({ limit: 10_000 });
      await expectOnce(all.map(({ eventId }) => eventId));
    });
  },
);
