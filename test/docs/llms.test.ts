import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { list, pages, writeSite } from "../../tools/llms.ts";

const docs = join(import.meta.dirname, "../../docs");

test("docs/llms.txt is up to date: npx node tools/llms.ts", async () => {
  expect(readFileSync(join(docs, "llms.txt"), "utf8")).toBe(await list(({ file }) => file));
});

test("the site's llms.txt and llms-full.txt have the same pages, in the order of the sidebar", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stayhook-llms-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  await writeSite(folder);
  const site = (name: string) => readFileSync(join(folder, name), "utf8");
  const listed = [...site("llms.txt").matchAll(/\]\(\/(.*?)\)/g)].map(([, name]) => name);
  const full = [...site("llms-full.txt").matchAll(/^<!-- \/(.*) -->$/gm)].map(([, name]) => name);
  expect(listed).toEqual((await pages()).map(({ name }) => name));
  expect(full).toEqual(listed);
  const sidebar = readFileSync(join(docs, ".vitepress/sidebar.ts"), "utf8");
  const links = [...sidebar.matchAll(/"\/([\w/-]+[\w])"/g)].map(([, link]) => `${link}.md`);
  expect(links.length).toBeGreaterThan(25);
  expect(listed.filter((name) => links.includes(name!))).toEqual(links);
  // Each page is there as text, and whole in llms-full.txt.
  for (const name of listed) expect(site("llms-full.txt"), name).toContain(site(name!).trim());
  expect(site("quick-start.md")).toContain("# Quick start");
  expect(site("llms-full.txt")).not.toContain("<!-- block:");
});
