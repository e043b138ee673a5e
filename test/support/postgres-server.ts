/** Finds or starts the PostgreSQL server for the tests. This file needs no test runner. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { freePort, refuseInUnitTests } from "./server.ts";

/** Longest time for a server to start, in ms. */
const STARTING = 60_000;

/** A server that no other test uses. A test may stop and start it. */
export interface OwnPostgres {
  readonly connectionString: string;
  readonly port: number;
  /**
   * `fast` ends all connections and shuts down in order. `immediate` is a crash: the server recovers at the next start.
   */
  stop(mode?: "fast" | "immediate"): Promise<void>;
  /** Starts the server again. Resolves when the server answers. */
  start(): Promise<void>;
  /** Stops the server and deletes its files. */
  close(): Promise<void>;
}

let found: Promise<string | undefined> | undefined;

/**
 * Returns a connection string for the server that tests share. It tries `PGHOST` and related variables, then
 * 127.0.0.1:5432. Otherwise it starts a server that ends with this process. Returns `undefined` if no server answers
 * and the program is not installed. In CI that is an error. Elsewhere the console says that tests are skipped.
 */
export function postgresUrl(): Promise<string | undefined> {
  refuseInUnitTests();
  found ??= findServer();
  return found;
}

async function findServer(): Promise<string | undefined> {
  for (const candidate of candidates()) if (await answers(candidate)) return candidate;
  const own = await startOwnPostgres();
  if (own) return own.connectionString;
  if (process.env.CI)
    throw new Error("no PostgreSQL answers, and none is installed: in CI nothing is skipped");
  console.warn("SKIPPED: no PostgreSQL answers on 127.0.0.1:5432 (or PGHOST), and none is installed");
  return undefined;
}

function candidates(): string[] {
  const { PGHOST = "127.0.0.1", PGPORT = "5432", PGUSER, PGPASSWORD, PGDATABASE } = process.env;
  const users = PGUSER === undefined ? ["postgres", userInfo().username] : [PGUSER];
  return users.map((user) => {
    const secret = PGPASSWORD === undefined ? "" : `:${encodeURIComponent(PGPASSWORD)}`;
    const database = encodeURIComponent(PGDATABASE ?? user);
    return `postgresql://${encodeURIComponent(user)}${secret}@${PGHOST}:${PGPORT}/${database}`;
  });
}

async function answers(connectionString: string): Promise<boolean> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 5000 });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query("SELECT 1");
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}

/** Starts a server in a temporary directory. Returns `undefined` if the program is not installed. */
export async function startOwnPostgres(): Promise<OwnPostgres | undefined> {
  const programs = findPrograms();
  if (programs === undefined) return undefined;
  const directory = mkdtempSync(join(tmpdir(), "stayhook-postgres-"));
  const data = join(directory, "data");
  const user = runAs();
  if (user) chownSync(directory, user.uid, user.gid);
  chmodSync(directory, 0o700);
  execFileSync(
    join(programs, "initdb"),
    ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"],
    { stdio: "pipe", cwd: directory, ...user },
  );
  const port = await freePort();
  const connectionString = `postgresql://postgres@127.0.0.1:${port}/postgres`;
  let running: ChildProcess | undefined;

  async function start(): Promise<void> {
    const child = run(join(programs as string, "postgres"), directory, data, port, user);
    running = child;
    let said = "";
    child.stderr?.on("data", (chunk) => {
      said = `${said}${chunk}`.slice(-4000);
    });
    const end = performance.now() + STARTING;
    while (!(await answers(connectionString))) {
      if (child.exitCode !== null) throw new Error(`PostgreSQL did not start: ${said}`);
      if (performance.now() > end) throw new Error(`PostgreSQL did not answer: ${said}`);
      await sleep(50);
    }
  }

  async function stop(mode: "fast" | "immediate" = "fast"): Promise<void> {
    const child = running;
    running = undefined;
    if (child === undefined || child.exitCode !== null) return;
    child.ref();
    const ended = once(child, "exit");
    process.kill(postmasterOf(data), mode === "fast" ? "SIGINT" : "SIGQUIT");
    await ended;
  }

  await start();
  return {
    connectionString,
    port,
    start,
    stop,
    async close() {
      await stop("immediate");
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/**
 * Starts the server below a shell. The shell ends the server and deletes its files when the pipe to this process
 * closes. So the server ends with this process, even if this process is killed.
 */
function run(postgres: string, directory: string, data: string, port: number, user: User | undefined) {
  const settings = [
    ["listen_addresses", "127.0.0.1"],
    ["port", String(port)],
    ["unix_socket_directories", ""],
    // Without fsync, only a crash of the machine loses data. A crash of the server does not.
    ["fsync", "off"],
  ].flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const child = spawn("sh", ["-c", GUARD, "sh", directory, postgres, "-D", data, ...settings], {
    stdio: ["ignore", "ignore", "pipe", "pipe"],
    ...user,
  });
  // The running server must not keep this process alive.
  child.unref();
  for (const stream of child.stdio) (stream as { unref?(): void } | null)?.unref?.();
  child.once("exit", () => child.stdio[3]?.destroy());
  return child;
}

const GUARD = `
directory=$1; shift
"$@" 3<&- </dev/null & server=$!
(cat <&3 >/dev/null; touch "$directory/abandoned"; kill -QUIT $server) </dev/null >/dev/null 2>&1 & guard=$!
wait $server; code=$?
kill $guard 2>/dev/null
[ -e "$directory/abandoned" ] && rm -rf "$directory"
exit $code`;

interface User {
  readonly uid: number;
  readonly gid: number;
}

/** Returns another user if this process runs as root: PostgreSQL refuses to run as root. */
function runAs(): User | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (what: string) =>
    Number(execFileSync("id", [what, "postgres"], { encoding: "utf8", stdio: "pipe" }));
  return { uid: id("-u"), gid: id("-g") };
}

function findPrograms(): string | undefined {
  const root = "/usr/lib/postgresql";
  const debian = existsSync(root)
    ? readdirSync(root)
        .sort((a, b) => Number(b) - Number(a))
        .map((version) => join(root, version, "bin"))
    : [];
  const places = [...debian, ...(process.env.PATH ?? "").split(":")];
  return places.find((place) => existsSync(join(place, "initdb")) && existsSync(join(place, "postgres")));
}

function postmasterOf(data: string): number {
  return Number(readFileSync(join(data, "postmaster.pid"), "utf8").split("\n")[0]);
}
