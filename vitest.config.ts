import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { subpaths } from "./subpaths.config.ts";

export default defineConfig({
  resolve: {
    alias: Object.entries(subpaths).map(([name, path]) => ({
      find: new RegExp(`^stayhook${name === "index" ? "" : `/${name}`}$`),
      replacement: fileURLToPath(new URL(path, import.meta.url)),
    })),
  },
  test: {
    // On two cores vitest would keep one for itself, which does nothing.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    include: ["test/**/*.test.ts"],
    // Without this line, vitest replaces the text of style.css?raw by an empty text.
    css: { include: [/\?raw$/] },
    // A test that takes a tenth of a second takes seconds on a machine with other work.
    testTimeout: 30_000,
    hookTimeout: 30_000,
    globalSetup: "test/support/compile-cache.ts",
    // The native compiler takes a third of the time.
    typecheck: {
      enabled: true,
      checker: "test/typescript/newest/node_modules/.bin/tsc",
      include: ["test/**/*.test-d.ts"],
      tsconfig: "./tsconfig.json",
    },
  },
});
