// A subscriber that looks once a day for changes that no notification has reported.
//   npm install stayhook
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node reconcile.ts
// `node reconcile.ts once` makes one pass and exits. Use it as a cron job if the app runs elsewhere.
import { createServer } from "node:http";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { createReconciler } from "stayhook/reconcile";
import { sqliteStore } from "stayhook/sqlite";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { HOST = "127.0.0.1", PORT = "3000" } = process.env;

const client = new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN });
const store = sqliteStore(process.env.EVENTS_DB ?? "events.db");
const webhooks = createWebhookHandler({
  client,
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  on: {
    "booking.Confirmed": ({ booking, stayChange, source }) =>
      console.log("block", booking.bookingCode, JSON.stringify(stayChange.to), source),
    "booking.Cancelled": ({ booking, source }) => console.log("release", booking.bookingCode, source),
    "booking.Declined": ({ booking, source }) => console.log("release", booking.bookingCode, source),
    "booking.gone": ({ booking, source }) => console.log("release", booking.bookingCode, source),
    "listing.Published": ({ listing, source }) => console.log("live", listing.listingId, source),
    "listing.Hidden": ({ listing, source }) => console.log("hidden", listing.listingId, source),
  },
});

const reconciler = createReconciler(webhooks, {
  every: "24h",
  observe: (event) => {
    if (event.kind === "pass")
      console.log(`checked ${event.checked}, changed ${event.changed}, failed ${event.failed}`);
  },
});

if (process.argv[2] === "once") {
  const { failed } = await reconciler.run();
  if (failed > 0) process.exitCode = 1;
  await end();
} else {
  const server = createServer(toNodeHandler(webhooks));
  server.listen(Number(PORT), HOST, () => console.log(`listening on port ${PORT} of ${HOST}`));
  reconciler.start();
  for (const signal of ["SIGINT", "SIGTERM"])
    process.once(signal, async () => {
      server.close();
      await end();
    });
}

async function end() {
  await reconciler.close(); // the next start continues an interrupted pass
  await webhooks.close();
  await store.close();
}
