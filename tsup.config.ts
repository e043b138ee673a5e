import { readFile, writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { defineConfig, type Options } from "tsup";

/** tsup's splitting of CommonJS leaves this machine's path to the file in its source map. */
const relativeSourceMaps: NonNullable<Options["plugins"]>[number] = {
  name: "relative-source-maps",
  async buildEnd({ writtenFiles }) {
    for (const { name } of writtenFiles.filter((file) => file.name.endsWith(".cjs.map"))) {
      const map = JSON.parse(await readFile(name, "utf8"));
      map.sources = map.sources.map((source: string) => (source === map.file ? basename(source) : source));
      map.file = basename(map.file);
      await writeFile(name, JSON.stringify(map));
    }
  },
};

const shared: Options = {
  entry: {
    index: "src/index.ts",
    node: "src/adapters/node.ts",
    sqlite: "src/stores/sqlite/index.ts",
    testing: "src/testing/index.ts",
  },
  platform: "neutral",
  // Deno knows Node's modules by this prefix alone, and node:sqlite has no name without it.
  removeNodeProtocol: false,
  target: "es2023",
  dts: true,
  sourcemap: true,
  // Without shared chunks each subpath has error classes of its own, and instanceof fails between them.
  splitting: true,
  external: [/^node:/],
};

export default defineConfig([
  { ...shared, format: "esm", clean: true },
  // ky and uuid are ESM only: what `require` loads has to bring them along.
  { ...shared, format: "cjs", noExternal: ["ky", "uuid"], plugins: [relativeSourceMaps] },
]);
