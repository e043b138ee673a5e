import { execFile } from "node:child_process";
import { cpSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { type Consumer, installed } from "../package/support/consumer.ts";
import { root } from "../package/support/pack.ts";

// Runs each test file of docs/testing.md with its own runner, in a project that has installed the package.
let consumer: Consumer;
beforeAll(async () => {
  consumer = await installed(["ky", "uuid", "zod", "msw", "vitest", "jest", "@types/node"]);
  cpSync(join(root, "examples/testing"), join(consumer.directory, "testing"), { recursive: true });
});

function run(...args: readonly string[]): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve) => {
    // Vitest leaves settings in process.env, so do not pass all of it on.
    const env = { PATH: process.env.PATH, CI: "1", NO_COLOR: "1" };
    const options = { cwd: consumer.directory, encoding: "utf8", timeout: 110_000, env } as const;
    const child = execFile(process.execPath, args, options, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode, output: stdout + stderr }),
    );
  });
}

/** Runs a runner with a JSON report. Returns the numbers of passed and failed tests. */
async function report(...args: readonly string[]): Promise<{ passed: number; failed: number }> {
  const file = join(consumer.directory, `${args.length}-${Date.now()}.json`);
  const { code, output } = await run(...args, `--outputFile=${file}`);
  expect(code, output).toBe(0);
  const { numPassedTests: passed, numFailedTests: failed } = JSON.parse(readFileSync(file, "utf8"));
  return { passed, failed };
}

const vitest = "node_modules/vitest/vitest.mjs";
const jest = "node_modules/jest/bin/jest.js";

describe("docs/testing.md", () => {
  it("in vitest: callbacks, and the sandbox by msw", async () => {
    const ran = await report(vitest, "run", "--root", "testing/vitest", "--reporter=json");
    expect(ran).toEqual({ passed: 4, failed: 0 });
  });

  it("in Jest: callbacks, the sandbox as a server, and fake timers", async () => {
    const ran = await report(jest, "--config", JSON.stringify({ rootDir: "testing/jest" }), "--json");
    expect(ran).toEqual({ passed: 3, failed: 0 });
  });

  it("in node:test: the sandbox as a server, and its faults", async () => {
    const { code, output } = await run("--test", "--test-reporter=tap", "testing/node/sandbox.test.ts");
    expect(code, output).toBe(0);
    expect(output).toMatch(/^# pass 4$/m);
    expect(output).toMatch(/^# fail 0$/m);
  });

  it("would fail where the subscriber does wrong", async () => {
    const subscriber = consumer.write(
      "testing/subscriber.ts",
      readFileSync(join(root, "examples/testing/subscriber.ts"), "utf8").replace(
        "calendar.set(",
        "calendar.delete(",
      ),
    );
    expect(readFileSync(subscriber, "utf8")).toContain(
      "await calendar.delete(to.bookingCode, to.listingId, to.checkIn, to.checkOut);",
    );
    const [inVitest, inNode] = await Promise.all([
      run(vitest, "run", "--root", "testing/vitest"),
      run("--test", "testing/node/sandbox.test.ts"),
    ]);
    expect(inVitest.output).toMatch(/2 failed/);
    expect(inNode.code).toBe(1);
  });
});
