import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { between } from "../../examples/support/between.ts";
import {
  driveBookingAndListing,
  expectCleanExit,
  expectRefusals,
  platform,
  post,
} from "../../examples/support/drive.ts";
import { type Example, type ExampleOptions, startExample } from "../../examples/support/example.ts";
import { homeOf, installed } from "../../package/support/consumer.ts";
import { root } from "../../package/support/pack.ts";

const project = await installed([
  ...["ky", "uuid", "zod", "typescript", "@types/node"],
  ...["express", "fastify", "koa", "@koa/bodyparser", "hono", "@hono/node-server"],
  ...["@nestjs/common", "@nestjs/core", "@nestjs/platform-express", "reflect-metadata", "rxjs"],
  ...["next", "react", "react-dom", "@types/react"],
]);
// The project's node_modules links into this repository, so the root must be above the project and the repository.
const nextConfig = "export default { turbopack: { root: '/' }, devIndicators: false };";

const node = process.execPath;

/** The options to start each example. The command is the one in its header or package.json. */
const examples: Record<string, Omit<ExampleOptions, "project" | "sandbox" | "from">> = {
  "node-http.ts": {},
  "express.ts": {},
  "fastify.ts": {},
  "koa.ts": {},
  "hono.ts": {},
  nestjs: {
    before: [[node, join(root, "node_modules/typescript/bin/tsc")]],
    command: [node, "dist/main.js"],
  },
  next: {
    files: { "next.config.mjs": nextConfig },
    command: [node, join(homeOf("next"), "dist/bin/next"), "dev"],
    env: { CI: "1", NEXT_TELEMETRY_DISABLED: "1", CRON_SECRET: "cr0n" },
  },
  lambda: { command: [node, "local.ts"] },
};

test.for(Object.entries(examples))("%s", async ([from, options]) => {
  const sandbox = await platform();
  const proxy = await between(sandbox);
  const env = { STAYHOOK_BASE_URL: proxy.url, ...options.env };
  const example = await startExample({ ...options, env, project, sandbox, from });
  // Next.js prints a line of its own.
  if (from !== "next") await example.said(/^listening on port \d+ of /m);
  await driveBookingAndListing(sandbox, example);
  await expectRefusals(example);
  // The app's own route works with the body parser in front. A Lambda function has no other route.
  if (from !== "lambda") {
    const answer = await post(`${example.url}/echo`, '{"a":1}');
    expect(await answer.text()).toBe(from === "node-http.ts" ? "Hello\n" : '{"a":1}');
  }
  if (from === "next") await expectDrainRoute(example);
  // These two run on serverless platforms, so they need not drain before they exit.
  if (from === "next" || from === "lambda") expect(await example.stop()).toEqual([0, null]);
  else await expectCleanExit(sandbox, example, proxy);
  const store = sqliteStore(join(example.directory, "events.db"));
  expect(await store.counts()).toMatchObject({ pending: 0, processing: 0, retrying: 0, parked: 0 });
  await store.close();
});

async function expectDrainRoute({ url, directory }: Example): Promise<void> {
  const drain = (authorization: string) => fetch(`${url}/drain`, { headers: { authorization } });
  expect((await drain("Bearer guess")).status).toBe(401);
  await leaveBehind(join(directory, "events.db"));
  expect(await (await drain("Bearer cr0n")).json()).toEqual({ done: 1, failed: 0 });
}

test("lambda: its other function takes up what was left", async () => {
  const sandbox = await platform();
  const { directory, stop } = await startExample({ ...examples.lambda, project, sandbox, from: "lambda" });
  await stop();
  await leaveBehind(join(directory, "events.db"));
  const env = {
    ...process.env,
    STAYHOOK_BASE_URL: sandbox.url,
    STAYHOOK_ACCESS_TOKEN: sandbox.accessToken,
    WEBHOOK_SECRET: "s",
  };
  const script = 'console.log(await (await import("./function.ts")).drain())';
  const { stdout } = await promisify(execFile)(node, ["-e", script], { cwd: directory, env });
  expect(stdout).toBe("{ done: 1, failed: 0 }\n");
});

/** Records an event that no process handles. */
async function leaveBehind(path: string): Promise<void> {
  const store = sqliteStore(path);
  const timestamp = new Date().toISOString();
  const ids = { eventId: randomUUID(), ref: null, topic: null, timestamp };
  await store.add({
    ...ids,
    source: "webhook",
    notification: JSON.stringify({ eventId: ids.eventId, timestamp }),
  });
  await store.close();
}
