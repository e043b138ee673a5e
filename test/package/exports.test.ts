import { build } from "esbuild";
import { beforeAll, describe, expect, test } from "vitest";
import { type Consumer, installed } from "./support/consumer.ts";
import { manifest, subpaths } from "./support/pack.ts";

/** The public names of each subpath. They must stay. */
const names: Readonly<Record<string, readonly string[]>> = {
  stayhook: [
    "APIError",
    "AbortError",
    "AccessTokenError",
    "AuthenticationError",
    "BadRequestError",
    "Booking",
    "ConflictError",
    "ConnectionError",
    "ConnectionTimeoutError",
    "InternalServerError",
    "InvalidArgumentError",
    "InvalidWriteError",
    "Listing",
    "NotFoundError",
    "PermissionDeniedError",
    "ProcessingError",
    "RateLimitError",
    "ResponseValidationError",
    "StayhookClient",
    "StayhookError",
    "UnprocessableEntityError",
    "WebhookConfig",
    "WebhookNotification",
    "bookingStatuses",
    "createWebhookHandler",
    "forwardTo",
    "listingIdOf",
    "listingStatuses",
    "localTime",
    "memoryStore",
    "sharedSecret",
    "stay",
    "topics",
  ],
  "stayhook/console": ["createConsole"],
  "stayhook/fastify": ["toFastifyPlugin"],
  "stayhook/koa": ["toKoaMiddleware"],
  "stayhook/lambda": ["toLambdaHandler", "toSqsHandler"],
  "stayhook/mysql": ["migrationSql", "mysqlStore"],
  "stayhook/node": ["toNodeHandler"],
  "stayhook/otel": ["telemetry"],
  "stayhook/postgres": ["migrationSql", "postgresStore"],
  "stayhook/reconcile": ["createReconciler"],
  "stayhook/redis": ["redisStore"],
  "stayhook/sqlite": ["sqliteStore"],
  "stayhook/store": ["runAsync", "runSync", "sqlStore", "sqliteDialect"],
  "stayhook/store/contract": ["storeContract"],
  "stayhook/testing": ["createSandbox", "createTestEvent"],
  "stayhook/testing/msw": ["sandboxBaseUrl", "sandboxHandlers"],
};

/** External modules that each subpath loads, eagerly or lazily. */
const loads: Readonly<Record<string, readonly string[]>> = {
  // The core must run on Workers, Deno and Bun, so it may not load a node: module.
  stayhook: ["ky", "uuid", "zod"],
  "stayhook/console": ["uuid", "zod"],
  "stayhook/fastify": ["node:buffer"],
  "stayhook/koa": ["node:buffer"],
  "stayhook/lambda": [],
  "stayhook/mysql": ["mysql2/promise", "node:timers", "node:timers/promises", "zod"],
  "stayhook/node": ["node:buffer"],
  "stayhook/otel": ["@opentelemetry/api", "zod"],
  "stayhook/postgres": ["node:crypto", "node:timers", "pg", "zod"],
  "stayhook/reconcile": ["ky", "uuid", "zod"],
  "stayhook/redis": ["ioredis", "node:crypto", "node:timers", "node:timers/promises", "zod"],
  "stayhook/sqlite": ["node:fs", "node:path", "node:sqlite", "node:timers", "node:timers/promises", "zod"],
  "stayhook/store": [],
  "stayhook/store/contract": [],
  "stayhook/testing": ["node:buffer", "node:http", "uuid", "zod"],
  "stayhook/testing/msw": ["msw"],
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
    load: (subpath: string) => `await import(${JSON.stringify(subpath)})`,
    taking: (what: string, subpath: string) => `import ${what} from "${subpath}";`,
  },
  cjs: {
    extension: "cjs",
    load: (subpath: string) => `require(${JSON.stringify(subpath)})`,
    taking: (what: string, subpath: string) => `const ${what} = require("${subpath}");`,
  },
};

test("every subpath has a list of names here", () => {
  expect(subpaths.toSorted()).toEqual(Object.keys(names).toSorted());
});

describe.each(Object.entries(formats))("%s", (format, { extension, load, taking }) => {
  let consumer: Consumer;
  beforeAll(async () => {
    const dependencies = [...Object.keys(manifest.dependencies), "msw", "@opentelemetry/api"];
    consumer = await installed(
      dependencies.filter((name) => format === "esm" || !broughtAlong.includes(name)),
    );
  }, 300_000);

  const runs = async (name: string, script: string): Promise<unknown> => {
    const ran = await consumer.node(consumer.write(`${name}.${extension}`, script));
    expect(ran, ran.stderr).toMatchObject({ code: 0 });
    return JSON.parse(ran.stdout);
  };

  test.each(subpaths)("%s has these names, and no other", async (subpath) => {
    const loaded = await runs("names", `console.log(JSON.stringify(Object.keys(${load(subpath)}).sort()));`);
    expect(loaded).toEqual(names[subpath]);
  });

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
});

async function packagesOf(consumer: Consumer, subpath: string, format: string): Promise<string[]> {
  const entry = manifest.exports[subpath.replace("stayhook", ".")];
  if (typeof entry !== "object") throw new Error(`${subpath} has no entry`);
  const target = entry[format === "esm" ? "import" : "require"]?.default;
  const { metafile } = await build({
    entryPoints: [`${consumer.directory}/node_modules/stayhook/${target}`],
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
