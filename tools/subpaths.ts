/** Writes what package.json and tsconfig.json have to say about `subpaths.config.ts`: `npx node tools/subpaths.ts`. */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { subpaths } from "../subpaths.config.ts";

const names = Object.keys(subpaths);

const conditions = (name: string, types: string, script: string) => ({
  types: `./dist/${name}.${types}`,
  default: `./dist/${name}.${script}`,
});

/** `exports` of package.json. */
export const exportsField = {
  ...Object.fromEntries(
    names.map((name) => [
      name === "index" ? "." : `./${name}`,
      { import: conditions(name, "d.ts", "js"), require: conditions(name, "d.cts", "cjs") },
    ]),
  ),
  "./openapi.json": "./dist/openapi.json",
  "./package.json": "./package.json",
};

/** `typesVersions` of package.json, for `moduleResolution: "node10"`, which does not read `exports`. */
export const typesVersions = {
  "*": Object.fromEntries([
    ...names.filter((name) => name !== "index").map((name) => [name, [`./dist/${name}.d.cts`]]),
    ["openapi.json", ["./dist/openapi.json"]],
  ]),
};

/** `paths` of tsconfig.json. */
export const paths = Object.fromEntries(
  Object.entries(subpaths).map(([name, path]) => [
    name === "index" ? "stayhook" : `stayhook/${name}`,
    [`./${path}`],
  ]),
);

if (import.meta.main) {
  const change = (file: string, set: (json: Record<string, unknown>) => object) => {
    const url = new URL(`../${file}`, import.meta.url);
    writeFileSync(url, JSON.stringify(set(JSON.parse(readFileSync(url, "utf8")))));
    execFileSync("npx", ["biome", "format", "--write", fileURLToPath(url)], { stdio: "inherit" });
  };
  change("package.json", (json) => ({ ...json, typesVersions, exports: exportsField }));
  change("tsconfig.json", ({ compilerOptions, ...json }) => ({
    compilerOptions: { ...(compilerOptions as object), paths },
    ...json,
  }));
}
