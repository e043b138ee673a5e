// Orders a cleaning at 11:00 on the day of each departure, or at once if the guest leaves a house early. If a stay moves, its
// cleaning moves, too. A stay that is cancelled before the arrival needs none. The orders and the events are in one SQLite
// file, so that a crash orders nothing twice.
//
//   npm install stayhook
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node main.ts
//
// Tell the platform the address once:
//   await client.webhookConfig.ensure({ endpoints: { bookings: url } }); // https://you.example/hooks?key=<secret>
//
// Also taken from the environment: HOST (127.0.0.1), PORT (3000), EVENTS_DB (events.db), and TIME_ZONE (UTC): the zone of
// your houses, such as Europe/Paris.
import { createServer } from "node:http";
import { DatabaseSync } from "node:sqlite";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { createReconciler } from "stayhook/reconcile";
import { sqliteStore } from "stayhook/sqlite";
import { createStays, once } from "stayhook/stays";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { HOST = "127.0.0.1", PORT = "3000", EVENTS_DB = "events.db", TIME_ZONE = "UTC" } = process.env;

const store = sqliteStore(EVENTS_DB);
const db = new DatabaseSync(EVENTS_DB);
db.exec("PRAGMA busy_timeout = 5000");
db.exec(`CREATE TABLE IF NOT EXISTS cleanings
  (id TEXT PRIMARY KEY, bookingCode TEXT, listingId INTEGER, orderedAt TEXT) STRICT`);

const stays = createStays({
  want: ({ checkIn, checkOut }, { at }) => [
    once("cleaning", { at: at(checkOut, "11:00"), owedFrom: at(checkIn, "15:00") }),
  ],
  apply: {
    cleaning: ({ stay: { bookingCode, listingId }, id, isEarly, atomically }) =>
      atomically((tx: DatabaseSync) => {
        const orderedAt = new Date().toISOString();
        tx.prepare("INSERT INTO cleanings VALUES (?, ?, ?, ?)").run(id, bookingCode, listingId, orderedAt);
        console.log(`clean ${listingId} after ${bookingCode}${isEarly ? ": the guest has left early" : ""}`);
      }),
  },
});

const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  timeZone: TIME_ZONE,
  stays,
  on: {},
});

// Finds changes that no notification has reported.
const reconciler = createReconciler(webhooks, { every: "6h" });
reconciler.start();

const server = createServer(toNodeHandler(webhooks));
webhooks.start(); // so that cleanings are ordered after a restart, before the first notification
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
