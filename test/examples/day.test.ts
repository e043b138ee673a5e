import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify, stripVTControlCharacters } from "node:util";
import { expect, it, onTestFinished, type TestContext } from "vitest";
import { eventually } from "../support/eventually.ts";
import { built, root } from "./built.ts";

const main = "examples/day/main.ts";

/** Makes a directory for the day's file. A test checks that no file stays in it. */
function temporaryDirectory(context: Pick<TestContext, "onTestFinished"> = { onTestFinished }): string {
  const directory = mkdtempSync(join(tmpdir(), "stayhook-test-"));
  context.onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command of `npm start` for 15 s at most. Checks that it leaves no file. */
async function runDay(env: NodeJS.ProcessEnv = {}, context?: TestContext): Promise<Ran> {
  built();
  const TMPDIR = temporaryDirectory(context);
  const options = { cwd: root, timeout: 60_000, env: { ...process.env, TMPDIR, ...env } };
  const ran = await promisify(execFile)(process.execPath, [main], options).catch((error) => error);
  expect(readdirSync(TMPDIR), "no file is left").toEqual([]);
  return { code: 0, ...ran };
}

/** Returns a Node option that runs `code` in both processes before their own code. */
const preload = (code: string) => `--import data:text/javascript,${encodeURIComponent(code)}`;

/** Returns the ids of the subscriber's processes from the output. */
const pids = (stdout: string) =>
  [...stdout.matchAll(/ process {4}(\d+), the subscriber/g)].map(([, pid]) => Number(pid));

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

// The example waits most of the time, so run these two tests at the same time.
it.concurrent("plays a day whose totals add up, though the subscriber is killed in the middle of it", async (context) => {
  const { code, stdout, stderr } = await runDay({ FORCE_COLOR: undefined, NO_COLOR: undefined }, context);
  expect(code, stderr).toBe(0);
  expect(stdout, "no terminal, no color").toBe(stripVTControlCharacters(stdout));

  const lines = stdout.split("\n");
  const count = (pattern: RegExp) => lines.filter((line) => pattern.test(line)).length;
  expect(count(/ platform .* is (Request|Confirmed|Declined|Cancelled|Published)\)$/)).toBe(14);
  expect(count(/ arrived /)).toBe(14);
  expect(count(/ duplicate /)).toBe(14);
  expect(count(/ failed .*again in 500 ms/)).toBe(1);
  expect(count(/ unheard .*ECONNREFUSED/)).toBeGreaterThanOrEqual(4);
  expect(count(/ callback /)).toBe(17);
  expect(count(/ callback .*, attempt 2: /)).toBe(3);
  expect(count(/^✓ /)).toBe(10);
  expect(stdout).not.toContain("NOT SO");

  // The events that the kill interrupted are on disk, and they begin again.
  const [first, second] = pids(stdout);
  const [, killed, cut = ""] = / killed .*kill -9 (\d+), in the middle of (.*)/.exec(stdout) ?? [];
  expect([Number(killed), second === first]).toEqual([first, false]);
  expect(stdout).toContain("9 events, 4 of them done");
  const [beforeRestart = "", afterRestart = ""] = stdout.split(/ on disk .*nights blocked/);
  const [, found = ""] = / on disk .*begun, not ended: (.*);/.exec(beforeRestart) ?? [];
  const again = [...afterRestart.matchAll(/ callback {3}(\S+) .*, attempt 2: /g)].map(([, id]) => id);
  expect(found.split(", ").sort()).toEqual(cut.split(", ").sort());
  expect(again.sort()).toEqual(cut.split(", ").sort());

  // The totals also match the nights that the callbacks have printed.
  const nights = (verb: string) =>
    [...stdout.matchAll(new RegExp(`${verb} (\\d+) nights?, `, "g"))].reduce(
      (sum, [, n]) => sum + Number(n),
      0,
    );
  const [, blocked, released] = /^✓ (\d+) nights blocked − (\d+) released/m.exec(stdout) ?? [];
  expect([nights("blocked"), nights("released")]).toEqual([Number(blocked), Number(released)]);

  expect(pids(stdout).filter(isAlive), "no process is left").toEqual([]);
});

it.concurrent("fails where a total does not add up", async (context) => {
  // Drops one message about a duplicate. Only the subscriber's process has `process.send`.
  const unreliable = `
    const { send } = process;
    let kept = 0;
    if (send) process.send = (told) => told.kind === "duplicate" && kept++ === 0 || send.call(process, told);
  `;
  const { code, stdout } = await runDay({ NODE_OPTIONS: preload(unreliable) }, context);
  expect(code).toBe(1);
  expect(stripVTControlCharacters(stdout).match(/^✗ .*NOT SO$/gm)).toHaveLength(1);
});

it("fails at once where the subscriber ends by itself", async () => {
  const dying = "if (process.send) setTimeout(() => process.exit(3), 300)";
  const { code, stderr } = await runDay({ NODE_OPTIONS: preload(dying) });
  expect(code).toBe(1);
  expect(stderr).toContain("The subscriber's process ended by itself: exit code 3.");
});

/** Makes the subscriber's process ignore that its parent is gone, so that the parent must kill it. */
const deaf = `
  const { on } = process;
  process.on = (name, ...rest) => name === "disconnect" ? process : on.call(process, name, ...rest);
`;

it.each([
  ["SIGINT", [130, null], deaf],
  ["SIGTERM", [143, null], deaf],
  ["SIGKILL", [null, "SIGKILL"], ""],
] as const)("leaves no process behind when it gets %s", async (signal, ending, code) => {
  built();
  const TMPDIR = temporaryDirectory();
  const day = spawn(process.execPath, [main], {
    cwd: root,
    env: { ...process.env, TMPDIR, NODE_OPTIONS: preload(code) },
  });
  onTestFinished(() => void day.kill("SIGKILL"));
  let stdout = "";
  day.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    stdout += chunk;
  });
  const exited = once(day, "exit");
  // Send the signal before any delivery. The subscriber then has no message to send, and cannot notice from a failed
  // send that its parent is gone.
  await eventually(() => expect(stdout).toContain("the subscriber, listens on"));
  const [pid] = pids(stripVTControlCharacters(stdout)) as [number];
  onTestFinished(() => void (isAlive(pid) && process.kill(pid, "SIGKILL")));
  expect(isAlive(pid)).toBe(true);
  day.kill(signal);
  expect(await exited).toEqual(ending);
  await eventually(() => expect(isAlive(pid)).toBe(false));
  // After SIGKILL, no process is left to delete the files.
  if (signal !== "SIGKILL") expect(readdirSync(TMPDIR)).toEqual([]);
});
