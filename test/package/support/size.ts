import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import type { Consumer } from "./consumer.ts";

export interface Size {
  /** Minified, bytes. */
  readonly minified: number;
  /** Minified and gzipped, bytes. */
  readonly gzipped: number;
}

/** What a statement brings into somebody's bundle, dependencies included; Node's modules and optional peers are not. */
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
