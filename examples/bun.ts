// A subscriber on Bun.
//   bun add stayhook
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… bun bun.ts
import { createWebhookHandler, StayhookClient, sharedSecret, stay } from "stayhook";
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

webhooks.start(); // processes events that a crash left behind

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: Number(PORT),
  routes: {
    "/hooks": (request: Request) => webhooks.fetch(request),
    "/echo": async (request: Request) => Response.json(await request.json()), // the rest of your app
  },
});
console.log(`listening on port ${PORT}`);

process.once("SIGTERM", async () => {
  await server.stop();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
});
