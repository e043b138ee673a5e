import { expect, test } from "vitest";
import manifest from "../package.json" with { type: "json" };
import { exportsField, paths, typesVersions } from "../tools/subpaths.ts";
import tsconfig from "../tsconfig.json" with { type: "json" };

test("package.json and tsconfig.json have what subpaths.config.ts says: npx node tools/subpaths.ts", () => {
  expect(manifest.exports).toEqual(exportsField);
  expect(manifest.typesVersions).toEqual(typesVersions);
  expect(tsconfig.compilerOptions.paths).toEqual(paths);
});
