import { readFileSync } from "node:fs";
import { join } from "node:path";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { beforeAll, expect, test, vi } from "vitest";
import { type Consumer, homeOf, installed } from "./support/consumer.ts";
import { subpaths } from "./support/pack.ts";

let consumer: Consumer;
beforeAll(async () => {
  consumer = await installed();
});

test("publint finds nothing", async () => {
  const tarball = readFileSync(consumer.tarball);
  const { messages, pkg } = await publint({ pack: { tarball: toArrayBuffer(tarball) }, strict: true });
  expect(messages.map((message) => formatMessage(message, pkg, { color: false }))).toEqual([]);
});

test("are the types wrong? They are not, for any subpath and any resolution", async () => {
  const attw = join(homeOf("@arethetypeswrong/cli"), "dist/index.js");
  const ran = await consumer.node(attw, consumer.tarball, "--format", "json", "--no-color");
  const { analysis, problems } = JSON.parse(ran.stdout);
  const entrypoints = Object.keys(analysis.entrypoints).map((entry) => entry.replace(".", "stayhook"));
  expect(entrypoints.filter((entry) => !entry.endsWith(".json")).toSorted()).toEqual(subpaths.toSorted());
  const found = Object.values<readonly unknown[]>(problems).flat();
  expect(found).toEqual([]);
  expect(ran.code).toBe(0);
});

test("a public linter finds nothing wrong with the OpenAPI description", async () => {
  vi.stubEnv("REDOCLY_TELEMETRY", "off");
  vi.stubEnv("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
  const redocly = join(homeOf("@redocly/cli"), "bin/cli.js");
  const file = "node_modules/stayhook/dist/openapi.json";
  const ran = await consumer.node(redocly, "lint", "--extends", "recommended-strict", file);
  expect(ran.code, ran.stdout + ran.stderr).toBe(0);
});

function toArrayBuffer({ buffer, byteOffset, byteLength }: Buffer): ArrayBuffer {
  return buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer;
}
