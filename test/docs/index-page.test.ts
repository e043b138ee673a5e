import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const docs = join(import.meta.dirname, "../../docs");

/** Pages of the website whose text is outside docs. */
const elsewhere = new Map([
  ["examples/index.md", "../examples/README.md"],
  ["project/changelog.md", "../CHANGELOG.md"],
]);

// GitHub shows neither the sidebar nor the buttons of the website's front page.
test("docs/index.md links each page of the sidebar, so that readers on GitHub find them", () => {
  const text = readFileSync(join(docs, "index.md"), "utf8");
  // Not imported, because the root of the repository does not have the types of VitePress.
  const sidebar = readFileSync(join(docs, ".vitepress/sidebar.ts"), "utf8");
  const pages = [...sidebar.matchAll(/"(\/[\w/-]+)"/g)]
    .map(([, link = ""]) => `${link.slice(1)}${link.endsWith("/") ? "index" : ""}.md`)
    .map((page) => elsewhere.get(page) ?? page)
    // The website's build makes the API reference.
    .filter((page) => page !== "reference/index.md");
  expect(pages.length).toBeGreaterThan(25);
  const linked = [...text.matchAll(/\]\(([\w./-]+\.md)\)/g)].map(([, page]) => page);
  expect(pages.filter((page) => !linked.includes(page))).toEqual([]);
  expect(linked.filter((page) => !existsSync(join(docs, page!)))).toEqual([]);
});
