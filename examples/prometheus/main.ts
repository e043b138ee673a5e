// Measures a handler for Prometheus. Each observation counts, and each scrape reads the handler's health. The alerts
// for these metrics are in alerts.yml.
//
//   npm install stayhook prom-client
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node main.ts
//
// Tell the platform the address once:
//   await client.webhookConfig.ensure({ endpoints: url }); // https://you.example/hooks?key=<secret>
//
// Also taken from the environment: HOST (127.0.0.1), PORT (3000), EVENTS_DB (events.db), RECONCILE_EVERY (6h),
// ENDPOINT_URL (https://you.example/hooks, without the secret), with which each pass compares the configured URL, and
// METRICS_PORT (9464), where Prometheus finds /metrics. Keep that port away from the internet.
import { createServer } from "node:http";
import { collectDefaultMetrics, Registry } from "prom-client";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { createReconciler } from "stayhook/reconcile";
import { sqliteStore } from "stayhook/sqlite";
import { createGauges, createMetrics } from "./metrics.ts";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { HOST = "127.0.0.1", PORT = "3000", METRICS_PORT = "9464" } = process.env;
const { EVENTS_DB = "events.db", RECONCILE_EVERY = "6h", ENDPOINT_URL } = process.env;

const registry = new Registry();
collectDefaultMetrics({ register: registry });

const store = sqliteStore(EVENTS_DB);
const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  on: {
    "booking.Confirmed": ({ booking }) => console.log(`block ${booking.bookingCode}`),
    "booking.Cancelled": ({ booking }) => console.log(`release ${booking.bookingCode}`),
    "booking.Declined": ({ booking }) => console.log(`release ${booking.bookingCode}`),
    "booking.gone": ({ booking }) => console.log(`release ${booking.bookingCode}`),
    "listing.Published": ({ listing }) => console.log(`live ${listing.listingId}`),
  },
  observe: createMetrics(registry),
  silentAfter: 24 * 60 * 60_000,
});
const setGauges = createGauges(registry, webhooks, store);

// The handler's observe gets the reconciler's alarms: missed and drift. Without the expected URL, there is no drift but
// a configuration that is off or missing.
const reconciler = createReconciler(webhooks, {
  every: RECONCILE_EVERY,
  expectedEndpoints: ENDPOINT_URL ? await webhooks.endpointUrl(ENDPOINT_URL) : undefined,
});
reconciler.start();

const server = createServer(toNodeHandler(webhooks));
server.listen(Number(PORT), HOST, () => console.log(`listening on port ${PORT} of ${HOST}`));

const metricsServer = createServer(async (request, response) => {
  if (!/^\/metrics(?=\?|$)/.test(request.url ?? "")) return void response.writeHead(404).end();
  try {
    await setGauges();
    response.setHeader("content-type", registry.contentType).end(await registry.metrics());
  } catch (error) {
    console.error("the metrics could not be read", error);
    response.writeHead(500).end();
  }
});
metricsServer.listen(Number(METRICS_PORT), HOST);

for (const signal of ["SIGINT", "SIGTERM"])
  process.once(signal, async () => {
    server.close();
    metricsServer.close();
    await reconciler.close();
    await webhooks.close(); // lets running callbacks finish
    await store.close();
    process.exit(); // a callback that ignores its signal may hold a timer
  });
