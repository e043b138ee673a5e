import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import { defineConfig, type Options } from "tsup";
import { subpaths as entry } from "./subpaths.config.ts";

/** tsup's splitting of CommonJS leaves this machine's path to the file in its source map. */
const relativeSourceMaps: NonNullable<Options["plugins"]>[number] = {
  name: "relative-source-maps",
  async buildEnd({ writtenFiles }) {
    for (const { name } of writtenFiles.filter((file) => file.name.endsWith(".cjs.map"))) {
      const map = JSON.parse(await readFile(name, "utf8"));
      map.sources = map.sources.map((source: string) => (source === map.file ? basename(source) : source));
      map.file = map.file && basename(map.file);
      await writeFile(name, JSON.stringify(map));
    }
  },
};

/**
 * The modules that index.ts takes its exports from. As entries beside it they become chunks of their own, and a
 * bundler leaves out whole chunks (`sideEffects: false`): in one file, each call at its top level would stay,
 * zod's models with all of zod.
 */
const parts = Object.fromEntries(
  [...readFileSync("src/index.ts", "utf8").matchAll(/^export \{[^}]*\} from "\.\/(.+)\.ts"/gm)].map(
    ([, path]) => [`parts/${path}`, `src/${path}.ts`],
  ),
);

const withoutParts: NonNullable<Options["plugins"]>[number] = {
  name: "without-parts",
  // All that they do is to export from the chunks.
  buildEnd: () => rm("dist/parts", { recursive: true, force: true }),
};

/** Imports of `./style.css?raw` get the text of the file, as in vite. */
const rawText: NonNullable<Options["esbuildPlugins"]>[number] = {
  name: "raw-text",
  setup({ onResolve, onLoad }) {
    // A path that ends with .css would be taken by tsup, and an absolute path would stay in the source map.
    onResolve({ filter: /\?raw$/ }, ({ path, resolveDir }) => ({
      path: relative(".", join(resolveDir, path)),
      namespace: "raw-text",
    }));
    onLoad({ filter: /\?raw$/, namespace: "raw-text" }, async ({ path }) => ({
      contents: await readFile(path.replace("?raw", ""), "utf8"),
      loader: "text",
    }));
  },
};

const shared: Options = {
  platform: "neutral",
  // Deno knows Node's modules by this prefix alone, and node:sqlite has no name without it.
  removeNodeProtocol: false,
  target: "es2023",
  dts: { entry },
  sourcemap: true,
  // Without shared chunks each subpath has error classes of its own, and instanceof fails between them.
  splitting: true,
  esbuildPlugins: [rawText],
  external: [/^node:/],
};

export default defineConfig([
  {
    ...shared,
    entry: { ...entry, ...parts, cli: "src/cli/main.ts" },
    format: "esm",
    clean: true,
    plugins: [withoutParts],
    // In a process of its own: tsup bundles this file, and the tool reads files beside itself.
    onSuccess: async () => void execFileSync(process.execPath, ["tools/write-openapi.ts"]),
  },
  // ky and uuid are ESM only: what `require` loads has to bring them along.
  { ...shared, entry, format: "cjs", noExternal: ["ky", "uuid"], plugins: [relativeSourceMaps] },
]);
