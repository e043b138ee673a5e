import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { type Consumer, installed } from "./support/consumer.ts";
import { root, subpaths } from "./support/pack.ts";

let consumer: Consumer;
beforeAll(async () => {
  const types = ["@types/node", "undici-types", "@opentelemetry/api", "@types/pg", "mysql2", "undici"];
  consumer = await installed(["ky", "uuid", "zod", "pg", "ioredis", "msw", ...types]);
});

test("the types of the core and the adapters compile with ES2020 and skipLibCheck: false", async () => {
  const ofDrivers = /\/(mysql|postgres|redis|msw|undici|otel|sqlite)$/;
  const imports = subpaths.filter((subpath) => !ofDrivers.test(subpath)).map((each) => `import "${each}";`);
  const file = consumer.write("es2020.mts", imports.join("\n"));
  const options =
    "--noEmit --pretty false --strict --skipLibCheck false --types node --target es2020 --lib es2020 --module nodenext";
  const compiler = join(root, "node_modules/typescript-newest/bin/tsc");
  const { stdout } = await consumer.node(compiler, ...options.split(" "), file);
  // Other packages may need a newer library themselves.
  const own = stdout.split("\n").filter((line) => /node_modules\/stayhook\/|^es2020/.test(line));
  expect(own).toEqual([]);
});
