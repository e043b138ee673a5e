// Runs the tests of `mysqlStore` on MySQL, because CI has MariaDB. The servers come from Debian's and Ubuntu's packages, and
// live in folders of their own under the temporary folder, which the next run uses again.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { answers } from "../test/support/mysql-server.ts";
import { freePort, type OwnServer, ownServer } from "../test/support/server-process.ts";
import type { Row } from "./table.ts";
import { runTests } from "./tests.ts";

interface System {
  readonly suite: string;
  readonly mirror: string;
  readonly components: string;
  readonly keyring: string;
  /** The script of `debootstrap`, which does not know the newest suites by name. */
  readonly script: string;
}

const KEYRINGS = "/usr/share/keyrings";
const SCRIPTS = "/usr/share/debootstrap/scripts";
/** MySQL 9.7 at the time of writing, and 8.4. */
const SYSTEMS: readonly System[] = [
  {
    ...{ suite: "sid", mirror: "http://deb.debian.org/debian", components: "main" },
    ...{ keyring: join(KEYRINGS, "debian-archive-keyring.gpg"), script: join(SCRIPTS, "sid") },
  },
  {
    ...{ suite: "resolute", mirror: "http://archive.ubuntu.com/ubuntu", components: "main,universe" },
    ...{ keyring: join(KEYRINGS, "ubuntu-archive-keyring.gpg"), script: join(SCRIPTS, "gutsy") },
  },
];

/** The longest time for one step of an installation, ms. */
const STEP = 15 * 60_000;
const FILES = ["test/stores/mysql", "test/stores/every"];

export async function mysql(): Promise<Row[]> {
  const rows: Row[] = [];
  for (const system of SYSTEMS) {
    const reason = reasonAgainst(system);
    if (reason !== undefined) {
      rows.push({
        cells: { "MySQL of": system.suite, version: "–", tests: `not run: ${reason}` },
        failed: false,
      });
      continue;
    }
    const root = install(system);
    const server = await start(root);
    try {
      const env = { MYSQL_URL: server.url, STAYHOOK_STORES: "MySQL", STAYHOOK_MODEL_RUNS: "50" };
      const code = await runTests(FILES, env);
      const cells = { "MySQL of": system.suite, version: versionIn(root), tests: `exit code ${code}` };
      rows.push({ cells, failed: code !== 0 });
    } finally {
      await server.close();
    }
  }
  // A soak that ran nothing has not passed.
  return rows.some(({ cells }) => cells.version !== "–")
    ? rows
    : rows.map((row) => ({ ...row, failed: true }));
}

function reasonAgainst({ keyring, script }: System): string | undefined {
  if (process.getuid?.() !== 0) return "only root can install it";
  if (!existsSync(script)) return "debootstrap is not installed: apt-get install debootstrap";
  if (!existsSync(keyring) && !process.env.STAYHOOK_UNVERIFIED)
    return `${keyring} is missing. With STAYHOOK_UNVERIFIED=1, nobody checks the signatures of the packages`;
  return undefined;
}

/** Installs a system with a server, unless an earlier run has. Returns its folder. */
function install({ suite, mirror, components, keyring, script }: System): string {
  const root = join(tmpdir(), "stayhook-mysql", suite);
  const run = (program: string, ...args: string[]) =>
    execFileSync(program, args, {
      ...{ stdio: ["ignore", "ignore", "inherit"], timeout: STEP },
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    });
  if (!existsSync(join(root, "etc/apt/sources.list"))) {
    console.log(`Installing ${suite} from ${mirror} in ${root}`);
    mkdirSync(root, { recursive: true });
    const check = existsSync(keyring) ? `--keyring=${keyring}` : "--no-check-gpg";
    run("debootstrap", "--variant=minbase", `--components=${components}`, check, suite, root, mirror, script);
  }
  if (!existsSync(join(root, "usr/sbin/mysqld"))) {
    console.log(`Installing mysql-server-core in ${root}`);
    run("chroot", root, "apt-get", "install", "-y", "--no-install-recommends", "mysql-server-core");
  }
  return root;
}

function versionIn(root: string): string {
  const said = execFileSync("chroot", [root, "/usr/sbin/mysqld", "--version"], { encoding: "utf8" });
  return /Ver (\S+)/.exec(said)?.[1] ?? said;
}

/** Starts a server with an empty database on a port of 127.0.0.1. It ends with this process. */
async function start(root: string): Promise<OwnServer> {
  const port = await freePort();
  const directory = join(root, `data-${port}`);
  mkdirSync(directory);
  const files = ["--no-defaults", "--user=root", `--datadir=/data-${port}`, "--secure-file-priv="];
  const server = (...args: string[]) => ["/usr/sbin/mysqld", ...files, ...args];
  execFileSync("chroot", [root, ...server("--initialize-insecure")], { stdio: "pipe", timeout: STEP });
  // Root may come from 127.0.0.1 only by a name, and the system resolves no names.
  const init = `
    CREATE USER IF NOT EXISTS root@'127.0.0.1';
    GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;`;
  writeFileSync(join(directory, "init.sql"), init);
  const inside = `/data-${port}`;
  const args = server(
    ...[
      `--port=${port}`,
      "--bind-address=127.0.0.1",
      `--socket=${inside}/socket`,
      `--pid-file=${inside}/pid`,
    ],
    ...[`--init-file=${inside}/init.sql`, "--skip-name-resolve", "--mysqlx=OFF", "--skip-log-bin"],
    ...["--max-connections=300", "--innodb-flush-log-at-trx-commit=2"],
  );
  const url = `mysql://root@127.0.0.1:${port}`;
  return ownServer({
    ...{ url: `${url}/test`, directory },
    run: () => spawn("chroot", [root, ...args], { stdio: "ignore" }),
    answers: () => answers(url, "CREATE DATABASE IF NOT EXISTS test"),
  });
}
