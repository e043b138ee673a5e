import { cpSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { build } from "esbuild";
import { Miniflare } from "miniflare";
import type { Consumer } from "../../package/support/consumer.ts";
import { root } from "../../package/support/pack.ts";

/** The compatibility date of wrangler.jsonc and of all Workers here. */
const compatibilityDate = "2026-06-01";

export interface WorkerSource {
  /** Files and folders of this repository. The first path is the Worker. */
  readonly paths: readonly string[];
  readonly external?: readonly string[];
}

/** Bundles a Worker as wrangler does, in a project that has only `paths` and the packed package. */
export async function bundleWorker(
  { directory }: Consumer,
  { paths, external = [] }: WorkerSource,
): Promise<string> {
  // Copy the files: at their original paths, the package name would resolve to this repository's dist.
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
    // A module that is neither installed nor provided by the platform is an error.
    external: ["cloudflare:*", ...external],
    metafile: true,
    logLevel: "error",
  });
  const inputs = Object.keys(metafile.inputs);
  if (!inputs.some((path) => path.startsWith("node_modules/stayhook/dist/")))
    throw new Error(`the package is not the packed one: ${inputs}`);
  return outputFiles[0]!.text;
}

/** Starts workerd with one Worker. `output` is the printed text. `await using` ends it. */
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
