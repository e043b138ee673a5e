import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { type Consumer, installed } from "./support/consumer.ts";
import { manifest } from "./support/pack.ts";

let consumer: Consumer;
beforeAll(async () => {
  consumer = await installed();
});

test("the tarball holds what was built, what a reader looks for, and nothing else", () => {
  const { files } = consumer;
  const documents = /^docs\/([\w-]+\/)*[\w-]+\.md$|^docs\/(images\/[\w-]+\.svg|llms\.txt)$|^examples\//;
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
      !/^dist\/(testing\/|store\/)?[\w-]+\.(js|cjs|d\.ts|d\.cts)$/.test(file),
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

// 625 kB are the code for `import` and `require`, 135 kB its types, 185 kB the docs and examples, which tools read offline.
test("the tarball takes 1,000 kB at most", () => {
  expect(statSync(consumer.tarball).size).toBeLessThanOrEqual(1_000_000);
});

test("each relative link of the packed documents, and each image, is a file in the package", () => {
  const documents = consumer.files.filter((file) => file.endsWith(".md"));
  expect(documents).toContain("docs/stores/sqlite.md");
  const home = join(consumer.directory, "node_modules/stayhook");
  const dead = documents.flatMap((document) => {
    const text = readFileSync(join(home, document), "utf8").replaceAll(/```[\s\S]*?```|`[^`\n]*`/g, "");
    return [...text.matchAll(/\]\(([^)\s]+)\)/g)]
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

test("docs/llms.txt lists each document of the package", async () => {
  const text = readFileSync(join(consumer.directory, "node_modules/stayhook/docs/llms.txt"), "utf8");
  const listed = [...text.matchAll(/\]\((.*?)\)/g)].map(([, file = ""]) => join("docs", file));
  const documents = consumer.files.filter((file) => /^docs\/.*\.md$/.test(file));
  expect(listed.filter((file) => file.startsWith("docs/")).sort()).toEqual(documents.sort());
  expect(listed.filter((file) => !consumer.files.includes(file))).toEqual([]);
});

test("stayhook/openapi.json is in the package", async () => {
  const script = `
    import description from "stayhook/openapi.json" with { type: "json" };
    console.log(description.openapi, Object.keys(description.webhooks).join());`;
  const { stdout } = await consumer.node(consumer.write("openapi.mjs", script));
  expect(stdout.trim()).toBe("3.1.1 bookings,listings,messages");
});
