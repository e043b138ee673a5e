/** Finds or starts the PostgreSQL server for the tests. This file needs no test runner. */
import { execFileSync, spawn } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { freePort, installed, type OwnServer, ownServer, sharedServer } from "./server-process.ts";

/** Returns the URL of the server that tests share: `PGHOST` and related variables, or this machine, or an own one. */
export const postgresUrl = sharedServer("PostgreSQL", urls, answers, () => startOwnPostgres());

function urls(): string[] {
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

/**
 * Starts a server in a temporary directory. Returns `undefined` if the program is not installed.
 *
 * @param env - what the server's environment has besides that of this process
 */
export async function startOwnPostgres(env?: NodeJS.ProcessEnv): Promise<OwnServer | undefined> {
  const settings = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"];
  return startOn("initdb", settings, [], env);
}

/**
 * Starts a standby of a server, which shows each commit `delay` ms later. Returns `undefined` if the programs are not
 * installed.
 */
export async function startStandby({ port, hostname }: URL, delay: number): Promise<OwnServer | undefined> {
  const from = ["-h", hostname, "-p", port, "-U", "postgres", "-R", "-c", "fast", "--no-sync"];
  return startOn("pg_basebackup", from, [`recovery_min_apply_delay=${delay}`]);
}

/** @param maker - the program that makes the server's files */
async function startOn(
  maker: "initdb" | "pg_basebackup",
  settings: readonly string[],
  further: readonly string[],
  env?: NodeJS.ProcessEnv,
): Promise<OwnServer | undefined> {
  const [make, postgres] = [maker, "postgres"].map((name) => installed([name], debian()));
  if (make === undefined || postgres === undefined) return undefined;
  const directory = mkdtempSync(join(tmpdir(), "stayhook-postgres-"));
  const data = join(directory, "data");
  const user = runAs();
  if (user) chownSync(directory, user.uid, user.gid);
  chmodSync(directory, 0o700);
  execFileSync(make, ["-D", data, ...settings], { stdio: "pipe", cwd: directory, ...user });
  const port = await freePort();
  const options = [
    ...["listen_addresses=127.0.0.1", `port=${port}`, "unix_socket_directories="],
    // Without fsync, only a crash of the machine loses data. A crash of the server does not.
    "fsync=off",
    ...further,
  ].flatMap((option) => ["-c", option]);
  return ownServer({
    ...{ url: `postgresql://postgres@127.0.0.1:${port}/postgres`, directory, answers },
    run: () =>
      spawn(postgres, ["-D", data, ...options], {
        ...{ stdio: "ignore", cwd: directory, env: { ...process.env, ...env } },
        ...user,
      }),
    // SIGINT ends all connections. After SIGQUIT, the server recovers at the next start.
    ...{ stopSignal: "SIGINT", killSignal: "SIGQUIT" },
  });
}

/** Returns another user if this process runs as root: PostgreSQL refuses to run as root. */
export function runAs(): { readonly uid: number; readonly gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (what: string) =>
    Number(execFileSync("id", [what, "postgres"], { encoding: "utf8", stdio: "pipe" }));
  return { uid: id("-u"), gid: id("-g") };
}

/** Returns the directories of the versions that Debian has installed, the newest first. */
function debian(): string[] {
  const root = "/usr/lib/postgresql";
  const versions = existsSync(root) ? readdirSync(root) : [];
  return versions.sort((a, b) => Number(b) - Number(a)).map((version) => join(root, version, "bin"));
}
