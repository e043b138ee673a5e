/** Finds or starts the MySQL or MariaDB server for the tests. This file needs no test runner. */
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import mysql from "mysql2/promise";
import { freePort, installed, type OwnServer, ownServer, sharedServer } from "./server-process.ts";

/** Returns the URL of the server that tests share: `MYSQL_URL`, or the server of this machine, or an own one. */
export const mysqlUrl = sharedServer(
  "MySQL",
  () => [process.env.MYSQL_URL ?? "mysql://root@127.0.0.1:3306/test"],
  (url) => answers(url, "SELECT 1"),
  () => startOwnMysql(),
);

/** Whether the server at a URL runs a statement. */
export async function answers(url: string, sql: string): Promise<boolean> {
  try {
    const connection = await mysql.createConnection({ uri: url, connectTimeout: 5000 });
    try {
      await connection.query(sql);
      return true;
    } finally {
      connection.destroy();
    }
  } catch {
    return false;
  }
}

/**
 * Starts a server in a temporary directory. Returns `undefined` if the program is not installed.
 *
 * @param env - what the server's environment has besides that of this process
 * @param further - returns further arguments, for the server's port
 */
export async function startOwnMysql(
  env?: NodeJS.ProcessEnv,
  further: (port: number) => readonly string[] = () => [],
): Promise<OwnServer | undefined> {
  const [program, install] = [installed(["mariadbd", "mysqld"]), installed(["mariadb-install-db"])];
  if (program === undefined || install === undefined) return undefined;
  const directory = mkdtempSync(join(tmpdir(), "stayhook-mysql-"));
  const user = process.getuid?.() === 0 ? ["--user=root"] : [];
  const files = ["--no-defaults", `--datadir=${directory}`, ...user];
  execFileSync(install, [...files, "--auth-root-authentication-method=normal", "--skip-test-db"], {
    stdio: "pipe",
  });
  const port = await freePort();
  const server = `mysql://root@127.0.0.1:${port}`;
  const args = [
    ...[`--port=${port}`, "--bind-address=127.0.0.1", `--socket=${join(directory, "socket")}`],
    // Write the log at each commit, without fsync. A crash of the server alone then loses nothing.
    "--innodb-flush-log-at-trx-commit=2",
    ...further(port),
  ];
  return ownServer({
    ...{ url: `${server}/test`, directory },
    run: () => spawn(program, [...files, ...args], { stdio: "ignore", env: { ...process.env, ...env } }),
    answers: () => answers(server, "CREATE DATABASE IF NOT EXISTS test"),
  });
}
