import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import type { Consumer } from "./consumer.ts";

export interface Size {
  /** In bytes, minified. */
  readonly minified: number;
  /** In bytes, minified and gzipped. */
  readonly gzipped: number;
}

/**
 * Returns the size that a statement adds to a user's bundle. Dependencies count. Node modules and optional peers do
 * not.
 */
export async function sizeOf(
  { directory }: Pick<Consumer, "directory">,
  statement: string,
  external: readonly string[],
): Promise<Size> {
  const { outputFiles } = await build({
    stdin: { contents: statement, resolveDir: directory },
    bundle: true,
    write: false,
    minify: true,
    format: "esm",
    platform: "neutral",
    mainFields: ["module", "main"],
    target: "es2023",
    preserveSymlinks: true,
    legalComments: "none",
    external: ["node:*", ...external],
    logLevel: "silent",
  });
  const { contents } = outputFiles[0]!;
  return { minified: contents.length, gzipped: gzipSync(contents, { level: 9 }).length };
}
