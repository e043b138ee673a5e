import { cpSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { build } from "esbuild";
import { Miniflare } from "miniflare";
import type { Consumer } from "../package/support/consumer.ts";
import { root } from "../package/support/pack.ts";

/** Of wrangler.jsonc, and of all Workers here. */
export const compatibilityDate = "2026-06-01";

export interface WorkerSource {
  /** Files and folders of this repository. The first one is the Worker. */
  readonly paths: readonly string[];
  readonly external?: readonly string[];
}

/** Bundles a Worker as wrangler does, in a project that has the packed package, and nothing of this repository's. */
export async function bundleWorker(
  { directory }: Consumer,
  { paths, external = [] }: WorkerSource,
): Promise<string> {
  // Copied: from where they are, the package's name leads to this repository's own dist.
  for (const path of paths) cpSync(join(root, path), join(directory, path), { recursive: true });
  const { outputFiles, metafile } = await build({
    entryPoints: [join(directory, paths[0]!)],
    absWorkingDir: directory,
    bundle: true,
    write: false,
    format: "esm",
    platform: "browser",
    mainFields: ["browser", "module", "main"],
    conditions: ["workerd", "worker", "browser"],
    preserveSymlinks: true,
    tsconfigRaw: {},
    target: "es2024",
    // A module that is neither there nor the platform's own is an error.
    external: ["cloudflare:*", ...external],
    metafile: true,
    logLevel: "error",
  });
  const inputs = Object.keys(metafile.inputs);
  if (!inputs.some((path) => path.startsWith("node_modules/stayhook/dist/")))
    throw new Error(`the package is not the packed one: ${inputs}`);
  return outputFiles[0]!.text;
}

/** workerd with one Worker; `output`: what that has printed. `await using` ends it. */
export async function startWorkerd(script: string, options: Record<string, unknown> = {}) {
  const printed: string[] = [];
  const miniflare = new Miniflare({
    compatibilityDate,
    ...options,
    modules: [{ type: "ESModule", path: "worker.mjs", contents: script }],
    handleRuntimeStdio(stdout: Readable, stderr: Readable) {
      for (const stream of [stdout, stderr])
        stream.setEncoding("utf8").on("data", (text: string) => printed.push(text));
    },
  });
  const url = String(await miniflare.ready).replace(/\/$/, "");
  return {
    miniflare,
    url,
    get output() {
      return printed.join("");
    },
    [Symbol.asyncDispose]: () => miniflare.dispose(),
  };
}
