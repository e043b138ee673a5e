import { existsSync, readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { documents, standing } from "./extract.ts";

const root = new URL("../../", import.meta.url);

/** Documents that show code from files. Another test runs those files. */
const others = readdirSync(new URL("docs", root), { recursive: true, encoding: "utf8" })
  .map((name) => `docs/${name}`)
  .filter((path) => path.endsWith(".md") && !/^docs\/(reference|\.vitepress)\//.test(path))
  .filter((path) => ![...documents, ...standing].includes(path));

const withoutIndent = (code: string) =>
  code
    .split("\n")
    .map((line) => line.trim())
    .join("\n");

const blocks = others.flatMap((document) => {
  const text = readFileSync(new URL(document, root), "utf8");
  return [...text.matchAll(/(.*)\n```(?:ts|js|mjs|typescript|javascript|sql)\n([\s\S]*?)\n```/g)].map(
    ([, above = "", code = ""]) => ({
      document,
      code,
      from: /^<!-- from: (\S+) -->$/.exec(above)?.[1],
      first: code.split("\n")[0] ?? "",
    }),
  );
});

test.each(blocks)("$document: $first", ({ from, code, document }) => {
  expect(
    from,
    `a block of ${document} does not say which file it is from: <!-- from: path -->`,
  ).toBeDefined();
  const file = new URL(from ?? "", root);
  expect(existsSync(file), `${from} is not there`).toBe(true);
  expect(withoutIndent(readFileSync(file, "utf8"))).toContain(withoutIndent(code));
});
