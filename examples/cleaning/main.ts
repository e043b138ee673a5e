// Plans one cleaning for the day of each departure. If a stay moves, its cleaning moves too. A stay that was cancelled or
// declined needs none. The plan and the events are in one SQLite file, so a crash plans nothing twice.
//
//   npm install stayhook
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node main.ts
//
// Tell the platform the address once:
//   await client.webhookConfig.ensure({ endpoints: { bookings: url } }); // https://you.example/hooks?key=<secret>
//
// Also taken from the environment: HOST (127.0.0.1), PORT (3000), EVENTS_DB (events.db), and TIME_ZONE, such as
// Europe/Paris, if the platform sends times in place of dates.
import { createServer } from "node:http";
import { DatabaseSync } from "node:sqlite";
import { createWebhookHandler, StayhookClient, sharedSecret, stayChange } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { createReconciler } from "stayhook/reconcile";
import { sqliteStore } from "stayhook/sqlite";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { HOST = "127.0.0.1", PORT = "3000", EVENTS_DB = "events.db", TIME_ZONE } = process.env;

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
  timeZone: TIME_ZONE,
  // Skip notifications that change neither the status, nor the dates, nor the listing.
  skipUnchanged: true,
  on: {
    booking: (event) => {
      const { from, to, changed } = stayChange(event);
      const { bookingCode } = event.booking;
      event.atomically((tx) => {
        if (to) {
          const plan = tx.prepare("INSERT OR REPLACE INTO cleanings VALUES (?, ?, ?)");
          plan.run(bookingCode, to.listingId, to.checkOut);
        } else tx.prepare("DELETE FROM cleanings WHERE bookingCode = ?").run(bookingCode);
      });
      if (!changed) return;
      if (!to) console.log(`no cleaning for ${bookingCode}`);
      else if (!from || from.checkOut === to.checkOut) console.log(`clean ${bookingCode} on ${to.checkOut}`);
      else console.log(`clean ${bookingCode} on ${to.checkOut}, and not on ${from.checkOut}`);
    },
  },
});

// Finds changes that no notification has reported.
const reconciler = createReconciler(webhooks, { every: "6h" });
reconciler.start();

const server = createServer(toNodeHandler(webhooks));
server.listen(Number(PORT), HOST, () => console.log(`listening on port ${PORT} of ${HOST}`));

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  server.close();
  await reconciler.close();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
  db.close();
  process.exit(); // a callback that ignores its signal may hold a timer
}
