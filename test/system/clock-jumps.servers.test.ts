// A library moves the wall clock of real processes ahead, and leaves the monotonic one, as a suspend does.

import { execFileSync, fork } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, type TestContext, test } from "vitest";
import { startOwnMysql } from "../support/mysql-server.ts";
import { startOwnPostgres } from "../support/postgres-server.ts";
import { startOwnRedis } from "../support/redis-server.ts";

const library = join(mkdtempSync(join(tmpdir(), "stayhook-clock-")), "moved-clock.so");
chmodSync(dirname(library), 0o755);
execFileSync("cc", ["-shared", "-fPIC", "-o", library, join(import.meta.dirname, "moved-clock.c")]);
afterAll(() => rmSync(dirname(library), { recursive: true }));

const SERVERS = {
  PostgreSQL: startOwnPostgres,
  MySQL: startOwnMysql,
  Redis: (env: NodeJS.ProcessEnv) => startOwnRedis({ env }),
};
type Name = keyof typeof SERVERS | "memory" | "SQLite";
type Context = Pick<TestContext, "onTestFinished">;

/** Makes a clock that the test moves, in a folder that is deleted after the test. */
function movedClock({ onTestFinished }: Context) {
  const folder = mkdtempSync(join(tmpdir(), "stayhook-jump-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  // PostgreSQL runs as another user.
  chmodSync(folder, 0o755);
  const file = join(folder, "clock");
  writeFileSync(file, "0");
  return {
    folder,
    env: { LD_PRELOAD: library, MOVED_CLOCK: file },
    jump: (seconds: number) => writeFileSync(file, String(seconds)),
  };
}

/** Starts an app with a timer in 12 minutes, and the server of its store, each with a clock of its own. */
async function sleepingApp(name: Name, context: Context) {
  const { onTestFinished } = context;
  const [own, its] = [movedClock(context), movedClock(context)];
  let url = join(own.folder, "events.db");
  if (name in SERVERS) {
    const server = await SERVERS[name as keyof typeof SERVERS](its.env);
    expect(server, "the server is not installed").toBeDefined();
    onTestFinished(() => server!.close());
    url = server!.url;
  }
  const place = { name, url, schema: "jumps" };
  const app = fork(join(import.meta.dirname, "jumping-app.ts"), [JSON.stringify(place)], {
    env: { ...process.env, ...own.env },
  });
  onTestFinished(() => void app.kill("SIGKILL"));
  const told = async () => (await once(app, "message"))[0] as string;
  expect(await told()).toBe("sleeps");
  return { own, its, told, set: (bookingCode: string, ms: number) => app.send([bookingCode, ms]) };
}

const JUMP = 13 * 60;

describe.concurrent("after a jump of 13 minutes, a timer in 12 minutes fires within 30 s", () => {
  test.for(["memory", "SQLite", "PostgreSQL", "MySQL", "Redis"] as const)(
    "on %s, whose machine was suspended",
    async (name, context) => {
      const { own, its, told } = await sleepingApp(name, context);
      const began = performance.now();
      for (const clock of [own, its]) clock.jump(JUMP);
      expect(await told()).toBe("fired A1");
      expect(performance.now() - began).toBeLessThan(31_000 + 10_000);
    },
  );

  test.for(["PostgreSQL", "MySQL", "Redis"] as const)(
    "by the clock of %s, and the app's own clock delays nothing",
    async (name, context) => {
      const { own, its, told, set } = await sleepingApp(name, context);
      own.jump(JUMP);
      const began = performance.now();
      set("B2", 3000);
      expect(await told()).toBe("fired B2");
      const took = performance.now() - began;
      expect(took).toBeGreaterThan(2900);
      expect(took).toBeLessThan(3000 + 10_000);
      its.jump(JUMP);
      expect(await told()).toBe("fired A1");
      expect(performance.now() - began).toBeLessThan(took + 31_000 + 10_000);
    },
  );
});
