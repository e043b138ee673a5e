// Runs the docs' example of a shutdown as a process of its own.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { eventually, PATIENCE } from "../support/eventually.ts";
import { freePort } from "../support/server-process.ts";
import { extractBlocks } from "./extract.ts";

const block = extractBlocks(["docs/handler.md"]).find(({ name }) => name === "shutdown")!.code;

/** The file that the block imports. The callback of a message, which has no record, never ends, and holds a timer. */
const webhooks = `
  import { createWebhookHandler, StayhookClient } from "stayhook";
  import { sqliteStore } from "stayhook/sqlite";
  export const store = sqliteStore("events.db");
  const client = new StayhookClient({ baseUrl: "https://platform.example", accessToken: "t" });
  export const webhooks = createWebhookHandler({
    client, store, verify: false,
    on: { message: () => {
      console.log("callback");
      setInterval(() => {}, 1000);
      return new Promise(() => {});
    } },
  });
  await store.add({
    eventId: "e1", ref: null, source: "webhook", topic: "messages",
    timestamp: new Date().toISOString(), notification: "{}",
  });`;

test("the example exits after store.close(), although a callback ignores its signal and holds a timer", async () => {
  // Inside the package, so that the files find it by its name.
  const directory = join(import.meta.dirname, "generated/shutdown");
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  writeFileSync(join(directory, "webhooks.mjs"), webhooks);
  writeFileSync(join(directory, "app.mjs"), block.replaceAll("3000", String(await freePort())));
  const app = spawn(process.execPath, ["app.mjs"], { cwd: directory, stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => void app.kill("SIGKILL"));
  let said = "";
  for (const stream of [app.stdout, app.stderr])
    stream.on("data", (chunk) => {
      said += chunk;
    });
  await eventually(() => expect(said).toContain("callback"));
  app.kill("SIGTERM");
  const [code] = await once(app, "exit", { signal: AbortSignal.timeout(PATIENCE) });
  expect(code, said).toBe(0);
  expect(said).not.toContain("handled again");
  const db = new DatabaseSync(join(directory, "events.db"));
  expect(db.prepare("SELECT state, attempts FROM stayhook_events").all()).toMatchObject([
    { state: "pending", attempts: 0 },
  ]);
  db.close();
});
