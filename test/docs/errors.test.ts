import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as stayhook from "stayhook";
import ts from "typescript";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");

const errors = Object.entries(stayhook)
  .filter(([, value]) => typeof value === "function" && value.prototype instanceof Error)
  .map(([name]) => name);

/** The TSDoc of each class in the files that declare errors, of which the site makes a page for each class. */
const texts = new Map(
  ["src/errors.ts", "src/client/client-errors.ts", "src/webhooks/processing/process-now.ts"].flatMap(
    (path) => {
      const text = readFileSync(join(root, path), "utf8");
      const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
      return source.statements
        .filter(ts.isClassDeclaration)
        .map(
          (declared) =>
            [declared.name?.text, text.slice(declared.getFullStart(), declared.getStart())] as const,
        );
    },
  ),
);

test("each exported error has a row that says what to do", () => {
  const page = readFileSync(join(root, "docs/errors.md"), "utf8");
  const rows = Array.from(
    page.matchAll(/^\| `(\w+Error)` \| `\w+` \| .+ \| (.+) \|$/gm),
    ([, name, advice]) => [name, advice !== ""],
  );
  expect(rows.sort()).toEqual(errors.map((name) => [name, true]).sort());
});

test.each(errors)("the TSDoc of %s says what happened and what to do, in two sentences at least", (name) => {
  const sentences = (texts.get(name) ?? "").match(/[.:](?=\s)/g) ?? [];
  expect(sentences.length).toBeGreaterThanOrEqual(2);
});
