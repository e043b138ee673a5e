import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { temporaryFolder } from "../support/temporary-folder.ts";

const run = promisify(execFile);

/** Runs a worker that has one event in its store. Resolves to what it wrote to stderr. It must exit with 0. */
async function worker(end: string): Promise<string> {
  const directory = temporaryFolder();
  const source = (file: string) => JSON.stringify(join(import.meta.dirname, "../../src", file));
  const app = `
    const { createWebhookHandler, StayhookClient } = await import(${source("index.ts")});
    const { sqliteStore } = await import(${source("stores/sqlite/index.ts")});
    const store = sqliteStore(${JSON.stringify(join(directory, "events.db"))});
    const client = new StayhookClient({ baseUrl: "https://platform.example", accessToken: "t", fetch: () => new Promise(() => {}) });
    const webhooks = createWebhookHandler({ client, store, verify: false, on: {} });
    const event = { eventId: "e1", ref: "booking:A1", source: "webhook", topic: null, notification: "{}" };
    await store.add({ ...event, timestamp: new Date().toISOString() }, { dueIn: 60_000 });
    ${end}`;
  const { stderr } = await run(process.execPath, ["--input-type=module", "-e", app], { timeout: 60_000 });
  return stderr;
}

const line =
  "stayhook: the process ends although 1 event waits, because start() does not keep it alive. Add a timer or a server";

test("a worker that only calls start() and exits with events says so, once", async () => {
  const stderr = await worker("webhooks.start(); webhooks.start();");
  expect(stderr.split("\n").filter((each) => each.includes("stayhook:"))).toEqual([line]);
});

test.each([
  "webhooks.start(); await webhooks.close({ timeout: 0 }); await store.close();",
  "webhooks.start(); await store.discard({ eventId: 'e1' }); setTimeout(() => {}, 10);",
  "",
])("a process that closes its handler, has no events, or does not start it, is silent: %s", async (end) => {
  expect(await worker(end)).not.toContain("stayhook:");
});

test("a handler that is closed leaves the warning to another one", async () => {
  const stderr = await worker(`webhooks.start();
    const other = createWebhookHandler({ client, store, verify: false, on: {} });
    other.start();
    await other.close({ timeout: 0 });`);
  expect(stderr).toContain(line);
});

test("close without time left, because the store does not answer, causes no TimeoutNegativeWarning", async () => {
  const stderr = await worker(`
    store.settle = () => new Promise(() => {});
    await store.add({ ...event, eventId: "e2", ref: null, topic: "messages", timestamp: new Date().toISOString() });
    webhooks.start();
    while ((await store.counts()).processing === 0) await new Promise((resolve) => setTimeout(resolve, 10));
    await webhooks.close({ timeout: 0 });
    await store.close();
    console.error("closed");`);
  expect(stderr).toContain("closed");
  expect(stderr).not.toContain("TimeoutNegativeWarning");
});
