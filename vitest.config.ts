import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const source = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  resolve: {
    alias: [
      { find: /^stayhook$/, replacement: source("./src/index.ts") },
      { find: /^stayhook\/node$/, replacement: source("./src/adapters/node.ts") },
      { find: /^stayhook\/sqlite$/, replacement: source("./src/stores/sqlite/index.ts") },
      { find: /^stayhook\/testing$/, replacement: source("./src/testing/index.ts") },
    ],
  },
  test: {
    include: ["test/**/*.test.ts"],
    typecheck: { enabled: true, include: ["test/**/*.test-d.ts"], tsconfig: "./tsconfig.json" },
  },
});
