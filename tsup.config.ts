import { defineConfig, type Options } from "tsup";

const shared: Options = {
  entry: {
    index: "src/index.ts",
    node: "src/adapters/node.ts",
    testing: "src/testing/index.ts",
  },
  platform: "neutral",
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
  { ...shared, format: "cjs", noExternal: ["ky", "uuid"] },
]);
