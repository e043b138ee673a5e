// Uses the subpaths as a Node server does, with Node types and without web types.
import { createServer } from "node:http";
import {
  createWebhookHandler,
  memoryStore,
  StayhookClient,
  StayhookError,
  sharedSecret,
  stay,
  type Telemetry,
} from "stayhook";
import { createConsole } from "stayhook/console";
import { toNodeHandler } from "stayhook/node";
import { telemetry } from "stayhook/otel";
import { type SqliteTransaction, sqliteStore } from "stayhook/sqlite";
import type { EventStore } from "stayhook/store";
import { storeContract } from "stayhook/store/contract";
import { createSandbox } from "stayhook/testing";

export async function day(): Promise<void> {
  const delivery = { duplicates: 1, shuffle: true, retry: undefined };
  const sandbox = createSandbox({ seed: 7, accessToken: undefined, delivery });
  const { url } = await sandbox.listen({ port: 0 });
  const client = new StayhookClient({ baseUrl: url, accessToken: sandbox.accessToken });
  const webhooks = createWebhookHandler({
    client,
    store: memoryStore(),
    verify: sharedSecret({ query: "key", secret: process.env.WEBHOOK_SECRET }),
    on: {
      "booking.Request": ({ booking, decideBy }) => console.log(booking.bookingCode, decideBy?.toISOString()),
      "booking.Confirmed": async ({ booking }) => void stay(booking),
      fallback: ({ type, notification }) => console.log(type, notification?.timestamp),
    },
  });
  createServer(toNodeHandler(webhooks, { topic: "bookings" })).listen(3000);
  const authorize = (request: Request) => request.headers.get("cookie") === "session=support";
  const inbox = createConsole(webhooks, { authorize, basePath: "/console", readOnly: undefined });
  createServer(toNodeHandler(inbox)).listen(3001);

  const { bookings, listings } = sandbox;
  const fields = { checkIn: "2026-05-01", listingId: undefined, guests: 2 };
  const { bookingCode } = await bookings.request(fields);
  await bookings.approve(bookingCode);
  const { listingId } = await listings.submit({ listingName: "Loft" });
  await listings.publish(listingId);
  await sandbox.settled();
  const { deliveries, requests, webhookConfig } = sandbox;
  console.log(deliveries[0]?.status, requests[0]?.path, webhookConfig?.endpoints.bookings);

  const response = await webhooks.fetch(new Request("http://localhost", { method: "POST", body: "{}" }));
  console.log(
    response.status,
    await webhooks.receive({ method: "POST", url: "/", headers: {}, body: Buffer.from("{}") }),
  );
  await sandbox.close();
}

export const cases = storeContract(() => memoryStore(), { unit: undefined, reopen: (store) => store });
export const otel: Telemetry = telemetry({ tracer: undefined, meter: undefined });

export class OwnError extends StayhookError {}
/** A user's own store, which has transactions. */
declare const database: EventStore<{ run(sql: string): void }>;
const client = new StayhookClient({ baseUrl: "https://api.example.com", accessToken: "token" });
createWebhookHandler({
  client,
  store: database,
  on: { "booking.Confirmed": ({ atomically }) => atomically((tx) => tx.run("insert")) },
});
storeContract(() => database);

createWebhookHandler({
  client,
  store: sqliteStore("events.db", { durability: "process-crash", busyTimeout: undefined }),
  on: {
    "booking.Confirmed": ({ atomically }) => atomically((tx) => tx.exec("insert")),
    // @ts-expect-error remove async
    "booking.Cancelled": ({ atomically }) => atomically(async (tx) => tx.exec("delete")),
  },
});
export const insert = (tx: SqliteTransaction): unknown => tx.prepare("insert").run();
