import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import mysql from "mysql2/promise";
import pg from "pg";
import { expect, test, vi } from "vitest";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { isSoak } from "../../support/soak.ts";
import { DONE, eventOf } from "../event.ts";
import { expectedOf, placeOf, versions } from "../fixtures/fixtures.ts";
import { startProcess } from "../processes.ts";
import type { LaterOptions, Said } from "./later-version.ts";
import { describeEvery, type Kind, opened, type Place } from "./stores.ts";

vi.setConfig({ testTimeout: 120_000 });

const SQL: readonly Kind["name"][] = ["SQLite", "PostgreSQL", "MySQL"];
const UPGRADED = { version: 4, expected: 4 };

/** Starts a process with a later version of stayhook. */
function startLater({ place }: Place, options: Omit<LaterOptions, "place"> = {}) {
  const { child, ended } = startProcess(join(import.meta.dirname, "later-version.ts"), { place, ...options });
  const messages: unknown[] = [];
  child.on("message", (message) => messages.push(message));
  return {
    child,
    said: () => vi.waitUntil(() => messages.length > 0, 60_000),
    ended: ended.then(({ signal, errors }) => ({
      signal,
      errors,
      said: messages.filter((message) => typeof message === "object").at(-1) as Said | undefined,
    })),
  };
}

async function handleAll(store: EventStore<unknown>): Promise<string[]> {
  const handled: string[] = [];
  for (let round = 0; round < 200; round += 1) {
    const claims = await store.claim({ limit: 20, leaseDuration: 60_000 });
    if (claims.length === 0) break;
    for (const claim of claims)
      if (await store.settle(claim, claim.ref === null ? { ...DONE, record: undefined } : DONE))
        handled.push(claim.eventId);
  }
  return handled;
}

/** The table of events and of records, with the columns of the later version. */
function readColumns({ place, sql }: Place) {
  const [events, records] =
    place.name === "PostgreSQL" ? ["events", "records"] : ["stayhook_events", "stayhook_records"];
  return Promise.all([
    sql(`SELECT priority FROM ${events} LIMIT 1`),
    sql(`SELECT color FROM ${records} LIMIT 1`),
  ]);
}

/** Holds a transaction that has read the events, until the returned function is called. */
async function lockEvents({ place: { name, url, schema } }: Place): Promise<() => Promise<void>> {
  if (name === "PostgreSQL") {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(`BEGIN; SELECT FROM ${schema}.events`);
    return () => client.end();
  }
  const connection = await mysql.createConnection({ uri: url, multipleStatements: true });
  await connection.query("START TRANSACTION; SELECT seq FROM stayhook_events");
  return () => connection.end();
}

/** Runs a script, as a user does by hand. */
async function runScript({ sql }: Place, script: string): Promise<void> {
  for (const statement of script.split(";\n"))
    if (statement.replaceAll(/^--.*$/gm, "").trim() !== "") await sql(statement);
}

describeEvery(
  ({ name }) => SQL.includes(name),
  (kind) => {
    // The tables of 1.0.0 are those of an upgraded 0.3.0.
    for (const version of isSoak ? versions : ["0.3.0"]) {
      test(`${version}: a later version upgrades the tables while this version works, and this version goes on`, async () => {
        const place = await placeOf(version, kind);
        const older = opened(place);
        const { events } = expectedOf(version, kind.name);
        const open = events
          .filter(({ state }) => ["pending", "processing", "retrying"].includes(state))
          .map(({ eventId }) => eventId);
        expect(await older.schema?.()).toEqual({ version: 2, expected: 2 });
        const claims = await older.claim({ limit: 20, leaseDuration: 60_000 });
        expect(claims).toHaveLength(20);
        const later = startLater(place);
        await later.said();
        // The claims began on the old tables, and end on the new ones.
        for (const claim of claims)
          expect(await older.settle(claim, claim.ref === null ? { ...DONE, record: undefined } : DONE)).toBe(
            true,
          );
        const handled = [...claims.map(({ eventId }) => eventId), ...(await handleAll(older))];
        const { said } = await later.ended;
        expect(said).toMatchObject({ schema: UPGRADED });
        expect([...handled, ...said!.handled!, ...(await handleAll(older))].sort()).toEqual(open.sort());
        await readColumns(place);
        // Back to the older version alone.
        const back = opened(place);
        expect(await back.schema?.()).toEqual({ version: 4, expected: 2 });
        expect(await back.add(eventOf())).toBe("added");
        expect(await handleAll(back)).toHaveLength(1);
        expect(await back.schema?.()).toEqual({ version: 4, expected: 2 });
      });

      test(`${version}: eight processes upgrade the tables at once`, async () => {
        const place = await placeOf(version, kind);
        const processes = Array.from({ length: 8 }, () => startLater(place, { waits: true }));
        await Promise.all(processes.map(({ said }) => said()));
        for (const { child } of processes) child.send("go");
        const ends = await Promise.all(processes.map(({ ended }) => ended));
        for (const { said, errors } of ends) expect([said, errors]).toMatchObject([{ schema: UPGRADED }, ""]);
        const handled = ends.flatMap(({ said }) => said!.handled!);
        expect(new Set(handled).size).toBe(handled.length);
        expect(await opened(place).counts()).toMatchObject({ pending: 0, processing: 0, retrying: 0 });
      });

      test(`${version}: a process killed before each statement of the upgrade leaves tables that work`, async () => {
        const place = await placeOf(version, kind);
        const older = opened(place);
        let kills = 0;
        for (let diesBefore = 1; diesBefore < 20; diesBefore += 1) {
          const { signal, said, errors } = await startLater(place, { diesBefore }).ended;
          if (signal !== "SIGKILL") {
            expect([said, errors]).toMatchObject([{ schema: UPGRADED }, ""]);
            break;
          }
          kills += 1;
          const event = eventOf("booking:KILLED", randomUUID());
          expect(await older.add(event)).toBe("added");
          expect(await older.discard({ eventId: event.eventId })).toBe(1);
        }
        // MySQL goes on behind the last version that was written down. The others begin again.
        expect(kills).toBeGreaterThanOrEqual(kind.name === "MySQL" ? 4 : 6);
        await readColumns(place);
        expect(await opened(place).schema?.()).toEqual({ version: 4, expected: 2 });
      });

      test(`${version}: with migrate: false, the error names the SQL that a user then runs`, async () => {
        const place = await placeOf(version, kind);
        const refused = (await startLater(place, { migrate: false }).ended).said!;
        const [, call] = /that (migrationSql\(.*?\)) returns/.exec(refused.error!)!;
        expect(refused.error).toContain("schema version 2, this version of stayhook needs schema version 4");
        expect(call).toContain("from: 2, to: 4");
        expect(refused.error).toContain("ALTER TABLE");
        expect(refused.error).toContain("The index locks the table");
        expect((await opened(place).schema?.())?.version).toBe(2);
        const { said } = await startLater(await placeOf(version, kind)).ended;
        expect(said!.sql).toContain("-- The index locks the table");
        await runScript(place, said!.sql.replaceAll(/stayhook_test_\w+/g, place.place.schema));
        const upgraded = (await startLater(place, { migrate: false }).ended).said!;
        expect(upgraded).toMatchObject({ schema: UPGRADED });
      });
    }

    // SQLite locks the file instead, and waits for it as in every transaction.
    if (kind.name !== "SQLite")
      test("an upgrade waits for a locked table for some seconds only, and the next call completes it", async () => {
        const place = await kind.create();
        const older = opened(place);
        await older.add(eventOf());
        const release = await lockEvents(place);
        const began = performance.now();
        const { said } = await startLater(place).ended;
        expect(said!.error).toMatch(
          /could not be upgraded from schema version 2: .*(lock timeout|Lock wait)/,
        );
        expect(said!.error).toContain("from: 2, to: 4");
        expect(performance.now() - began).toBeLessThan(30_000);
        await release();
        expect((await startLater(place).ended).said).toMatchObject({ schema: UPGRADED });
      });

    test("both versions handle new events at once while the tables are upgraded", async () => {
      const place = await kind.create();
      const older = opened(place);
      const ids: string[] = [];
      let isOver = false;
      const adding = (async () => {
        while (!isOver) {
          const event = eventOf(`booking:${ids.length % 7}`, randomUUID());
          ids.push(event.eventId);
          expect(await older.add(event)).toBe("added");
          await sleep(5);
        }
      })();
      const handled: string[] = [];
      const handling = (async () => {
        while (!isOver) {
          handled.push(...(await handleAll(older)));
          await sleep(20);
        }
      })();
      const ends = await Promise.all([1, 2].map(() => startLater(place, { handles: 3000 }).ended));
      isOver = true;
      await Promise.all([adding, handling]);
      handled.push(...(await handleAll(older)));
      for (const { said } of ends) {
        expect(said).toMatchObject({ schema: UPGRADED });
        expect(said!.handled!.length).toBeGreaterThan(0);
        handled.push(...said!.handled!);
      }
      expect(handled.sort()).toEqual(ids.sort());
    });
  },
);

describeEvery(
  () => true,
  (kind) => {
    test("an empty store has the schema version of this version of stayhook at its first use", async () => {
      const store = opened(await kind.create());
      await store.counts();
      const schema = await store.schema?.();
      expect(schema).toEqual(kind.name === "memory" ? undefined : { version: 2, expected: 2 });
    });
  },
);
