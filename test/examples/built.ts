import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../../", import.meta.url));

/** Throws if dist is not built. The examples need it, because they import the package by its name. */
export function built(): void {
  if (!existsSync(`${root}dist/index.js`)) throw new Error("dist is not there: npm run build");
}
