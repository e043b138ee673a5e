import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { freePort, refuseInUnitTests } from "./server.ts";

/** Longest time for a server to start, and longest time for it to end, in ms. */
const PATIENCE = 30_000;

/** A Redis server that no other test uses. It keeps its data on disk, so a restart loses nothing. */
export interface OwnRedis {
  readonly url: string;
  readonly pid: number;
  /** Shuts the server down in order. */
  stop(): Promise<void>;
  /** Kills the server with SIGKILL. */
  kill(): Promise<void>;
  /** Starts the server again on the same port and directory. Resolves when the server answers. */
  start(): Promise<void>;
  /** Ends the server and deletes its directory. Call it at the end of the test. */
  close(): Promise<void>;
}

/**
 * Returns the URL of a Redis server. It tries `REDIS_URL`, then this machine. Otherwise it starts a server that ends
 * with this process. Returns `undefined`, with a warning, if there is none. Tests are then skipped, which CI counts as
 * a failure.
 */
export function redisUrl(): Promise<string | undefined> {
  refuseInUnitTests();
  shared ??= findServer();
  return shared;
}

let shared: Promise<string | undefined> | undefined;

async function findServer(): Promise<string | undefined> {
  const url = process.env.REDIS_URL ?? "redis://127.0.0.1:6379";
  if (await answers(url)) return url;
  const own = await startOwnRedis({ args: ["--appendonly", "no"] });
  if (own === undefined) return undefined;
  process.once("exit", () => {
    process.kill(own.pid, "SIGKILL");
  });
  return own.url;
}

/**
 * Starts a server on a free port of 127.0.0.1, with an append-only file in its own directory. It adds `args` to the
 * command line, so `args` win over the settings here. Returns `undefined`, with a warning, if `redis-server` is not
 * installed.
 */
export async function startOwnRedis({
  args = [],
}: {
  readonly args?: readonly string[];
} = {}): Promise<OwnRedis | undefined> {
  const directory = mkdtempSync(join(tmpdir(), "stayhook-redis-"));
  const port = await freePort();
  const asked = args.indexOf("--requirepass");
  const url = `redis://${asked < 0 ? "" : `:${args[asked + 1]}@`}127.0.0.1:${port}`;
  let child: ChildProcess | undefined;

  const end = async (signal: NodeJS.Signals): Promise<void> => {
    const ending = child;
    child = undefined;
    if (ending === undefined || ending.exitCode !== null || ending.signalCode !== null) return;
    const ended = once(ending, "exit");
    ending.kill(signal);
    // A stopped process handles SIGTERM only after SIGCONT.
    ending.kill("SIGCONT");
    await ended;
  };

  const start = async (): Promise<void> => {
    const settings = ["--port", String(port), "--bind", "127.0.0.1", "--dir", directory, "--save", ""];
    // Redis writes to the file before it answers. Without fsync, only a crash of the machine loses data.
    child = spawn("redis-server", [...settings, "--appendonly", "yes", "--appendfsync", "no", ...args], {
      stdio: "ignore",
    });
    await new Promise((resolve, reject) => {
      child?.once("spawn", resolve);
      child?.once("error", reject);
    });
    await untilAnswers(url, child);
  };

  const own: OwnRedis = {
    url,
    get pid() {
      return child?.pid ?? 0;
    },
    stop: () => end("SIGTERM"),
    kill: () => end("SIGKILL"),
    start,
    async close() {
      await end("SIGKILL");
      rmSync(directory, { recursive: true, force: true });
    },
  };
  try {
    await start();
    return own;
  } catch (error) {
    await own.close();
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    console.warn("redis-server is not installed, and no Redis answers: tests that need one are SKIPPED.");
    return undefined;
  }
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

async function untilAnswers(url: string, child: ChildProcess): Promise<void> {
  const until = performance.now() + PATIENCE;
  while (!(await answers(url))) {
    if (child.exitCode !== null) throw new Error(`redis-server ended at once (code ${child.exitCode})`);
    if (performance.now() > until) throw new Error(`redis-server does not answer at ${url}`);
    await sleep(20);
  }
}

async function answers(url: string): Promise<boolean> {
  const client = new Redis(url, {
    lazyConnect: true,
    retryStrategy: () => null,
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
