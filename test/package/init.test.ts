// Each example that `stayhook init` makes from the packed package is installed, started, and sent a booking.

import { execFile } from "node:child_process";
import { readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { exampleNames } from "../../src/cli/example-app.ts";
import { isSoak } from "../support/soak.ts";
import { type Consumer, installed } from "./support/consumer.ts";

const execute = promisify(execFile);
// `npm start` of an app must run on the Node of this project.
const env = {
  ...process.env,
  PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
  NEXT_TELEMETRY_DISABLED: "1",
};

/** One of each kind: without a package, with a framework, with a compiler, with things, with accounts, with metrics. */
const inCI = [exampleNames[0], "fastify", "nestjs", "door-codes", "vendor", "prometheus"] as const;

let consumer: Consumer;
beforeAll(async () => {
  consumer = await installed();
  await make(exampleNames[0]);
  await npm(exampleNames[0], "install", "--no-audit", "--no-fund", "--prefer-offline", consumer.tarball);
});

const folderOf = (example: string): string => join(consumer.directory, example);
const npm = (example: string, ...args: readonly string[]) =>
  execute("npm", args, { cwd: folderOf(example), env, timeout: 300_000 });

async function make(example: string): Promise<void> {
  const { code, stderr } = await consumer.node("node_modules/stayhook/dist/cli.js", "init", example, example);
  expect(code, stderr).toBe(0);
}

test.each(isSoak ? exampleNames : inCI)("%s takes a booking", async (example) => {
  if (example !== exampleNames[0]) {
    await make(example);
    const { dependencies } = JSON.parse(readFileSync(join(folderOf(example), "package.json"), "utf8"));
    // The first app has what an app needs whose only package is stayhook.
    if (Object.keys(dependencies).length === 1)
      symlinkSync(join(folderOf(exampleNames[0]), "node_modules"), join(folderOf(example), "node_modules"));
    else await npm(example, "install", "--no-audit", "--no-fund", "--prefer-offline", consumer.tarball);
  }
  const { stdout } = await npm(example, "test");
  expect(stdout).toMatch(/pass 1\b/);
});

test("the test of an app keeps the folder of its store until the app has ended", {
  timeout: 400_000,
}, async () => {
  const [example] = exampleNames;
  const folder = folderOf(example);
  writeFileSync(
    join(folder, "slow.mjs"),
    `import { existsSync } from "node:fs";
    import { dirname } from "node:path";
    process.once("exit", () => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
      console.log(existsSync(dirname(process.env.EVENTS_DB)) ? "kept" : "deleted");
    });
    await import("./${example}.ts");`,
  );
  const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  manifest.scripts.start = "node slow.mjs";
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  expect((await npm(example, "test")).stdout).toMatch(/^kept$/m);
});
