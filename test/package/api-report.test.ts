import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { subpaths } from "../../subpaths.config.ts";
import { reportApis, reports } from "../../tools/api-report.ts";
import { pack } from "./support/pack.ts";

const directory = mkdtempSync(join(tmpdir(), "stayhook-api-"));
const isUpdating = process.env.STAYHOOK_UPDATE_API === "1";
const into = isUpdating ? reports : directory;

beforeAll(async () => {
  // Packing builds dist if src has changed.
  await pack(directory);
  reportApis(into);
});
afterAll(() => rmSync(directory, { recursive: true }));

test.each(Object.keys(subpaths))(
  "api/ has the public surface of %s: STAYHOOK_UPDATE_API=1 writes it",
  (subpath) => {
    const file = `${subpath.replaceAll("/", "-")}.api.md`;
    expect(readFileSync(join(into, file), "utf8")).toBe(readFileSync(join(reports, file), "utf8"));
  },
);

test("api/ has no report of a subpath that is gone", () => {
  const names = Object.keys(subpaths).map((subpath) => `${subpath.replaceAll("/", "-")}.api.md`);
  expect(readdirSync(reports).sort()).toEqual(names.sort());
});

test("a declaration stands in one report", () => {
  const declarations = readdirSync(reports).flatMap((file) =>
    readFileSync(join(reports, file), "utf8")
      .split("\n\n")
      .filter((paragraph) => /^\/\/ @\w+/.test(paragraph))
      .map((paragraph) => paragraph.replace(/^export /m, "")),
  );
  expect(declarations.length).toBeGreaterThan(300);
  expect(declarations.toSorted()).toEqual([...new Set(declarations)].sort());
});
