import { join } from "node:path";
import { createConnection } from "mysql2/promise";
import pg from "pg";
import { mysqlStore } from "stayhook/mysql";
import { postgresStore } from "stayhook/postgres";
import { redisStore } from "stayhook/redis";
import { sqliteStore } from "stayhook/sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import type { EventStore } from "../../src/stores/event-store.ts";
import { eventOf, storedEvent } from "../stores/event.ts";
import { mysqlUrl } from "../support/mysql-server.ts";
import { postgresUrl } from "../support/postgres-server.ts";
import { deleteKeys, redisUrl } from "../support/redis-server.ts";
import { cli, directory, plain, quiet } from "./support.ts";

const place = `stayhook_cli_${crypto.randomUUID().slice(0, 8)}`;
const [postgres = "", redis = "", mysql = ""] = [await postgresUrl(), await redisUrl(), await mysqlUrl()];
const database = mysql && Object.assign(new URL(mysql), { pathname: place }).href;
const kinds = {
  PostgreSQL: [
    postgres,
    `--schema ${place}`,
    () => postgresStore({ connectionString: postgres, schema: place }),
  ],
  Redis: [redis, `--prefix ${place}`, () => redisStore({ url: redis, prefix: place, logger: quiet })],
  MySQL: [database, "", () => mysqlStore({ url: database })],
} as const;
const cleanUps = {
  PostgreSQL: async () => {
    const client = new pg.Client({ connectionString: postgres });
    await client.connect();
    await client.query(`DROP SCHEMA IF EXISTS "${place}" CASCADE`);
    await client.end();
  },
  Redis: () => deleteKeys(redis, `{${place}}`),
  MySQL: async () => void (await inMysql(`DROP DATABASE ${place}`)),
};
async function inMysql(text: string) {
  const connection = await createConnection({ uri: mysql });
  const [rows] = await connection.query(text);
  await connection.end();
  return rows;
}

describe.each(Object.keys(kinds) as (keyof typeof kinds)[])("in %s", (kind) => {
  const [url, place, open] = kinds[kind];
  test.skipIf(url === "")("a typo creates nothing; commands work", async () => {
    onTestFinished(cleanUps[kind]);
    if (kind === "MySQL") await inMysql(`CREATE DATABASE ${new URL(database).pathname.slice(1)}`);
    const events = (line: string) => cli(`events ${line} ${place}`.trim(), { env: { STAYHOOK_STORE: url } });
    // The second run proves that the first one created nothing.
    for (let time = 0; time < 2; time += 1) {
      const typo = await events("ls");
      expect(typo).toMatchObject({ code: 4, stdout: "" });
      expect(typo.stderr).toMatch(
        /There is no event store in the (schema|prefix|database) stayhook_cli_\w+ at /,
      );
    }
    const store = open() as EventStore<unknown>;
    onTestFinished(() => store.close());
    const eventId = crypto.randomUUID();
    await store.add(eventOf("booking:HX3K9", eventId));
    const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
    const entry = { duration: 5, reason: "denied", error: "no" } as const;
    await store.settle(claim!, { state: "parked", reason: "denied", entry });
    for (const [line, expected] of [
      ["ls", [expect.objectContaining({ eventId, state: "parked" })]],
      [
        `show ${eventId}`,
        expect.objectContaining({ reason: "denied", history: [expect.objectContaining({ error: "no" })] }),
      ],
      ["replay --all --yes", { replayed: 1 }],
      ["counts", expect.objectContaining({ pending: 1, parked: 0 })],
    ] as const) {
      const { code, stdout, stderr } = await events(`${line} --json`);
      expect({ code, stderr, value: JSON.parse(stdout) }).toEqual({ code: 0, stderr: "", value: expected });
    }
  });
});

describe.skipIf(postgres === "")("on a terminal, PostgreSQL and SQLite look alike", () => {
  const day = 86_400_000;
  const ago = (days: number) => new Date(Date.now() - days * day - day / 4);
  const long = `Error: the calendar is closed ${"and nobody answers ".repeat(100)}`;
  const history = [3, 2].map((days) => ({
    ...{
      at: ago(days),
      duration: 882_000,
      outcome: days === 3 ? "retrying" : "parked",
      reason: "callback",
      error: long,
      worker: "web-1:7",
    },
  }));
  const parked = { state: "parked", reason: "callback", dueAt: null, attempts: 2, history } as never;
  const events = [
    storedEvent({
      ref: "booking:HX3K9",
      type: "booking.Confirmed",
      receivedAt: ago(5),
      ...(parked as object),
    }),
    storedEvent({
      ref: "a17/booking:HX3K9\u202e\n",
      receivedAt: ago(4),
      state: "done",
      doneAt: ago(4),
      dueAt: null,
    }),
    storedEvent({ ref: null, receivedAt: ago(3), dueAt: ago(3) }),
    storedEvent({
      eventId: "stayhook:timer:booking:HX3K9:mail",
      ...{ ref: "booking:HX3K9", source: "timer", state: "scheduled", receivedAt: ago(2) },
      ...{
        dueAt: new Date(Date.now() + 10.4 * day),
        timestamp: new Date(Date.now() + 10.4 * day).toISOString(),
      },
    }),
  ];

  test.each([45, 80, 120])("in %i columns", async (columns) => {
    const schema = `${place}_${columns}`;
    const pool = new pg.Client({ connectionString: postgres });
    await pool.connect();
    const file = join(directory(), "events.db");
    const stores = [sqliteStore(file), postgresStore({ connectionString: postgres, schema })];
    onTestFinished(async () => {
      for (const store of stores) await store.close();
      await pool.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
      await pool.end();
    });
    for (const store of stores) await store.restore({ events, snapshots: [] });
    const shown = async (line: string) => {
      const given = { terminal: true, columns, env: { FORCE_COLOR: "1" } };
      const [one, other] = await Promise.all([
        cli(`${line} --store ${file}`, given),
        cli(`${line} --store ${postgres} --schema ${schema}`, given),
      ]);
      expect(one.code, one.stderr).toBe(0);
      expect(other.stdout).toBe(one.stdout);
      return plain(one.stdout).trimEnd().split("\n");
    };
    const lines = await shown("events ls");
    for (const text of lines) expect(text.length, text).toBeLessThanOrEqual(columns);
    expect(lines).toHaveLength(events.length + 2);
    expect(lines[1]).toMatch(/^timer:booking:HX3K9:mail +scheduled/);
    expect(lines.at(-1)).toMatch(/^ {2}Error: the calendar is closed .*…$/);
    const timers = await shown("events ls --state scheduled");
    if (columns >= 80) expect(timers[1]).toContain("in 10 days");
    for (const { eventId } of events) {
      const all = (await shown(`events show ${eventId}`)).join("\n");
      expect(all).not.toMatch(/\d{4,} (?:ms|s)\b/);
      if (eventId === events[0]!.eventId) expect(all.split("took 15 min: parked")).toHaveLength(2);
    }
  });
});

test.each([postgres, mysql].filter(Boolean))(
  "a database that does not exist is exit code 4: %s",
  async (url) => {
    const missing = Object.assign(new URL(url), { pathname: "/stayhook_no_such_database" }).href;
    expect(await cli("events counts", { env: { STAYHOOK_STORE: missing } })).toMatchObject({
      code: 4,
      stderr: expect.stringContaining("There is no such database"),
    });
  },
);
