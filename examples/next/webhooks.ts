import { createWebhookHandler, StayhookClient, sharedSecret, stay } from "stayhook";
import { sqliteStore } from "stayhook/sqlite";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET, EVENTS_DB } = process.env;

export const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  // Without a disk, as on Vercel, use postgresStore or redisStore.
  store: sqliteStore(EVENTS_DB ?? "events.db"),
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  on: {
    "booking.Confirmed": ({ booking }) => console.log("block", booking.bookingCode, stay(booking)),
    "booking.Cancelled": ({ booking }) => console.log("release", booking.bookingCode, stay(booking)),
    "listing.Published": ({ listing }) => console.log("live", listing.listingId),
  },
});
