import { readdirSync, readFileSync } from "node:fs";
import { basename, isAbsolute, join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { type Consumer, installed } from "./support/consumer.ts";
import { manifest, subpaths } from "./support/pack.ts";

let consumer: Consumer;
beforeAll(async () => {
  consumer = await installed();
}, 300_000);

test("the tarball holds what was built, what a reader looks for, and nothing else", () => {
  const { files } = consumer;
  const documents = /^docs\/([\w-]+\/)*[\w-]+\.md$|^examples\//;
  expect(files.filter((file) => !file.startsWith("dist/") && !documents.test(file)).sort()).toEqual([
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "package.json",
  ]);
  const foreign = files.filter(
    (file) =>
      file.startsWith("dist/") &&
      file !== "dist/openapi.json" &&
      !/^dist\/(testing\/|store\/)?[\w-]+\.(js|cjs|d\.ts|d\.cts|(js|cjs)\.map)$/.test(file),
  );
  expect(foreign).toEqual([]);
});

test("all that package.json points to is there", () => {
  const targets = Object.values(manifest.exports).flatMap((target) =>
    typeof target === "string"
      ? [target]
      : Object.values(target).flatMap((condition) => Object.values(condition)),
  );
  expect(targets.length).toBeGreaterThan(0);
  for (const target of targets) expect(consumer.files).toContain(target.replace("./", ""));
});

test("source maps carry their sources, as src is not in the tarball, and no path of this machine", () => {
  const dist = join(consumer.directory, "node_modules/stayhook/dist");
  const scripts = readdirSync(dist, { recursive: true, encoding: "utf8" }).filter((path) =>
    /\.c?js$/.test(path),
  );
  // Each entry has at least one script in each of the two formats.
  expect(scripts.length).toBeGreaterThan(2 * subpaths.length);
  for (const path of scripts) {
    const name = basename(path);
    expect(readFileSync(join(dist, path), "utf8")).toContain(`//# sourceMappingURL=${name}.map`);
    const map: SourceMap = JSON.parse(readFileSync(join(dist, `${path}.map`), "utf8"));
    expect(map.sources.filter((source) => isAbsolute(source))).toEqual([]);
    expect(map.file ?? name).toBe(name);
    const without = map.sources.filter((_, index) => typeof map.sourcesContent?.[index] !== "string");
    // A source map may omit the text of the source called `name`, but of no other source.
    expect(without.filter((source) => source !== name)).toEqual([]);
  }
});

interface SourceMap {
  readonly file?: string;
  readonly sources: readonly string[];
  /** Absent in the map of a script that only re-exports. */
  readonly sourcesContent?: readonly (string | null)[];
}

test("a stack trace leads to the source, in both formats", async () => {
  const cause = "try { memoryStore({ max: 0 }) } catch (error) { console.log(error.stack) }";
  const scripts = {
    "trace.mjs": `import { memoryStore } from "stayhook"; ${cause}`,
    "trace.cjs": `const { memoryStore } = require("stayhook"); ${cause}`,
  };
  for (const [name, script] of Object.entries(scripts)) {
    const { stdout } = await consumer.node("--enable-source-maps", consumer.write(name, script));
    expect(stdout).toMatch(/src\/stores\/memory\/index\.ts:\d+/);
  }
});
