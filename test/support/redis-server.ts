/** Finds or starts the Redis server for the tests. This file needs no test runner. */
import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { freePort, installed, type OwnServer, ownServer, sharedServer } from "./server-process.ts";

/** Returns the URL of the server that tests share: `REDIS_URL`, or the server of this machine, or an own one. */
export const redisUrl = sharedServer(
  "Redis",
  () => [process.env.REDIS_URL ?? "redis://127.0.0.1:6379"],
  answers,
  () => startOwnRedis({ args: ["--appendonly", "no"] }),
);

/**
 * Starts a server that keeps its data on disk, so a restart loses nothing. It adds `args` to the command line, so `args`
 * win over the settings here. Returns `undefined` if the program is not installed.
 */
export async function startOwnRedis({
  args = [],
  env,
}: {
  readonly args?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
} = {}): Promise<OwnServer | undefined> {
  const program = installed(["redis-server"]);
  if (program === undefined) return undefined;
  const directory = mkdtempSync(join(tmpdir(), "stayhook-redis-"));
  let port = await freePort();
  // A node of a cluster listens on the port 10,000 above, too, which must also be below those that the system gives away.
  while (args.includes("--cluster-enabled") && port >= 22_000) port = await freePort();
  const asked = args.indexOf("--requirepass");
  const settings = [
    ...["--port", String(port), "--bind", "127.0.0.1", "--dir", directory, "--save", ""],
    // Redis writes to the file before it answers. Without fsync, only a crash of the machine loses data.
    ...["--appendonly", "yes", "--appendfsync", "no", ...args],
  ];
  return ownServer({
    url: `redis://${asked < 0 ? "" : `:${args[asked + 1]}@`}127.0.0.1:${port}`,
    directory,
    run: () => spawn(program, settings, { stdio: "ignore", env: { ...process.env, ...env } }),
    answers,
  });
}

/** Starts a sentinel, which replaces the primary named `main` after it has not answered for a second. */
export async function startSentinel(primary: string): Promise<OwnServer | undefined> {
  const program = installed(["redis-server"]);
  if (program === undefined) return undefined;
  const directory = mkdtempSync(join(tmpdir(), "stayhook-sentinel-"));
  const [port, file] = [await freePort(), join(directory, "sentinel.conf")];
  const { hostname, port: watched } = new URL(primary);
  writeFileSync(
    file,
    `port ${port}
bind 127.0.0.1
dir ${directory}
sentinel monitor main ${hostname} ${watched} 1
sentinel down-after-milliseconds main 1000
sentinel failover-timeout main 5000
`,
  );
  return ownServer({
    url: `redis://127.0.0.1:${port}`,
    directory,
    run: () => spawn(program, [file, "--sentinel"], { stdio: "ignore" }),
    answers,
  });
}

/** Deletes every key that begins with `start`. It scans, so that other tests are not blocked. */
export async function deleteKeys(url: string, start: string): Promise<void> {
  const client = new Redis(url);
  try {
    const match = `${start.replace(/[\\*?[\]]/g, "\\$&")}*`;
    for await (const keys of client.scanStream({ match, count: 1000 }) as AsyncIterable<string[]>) {
      if (keys.length > 0) await client.unlink(...keys);
    }
  } finally {
    client.disconnect();
  }
}

async function answers(url: string): Promise<boolean> {
  const client = new Redis(url, {
    lazyConnect: true,
    retryStrategy: () => null,
    // A test's server may have no INFO.
    enableReadyCheck: false,
    connectTimeout: 2000,
    commandTimeout: 5000,
  });
  client.on("error", () => {});
  try {
    await client.connect();
    return (await client.ping()) === "PONG";
  } catch {
    return false;
  } finally {
    client.disconnect();
  }
}
