// Plans one cleaning for the day of each departure. If a booking moves, its cleaning moves too. A Cancelled booking
// needs none. The plan and the events are in one SQLite file, so a crash plans nothing twice.
//
//   npm install stayhook
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node main.ts
//
// Tell the platform the address once:
//   await client.webhookConfig.ensure({ endpoints: { bookings: url } }); // https://you.example/hooks?key=<secret>
//
// Also taken from the environment: PORT (3000) and EVENTS_DB (events.db).
import { createServer } from "node:http";
import { DatabaseSync } from "node:sqlite";
import { createWebhookHandler, listingIdOf, StayhookClient, sharedSecret, stay } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { createReconciler } from "stayhook/reconcile";
import { sqliteStore } from "stayhook/sqlite";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { PORT = "3000", EVENTS_DB = "events.db" } = process.env;

const store = sqliteStore(EVENTS_DB);
const db = new DatabaseSync(EVENTS_DB);
db.exec("PRAGMA busy_timeout = 5000");
db.exec(
  "CREATE TABLE IF NOT EXISTS cleanings (bookingCode TEXT PRIMARY KEY, listingId INTEGER, day TEXT) STRICT",
);

const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  // Skip notifications that change neither the status, nor the dates, nor the listing.
  skipUnchanged: true,
  on: {
    "booking.Confirmed": ({ booking, changes, atomically }) => {
      const { bookingCode } = booking;
      const day = stay(booking).checkOut;
      atomically((tx) =>
        tx
          .prepare("INSERT OR REPLACE INTO cleanings VALUES (?, ?, ?)")
          .run(bookingCode, listingIdOf(booking), day),
      );
      const before = changes.checkOut?.from;
      if (before === undefined) console.log(`clean ${bookingCode} on ${day}`);
      else console.log(`clean ${bookingCode} on ${day}, and not on ${before}`);
    },
    "booking.Cancelled": ({ booking: { bookingCode }, atomically }) => {
      atomically((tx) => tx.prepare("DELETE FROM cleanings WHERE bookingCode = ?").run(bookingCode));
      console.log(`no cleaning for ${bookingCode}`);
    },
  },
});

// Finds changes that no notification has reported.
const reconciler = createReconciler(webhooks, { every: "6h" });
reconciler.start();

const server = createServer(toNodeHandler(webhooks));
server.listen(Number(PORT), "127.0.0.1", () => console.log(`listening on port ${PORT}`));

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  server.close();
  await reconciler.close();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
  db.close();
}
