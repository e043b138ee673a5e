import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import mysql from "mysql2/promise";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import type { EventStore } from "../../../src/stores/event-store.ts";
import type { AddOptions } from "../../../src/stores/store-options.ts";
import { eventually } from "../../support/eventually.ts";
import { CLAIM, CONFIRMED, DONE, eventOf, PARKED, RETRY } from "../event.ts";
import { startProcess } from "../processes.ts";
import type { LaterOptions, Said } from "./later-version.ts";
import { describeEvery, type Kind, opened, type Place } from "./stores.ts";

const SQL: readonly Kind["name"][] = ["SQLite", "PostgreSQL", "MySQL"];
const UPGRADED = { version: 5, expected: 5 };

/** Starts a process with a later version of stayhook. */
function startLater({ place }: Place, options: Omit<LaterOptions, "place"> = {}) {
  const { child, ended } = startProcess(join(import.meta.dirname, "later-version.ts"), { place, ...options });
  const messages: unknown[] = [];
  child.on("message", (message) => messages.push(message));
  return {
    child,
    said: () => eventually(() => expect(messages).not.toEqual([])),
    ended: ended.then(({ signal, errors }) => ({
      signal,
      errors,
      said: messages.filter((message) => typeof message === "object").at(-1) as Said | undefined,
    })),
  };
}

/** Makes a place with 60 events of 20 records and six without a record. 20 of the records have a snapshot. */
async function filledPlace(kind: Kind): Promise<{ readonly place: Place; readonly open: string[] }> {
  const place = await kind.create();
  const store = opened(place);
  const refs = Array.from({ length: 20 }, (_, n) => `booking:HELD${n + 10}`);
  await Promise.all(refs.map((ref) => store.learn(ref, CONFIRMED)));
  const events = [...refs, ...refs, ...refs, ...Array(6).fill(null)].map((ref: string | null) =>
    eventOf(ref),
  );
  for (const event of events) expect(await store.add(event)).toBe("added");
  return { place, open: events.map(({ eventId }) => eventId) };
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
    test(`eight processes upgrade the tables at once`, async () => {
      const { place } = await filledPlace(kind);
      const processes = Array.from({ length: 8 }, () => startLater(place, { waits: true }));
      await Promise.all(processes.map(({ said }) => said()));
      for (const { child } of processes) child.send("go");
      const ends = await Promise.all(processes.map(({ ended }) => ended));
      for (const { said, errors } of ends) expect([said, errors]).toMatchObject([{ schema: UPGRADED }, ""]);
      const handled = ends.flatMap(({ said }) => said!.handled!);
      expect(new Set(handled).size).toBe(handled.length);
      expect(await opened(place).counts()).toMatchObject({ pending: 0, processing: 0, retrying: 0 });
    });

    test(`a process killed before each statement of the upgrade leaves tables that work`, async () => {
      const { place } = await filledPlace(kind);
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
      expect(await opened(place).schema?.()).toEqual({ version: 5, expected: 3 });
    });

    test("with migrate: false, the error names the SQL that a user then runs", async () => {
      const { place } = await filledPlace(kind);
      const refused = (await startLater(place, { migrate: false }).ended).said!;
      const [, call] = /that (migrationSql\(.*?\)) returns/.exec(refused.error!)!;
      expect(refused.error).toContain("schema version 3, this version of stayhook needs schema version 5");
      expect(call).toContain("from: 3, to: 5");
      expect(refused.error).toContain("ALTER TABLE");
      expect(refused.error).toContain("The index locks the table");
      expect((await opened(place).schema?.())?.version).toBe(3);
      const { said } = await startLater((await filledPlace(kind)).place).ended;
      expect(said!.sql).toContain("-- The index locks the table");
      await runScript(place, said!.sql.replaceAll(/stayhook_test_\w+/g, place.place.schema));
      const upgraded = (await startLater(place, { migrate: false }).ended).said!;
      expect(upgraded).toMatchObject({ schema: UPGRADED });
    });

    // SQLite locks the file instead, and waits for it as in every transaction.
    if (kind.name !== "SQLite")
      test("an upgrade waits for a locked table for some seconds only, and the next call completes it", async () => {
        const place = await kind.create();
        const older = opened(place);
        await older.add(eventOf());
        const release = await lockEvents(place);
        const { said } = await startLater(place).ended;
        expect(said!.error).toMatch(
          /could not be upgraded from schema version 3: .*(lock timeout|Lock wait)/,
        );
        expect(said!.error).toContain("from: 3, to: 5");
        await release();
        expect((await startLater(place).ended).said).toMatchObject({ schema: UPGRADED });
      });
  },
);

/** Fills a store with events of all states, snapshots and ledgers. Returns the claims that are held, and what is due. */
async function fill(store: EventStore<unknown>) {
  const addAll = async (name: string, options: AddOptions = {}) => {
    const events = Array.from({ length: 20 }, (_, n) => eventOf(`booking:${name}${n}`));
    if (name === "DUE") events.push(eventOf(null), eventOf(null));
    for (const event of events) expect(await store.add(event, options)).toBe("added");
    return events.map(({ eventId }) => eventId);
  };
  const ended = [
    ["DONE", { ...DONE, ledger: "kept" }],
    ["PARKED", PARKED],
    ["RETRYING", { ...RETRY, in: 3_600_000 }],
  ] as const;
  for (const [name, outcome] of ended) {
    await addAll(name);
    for (const claim of await store.claim(CLAIM)) expect(await store.settle(claim, outcome)).toBe(true);
  }
  await addAll("SCHEDULED", { dueIn: 3_600_000 });
  const due = await addAll("DUE");
  const held = await store.claim({ ...CLAIM, limit: 10 });
  return { due, held };
}

/** Everything that a later version must leave as it is, beside the events that are due. */
async function contentOf(store: EventStore<unknown>) {
  const isKept = ({ ref }: { readonly ref: string | null }) => ref !== null && !/:(DUE|NEW)/.test(ref);
  return {
    events: (await store.list({ limit: 10_000 })).filter(isKept),
    snapshots: (await all(store.snapshots())).filter(isKept),
    ledgers: await all(store.ledgers()),
  };
}

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const value of values) found.push(value);
  return found;
}

/** Writes into the new column of all events, as the later version does. The function counts the events that have the value. */
async function prioritize({ place, sql }: Place, ids: readonly string[]): Promise<() => Promise<number>> {
  if (place.name !== "Redis") {
    const events = place.name === "PostgreSQL" ? "events" : "stayhook_events";
    // The server may choose this statement to end a deadlock.
    await eventually(() => sql(`UPDATE ${events} SET priority = 7`));
    return async () =>
      Number((await sql(`SELECT count(*) AS found FROM ${events} WHERE priority = 7`))[0]!.found);
  }
  const client = new Redis(place.url);
  onTestFinished(() => client.disconnect());
  const keys = ids.map((id) => `{${place.schema}}:event:${id}`);
  for (const key of keys) await client.hset(key, "priority", 7);
  return async () =>
    (await Promise.all(keys.map((key) => client.hget(key, "priority")))).filter((value) => value === "7")
      .length;
}

/** Repeats a call until the returned function is called, which resolves to the answers. */
function repeat<T>(call: () => Promise<T>): () => Promise<T[]> {
  let isOver = false;
  const answers: T[] = [];
  const repeating = (async () => {
    while (!isOver) {
      answers.push(await call());
      await sleep(5);
    }
    return answers;
  })();
  repeating.catch(() => {});
  return () => {
    isOver = true;
    return repeating;
  };
}

describeEvery(
  ({ name }) => name !== "memory",
  (kind) => {
    test("a filled store gains a column while this version adds, claims, renews and settles: no call fails, and nothing is lost", async () => {
      const place = await kind.create();
      const older = opened(place);
      const { due, held } = await fill(older);
      expect(await older.schema?.()).toEqual({ version: 3, expected: 3 });
      const before = await contentOf(older);
      let added = 0;
      const adding = repeat(async () => {
        const event = eventOf(`booking:NEW${added++ % 7}`);
        expect(await older.add(event)).toBe("added");
        return event.eventId;
      });
      const handling = repeat(() => handleAll(older));
      const renewing = repeat(() => older.renew(held, 60_000));
      const later = [1, 2].map(() => startLater(place, { handles: 1500 }));
      await later[0]!.said();
      const prioritized = await prioritize(
        place,
        before.events.map(({ eventId }) => eventId),
      );
      const marked = await prioritized();
      const ends = await Promise.all(later.map(({ ended }) => ended));
      const [ids, handled, renewed] = [await adding(), (await handling()).flat(), await renewing()];
      for (const renewals of renewed) expect(renewals).toEqual(held);
      // The claims began on the old tables, and end on the new ones.
      for (const claim of held) expect(await older.settle(claim, DONE)).toBe(true);
      handled.push(...held.map(({ eventId }) => eventId), ...(await handleAll(older)));
      for (const { said } of ends) {
        expect(said).toMatchObject({ schema: UPGRADED });
        expect(said!.handled!.length).toBeGreaterThan(0);
        handled.push(...said!.handled!);
      }
      expect(handled.sort()).toEqual([...due, ...ids].sort());
      expect(await contentOf(older)).toEqual(before);
      // What only the later version knows stays when the older one changes a row.
      expect(await older.replay({ ref: "booking:PARKED3" })).toBe(1);
      expect(await older.replay({ state: "done", ref: "booking:DONE3" })).toBe(1);
      expect(await handleAll(older)).toHaveLength(2);
      expect(marked).toBeGreaterThanOrEqual(before.events.length);
      expect(await prioritized()).toBe(marked);
      // Back to the older version alone.
      const back = opened(place);
      expect(await back.add(eventOf())).toBe("added");
      expect(await handleAll(back)).toHaveLength(1);
      expect(await back.schema?.()).toEqual({ version: 5, expected: 3 });
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
      expect(schema).toEqual(kind.name === "memory" ? undefined : { version: 3, expected: 3 });
    });
  },
);
