import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { type Consumer, installed } from "./support/consumer.ts";
import { root } from "./support/pack.ts";

let consumer: Consumer;
beforeAll(async () => {
  // Jest's `require` cannot load ESM-only packages, so install none of them.
  consumer = await installed(["zod"]);
}, 240_000);

test("a Jest project with no settings at all: the client, the handler and the sandbox, and a test of a callback", async () => {
  consumer.write("package.json", '{ "name": "subscriber", "private": true }');
  consumer.copy("jest-subscriber.cjs", "subscriber.js");
  consumer.copy("jest-subscriber.test.cjs", "subscriber.test.js");
  const jest = join(root, "node_modules/jest/bin/jest.js");
  const ran = await consumer.node(jest, "--json", "--detectOpenHandles");
  expect(ran.stdout, ran.stderr).not.toBe("");
  const { testResults, numPassedTests, success } = JSON.parse(ran.stdout);
  expect(testResults.map(({ message }: { message: string }) => message)).toEqual([""]);
  expect({ success, numPassedTests }).toEqual({ success: true, numPassedTests: 4 });
  // Jest must exit on its own: an open handle would keep it alive.
  expect(ran.code).toBe(0);
  expect(ran.stderr).not.toMatch(/did not exit|open handle/);
}, 300_000);
