import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { build } from "esbuild";
import ts from "typescript";
import { beforeAll, describe, expect, test } from "vitest";
import { type Consumer, installed } from "./support/consumer.ts";
import { manifest, subpaths } from "./support/pack.ts";

/** External modules that each subpath loads, eagerly or lazily. */
const loads: Readonly<Record<string, readonly string[]>> = {
  // The core must run on Workers, Deno and Bun, so it may not load a node: module.
  stayhook: ["ky", "uuid", "zod"],
  "stayhook/console": ["uuid", "zod"],
  "stayhook/fastify": ["node:buffer", "node:timers"],
  "stayhook/koa": ["node:buffer", "node:timers"],
  "stayhook/lambda": [],
  "stayhook/mysql": ["mysql2/promise", "node:timers", "node:timers/promises", "zod"],
  "stayhook/node": ["node:buffer", "node:timers"],
  "stayhook/otel": ["@opentelemetry/api", "zod"],
  "stayhook/postgres": ["node:crypto", "node:net", "node:timers", "node:timers/promises", "pg", "zod"],
  "stayhook/reconcile": ["ky", "uuid", "zod"],
  "stayhook/redis": ["ioredis", "node:crypto", "node:timers", "node:timers/promises", "zod"],
  "stayhook/sqlite": ["node:fs", "node:path", "node:sqlite", "node:timers", "node:timers/promises", "zod"],
  "stayhook/stays": [],
  "stayhook/store": [],
  "stayhook/store/contract": [],
  "stayhook/testing": ["node:buffer", "node:http", "node:timers", "uuid", "zod"],
  "stayhook/testing/msw": ["msw"],
  "stayhook/undici": ["node:stream", "node:zlib", "undici", "zod"],
};

/** These packages are ESM only, so the CommonJS build bundles them. */
const broughtAlong = ["ky", "uuid"];

/** Throws an error in one subpath and checks it with the class from another. */
const acrossSubpaths = `
const thrown = [];
for (const cause of [() => createSandbox({ seed: "seven" }), () => memoryStore({ max: 0 })]) {
  try { cause(); } catch (error) { thrown.push(error); }
}
if (thrown.length !== 2) throw new Error("nothing was thrown");
console.log(JSON.stringify(thrown.map((error) =>
  [error instanceof InvalidArgumentError, error instanceof StayhookError, error instanceof Error, error.name])));
`;
const aStayhookError = [true, true, true, "InvalidArgumentError"];

const formats = {
  esm: {
    extension: "mjs",
    taking: (what: string, subpath: string) => `import ${what} from "${subpath}";`,
  },
  cjs: {
    extension: "cjs",
    taking: (what: string, subpath: string) => `const ${what} = require("${subpath}");`,
  },
};

describe.each(Object.entries(formats))("%s", (format, { extension, taking }) => {
  let consumer: Consumer;
  beforeAll(async () => {
    const dependencies = [...Object.keys(manifest.dependencies), "msw", "@opentelemetry/api", "undici"];
    consumer = await installed(
      dependencies.filter((name) => format === "esm" || !broughtAlong.includes(name)),
    );
  });

  const runs = async (name: string, script: string): Promise<unknown> => {
    const ran = await consumer.node(consumer.write(`${name}.${extension}`, script));
    expect(ran, ran.stderr).toMatchObject({ code: 0 });
    return JSON.parse(ran.stdout);
  };

  test("instanceof holds across subpaths", async () => {
    const script = [
      taking("{ InvalidArgumentError, StayhookError, memoryStore }", "stayhook"),
      taking("{ createSandbox }", "stayhook/testing"),
      acrossSubpaths,
    ].join("\n");
    expect(await runs("across", script)).toEqual([aStayhookError, aStayhookError]);
  });

  test("the version is to be had", async () => {
    const script = `${format === "esm" ? `import { createRequire } from "node:module"; const require = createRequire(import.meta.url);` : ""}
      console.log(JSON.stringify(require("stayhook/package.json").version));`;
    expect(await runs("version", script)).toBe(manifest.version);
  });

  test.each(subpaths)("%s loads nothing that is not installed with it", async (subpath) => {
    const expected = loads[subpath]?.filter((name) => format === "esm" || !broughtAlong.includes(name));
    expect(await packagesOf(consumer, subpath, format)).toEqual(expected);
  });

  // Without `skipLibCheck`, the compiler reports each package that a declaration names and that is not installed.
  test.each(subpaths)("the types of %s need nothing that is not installed with it", (subpath) => {
    const known = new Set([...Object.keys(manifest.dependencies), ...(loads[subpath] ?? [])]);
    expect(typePackagesOf(consumer, subpath, format).filter((name) => !known.has(name))).toEqual([]);
  });
});

/** Returns the path of a subpath's code, or of its types. */
function fileOf(consumer: Consumer, subpath: string, format: string, what: "default" | "types"): string {
  const entry = manifest.exports[subpath.replace("stayhook", ".")];
  if (typeof entry !== "object") throw new Error(`${subpath} has no entry`);
  const target = entry[format === "esm" ? "import" : "require"]?.[what];
  return join(consumer.directory, "node_modules/stayhook", target ?? "");
}

/** Returns the packages that the declarations of a subpath import, without Node's own modules. */
function typePackagesOf(consumer: Consumer, subpath: string, format: string): string[] {
  const packages = new Set<string>();
  const files = new Set([fileOf(consumer, subpath, format, "types")]);
  // The loop also visits the files that it adds.
  for (const file of files) {
    for (const { fileName } of ts.preProcessFile(readFileSync(file, "utf8")).importedFiles) {
      if (fileName.startsWith(".")) files.add(join(dirname(file), fileName.replace(/\.(c?)js$/, ".d.$1ts")));
      else if (!fileName.startsWith("node:")) packages.add(fileName);
    }
  }
  return [...packages];
}

async function packagesOf(consumer: Consumer, subpath: string, format: string): Promise<string[]> {
  const { metafile } = await build({
    entryPoints: [fileOf(consumer, subpath, format, "default")],
    bundle: true,
    write: false,
    outdir: consumer.directory,
    packages: "external",
    external: ["node:*"],
    platform: "neutral",
    treeShaking: false,
    metafile: true,
    logLevel: "error",
  });
  const imports = Object.values(metafile.inputs).flatMap((input) => input.imports);
  return [...new Set(imports.filter(({ external }) => external).map(({ path }) => path))].sort();
}
