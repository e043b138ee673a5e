import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { StayhookClient } from "../../../src/client/client.ts";
import type { Booking, Listing } from "../../../src/models/records.ts";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import type { WebhookCallbacks } from "../../../src/webhooks/events.ts";
import { createWebhookHandler } from "../../../src/webhooks/handler.ts";
import { eventOf } from "../event.ts";
import { createFiles } from "./support.ts";

const files = createFiles();

/** Makes a handler with its own database. The platform confirms each booking. */
function received(on: WebhookCallbacks<Booking, Listing, DatabaseSync> = {}) {
  const db = new DatabaseSync(files.path());
  const store = sqliteStore(db, { durability: "process-crash", busyTimeout: 50 });
  const client = new StayhookClient({
    baseUrl: "https://platform.test",
    accessToken: "token",
    fetch: async () => Response.json({ bookingCode: "HM1", status: "Confirmed" }),
  });
  const webhooks = createWebhookHandler({
    client,
    store,
    on,
    logger: () => {},
    autoStart: false,
    maxBodyBytes: 65_536,
  });
  const receive = async (text = "", eventId = eventOf().eventId) => {
    const body = JSON.stringify({ eventId, bookingCode: "HM1", timestamp: "2026-03-01T10:00:00Z", text });
    return (await webhooks.receive({ method: "POST", url: "/", headers: {}, body })).status;
  };
  const close = async () => {
    await webhooks.close();
    await store.close();
    if (db.isOpen) db.close();
  };
  return { db, store, webhooks, receive, close };
}

test("a notification gets 503 while the disk is full, and recorded events are kept", async () => {
  const { db, store, receive, close } = received();
  expect(await receive()).toBe(200);
  const { page_count } = db.prepare("PRAGMA page_count").get() as { page_count: number };
  db.exec(`PRAGMA max_page_count = ${page_count}`);
  const answers = await Promise.all(Array.from({ length: 5 }, () => receive("x".repeat(30_000))));
  expect(answers).toEqual(Array(5).fill(503));
  db.exec("PRAGMA max_page_count = 1000000");
  expect(await receive("x".repeat(30_000))).toBe(200);
  expect(await store.counts()).toMatchObject({ pending: 2 });
  await close();
});

test("a write of event.atomically that returns a promise fails the attempt, and commits nothing", async () => {
  const { db, store, webhooks, receive, close } = received({
    "booking.Confirmed": ({ atomically }) => {
      atomically(async (tx) => {
        tx.exec("INSERT INTO nights VALUES ('2026-03-01')");
      });
    },
  });
  db.exec("CREATE TABLE nights (day TEXT)");
  const { eventId } = eventOf();
  expect(await receive("", eventId)).toBe(200);
  expect(await webhooks.drain()).toEqual({ done: 0, failed: 1 });
  expect(await store.get(eventId)).toMatchObject({
    state: "retrying",
    attempts: 1,
    reason: "callback",
    history: [{ error: expect.stringContaining("must be synchronous") }],
  });
  expect(db.prepare("SELECT * FROM nights").all()).toEqual([]);
  await close();
});
