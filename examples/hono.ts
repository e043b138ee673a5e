// A subscriber in Hono, on Node.
//   npm install stayhook hono @hono/node-server
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node hono.ts
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { sqliteStore } from "stayhook/sqlite";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { HOST = "127.0.0.1", PORT = "3000" } = process.env;

// Stands for your calendar. It keeps one stay for each booking code, so that a moved stay replaces the old one.
const calendar = {
  set: (bookingCode: string, stay: unknown) => console.log("block", bookingCode, JSON.stringify(stay)),
  delete: (bookingCode: string) => console.log("release", bookingCode),
};

const store = sqliteStore(process.env.EVENTS_DB ?? "events.db");
const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  on: {
    "booking.Confirmed": ({ booking, stayChange }) => calendar.set(booking.bookingCode, stayChange.to),
    "booking.Cancelled": ({ booking }) => calendar.delete(booking.bookingCode),
    "booking.Declined": ({ booking }) => calendar.delete(booking.bookingCode),
    "booking.gone": ({ booking }) => calendar.delete(booking.bookingCode),
    "listing.Published": ({ listing }) => console.log("live", listing.listingId),
  },
});

webhooks.start(); // processes events that a crash left behind

const app = new Hono();
app.all("/hooks", (c) => webhooks.fetch(c.req.raw));
app.post("/echo", async (c) => c.json(await c.req.json())); // the rest of your app

const server = serve(
  {
    fetch: app.fetch,
    hostname: HOST,
    port: Number(PORT),
    serverOptions: { keepAliveTimeout: 75_000 }, // longer than a load balancer keeps idle connections
  },
  () => console.log(`listening on port ${PORT} of ${HOST}`),
);

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  server.close();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
  process.exit(); // a callback that ignores its signal may hold a timer
}
