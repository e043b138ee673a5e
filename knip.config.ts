import type { KnipConfig } from "knip";
import { subpaths } from "./subpaths.config.ts";

export default {
  entry: [...Object.values(subpaths), "{bench,soak,tools}/*.ts", "examples/**/*", "test/**/*.{ts,mjs}"],
  project: ["{src,test,tools,bench,soak}/**"],
  // A type is exported with the function whose signature has it.
  ignoreExportsUsedInFile: { interface: true, type: true },
  // The blocks of docs/security.md import morgan, and tests import express4 without types.
  ignoreDependencies: ["morgan", "@types/morgan", "express4"],
  // test/heavy/install.ts installs the packages of examples and frameworks, and TypeScript finds what does not resolve.
  exclude: ["unlisted", "unresolved", "binaries", "duplicates"],
} satisfies KnipConfig;
