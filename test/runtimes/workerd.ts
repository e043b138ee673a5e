import { cpSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { build } from "esbuild";
import { Miniflare, type WorkerOptions } from "miniflare";
import type { Consumer } from "../package/support/consumer.ts";

/** Of wrangler.jsonc, and of all Workers here. */
export const compatibilityDate = "2026-06-01";

/** Bundles a Worker as wrangler does, in a project that has the packed package, and nothing of this repository's. */
export async function bundleWorker(
  consumer: Consumer,
  { from, files, external = [] }: WorkerSource,
): Promise<string> {
  // Copied: from where they are, the package's name leads to this repository's own dist.
  for (const file of files) cpSync(join(from, file), join(consumer.directory, file));
  const { outputFiles, metafile } = await build({
    entryPoints: [join(consumer.directory, files[0]!)],
    absWorkingDir: consumer.directory,
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

export interface WorkerSource {
  readonly from: string;
  /** The first one is the Worker. */
  readonly files: readonly string[];
  readonly external?: readonly string[];
}

/** workerd with one Worker; what that prints to stderr is in `errors`. `await using` ends it. */
export async function startWorkerd(script: string, options: Partial<WorkerOptions> = {}) {
  const errors: string[] = [];
  const miniflare = new Miniflare({
    // Not one of the last, which this workerd may not know.
    compatibilityDate,
    ...options,
    modules: [{ type: "ESModule", path: "worker.mjs", contents: script }],
    handleRuntimeStdio(stdout: Readable, stderr: Readable) {
      stdout.resume();
      stderr.setEncoding("utf8").on("data", (text: string) => errors.push(text));
    },
  } as ConstructorParameters<typeof Miniflare>[0]);
  const url = String(await miniflare.ready);
  return { miniflare, url, errors, [Symbol.asyncDispose]: () => miniflare.dispose() };
}
