// `doctor --store` checks the rights of the store's user, and the settings of its server.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import mysql from "mysql2/promise";
import pg from "pg";
import { mysqlStore } from "stayhook/mysql";
import { postgresStore } from "stayhook/postgres";
import { redisStore } from "stayhook/redis";
import { describe, expect, onTestFinished, test } from "vitest";
import { startOwnMysql } from "../support/mysql-server.ts";
import { postgresUrl, startOwnPostgres } from "../support/postgres-server.ts";
import { startOwnRedis } from "../support/redis-server.ts";
import type { OwnServer } from "../support/server.ts";
import { cli, platform, quiet } from "./support.ts";

const postgres = await postgresUrl();
const name = `stayhook_doctor_${crypto.randomUUID().slice(0, 8)}`;

/** Returns what doctor says about the server of a store, and whether everything passed. */
async function serverOf(store: string, ...options: string[]) {
  const { env } = await platform();
  const { stdout } = await cli(["doctor", "--json", "--store", store, ...options], { env });
  const { ok, checks } = JSON.parse(stdout) as {
    ok: boolean;
    checks: { check: string; state: string; detail: string }[];
  };
  const about = checks.filter(({ check }) => check === "store's server");
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
      expect.stringMatching(/^failed: .*lacks a right.*permission denied for table events/),
      expect.stringMatching(/^failed: .*lacks a right.*permission denied for table meta/),
      "warned: synchronous_commit is off, so a crash may lose the events of the last moments.",
      ...fsync,
    ]);
  });

  test("a standby", { timeout: 120_000 }, async () => {
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
  expect(denied.says).toEqual(
    ["events", "records", "meta"].map((table) =>
      expect.stringMatching(`^failed: .*lacks a right.*DELETE command denied .*stayhook_${table}`),
    ),
  );
  await connection.query("SET GLOBAL read_only = 1");
  expect((await serverOf(server.url)).says).toContain(
    "failed: The server is read-only. Give the store the primary.",
  );
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
  await client.config("SET", "appendonly", "no");
  await client.config("SET", "maxmemory", "1gb");
  await client.config("SET", "maxmemory-policy", "allkeys-lru");
  const { says } = await serverOf(server.url);
  expect(says).toEqual([
    expect.stringMatching(/^warned: .*allkeys-lru/),
    expect.stringMatching(/^warned: .*appendonly/),
  ]);
});
