// The vendor's service of `stayhook init vendor`, as its Dockerfile runs it: process 1, user 1000, a root that is read-only,
// and a folder as the volume. `unshare` stands for Docker.
import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chmodSync, chownSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { choosePort } from "../../examples/day/port.ts";
import { createSandbox } from "../../src/testing/index.ts";
import { installed } from "../package/support/consumer.ts";
import { eventually } from "../support/eventually.ts";

/** Whether this machine lets the test make namespaces. Root in CI can. */
function canUnshare(): boolean {
  try {
    execFileSync("unshare", [
      "--mount",
      "--pid",
      "--fork",
      "setpriv",
      "--reuid=1000",
      "--clear-groups",
      "true",
    ]);
    return true;
  } catch {
    return false;
  }
}
const isPossible = canUnshare();
if (!isPossible) console.warn("container.test.ts is skipped: it needs root, unshare and setpriv.");
// Not `runIf`, because .ci/run counts a test that does not run as skipped.
if (process.env.CI) test("CI can make containers", () => expect(isPossible).toBe(true));

/** Mounts the folder `$1` alone as writable, and becomes the command. */
const SETUP = `mount --make-rprivate / && mount --bind "$1" "$1" && mount -o remount,bind,ro / && shift &&
  ! touch /tmp/stayhook-is-not-read-only 2> /dev/null &&
  exec setpriv --reuid=1000 --regid=1000 --clear-groups "$@"`;

interface Container {
  readonly output: () => string;
  /** Sends SIGTERM to process 1. Resolves to its exit code. */
  stop(signal?: "SIGTERM" | "SIGINT"): Promise<number | null>;
}

function run(app: string, volume: string, settings: Readonly<Record<string, string>>): Container {
  const dockerfile = readFileSync(join(app, "Dockerfile"), "utf8");
  const [program, ...args] = JSON.parse(/^CMD (.*)$/m.exec(dockerfile)![1]!) as string[];
  expect(program).toBe("node");
  const env = Object.fromEntries(
    /^ENV (.*)$/m
      .exec(dockerfile)![1]!
      .split(" ")
      .map((each) => each.split("=")),
  );
  const child = spawn(
    "unshare",
    [
      "--mount",
      "--pid",
      "--fork",

      "sh",
      "-c",
      SETUP,
      "sh",
      volume,
      process.execPath,
      ...args,
    ],
    {
      cwd: app,
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env.PATH, ...env, EVENTS_DB: join(volume, "events.db"), ...settings },
    },
  );
  // Not by --kill-child: the change of the user takes away the signal that the kernel would send.
  const signalFirst = (signal: "SIGTERM" | "SIGINT" | "SIGKILL") => {
    const [first] = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim().split(" ");
    process.kill(Number(first), signal);
  };
  onTestFinished(() => {
    if (child.exitCode === null) signalFirst("SIGKILL");
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  const ended = once(child, "close");
  return {
    output: () => output,
    stop: async (signal = "SIGTERM") => {
      signalFirst(signal);
      await ended;
      return child.exitCode;
    },
  };
}

const consumer = await installed(["ky", "uuid", "zod", "express", "pg"]);

test.runIf(isPossible)("the vendor's service works as process 1 of a container", async () => {
  chmodSync(consumer.directory, 0o755);
  const made = await consumer.node("node_modules/stayhook/dist/cli.js", "init", "vendor", "app");
  expect(made.code, made.stderr).toBe(0);
  const volume = join(consumer.directory, "volume");
  mkdirSync(volume);
  chownSync(volume, 1000, 1000);
  const sandbox = createSandbox({ accounts: ["a17"] });
  onTestFinished(() => sandbox.close());
  await sandbox.listen();
  const a17 = sandbox.account("a17");
  const secret = () => randomBytes(32).toString("hex");
  const admin = secret();
  const port = await choosePort();
  const settings = {
    STAYHOOK_BASE_URL: sandbox.url,
    PORT: String(port),
    WEBHOOK_SECRET: secret(),
    ADMIN_SECRET: admin,
    ACCOUNTS_KEY: secret(),
  };
  const ask = (method: string, path: string, body?: object) =>
    // Only a server that listens on all addresses is reached at this one.
    fetch(`http://127.0.0.2:${port}${path}`, {
      method,
      headers: { authorization: `Bearer ${admin}`, "content-type": "application/json" },
      ...(body && { body: JSON.stringify(body) }),
    });
  const isHealthy = async () => expect((await ask("GET", "/healthz")).status).toBe(200);
  const codes = async () =>
    ((await (await ask("GET", "/accounts/a17/calendar")).json()) as { booking: string }[])
      .map(({ booking }) => booking)
      .sort();
  const joins = (bookings: string[] = []) =>
    ask("POST", "/accounts", { account: "a17", token: a17.accessToken, bookings });
  const book = (bookingCode: string) => a17.bookings.instantBook({ listingId: 7, bookingCode });

  // The host has a booking already, and joins.
  await book("BEFORE");
  const app = join(consumer.directory, "app");
  const first = run(app, volume, settings);
  await eventually(isHealthy).catch((error) => {
    throw new Error(first.output(), { cause: error });
  });
  expect(first.output()).toContain(`listening on port ${port} of 0.0.0.0`);
  expect((await joins(["BEFORE"])).status).toBe(201);
  await book("FIRST");
  await eventually(async () => expect(await codes()).toEqual(["BEFORE", "FIRST"]));

  // The host leaves while a read hangs, and joins again. The fault names the booking, because BEFORE and FIRST may be read
  // once more.
  a17.faults.set([{ route: "GET /v2/bookings/HANGS", delay: "6s", times: 1 }]);
  await book("HANGS");
  await eventually(async () =>
    expect(await (await ask("GET", "/metrics")).text()).toContain('{state="processing"} 1'),
  );
  const leaving = ask("DELETE", "/accounts/a17");
  await eventually(async () =>
    expect(await (await ask("GET", "/accounts")).json()).toMatchObject({ accounts: [] }),
  );
  expect((await joins()).status).toBe(201);
  await book("AGAIN");
  expect((await leaving).status).toBe(409);
  await eventually(async () => expect(await codes()).toEqual(["AGAIN", "BEFORE", "FIRST", "HANGS"]));

  // SIGTERM comes while a callback's record is read. The attempt ends, and its plan is in the volume.
  a17.faults.set([{ route: "GET /v2/bookings/LAST", delay: "6s", times: 1 }]);
  await book("LAST");
  await eventually(async () =>
    expect(await (await ask("GET", "/metrics")).text()).toContain('{state="processing"} 1'),
  );
  expect(await first.stop()).toBe(0);
  const db = new DatabaseSync(join(volume, "events.db"), { readOnly: true });
  const sql =
    "SELECT 1 FROM stayhook_events WHERE ref LIKE '%LAST' AND source = 'thing' AND state = 'pending'";
  const planned = db.prepare(sql).all();
  db.close();
  expect(planned).toHaveLength(1);

  // The next container does what is planned, and ends on SIGINT as on SIGTERM.
  const second = run(app, volume, settings);
  await eventually(isHealthy);
  await book("NEXT");
  await eventually(async () =>
    expect(await codes()).toEqual(["AGAIN", "BEFORE", "FIRST", "HANGS", "LAST", "NEXT"]),
  );
  expect(await second.stop("SIGINT")).toBe(0);
  // An env file with CRLF does not make a second database.
  const broken = run(app, volume, { ...settings, EVENTS_DB: `${join(volume, "events.db")}\r` });
  await eventually(async () => expect(broken.output()).toContain("ends in white space"));
});
