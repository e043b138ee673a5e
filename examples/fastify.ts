// A subscriber in Fastify.
//   npm install stayhook fastify
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node fastify.ts
import fastify from "fastify";
import { createWebhookHandler, StayhookClient, sharedSecret, stay } from "stayhook";
import { toFastifyPlugin } from "stayhook/fastify";
import { sqliteStore } from "stayhook/sqlite";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET, PORT = "3000" } = process.env;

const store = sqliteStore(process.env.EVENTS_DB ?? "events.db");
const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  on: {
    "booking.Confirmed": ({ booking }) => console.log("block", booking.bookingCode, stay(booking)),
    "booking.Cancelled": ({ booking }) => console.log("release", booking.bookingCode, stay(booking)),
    "listing.Published": ({ listing }) => console.log("live", listing.listingId),
  },
});

const app = fastify();
app.register(toFastifyPlugin(webhooks), { prefix: "/hooks" }); // the plugin has its own body parser
app.post("/echo", async (request) => request.body); // the rest of your app

await app.listen({ host: "127.0.0.1", port: Number(PORT) });
console.log(`listening on port ${PORT}`);

process.once("SIGTERM", async () => {
  await app.close();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
});
