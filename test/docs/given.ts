import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import express from "express";
import { fastify } from "fastify";
import { Hono } from "hono";
import { createWebhookHandler, memoryStore, StayhookClient, stay, type WebhookHandler } from "stayhook";
import { toFastifyPlugin } from "stayhook/fastify";
import { toNodeHandler } from "stayhook/node";
import { sqliteStore } from "stayhook/sqlite";
import { createSandbox } from "stayhook/testing";

/** What the text around a block has introduced: a client on a sandbox, a handler, the user's own functions. */
export async function makeGiven() {
  const sandbox = createSandbox({ seed: 1 });
  const { url: platformUrl } = await sandbox.listen();
  await sandbox.bookings.create({
    bookingCode: "HX3K9",
    status: "Confirmed",
    guestName: "Ann",
    checkIn: "2026-07-01",
    checkOut: "2026-07-04",
  });
  await sandbox.listings.create({ listingId: 5717008, status: "Published", listingName: "By the sea" });
  const client = new StayhookClient({ baseUrl: platformUrl, accessToken: sandbox.accessToken });
  const store = memoryStore();
  const webhooks = createWebhookHandler({ client, store, on: {}, autoStart: false });
  const server = createServer(toNodeHandler(webhooks)).listen(0);
  await once(server, "listening");
  const afterwards: (() => unknown)[] = [];
  const directory = mkdtempSync(join(tmpdir(), "stayhook-docs-"));
  const made: WebhookHandler[] = [];
  const making = ((options: Parameters<typeof createWebhookHandler>[0]) => {
    const handler = createWebhookHandler(options) as WebhookHandler;
    made.push(handler);
    return handler;
  }) as typeof createWebhookHandler;
  return {
    platform: sandbox,
    platformUrl,
    client,
    store,
    webhooks,
    app: express(),
    hono: new Hono(),
    fastify: fastify(),
    toFastifyPlugin,
    toNodeHandler,
    createWebhookHandler: making,
    /** The handlers that the block has made. */
    made,
    StayhookClient,
    sqliteStore,
    stay,
    /** A file that is not there yet. */
    database: join(directory, "events.db"),
    backup: join(directory, "backup.db"),
    server,
    subscriberUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`,
    readTokenFromVault: () => sandbox.accessToken,
    after: (task: () => unknown) => void afterwards.push(task),
    afterwards,
    async end() {
      for (const handler of [webhooks, ...made]) await handler.close({ timeout: 0 });
      server.close();
      server.closeAllConnections();
      await sandbox.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

export type Given = Awaited<ReturnType<typeof makeGiven>>;
