import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { transform } from "esbuild";
import { defineConfig, type Options } from "tsup";
import { subpaths as entry } from "./subpaths.config.ts";

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
    // tsup would take a path that ends with .css.
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

/**
 * People read the ESM files. Nobody reads the CommonJS files, and minified they take a third less of the tarball. tsup's
 * own `minify` comes before its change to CommonJS, which cannot read what it gets then.
 */
const minified: NonNullable<Options["plugins"]>[number] = {
  name: "minified",
  async buildEnd({ writtenFiles }) {
    for (const { name } of writtenFiles.filter((file) => file.name.endsWith(".cjs"))) {
      const { code } = await transform(await readFile(name, "utf8"), {
        minify: true,
        format: "cjs",
        target: "es2023",
      });
      await writeFile(name, code);
    }
  },
};

/** jsdom has no TextEncoder, and ky makes one while it loads, for a size that only its upload progress needs. */
const lazyEncoder: NonNullable<Options["esbuildPlugins"]>[number] = {
  name: "lazy-encoder",
  setup({ onLoad }) {
    onLoad({ filter: /ky[\\/]distribution[\\/]utils[\\/]body\.js$/ }, async ({ path }) => {
      const text = await readFile(path, "utf8");
      const made = "const encoder = new TextEncoder();";
      if (!text.includes(made)) throw new Error(`${path} makes its encoder in another way`);
      return {
        contents: text.replace(made, "const encoder = { encode: (text) => new TextEncoder().encode(text) };"),
      };
    });
  },
};

const shared: Options = {
  platform: "neutral",
  // Deno knows Node's modules by this prefix alone, and node:sqlite has no name without it.
  removeNodeProtocol: false,
  target: "es2023",
  dts: { entry },
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
  {
    ...shared,
    entry,
    format: "cjs",
    // ky and uuid are ESM only: what `require` loads has to bring them along.
    noExternal: ["ky", "uuid"],
    esbuildPlugins: [rawText, lazyEncoder],
    plugins: [minified],
  },
]);
