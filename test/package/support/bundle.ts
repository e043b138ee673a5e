import { type BuildOptions, build } from "esbuild";
import type { Consumer } from "./consumer.ts";

/** Bundles code as a user's project does. Returns the bundle, and the files in it. */
export async function bundled(
  { directory }: Pick<Consumer, "directory">,
  contents: string,
  options: Pick<BuildOptions, "minify" | "platform" | "external" | "target"> = {},
) {
  const { outputFiles, metafile } = await build({
    stdin: { contents, resolveDir: directory },
    bundle: true,
    write: false,
    outdir: "out",
    format: "esm",
    platform: "neutral",
    mainFields: ["module", "main"],
    preserveSymlinks: true,
    legalComments: "none",
    metafile: true,
    logLevel: "silent",
    ...options,
    external: ["node:*", ...(options.external ?? [])],
  });
  const [output] = Object.values(metafile.outputs);
  const inputs = Object.entries(output?.inputs ?? {});
  const sources = inputs.filter(([, { bytesInOutput }]) => bytesInOutput > 0).map(([path]) => path);
  return { code: outputFiles[0]!, sources };
}
