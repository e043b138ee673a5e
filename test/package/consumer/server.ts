// Uses every subpath as a Node server does, with Node types and without web types.
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
import { type ConsoleOptions, createConsole, type WebhookConsole } from "stayhook/console";
import { type AdapterOptions, type NodeHandler, toNodeHandler, type Webhooks } from "stayhook/node";
import { type TelemetryOptions, telemetry } from "stayhook/otel";
import { type SqliteStoreOptions, type SqliteTransaction, sqliteStore } from "stayhook/sqlite";
import type { EventStore } from "stayhook/store";
import { type StoreContractCase, type StoreContractOptions, storeContract } from "stayhook/store/contract";
import {
  createSandbox,
  type Sandbox,
  type SandboxBooking,
  type SandboxBookingFields,
  type SandboxBookings,
  type SandboxDelivery,
  type SandboxDeliveryOptions,
  type SandboxListing,
  type SandboxListingFields,
  type SandboxListings,
  type SandboxOptions,
  type SandboxRequest,
  type SandboxWebhookConfig,
} from "stayhook/testing";

const delivery: SandboxDeliveryOptions = { duplicates: 1, shuffle: true, delay: [0, 10], retry: undefined };
const sandboxOptions: SandboxOptions = { seed: 7, accessToken: undefined, delivery };

export async function day(): Promise<void> {
  const sandbox: Sandbox = createSandbox(sandboxOptions);
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
  const topic: AdapterOptions = { topic: "bookings" };
  const handler: NodeHandler = toNodeHandler(webhooks satisfies Webhooks, topic);
  createServer(handler).listen(3000);
  const consoleOptions: ConsoleOptions = {
    authorize: (request) => request.headers.get("cookie") === "session=support",
    basePath: "/console",
    readOnly: undefined,
  };
  const inbox: WebhookConsole = createConsole(webhooks, consoleOptions);
  createServer(toNodeHandler(inbox)).listen(3001);

  const bookings: SandboxBookings = sandbox.bookings;
  const fields: SandboxBookingFields = { checkIn: "2026-05-01", listingId: undefined, guests: 2 };
  const { bookingCode }: SandboxBooking = await bookings.request(fields);
  await bookings.approve(bookingCode);
  const listings: SandboxListings = sandbox.listings;
  const listing: SandboxListing = await listings.submit({
    listingName: "Loft",
  } satisfies SandboxListingFields);
  await listings.publish(listing.listingId);
  await sandbox.settled();
  const [first]: readonly SandboxDelivery[] = sandbox.deliveries;
  const [asked]: readonly SandboxRequest[] = sandbox.requests;
  const config: SandboxWebhookConfig | undefined = sandbox.webhookConfig;
  console.log(first?.status, asked?.path, config?.endpoints.bookings);

  const response = await webhooks.fetch(new Request("http://localhost", { method: "POST", body: "{}" }));
  console.log(
    response.status,
    await webhooks.receive({ method: "POST", url: "/", headers: {}, body: Buffer.from("{}") }),
  );
  await sandbox.close();
}

const contract: StoreContractOptions<EventStore> = { unit: undefined, reopen: (store) => store };
export const cases: readonly StoreContractCase[] = storeContract(() => memoryStore(), contract);

const tracing: TelemetryOptions = { tracer: undefined, meter: undefined };
export const otel: Telemetry = telemetry(tracing);

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

const durable: SqliteStoreOptions = { durability: "process-crash", busyTimeout: undefined };
createWebhookHandler({
  client,
  store: sqliteStore("events.db", durable),
  on: {
    "booking.Confirmed": ({ atomically }) => atomically((tx) => tx.exec("insert")),
    // @ts-expect-error remove async
    "booking.Cancelled": ({ atomically }) => atomically(async (tx) => tx.exec("delete")),
  },
});
export const insert = (tx: SqliteTransaction): unknown => tx.prepare("insert").run();
