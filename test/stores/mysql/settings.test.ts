// Databases, servers and pools with other settings than those of this machine.

import mysql from "mysql2/promise";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { startOwnMysql } from "../../support/mysql-server.ts";
import type { OwnServer } from "../../support/server-process.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createDatabases, describeMysql, isMariadb, url } from "./support.ts";

const HOUSE = "Дом у моря 🏠 ö";
const SNAPSHOT = { status: HOUSE, fields: { name: HOUSE } };

describeMysql("settings", () => {
  const databases = createDatabases();

  async function storeOn(options: Parameters<typeof mysqlStore>[0]) {
    const store = mysqlStore(options);
    onTestFinished(() => store.close());
    return store;
  }

  /** Plays an event with texts that most character sets cannot hold. */
  async function play(store: Awaited<ReturnType<typeof storeOn>>) {
    const event = { ...eventOf(`booking:${HOUSE}`), notification: JSON.stringify({ HOUSE }), topic: "" };
    expect(await store.add(event as never)).toBe("added");
    expect(await store.add(event as never)).toBe("duplicate");
    const [claim] = await store.claim({ ...CLAIM, worker: HOUSE });
    expect(claim).toMatchObject({ ref: event.ref, notification: event.notification, topic: "" });
    expect(await store.renew([claim!], 30_000)).toEqual([claim]);
    const further = { event: eventOf(`listing:${HOUSE}`), dueIn: 60_000 };
    const outcome = {
      ...DONE,
      type: HOUSE,
      record: { snapshot: SNAPSHOT, changed: true },
      events: [further],
    };
    expect(await store.settle(claim!, { ...outcome, entry: { duration: 1, error: HOUSE } } as never)).toBe(
      true,
    );
    expect(await store.snapshotOf(event.ref!)).toMatchObject({ snapshot: SNAPSHOT, sequence: 1 });
    expect(await store.get(event.eventId)).toMatchObject({
      state: "done",
      type: HOUSE,
      history: [{ worker: HOUSE, error: HOUSE }],
    });
    expect(await store.setMeta(HOUSE, HOUSE, { expected: undefined })).toBe(true);
    expect(await store.getMeta(HOUSE)).toMatchObject({ value: HOUSE });
    expect(await store.setMeta(HOUSE, undefined, { expected: HOUSE })).toBe(true);
    expect(await store.discard({ ref: `listing:${HOUSE}`, state: "scheduled" })).toBe(1);
    expect(await store.erase(event.ref!)).toBe(1);
  }

  test.each(["latin1", "utf8mb3", "greek", "sjis", "ucs2", "utf16", "ascii", "big5"])(
    "texts come back as they were in a database of the charset %s",
    async (charset) => {
      const url = await databases.create();
      await databases.pool.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} CHARACTER SET ${charset}`);
      await play(await storeOn({ url }));
      const pool = mysql.createPool({ uri: url, connectionLimit: 2 });
      onTestFinished(() => pool.end());
      await play(await storeOn({ pool }));
    },
  );

  test("the url's own charset does not count", async () => {
    await play(await storeOn({ url: `${await databases.create()}?charset=latin1` }));
  });

  // Only MariaDB has this mode.
  const mode = isMariadb ? "EMPTY_STRING_IS_NULL" : "ANSI";
  const strict = `SET SESSION sql_mode = CONCAT(@@sql_mode, ',${mode}')`;
  test.each([
    ["sql_safe_updates", ["SET SESSION sql_safe_updates = 1"]],
    [mode, [strict]],
    ["sql_select_limit", ["SET SESSION sql_select_limit = 1"]],
    ["all of them", ["SET SESSION sql_safe_updates = 1, sql_select_limit = 1", strict]],
  ])("%s is set for the session", async (_, statements) => {
    const pool = mysql.createPool({ uri: await databases.create(), connectionLimit: 2 });
    onTestFinished(() => pool.end());
    pool.on("connection", (connection) => {
      const { query } = connection as unknown as { query(sql: string): void };
      for (const sql of statements) query.call(connection, sql);
    });
    const store = await storeOn({ pool });
    await play(store);
    const refs = ["booking:1", "booking:2", "booking:3"];
    await Promise.all(refs.map((ref) => store.add(eventOf(ref))));
    expect((await store.claim({ ...CLAIM, limit: 10 })).length).toBe(3);
  });

  test.each<[string, mysql.PoolOptions]>([
    ["rowsAsArray", { rowsAsArray: true }],
    ["nestTables", { nestTables: true }],
    ["typeCast", { typeCast: () => "x" }],
    ["dateStrings, bigNumberStrings", { dateStrings: true, supportBigNumbers: true, bigNumberStrings: true }],
    ["namedPlaceholders", { namedPlaceholders: true }],
    ["multipleStatements", { multipleStatements: true }],
    ["waitForConnections: false", { waitForConnections: false }],
    ["queueLimit", { queueLimit: 1 }],
  ])("a pool with %s works", async (_, options) => {
    const pool = mysql.createPool({ uri: await databases.create(), connectionLimit: 2, ...options });
    onTestFinished(() => pool.end());
    const store = await storeOn({ pool });
    await play(store);
    const calls = Array.from({ length: 20 }, () => [store.add(eventOf()), store.counts(), store.nextDue()]);
    await Promise.all(calls.flat());
  });

  test.each<[string, mysql.PoolOptions, string[], RegExp]>([
    ["another charset", { charset: "latin1" }, [], /needs connections with the charset utf8mb4.*latin1/],
    ["SET NAMES", {}, ["SET NAMES utf8mb3"], /needs connections with the charset utf8mb4.*utf8/],
    ["autocommit = 0", {}, ["SET autocommit = 0"], /needs connections with autocommit = 1/],
    ["-FOUND_ROWS", { flags: ["-FOUND_ROWS"] }, [], /needs connections with the flag FOUND_ROWS/],
    ["a queryFormat", { queryFormat: (sql: string) => sql } as never, [], /option queryFormat/],
  ])("a pool with %s is refused at the start", async (_, options, statements, message) => {
    const pool = mysql.createPool({ uri: await databases.create(), connectionLimit: 2, ...options });
    onTestFinished(() => pool.end());
    pool.on("connection", (connection) => {
      const { query } = connection as unknown as { query(sql: string): void };
      for (const sql of statements) query.call(connection, sql);
    });
    await expect((await storeOn({ pool })).nextDue()).rejects.toThrow(message);
  });

  test("a URL in place of the options is refused", () => {
    expect(() => mysqlStore("mysql://root@127.0.0.1/test" as never)).toThrow(
      "mysqlStore takes an object with a url or a pool",
    );
  });

  test("a pool with callbacks is refused", async () => {
    const { createPool } = await import("mysql2");
    const pool = createPool({ uri: await databases.create() });
    onTestFinished(() => pool.end());
    expect(() => mysqlStore({ pool: pool as never })).toThrow("pass pool.promise()");
    await play(await storeOn({ pool: pool.promise() as never }));
  });

  test("a user with one connection gets all events through", async () => {
    const url = new URL(await databases.create());
    const user = url.pathname.slice(-30);
    await databases.pool.query(`CREATE USER '${user}'@'%' WITH MAX_USER_CONNECTIONS 1`);
    await databases.pool.query(`GRANT ALL ON ${url.pathname.slice(1)}.* TO '${user}'@'%'`);
    onTestFinished(async () => void (await databases.pool.query(`DROP USER '${user}'@'%'`)));
    url.username = user;
    url.password = "";
    const store = await storeOn({ url: url.href });
    const added = await Promise.all(
      Array.from({ length: 50 }, async (_, n) => {
        const answers = await Promise.all([store.add(eventOf(`booking:${n}`)), store.counts()]);
        return answers[0];
      }),
    );
    expect(new Set(added)).toEqual(new Set(["added"]));
    expect((await store.claim({ ...CLAIM, limit: 100 })).length).toBe(50);
  });

  test("an add to a leased record writes the row, so that Galera sees the conflict", async () => {
    const url = await databases.create();
    const store = await storeOn({ url });
    const row = async () => {
      const [rows] = await databases.pool.query<mysql.RowDataPacket[]>(
        `SELECT * FROM ${new URL(url).pathname.slice(1)}.stayhook_records`,
      );
      return JSON.stringify(rows[0]);
    };
    await store.add(eventOf());
    const [claim] = await store.claim(CLAIM);
    const seen = new Set([await row()]);
    const timer = { ...eventOf(undefined, "timer"), source: "timer" as const };
    for (let n = 0; n < 3; n += 1) {
      await store.add(eventOf());
      seen.add(await row());
      await store.add({ ...timer, timestamp: `2026-01-0${n + 1}T00:00:00Z` }, { replace: "moved" });
      seen.add(await row());
    }
    expect(seen.size).toBe(7);
    expect(await store.settle(claim!, DONE)).toBe(true);
    expect(await store.nextDue()).toBe(0);
  });
});

describe.skipIf(url === undefined)("a server in a zone with summer time", () => {
  let server: OwnServer | undefined;
  beforeAll(async () => {
    server = await startOwnMysql({ TZ: "Europe/Berlin" });
  });
  afterAll(() => server?.close());

  const changes = [
    ["the hour that comes twice", Date.UTC(2026, 9, 25, 1)],
    ["the hour that is left out", Date.UTC(2026, 2, 29, 1)],
  ] as const;
  test.each(
    changes.flatMap(([name, change]) =>
      [-90, -60, -31, -1, 0, 30].map((start) => [name, start, change] as const),
    ),
  )("leases and timers keep their times at %s (minute %i)", async (_, start, change) => {
    const pool = mysql.createPool({ uri: server!.url, connectionLimit: 1 });
    const store = mysqlStore({ pool });
    onTestFinished(async () => {
      await store.close();
      await pool.query("DROP TABLE IF EXISTS stayhook_events, stayhook_records, stayhook_meta");
      await pool.end();
    });
    /** Sets the time of the session, in minutes after the change. */
    const minute = async (minutes: number) => {
      const at = change + minutes * 60_000;
      await pool.query(`SET timestamp = ${at / 1000}`);
      const [rows] = await pool.query<mysql.RowDataPacket[]>(
        "SELECT HOUR(NOW()) AS hour, @@time_zone AS zone",
      );
      const hour = new Intl.DateTimeFormat("en", {
        timeZone: "Europe/Berlin",
        hour: "numeric",
        hourCycle: "h23",
      });
      expect(rows[0]).toEqual({ hour: Number(hour.format(at)), zone: "SYSTEM" });
    };
    // A migration ends its connection, and the next one has another time.
    await store.counts();
    await minute(start);
    const timer = { ...eventOf("booking:1", "timer"), source: "timer" as const };
    expect(await store.add(timer, { dueIn: 60 * 60_000 })).toBe("added");
    const event = eventOf("listing:1");
    await store.add(event);
    const [claim] = await store.claim({ limit: 9, leaseDuration: 60 * 60_000 });
    expect(claim!.eventId).toBe(event.eventId);
    for (const minutes of [1, 30, 59]) {
      await minute(start + minutes);
      expect(await store.claim(CLAIM)).toEqual([]);
      expect(await store.nextDue()).toBe((60 - minutes) * 60_000);
    }
    expect(await store.settle(claim!, DONE)).toBe(true);
    await minute(start + 60);
    expect(await store.claim(CLAIM)).toMatchObject([{ ref: timer.ref }]);
    expect((await store.get(event.eventId))?.receivedAt.getTime()).toBe(change + start * 60_000);
  });
});
