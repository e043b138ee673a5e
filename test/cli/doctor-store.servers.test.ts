// `doctor --store` lets the store do its job, and checks the settings of its server. It leaves nothing behind.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Redis } from "ioredis";
import mysql from "mysql2/promise";
import pg from "pg";
import { mysqlStore } from "stayhook/mysql";
import { postgresStore } from "stayhook/postgres";
import { redisStore } from "stayhook/redis";
import { sqliteStore } from "stayhook/sqlite";
import type { EventStore } from "stayhook/store";
import { describe, expect, onTestFinished, test } from "vitest";
import { channelOf } from "../../src/stores/postgres/postgres-dialect.ts";
import { eventOf } from "../stores/event.ts";
import { startOwnMysql } from "../support/mysql-server.ts";
import { postgresUrl, startOwnPostgres } from "../support/postgres-server.ts";
import { startOwnRedis } from "../support/redis-server.ts";
import type { OwnServer } from "../support/server-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { spawned } from "./process.ts";
import { cli, platform, quiet } from "./support.ts";

const postgres = await postgresUrl();
const name = `stayhook_doctor_${crypto.randomUUID().slice(0, 8)}`;

/** Adds an event that is due, so that doctor could take it, and closes the store. */
async function fill(store: EventStore<never>) {
  await store.add(eventOf());
  await store.close();
}

/** Returns what doctor says about the server of a store, and whether everything passed. */
async function serverOf(store: string, ...options: string[]) {
  const { env } = await platform();
  const { stdout } = await cli(["doctor", "--json", "--store", store, ...options], { env });
  const { ok, checks } = JSON.parse(stdout) as {
    ok: boolean;
    checks: { check: string; state: string; detail: string }[];
  };
  const about = checks.filter(({ check }) => check === "store's server");
  const fails = about.some(({ state }) => state === "failed");
  expect(checks.find(({ check }) => check === "store")?.state).toBe(fails ? "failed" : "passed");
  return { ok, says: about.map(({ state, detail }) => `${state}: ${detail}`) };
}

async function started(start: () => Promise<OwnServer | undefined>): Promise<OwnServer> {
  const server = (await start())!;
  onTestFinished(() => server.close());
  return server;
}

const PASSED = ["passed: The store may read and write, and no setting risks events."];

describe.skipIf(postgres === undefined)("PostgreSQL", () => {
  test("a right that the role lacks, and a setting of the role", async () => {
    const pool = new pg.Pool({ connectionString: postgres, max: 1 });
    await postgresStore({ connectionString: postgres, schema: name }).migrate();
    await pool.query(`
      CREATE ROLE ${name} LOGIN; GRANT USAGE ON SCHEMA ${name} TO ${name};
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${name} TO ${name};
      GRANT USAGE ON ALL SEQUENCES IN SCHEMA ${name} TO ${name};`);
    onTestFinished(async () => {
      await pool.query(`DROP SCHEMA ${name} CASCADE; DROP OWNED BY ${name}; DROP ROLE ${name}`);
      await pool.end();
    });
    const url = Object.assign(new URL(postgres!), { username: name }).href;
    const { rows } = await pool.query("SHOW fsync");
    const fsync = rows[0].fsync === "off" ? [expect.stringMatching(/^warned: fsync is off/)] : [];
    expect((await serverOf(url, "--schema", name)).says).toEqual(fsync.length > 0 ? fsync : PASSED);
    await pool.query(`ALTER ROLE ${name} SET synchronous_commit = off`);
    await pool.query(
      `REVOKE DELETE ON ${name}.events FROM ${name}; REVOKE INSERT ON ${name}.meta FROM ${name}`,
    );
    const { ok, says } = await serverOf(url, "--schema", name);
    expect(ok).toBe(false);
    expect(says).toEqual([
      expect.stringMatching(
        /^failed: .*cannot add, claim, settle and remove.*permission denied for table events/,
      ),
      "warned: synchronous_commit is off, so a crash may lose the events of the last moments.",
      ...fsync,
    ]);
    await pool.query(`ALTER ROLE ${name} SET default_transaction_read_only = on`);
    expect((await serverOf(url, "--schema", name)).says).toContainEqual(
      expect.stringMatching(/^failed: default_transaction_read_only is on/),
    );
  });

  test.each([
    ["REVOKE UPDATE ON $.events FROM $", /permission denied for table events/],
    ["REVOKE INSERT ON $.meta FROM $", /permission denied for table meta/],
    ["REVOKE DELETE ON $.records FROM $", /permission denied for table records/],
    [
      "CREATE FUNCTION $.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER no BEFORE UPDATE ON $.events FOR EACH ROW EXECUTE FUNCTION $.nothing()",
      /an event of doctor was not claimed/,
    ],
  ])("after %s, the store cannot do its job, and doctor leaves nothing behind", async (sql, message) => {
    const role = `stayhook_doctor_${crypto.randomUUID().slice(0, 8)}`;
    const pool = new pg.Pool({ connectionString: postgres, max: 2 });
    await fill(postgresStore({ connectionString: postgres, schema: role }) as EventStore<never>);
    await pool.query(`
      CREATE ROLE ${role} LOGIN; GRANT USAGE ON SCHEMA ${role} TO ${role};
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${role} TO ${role};
      GRANT USAGE ON ALL SEQUENCES IN SCHEMA ${role} TO ${role};`);
    const listener = await pool.connect();
    const heard: string[] = [];
    listener.on("notification", ({ channel }) => heard.push(channel));
    onTestFinished(async () => {
      listener.release(true);
      await pool.query(`DROP SCHEMA ${role} CASCADE; DROP OWNED BY ${role}; DROP ROLE ${role}`);
      await pool.end();
    });
    const rows = async () => {
      const of = (table: string) => pool.query(`SELECT * FROM ${role}.${table}`);
      return (await Promise.all(["events", "records", "meta"].map(of))).map((found) => found.rows);
    };
    const before = await rows();
    await listener.query(`LISTEN "${channelOf(role)}"`);
    const url = Object.assign(new URL(postgres!), { username: role }).href;
    expect((await serverOf(url, "--schema", role)).says).not.toContainEqual(expect.stringMatching(/^failed/));
    expect(await rows()).toEqual(before);
    await pool.query(sql.replaceAll("$", role));
    const { ok, says } = await serverOf(url, "--schema", role);
    expect(ok).toBe(false);
    expect(says).toContainEqual(expect.stringMatching(message));
    expect(await rows()).toEqual(before);
    await listener.query("SELECT 1");
    expect(heard).toEqual([]);
  });

  test("a standby", async () => {
    const server = await started(startOwnPostgres);
    await postgresStore({ connectionString: server.url }).migrate();
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    const { rows } = await client.query("SHOW data_directory");
    await client.end();
    await server.stop();
    writeFileSync(join(rows[0].data_directory, "standby.signal"), "");
    await server.start();
    const { ok, says } = await serverOf(server.url);
    expect(ok).toBe(false);
    expect(says).toContain("failed: The server is a standby. Give the store the primary.");
  });
});

test("MariaDB: a right that the user lacks, a read-only server, and a setting that risks events", async () => {
  const server = await started(() => startOwnMysql());
  const connection = await mysql.createConnection({ uri: server.url });
  onTestFinished(() => connection.destroy());
  const store = mysqlStore({ url: server.url });
  await store.counts();
  await store.close();
  await connection.query(`CREATE USER '${name.slice(0, 30)}'@'%'`);
  await connection.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON test.* TO '${name.slice(0, 30)}'@'%'`);
  const url = Object.assign(new URL(server.url), { username: name.slice(0, 30) }).href;
  const risk = expect.stringMatching(/^warned: innodb_flush_log_at_trx_commit is 2, .* Set it to 1\.$/);
  expect((await serverOf(url)).says).toEqual([risk]);
  await connection.query("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
  expect((await serverOf(url)).says).toEqual(PASSED);
  await connection.query(`REVOKE DELETE ON test.* FROM '${name.slice(0, 30)}'@'%'`);
  const denied = await serverOf(url);
  expect(denied.ok).toBe(false);
  expect(denied.says).toEqual([expect.stringMatching(/^failed: .*cannot add.*DELETE command denied/)]);
  await connection.query("SET GLOBAL read_only = 1");
  expect((await serverOf(server.url)).says).toContain(
    "failed: The server is read-only. Give the store the primary.",
  );
});

test.each([
  ["-publish", "PUBLISH|publish"],
  ["resetchannels", "PUBLISH|publish|channel"],
  ["-zadd", "zadd|ZADD|command"],
  ["-del", "del|DEL|command"],
])(
  "Redis: a user with %s cannot do the store's job, and doctor leaves nothing behind",
  async (rules, message) => {
    const server = await started(() => startOwnRedis());
    const client = new Redis(server.url);
    const listener = new Redis(server.url);
    onTestFinished(() => {
      for (const each of [client, listener]) each.disconnect();
    });
    await fill(redisStore({ url: server.url, logger: quiet }) as EventStore<never>);
    await client.config("SET", "appendonly", "yes");
    await client.config("SET", "appendfsync", "always");
    // As docs/stores/redis.md has it.
    const rights =
      "~{stayhook}* &{stayhook}:wake +@read +@write +@scripting +@connection +@pubsub +time +info";
    await client.call("ACL", "SETUSER", "app", "on", ">secret", ...rights.split(" "));
    const heard: string[] = [];
    listener.on("pmessage", (_, channel: string) => heard.push(channel));
    await listener.psubscribe("*");
    const keys = async () => (await client.keys("*")).sort();
    const before = await keys();
    const url = Object.assign(new URL(server.url), { username: "app", password: "secret" }).href;
    expect((await serverOf(url)).says).not.toContainEqual(expect.stringMatching(/^failed/));
    expect(await keys()).toEqual(before);
    await client.call("ACL", "SETUSER", "app", ...rules.split(" "));
    const { says } = await serverOf(url);
    expect(says).toContainEqual(expect.stringMatching(`^failed: .*ACL of Redis.*(${message})`));
    expect(await keys()).toEqual(before);
    await client.ping();
    expect(heard).toEqual([]);
  },
);

test("SQLite: a fault of the tables is found, and nothing is left behind", async () => {
  const directory = temporaryFolder();
  const path = join(directory, "events.db");
  await fill(sqliteStore(path) as EventStore<never>);
  const db = new DatabaseSync(path);
  onTestFinished(() => db.close());
  const rows = () =>
    ["events", "records", "meta"].map((t) => db.prepare(`SELECT * FROM stayhook_${t}`).all());
  const before = rows();
  expect((await serverOf(path)).says).toEqual(PASSED);
  expect(rows()).toEqual(before);
  db.exec("CREATE TRIGGER no BEFORE UPDATE ON stayhook_events BEGIN SELECT RAISE(IGNORE); END");
  expect((await serverOf(path)).says).toEqual([expect.stringMatching(/an event of doctor was not/)]);
  expect(rows()).toEqual(before);
});

test("Redis: settings that risk events", async () => {
  const server = await started(() => startOwnRedis());
  const client = new Redis(server.url);
  onTestFinished(() => client.disconnect());
  const store = redisStore({ url: server.url, logger: quiet });
  await store.counts();
  await store.close();
  await client.config("SET", "appendonly", "yes");
  await client.config("SET", "appendfsync", "always");
  expect((await serverOf(server.url)).says).toEqual(PASSED);
  // Nothing but the store's calls keeps the process of the command alive.
  const { env } = await platform();
  const process = spawned(["doctor", "--json", "--store", server.url], { env });
  expect(await process.ended).toBe(1);
  expect(process.output()).toContain(PASSED[0]!.replace("passed: ", ""));
  await client.config("SET", "appendonly", "no");
  await client.config("SET", "maxmemory", "1gb");
  await client.config("SET", "maxmemory-policy", "allkeys-lru");
  const { says } = await serverOf(server.url);
  expect(says).toEqual([
    expect.stringMatching(/^warned: .*allkeys-lru/),
    expect.stringMatching(/^warned: .*appendonly/),
  ]);
});
