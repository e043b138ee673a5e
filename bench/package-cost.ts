// Measures the cost of the package itself: the time of its import, and its size in a bundle.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import type { Row, Section } from "./report.ts";
import { median } from "./rounds.ts";

const directory = fileURLToPath(new URL(".", import.meta.url));

interface Imported {
  readonly label: string;
  readonly script: string;
  readonly goal?: number;
  /** Modules to leave out of a bundle. */
  readonly external?: readonly string[];
}

/** The package's dependencies, in use by a handwritten client without the package. */
const KY_ZOD_UUID = `
  import ky from "ky";
  import * as z from "zod";
  import { v5 } from "uuid";
  console.log(ky, v5, z.looseObject({ status: z.string(), listingId: z.union([z.number(), z.string()]).nullish().catch(null) }));`;

const imports: readonly Imported[] = [
  { label: "ky + zod + uuid", script: KY_ZOD_UUID },
  { label: "stayhook", script: `export * from "stayhook";`, goal: 115 },
  { label: "zod alone", script: `export * from "zod";` },
  { label: "stripe", script: `export * from "stripe";` },
  { label: "openai", script: `export * from "openai";` },
];

export function importTimes(rounds: number): Section {
  const run = (script: string): number => {
    const start = performance.now();
    execFileSync(process.execPath, ["--input-type=module", "-e", script], {
      cwd: directory,
      stdio: "ignore",
    });
    return performance.now() - start;
  };
  const took = imports.map((): number[] => []);
  for (let round = 0; round <= rounds; round += 1) {
    const empty = run("");
    for (const [index, { script }] of imports.entries()) {
      const ms = run(script) - empty;
      if (round > 0) took[index]!.push(ms);
    }
  }
  const base = median(took[0]!);
  return {
    name: "import",
    title: "Import",
    text:
      "`time` is the time that the import adds to an empty process. The ratio compares this time with the " +
      "time of ky, zod and uuid together. For both figures, less is better.",
    goals: "The goal is a limit for `time`, not for the ratio.",
    columns: ["ratio", "goal", "time"],
    rows: imports.map(({ label, goal }, index): Row => {
      const ms = median(took[index]!);
      return {
        label,
        ours: label === "stayhook",
        ratio: ms / base,
        figures: [`${ms.toFixed(0)} ms`],
        ...(goal !== undefined && { goal: { text: `${goal} ms`, met: ms <= goal } }),
      };
    }),
  };
}

const dependencies = ["ky", "zod", "uuid"];

const bundles: readonly Imported[] = [
  { label: "ky + zod + uuid", script: KY_ZOD_UUID },
  { label: "stayhook, all", script: `export * from "stayhook";`, goal: 56 },
  { label: "stayhook, the client alone", script: `export { StayhookClient } from "stayhook";`, goal: 42 },
  {
    label: "stayhook, own code alone",
    script: `export * from "stayhook";`,
    goal: 20,
    external: dependencies,
  },
  { label: "stripe: validates nothing", script: `export * from "stripe";` },
  { label: "openai", script: `export * from "openai";` },
];

export async function sizes(): Promise<Section> {
  const kB = await Promise.all(bundles.map((each) => gzippedSize(each)));
  return {
    name: "size",
    title: "Size",
    text:
      "`size` is the size of a bundle that esbuild has minified and gzip has compressed. The ratio compares " +
      "this size with the size of ky, zod and uuid together. For both figures, less is better.",
    goals: "The goal is a limit for `size`, not for the ratio.",
    columns: ["ratio", "goal", "size"],
    rows: bundles.map(({ label, goal }, index): Row => {
      const size = kB[index]!;
      return {
        label,
        ours: label.startsWith("stayhook"),
        ratio: size / kB[0]!,
        figures: [`${size.toFixed(1)} kB`],
        ...(goal !== undefined && { goal: { text: `${goal} kB`, met: size <= goal } }),
      };
    }),
  };
}

async function gzippedSize({ script, external = [] }: Imported): Promise<number> {
  const { outputFiles } = await build({
    stdin: { contents: script, resolveDir: directory },
    ...{ bundle: true, write: false, minify: true, format: "esm", platform: "node", target: "es2023" },
    ...{ legalComments: "none", logLevel: "silent" },
    mainFields: ["module", "main"],
    external: [...external],
  });
  return gzipSync(outputFiles[0]!.contents, { level: 9 }).length / 1000;
}
