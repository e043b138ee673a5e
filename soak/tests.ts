// Runs the test files that play only some of their cases in CI, with all their cases.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Row } from "./table.ts";

const tests = join(import.meta.dirname, "../test");

function sampledFiles(): string[] {
  return readdirSync(tests, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.ts") && !name.includes("node_modules"))
    .map((name) => join(tests, name))
    .filter((file) => readFileSync(file, "utf8").includes("isSoak"));
}

export async function allCases(): Promise<Row[]> {
  const files = sampledFiles();
  const code = await runTests(files, { STAYHOOK_SOAK: "1" });
  return [{ cells: { files: String(files.length), "exit code": String(code) }, failed: code !== 0 }];
}

/** Runs test files, each in its project. Resolves to the exit code. */
export async function runTests(
  files: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<number | null> {
  const args = ["node_modules/vitest/vitest.mjs", "run", "--isolate", ...files];
  const child = spawn(process.execPath, args, {
    stdio: "inherit",
    env: { ...process.env, ...env },
    cwd: join(tests, ".."),
  });
  const [code] = await once(child, "exit");
  return code;
}
