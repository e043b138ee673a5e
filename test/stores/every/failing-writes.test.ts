// A write of the user that fails is the callback's failure, whatever the error is, and holds up no other event.

import { expect, onTestFinished, test, vi } from "vitest";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { done, eventOf, idsOf, queueOf, SECOND } from "../../queue/support.ts";
import { eventually, PATIENCE } from "../../support/eventually.ts";
import { describeEvery, type Kind, opened, type Place } from "./stores.ts";

const raised = (state: string) => `DO $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '${state}'; END $$`;
const signalled = (errno: number, state: string) =>
  `BEGIN NOT ATOMIC SIGNAL SQLSTATE '${state}' SET MYSQL_ERRNO = ${errno}, MESSAGE_TEXT = 'refused'; END`;

/** The statements of the user that fail, by their errors. */
const FAILING: Partial<Record<Kind["name"], Readonly<Record<string, string>>>> = {
  SQLite: {
    "SQLITE_CONSTRAINT of a trigger": "INSERT INTO refused VALUES (1)",
    SQLITE_CANTOPEN: "ATTACH '/nowhere/file.db' AS other",
    SQLITE_NOTADB: "ATTACH '/proc/self/exe' AS other; SELECT * FROM other.sqlite_schema",
    SQLITE_READONLY: "UPDATE sqlite_schema SET sql = ''",
    SQLITE_LOCKED: "VACUUM",
  },
  PostgreSQL: {
    ...Object.fromEntries(
      [
        "XX000",
        "XX001",
        "08001",
        "08006",
        "40001",
        "40P01",
        "53100",
        "53200",
        "57014",
        "57P01",
        "58030",
        "25006",
        "25P04",
        "26000",
      ].map((state) => [state, raised(state)]),
    ),
    "22P02, a control": "SELECT 'x'::int",
    "57014 of a timeout": "SET LOCAL statement_timeout = 50; SELECT pg_sleep(5)",
    "a deferred XX000": "INSERT INTO deferred VALUES (1)",
    "25P04 of a server from 17 on": "SET LOCAL transaction_timeout = 50; SELECT pg_sleep(5)",
  },
  MySQL: {
    "1213": signalled(1213, "40001"),
    "1205": signalled(1205, "HY000"),
    "1114, a full table": signalled(1114, "HY000"),
    "1021, a full disk": signalled(1021, "HY000"),
    "1290, read-only": signalled(1290, "HY000"),
    "1927, a killed connection": signalled(1927, "70100"),
    "2006, a lost connection": signalled(2006, "HY000"),
    "1317, an interrupted statement": "SET STATEMENT max_statement_time = 0.05 FOR SELECT SLEEP(5)",
  },
};
/** Statements that end their own connection, each time. */
const ENDING: typeof FAILING = {
  PostgreSQL: { pg_terminate_backend: "SELECT pg_terminate_backend(pg_backend_pid())" },
  MySQL: { KILL: "KILL CONNECTION_ID()" },
};

const TABLES: Partial<Record<Kind["name"], readonly string[]>> = {
  SQLite: [
    "CREATE TABLE refused (n INTEGER)",
    "CREATE TRIGGER refuses BEFORE INSERT ON refused BEGIN SELECT RAISE(ABORT, 'refused'); END",
  ],
  PostgreSQL: [
    "CREATE TABLE deferred (n INT)",
    `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      RAISE EXCEPTION 'refused' USING ERRCODE = 'XX000'; END $$`,
    `CREATE CONSTRAINT TRIGGER refuses AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION refuse()`,
  ],
};

/** Plays events whose write runs `sql`, and 20 events of other bookings that come with them. */
async function played(kind: Kind, place: Place, sql: string, bad: readonly string[]) {
  const store = opened(place) as EventStore;
  let runs = 0;
  const write = (tx: unknown) => {
    runs += 1;
    return kind.write!(tx, sql);
  };
  const { queue, add, ran } = queueOf({
    store,
    maxAttempts: 2,
    backoff: () => 200,
    concurrency: 4,
    work: ({ eventId }) => (bad.includes(eventId) ? { ...done, writes: [write] } : done) as never,
  });
  onTestFinished(() => queue.close(0));
  await add(...bad);
  queue.start();
  await eventually(() => expect(runs).toBeGreaterThan(0));
  await add(...idsOf(20));
  queue.wake(eventOf("any"));
  await eventually(async () => expect(await store.counts()).toMatchObject({ done: 20 }));
  await eventually(async () =>
    expect(await store.counts()).toMatchObject({ parked: bad.length, processing: 0 }),
  );
  for (const id of bad) {
    const entries = [{ outcome: "retrying" }, { outcome: "parked" }].map((end) => ({
      ...end,
      reason: "callback",
    }));
    expect(await store.get(id)).toMatchObject({
      state: "parked",
      reason: "callback",
      attempts: 2,
      history: entries,
    });
  }
  expect(ran.filter((id) => bad.includes(id))).toHaveLength(2 * bad.length);
  return runs;
}

describeEvery(
  ({ isTransactional }) => isTransactional,
  (kind) => {
    async function placeOf(): Promise<Place> {
      const place = await kind.create();
      for (const table of TABLES[kind.name] ?? []) await place.sql(table);
      return place;
    }
    const failing = Object.entries(FAILING[kind.name]!);

    test.each(failing)("%s: the attempt fails, and 20 other events are handled", async (_, sql) => {
      await played(kind, await placeOf(), sql, ["bad"]);
    });

    test("twelve such events at once", async () => {
      await played(kind, await placeOf(), failing[0]![1], idsOf(12, "bad"));
    });

    test.each(Object.entries(ENDING[kind.name] ?? {}))(
      "%s ends the connection: the second time in a row, the attempt fails",
      async (_, sql) => {
        expect(await played(kind, await placeOf(), sql, ["bad"])).toBe(4);
        await played(kind, await placeOf(), sql, idsOf(12, "bad"));
      },
    );
  },
);

/** Statements after which those of the store fail on the same connection. */
const SPOILING: typeof FAILING = {
  PostgreSQL: { "42501, the role has no rights": "SET LOCAL ROLE pg_monitor" },
  MySQL: { "1146, another database": "USE mysql" },
};

describeEvery(
  ({ name }) => name in SPOILING,
  (kind) => {
    const spoiling = Object.entries(SPOILING[kind.name]!);

    test.each(spoiling)(
      "%s: after a minute, the attempt fails, and other events are handled",
      async (_, sql) => {
        const store = opened(await kind.create()) as EventStore;
        // Each look of the test lets five seconds pass, so that a minute takes six.
        const { now } = performance;
        let passed = 0;
        vi.spyOn(performance, "now").mockImplementation(() => now.call(performance) + passed);
        onTestFinished(() => void vi.restoreAllMocks());
        const write = (tx: unknown) => kind.write!(tx, sql);
        const { queue, add } = queueOf({
          store,
          maxAttempts: 2,
          backoff: () => 200,
          work: ({ eventId }) => (eventId === "bad" ? { ...done, writes: [write] } : done) as never,
        });
        onTestFinished(() => queue.close(0));
        await add("bad");
        queue.start();
        let others = 0;
        await eventually(
          async () => {
            others += 1;
            passed += 5 * SECOND;
            await add(`other ${others}`);
            queue.wake(eventOf("any"));
            expect(await store.get("bad")).toMatchObject({ state: "parked" });
          },
          PATIENCE,
          500,
        );
        const history = [{ outcome: "retrying" }, { outcome: "parked" }];
        expect(await store.get("bad")).toMatchObject({ reason: "callback", attempts: 2, history });
        expect((await store.get("bad"))!.history[1]!.error).toMatch(/permission denied|doesn't exist/);
        await eventually(async () => expect(await store.counts()).toMatchObject({ done: others }));
      },
    );
  },
);
