// The pages that the package ships, and their links, which must lead somewhere on GitHub and on the site.
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const pages = ["README.md", "examples/README.md", ...globSync("docs/**/*.md", { cwd: root })].filter(
  (page) => !/node_modules|docs\/(reference|project|examples)\//.test(page),
);
const textOf = (page: string) => readFileSync(join(root, page), "utf8");

/** The anchors of a page's headings. GitHub and VitePress agree on headings without points and colons. */
function anchorsOf(page: string): Set<string> {
  const headings = textOf(page)
    .replaceAll(/^```[\s\S]*?^```/gm, "")
    .matchAll(/^#+ (.*)$/gm);
  return new Set(
    Array.from(headings, ([, heading = ""]) =>
      heading
        .replaceAll(/[`*]/g, "")
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, "")
        .replaceAll(" ", "-"),
    ),
  );
}

test("each link leads to a file that is there, and to a heading of it", () => {
  const dead = pages.flatMap((page) =>
    Array.from(
      textOf(page)
        .replaceAll(/^```[\s\S]*?^```/gm, "")
        .matchAll(/\]\(([^)\s]+)\)/g),
      ([, link = ""]) => link,
    )
      .filter((link) => !/^([a-z]+:|\/|message$)/.test(link))
      .filter((link) => {
        const [path = "", anchor] = link.split("#");
        const target = path === "" ? page : relative(root, resolve(root, dirname(page), path));
        if (!existsSync(join(root, target))) return true;
        return anchor !== undefined && !anchorsOf(target).has(anchor);
      })
      .map((link) => `${page}: ${link}`),
  );
  expect(pages.length).toBeGreaterThan(30);
  expect(dead).toEqual([]);
});

// What is not shipped stands nowhere for a reader who has only the package.
test("no page links to what the package does not have", () => {
  const outside = pages.flatMap((page) =>
    [...textOf(page).matchAll(/\]\((?:\.\.\/)*((?:bench|soak|test|tools|src)\/[^)\s]*)\)/g)].map(
      ([, link]) => `${page}: ${link}`,
    ),
  );
  expect(outside).toEqual([]);
});

// The logger's entries lack the words of the platform, which may name a guest. The errors of observations have them.
test("no block sends the error of an observation elsewhere", () => {
  expect(pages.filter((page) => textOf(page).includes("event.error"))).toEqual([]);
});

test("the docs have at most 58 pages and 40,000 words", () => {
  const all = globSync("docs/**/*.md", { cwd: root }).filter(
    (page) => !/node_modules|docs\/reference\//.test(page),
  );
  const words = all.map(
    (page) =>
      textOf(page)
        .split(/\s+/)
        .filter((word) => word !== "").length,
  );
  expect(all.length).toBeLessThanOrEqual(58);
  expect(words.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(40_000);
});
