import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { promisify } from "node:util";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { postgresUrl } from "../support/postgres-server.ts";
import { deleteKeys, redisUrl } from "../support/redis-server.ts";
import { built, root } from "./built.ts";

const postgres = await postgresUrl();
const redis = await redisUrl();

/** Resolves to the output. Rejects if the process does not exit with 0. */
async function run(env: NodeJS.ProcessEnv): Promise<string> {
  built();
  const { stdout } = await promisify(execFile)(process.execPath, ["examples/many-machines/main.ts"], {
    cwd: root,
    timeout: 130_000,
    env: { ...process.env, ...env },
  });
  return stdout;
}

function expectToAddUp(stdout: string): void {
  expect(stdout).toContain("41 events, delivered 82 times, 82 times answered 200");
  expect(stdout).toContain("It adds up.");
  const [, ...shares] = /worker 1 (\d+), worker 2 (\d+), worker 3 (\d+)/.exec(stdout) ?? [];
  expect(shares.map(Number).reduce((sum, share) => sum + share)).toBe(41);
  const handled = [...stdout.matchAll(/^worker \d {2}([0-9a-f-]{36}) (?:block|release|nothing to do)/gm)];
  expect(new Set(handled.map(([, eventId]) => eventId)).size).toBe(41);
  expect(stdout, "who receives runs no callback").not.toMatch(/^web \d .*(block|release|nothing to do)/m);
  expect(stdout).toMatch(/^kill -9 \d+, which is worker 1$/m);
}

const STORE_NAME = `example_${randomUUID().replaceAll("-", "")}`;

test.skipIf(postgres === undefined)("five processes on PostgreSQL, one of them killed", async () => {
  onTestFinished(async () => {
    const client = new pg.Client({ connectionString: postgres });
    await client.connect();
    await client.query(`DROP SCHEMA IF EXISTS ${STORE_NAME} CASCADE`);
    await client.end();
  });
  expectToAddUp(await run({ STORE: "postgres", DATABASE_URL: postgres, STORE_NAME }));
});

test.skipIf(redis === undefined)("five processes on Redis, one of them killed", async () => {
  onTestFinished(() => deleteKeys(redis as string, `{${STORE_NAME}}`));
  expectToAddUp(await run({ STORE: "redis", REDIS_URL: redis, STORE_NAME }));
});
