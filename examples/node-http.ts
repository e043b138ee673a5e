// A subscriber on node:http.
//   npm install stayhook
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node node-http.ts
// Tell the platform the URL https://you.example/hooks?key=<the secret> with client.webhookConfig.ensure.
import { createServer } from "node:http";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { toNodeHandler } from "stayhook/node";
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
    "booking.Request": ({ booking, decideBy }) =>
      console.log("decide on", booking.bookingCode, "by", decideBy?.toISOString()),
    "booking.Confirmed": ({ booking, stayChange }) => calendar.set(booking.bookingCode, stayChange.to),
    "booking.Cancelled": ({ booking }) => calendar.delete(booking.bookingCode),
    "booking.Declined": ({ booking }) => calendar.delete(booking.bookingCode),
    "booking.gone": ({ booking }) => calendar.delete(booking.bookingCode),
    "listing.Published": ({ listing }) => console.log("live", listing.listingId),
    fallback: (event) => console.log("nothing to do for", event.type),
  },
});

const takeNotification = toNodeHandler(webhooks);
const server = createServer((request, response) => {
  if (request.url?.startsWith("/hooks")) return takeNotification(request, response);
  response.end("Hello\n"); // the rest of your app
});
server.listen(Number(PORT), HOST, () => console.log(`listening on port ${PORT} of ${HOST}`));
server.keepAliveTimeout = 75_000; // longer than a load balancer keeps idle connections

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  server.close();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
  process.exit(); // a callback that ignores its signal may hold a timer
}
