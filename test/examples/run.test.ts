import { execFile } from "node:child_process";
import { expect, test } from "vitest";
import { names } from "../../examples/run/commands.ts";
import { built, root } from "./built.ts";

interface Ran {
  readonly code: number | string | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the same command as `npm run example <name>` after the build. */
function run(...args: readonly string[]): Promise<Ran> {
  built();
  return new Promise((resolve) => {
    const options = {
      cwd: root,
      env: { ...process.env, NODE_ENV: undefined, NODE_OPTIONS: "" },
      timeout: 60_000,
    };
    execFile(process.execPath, ["examples/run/main.ts", ...args], options, (error, stdout, stderr) =>
      resolve({ code: error ? (error.code ?? null) : 0, stdout, stderr }),
    );
  });
}

// One example is a file, the other a folder with its own package.json.
test.concurrent.for(["express", "lambda"])("shows %s at work", async (name) => {
  const { code, stdout, stderr } = await run(name);
  expect([code, stderr]).toEqual([0, ""]);
  const [, listing] = /^listing (\d+) passes its review$/m.exec(stdout) ?? [];
  const [, first] = /^the host approves (\w+)$/m.exec(stdout) ?? [];
  const [, second] = /^(\w+) is cancelled$/m.exec(stdout) ?? [];
  const said = stdout.split("\n").filter((line) => line.startsWith(`  ${name} | `));
  expect(said.map((line) => line.split(" ").slice(4, 6).join(" ")).slice(1)).toEqual([
    `live ${listing}`,
    `block ${first}`,
    `block ${second}`,
    `release ${second}`,
  ]);
  expect(stdout.match(/^ {2}delivered, and answered 200, 200$/gm)).toHaveLength(5);
});

test.concurrent("plays the vendor with three accounts, of which one gets a new token and one leaves", async () => {
  const { code, stdout, stderr } = await run("vendor");
  expect([code, stderr]).toEqual([0, ""]);
  const of = (account: string, what: string) =>
    stdout.match(new RegExp(`^  vendor \\| ${account}: ${what}`, "gm"))?.length;
  for (const account of ["a17", "b2", "c3"]) expect(of(account, "block"), stdout).toBe(2);
  expect(of("c3", "left")).toBe(1);
  expect(stdout.trim().split("\n").at(-1)).toContain('"accounts":["a17","b2"],"paused":{"count":0');
});

test.concurrent("says what there is", async () => {
  for (const args of [[], ["day"], ["../bench"]]) {
    const { code, stderr } = await run(...args);
    expect(code).toBe(1);
    expect(stderr.endsWith(`npm run example <name>: ${names().join(", ")}\n`)).toBe(true);
    for (const name of args) expect(stderr).toContain(`${name} cannot be shown by this command`);
  }
  const mine = [
    "approval-desk",
    "availability-calendar",
    "listing-mirror",
    "express",
    "fastify",
    "hono",
    "koa",
    "lambda",
    "nestjs",
    "next",
    "node-http",
    "vendor",
  ];
  expect(names()).toEqual(expect.arrayContaining(mine));
});
