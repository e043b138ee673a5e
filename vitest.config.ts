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
    include: ["test/**/*.test.ts"],
    typecheck: { enabled: true, include: ["test/**/*.test-d.ts"], tsconfig: "./tsconfig.json" },
  },
});
