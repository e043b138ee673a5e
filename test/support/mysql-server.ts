/** Finds or starts the MySQL or MariaDB server for the tests. This file needs no test runner. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import mysql from "mysql2/promise";
import { freePort, refuseInUnitTests } from "./server.ts";

/** Longest time for a server to start, in ms. */
const STARTING = 60_000;

/** A server that no other test uses. A test may stop, kill and start it. */
export interface OwnMysql {
  readonly url: string;
  /** Shuts the server down in order. */
  stop(): Promise<void>;
  /** Kills the server with SIGKILL. */
  kill(): Promise<void>;
  /** Starts the server again on the same port and files. Resolves when the server answers. */
  start(): Promise<void>;
  /** Ends the server and deletes its files. */
  close(): Promise<void>;
}

let found: Promise<string | undefined> | undefined;

/**
 * Returns the URL of the server that tests share. It tries `MYSQL_URL`, then 127.0.0.1:3306. Otherwise it starts a
 * server that ends with this process. Returns `undefined` if no server answers and the program is not installed. In CI
 * that is an error. Elsewhere the console says that tests are skipped.
 */
export function mysqlUrl(): Promise<string | undefined> {
  refuseInUnitTests();
  found ??= findServer();
  return found;
}

async function findServer(): Promise<string | undefined> {
  const url = process.env.MYSQL_URL ?? "mysql://root@127.0.0.1:3306/test";
  if (await answers(url)) return url;
  const own = await startOwnMysql();
  if (own) {
    process.once("exit", () => void own.kill());
    return own.url;
  }
  if (process.env.CI) throw new Error("No MySQL server answers, and none is installed. CI skips nothing.");
  console.warn("SKIPPED: no MySQL server answers on 127.0.0.1:3306 (or MYSQL_URL), and none is installed");
  return undefined;
}

async function answers(url: string): Promise<boolean> {
  try {
    const connection = await mysql.createConnection({ uri: url, connectTimeout: 5000 });
    try {
      await connection.query("SELECT 1");
      return true;
    } finally {
      connection.destroy();
    }
  } catch {
    return false;
  }
}

/** Starts a server in a temporary directory. Returns `undefined` if the program is not installed. */
export async function startOwnMysql(): Promise<OwnMysql | undefined> {
  const program = ["mariadbd", "mysqld"]
    .flatMap((name) => ["/usr/sbin", "/usr/bin"].map((at) => join(at, name)))
    .find(existsSync);
  if (program === undefined || !existsSync("/usr/bin/mariadb-install-db")) return undefined;
  const directory = mkdtempSync(join(tmpdir(), "stayhook-mysql-"));
  const user = process.getuid?.() === 0 ? ["--user=root"] : [];
  execFileSync(
    "mariadb-install-db",
    [
      "--no-defaults",
      `--datadir=${directory}`,
      "--auth-root-authentication-method=normal",
      "--skip-test-db",
      ...user,
    ],
    { stdio: "pipe" },
  );
  const port = await freePort();
  const server = `mysql://root@127.0.0.1:${port}`;
  let child: ChildProcess | undefined;

  async function end(signal: NodeJS.Signals): Promise<void> {
    const ending = child;
    child = undefined;
    if (ending === undefined || ending.exitCode !== null || ending.signalCode !== null) return;
    const ended = once(ending, "exit");
    ending.ref();
    ending.kill(signal);
    await ended;
  }

  async function start(): Promise<void> {
    const settings = [`--datadir=${directory}`, `--port=${port}`, `--socket=${join(directory, "socket")}`];
    // Write the log at each commit, without fsync. A crash of the server alone then loses nothing.
    settings.push("--innodb-flush-log-at-trx-commit=2");
    child = spawn(program as string, ["--no-defaults", ...settings, "--bind-address=127.0.0.1", ...user], {
      stdio: "ignore",
    });
    child.unref();
    const until = performance.now() + STARTING;
    while (!(await answers(server))) {
      if (child.exitCode !== null) throw new Error(`${program} ended with code ${child.exitCode}`);
      if (performance.now() > until) throw new Error(`${program} does not answer on port ${port}`);
      await sleep(50);
    }
    const connection = await mysql.createConnection({ uri: server });
    await connection.query("CREATE DATABASE IF NOT EXISTS test");
    connection.destroy();
  }

  await start();
  return {
    url: `${server}/test`,
    stop: () => end("SIGTERM"),
    kill: () => end("SIGKILL"),
    start,
    async close() {
      await end("SIGKILL");
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
