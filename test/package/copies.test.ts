// An app may load several copies of the package: with `import` and with `require`, or the copy of a dependency.
import { cpSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { type Consumer, homeOf, installed } from "./support/consumer.ts";

let consumer: Consumer;
beforeAll(async () => {
  consumer = await installed();
  for (const name of ["stayhook", "ky", "uuid", "zod"]) {
    const from = name === "stayhook" ? join(consumer.directory, "node_modules/stayhook") : homeOf(name);
    const to = join(consumer.directory, "other/node_modules", name);
    mkdirSync(dirname(to), { recursive: true });
    cpSync(from, to, { recursive: true, dereference: true });
  }
});

const unavailable = [true, "unavailable"];

test("each part works with each part of another copy, whether ESM, CommonJS or in another folder", async () => {
  const ran = await consumer.node(consumer.copy("copies.mjs"));
  expect(ran, ran.stderr).toMatchObject({ code: 0, stderr: "" });
  const seen: Readonly<Record<string, unknown>> = JSON.parse(ran.stdout);
  expect(Object.keys(seen)).toHaveLength(12);
  for (const [pair, parts] of Object.entries(seen))
    expect(parts, pair).toEqual({
      different: true,
      names: ["StayhookClient", "APIError", "NotFoundError", "ProcessingError"],
      instances: {
        own: true,
        base: true,
        sibling: false,
        ofUser: [false, true, true],
        others: false,
        made: Array.from({ length: 6 }, () => true),
      },
      reasons: {
        503: unavailable,
        429: unavailable,
        401: unavailable,
        404: [true, "not-found"],
        403: [true, "denied"],
        "wrong record": [true, "invalid-record"],
        "no connection": unavailable,
      },
      stay: {
        changes: [
          [true, null, "2027-01-01"],
          [true, "2027-01-01", "2027-01-02"],
          [true, null, "2027-01-01"],
          [true, "2027-01-01", "2027-01-02"],
        ],
        tested: "2027-01-01",
      },
      reconciler: [
        [1, true],
        [1, true],
      ],
      mounted: [200, 200],
    });
});

test("every subpath loads where jsdom has replaced the globals, and so lacks many of Node's", async () => {
  const lacking =
    "TextEncoder TextDecoder fetch Request Response Headers FormData ReadableStream structuredClone setImmediate";
  const loaded = [
    "",
    "/node",
    "/testing",
    "/reconcile",
    "/console",
    "/fastify",
    "/koa",
    "/lambda",
    "/sqlite",
    "/store",
  ];
  const script = `for (const name of ${JSON.stringify(lacking.split(" "))}) delete globalThis[name];
    for (const subpath of ${JSON.stringify(loaded)}) require("stayhook" + subpath);`;
  expect(await consumer.node(consumer.write("jsdom.cjs", script))).toEqual({
    code: 0,
    stdout: "",
    stderr: "",
  });
});
