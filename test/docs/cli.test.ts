import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { sqliteStore } from "stayhook/sqlite";
import { expect, onTestFinished, test } from "vitest";
import { cli, platform, start } from "../cli/support.ts";
import { eventually } from "../support/eventually.ts";

const text = readFileSync(new URL("../../docs/cli.md", import.meta.url), "utf8");
const lines = [...text.matchAll(/```sh\n([\s\S]*?)```/g)]
  .flatMap(([, block = ""]) => block.trim().split("\n"))
  .filter((line) => line.startsWith("npx stayhook "));

const eventId = "6f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11";

/** Splits a command line into words as a shell does. */
const words = (line: string) =>
  [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, bare]) => double ?? single ?? bare ?? "",
  );

/** Sets up a subscriber with a parked event, and a platform with the records that the commands read. */
async function account() {
  const directory = mkdtempSync(join(tmpdir(), "stayhook-cli-docs-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const file = join(directory, "events.db");
  const { sandbox, env } = await platform();
  await sandbox.bookings.create({ bookingCode: "HX3K9", status: "Confirmed" });
  await sandbox.listings.create({ listingId: 5717008, status: "Published" });
  const store = sqliteStore(file, { durability: "process-crash" });
  const webhooks = createWebhookHandler({
    client: new StayhookClient({ baseUrl: sandbox.url, accessToken: sandbox.accessToken }),
    store,
    verify: sharedSecret({ query: "key", secret: "s3cret" }),
    on: {
      "booking.Confirmed": () => {
        throw new Error("not yet");
      },
    },
    maxAttempts: 1,
    autoStart: false,
    logger: { debug() {}, info() {}, warn() {}, error() {} },
  });
  const server = createServer(toNodeHandler(webhooks));
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(async () => {
    server.close();
    await webhooks.close();
    await store.close();
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks?key=s3cret`;
  const body = JSON.stringify({
    eventId,
    timestamp: "2026-11-21T10:00:00Z",
    bookingCode: "HX3K9",
    listingId: null,
  });
  await fetch(endpoint, { method: "POST", body });
  await webhooks.drain();
  return { env, file, endpoint, webhooks, body };
}

test("every command of docs/cli.md does what the text says", async () => {
  const { env, file, endpoint, webhooks, body } = await account();
  const adapted = (line: string) =>
    words(line)
      .slice(2)
      .map((word) =>
        /^((new-)?events\.db|my-app|tokens\.json)$/.test(word)
          ? join(dirname(file), word)
          : word.replace(/^https?:\/\/[^/]+\/hooks\?.*/, endpoint),
      );
  writeFileSync(join(dirname(file), "tokens.json"), JSON.stringify({ a17: env.STAYHOOK_ACCESS_TOKEN }));
  const ran: string[] = [];
  for (const line of lines) {
    const args = adapted(line);
    // The document deletes the configuration earlier, but these two commands need one.
    if (args[0] === "doctor" || args[0] === "trigger")
      await start(
        ["config", "ensure", "--bookings", endpoint, "--listings", endpoint, "--messages", endpoint],
        {
          env,
        },
      ).ended;
    // The next command needs a parked event, so send the notification again.
    if (args[0] === "events") {
      await fetch(endpoint, { method: "POST", body });
      await webhooks.drain();
    }
    if (args[0] === "listen") {
      const running = start(args, { env });
      await eventually(() => expect(running.stderr()).toContain("Forwarding new notifications"));
      running.interrupt();
      expect((await running.ended).code).toBe(0);
    } else if (args[0] === "console") {
      const running = start([...args, "--port", "0"], { env });
      await eventually(() => expect(running.stdout()).toContain("?token="));
      running.interrupt();
      expect((await running.ended).code).toBe(0);
    } else if (args[0] === "sandbox") {
      const running = start([...args, "--port", "0"], { env });
      await eventually(() => expect(running.stdout()).toContain("listens on"));
      running.type("book");
      await eventually(() => expect(running.stdout().match(/-> bookings .*: 200 in/g)).toHaveLength(2));
      running.type("quit");
      expect((await running.ended).code).toBe(0);
    } else {
      const { code, stderr } = await start(args, { env }).ended;
      expect({ line, code, stderr: code === 0 ? "" : stderr }).toEqual({ line, code: 0, stderr: "" });
    }
    ran.push(args[0] ?? "");
  }
  expect(new Set(ran)).toEqual(
    new Set([
      "init",
      "erase",
      "config",
      "listings",
      "booking",
      "doctor",
      "trigger",
      "sandbox",
      "listen",
      "events",
      "console",
      "copy",
      "reconcile",
    ]),
  );
});

test("docs/cli.md has the exit codes of the help", async () => {
  const { stdout } = await cli(["--help"]);
  const listed = [...text.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => code);
  expect(listed).toEqual([...stdout.matchAll(/^ {2}(\d+) +\w/gm)].map(([, code]) => code));
});
