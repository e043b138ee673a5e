import { readdirSync, readFileSync } from "node:fs";
import * as stayhook from "stayhook";
import { expect, test } from "vitest";

const directory = new URL("../../docs/errors/", import.meta.url);
const read = (file: string) => readFileSync(new URL(file, directory), "utf8");

/** Returns the page of an error: `api-error.md` for `APIError`. */
const pageOf = (name: string) =>
  `${name
    .replaceAll(/([a-z])([A-Z])/g, "$1-$2")
    .replaceAll(/([A-Z])([A-Z][a-z])/g, "$1-$2")
    .toLowerCase()}.md`;

const errors = Object.entries(stayhook)
  .filter(([, value]) => typeof value === "function" && value.prototype instanceof Error)
  .map(([name]) => name);

test("each exported error has a page, and the index leads to it", () => {
  const index = read("index.md");
  const rows = Array.from(index.matchAll(/^\| \[`(\w+)`\]\(([\w-]+\.md)\) \|/gm), ([, ...row]) => row);
  expect(rows.sort()).toEqual(errors.map((name) => [name, pageOf(name)]).sort());
  const pages = readdirSync(directory).filter((file) => file !== "index.md");
  expect(pages.sort()).toEqual(errors.map(pageOf).sort());
});

test.each(errors)("the page of %s says what it means and what to do", (name) => {
  const page = read(pageOf(name));
  expect(page.startsWith(`# ${name}\n`)).toBe(true);
  for (const heading of ["## Meaning", "## What to do"]) expect(page).toContain(heading);
});
