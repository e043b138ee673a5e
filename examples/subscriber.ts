// A subscriber, to copy. Before it gets anything, the platform has to know its URL:
//   await client.webhookConfig.ensure({ endpoints: { bookings: url, listings: url } });  // https://you.example/?key=<secret>
import { createServer } from "node:http";
import { createWebhookHandler, StayhookClient, sharedSecret, stay } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { sqliteStore } from "stayhook/sqlite";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET, PORT = "3000" } = process.env;

const store = sqliteStore(process.env.EVENTS_DB ?? "events.db");
const client = new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN });

const webhooks = createWebhookHandler({
  client,
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  on: {
    "booking.Request": ({ booking, decideBy }) =>
      console.log(`decide on ${booking.bookingCode} by ${decideBy.toISOString()}`),
    "booking.Confirmed": ({ booking }) => console.log(`block ${booking.bookingCode}:`, stay(booking)),
    "booking.Cancelled": ({ booking }) => console.log(`release ${booking.bookingCode}:`, stay(booking)),
    "listing.Published": ({ listing }) => console.log(`listing ${listing.listingId} is live`),
    fallback: (event) => console.log(`nothing to do for ${event.type}`),
  },
});

const server = createServer(toNodeHandler(webhooks));
server.listen(Number(PORT), () => console.log(`listening on port ${PORT}`));

process.once("SIGTERM", async () => {
  server.close();
  await webhooks.close(); // lets the callbacks that run come to their end
  await store.close();
});
