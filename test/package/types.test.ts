import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { type Consumer, installed } from "./support/consumer.ts";
import { root } from "./support/pack.ts";

let consumer: Consumer;
beforeAll(async () => {
  const types = ["typescript", "@types/node", "undici-types"];
  consumer = await installed(["ky", "uuid", "zod", "valibot", "arktype", ...types]);
}, 120_000);

const settings = {
  "ESM, node16": { extension: "mts", module: "node16", moduleResolution: "node16" },
  "CommonJS, node16": { extension: "cts", module: "node16", moduleResolution: "node16" },
  "a bundler": { extension: "ts", module: "esnext", moduleResolution: "bundler" },
};

describe.each(Object.entries(settings))("a project as %s", (_, { extension, ...resolution }) => {
  // What it exports is to be declared, so that each type must have a name that others can say.
  const said = (fixtures: readonly string[], environment: object): Promise<string> => {
    const files = fixtures.map((fixture) => consumer.copy(`${fixture}.ts`, `${fixture}.${extension}`));
    return check(files, { ...resolution, ...environment, declaration: true });
  };

  test("takes all of stayhook, and models of zod and valibot, with the web's types alone", async () => {
    expect(await said(["core", "models"], { lib: ["ES2023", "DOM"], types: [] })).toBe("");
  }, 60_000);

  test("takes every subpath, and models of arktype, with Node's types alone", async () => {
    // arktype is ESM only.
    const arktype = extension === "cts" ? [] : ["arktype"];
    const fixtures = ["server", "declared", ...arktype];
    expect(await said(fixtures, { lib: ["ES2023"], types: ["node"] })).toBe("");
  }, 60_000);
});

/** What the compiler has to say, in all its strictness, about files. */
async function check(files: readonly string[], options: object): Promise<string> {
  const compilerOptions = {
    target: "es2022",
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: false,
    outDir: join(consumer.directory, "out"),
    ...options,
  };
  const project = consumer.write("tsconfig.json", JSON.stringify({ compilerOptions, files }));
  const ran = await consumer.node(join(root, "node_modules/typescript/bin/tsc"), "-p", project);
  return ran.stdout + ran.stderr;
}
