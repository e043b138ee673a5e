import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../../", import.meta.url));

/** Builds dist, because the examples import the package by its name. */
export function built(): void {
  if (!existsSync(`${root}dist/index.js`)) throw new Error("dist is not there: npm run build");
}
