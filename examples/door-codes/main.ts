// Gives each stay a code for the door, from 15:00 on the day of arrival until 11:00 on the day of departure, in the time zone
// of the house. If the stay moves, the code moves with it. If it ends, the code ends.
//
//   npm install stayhook
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node main.ts
//
// Tell the platform the address once:
//   await client.webhookConfig.ensure({ endpoints: { bookings: url } }); // https://you.example/hooks?key=<secret>
//
// Also taken from the environment: HOST (127.0.0.1), PORT (3000), EVENTS_DB (events.db), and LISTING_ZONES, a JSON
// object from listing id to time zone: {"5717008":"Europe/Lisbon"}.
import { createServer } from "node:http";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { createReconciler } from "stayhook/reconcile";
import { sqliteStore } from "stayhook/sqlite";
import { createStays, hold } from "stayhook/stays";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { HOST = "127.0.0.1", PORT = "3000", EVENTS_DB = "events.db", LISTING_ZONES = "{}" } = process.env;

const zones: Readonly<Record<string, string>> = JSON.parse(LISTING_ZONES);
const store = sqliteStore(EVENTS_DB);

/** Stands for the API of your lock. A call acts on the code of one booking, and a repeated call does no harm. */
const lock = {
  setCode: async (listingId: number, code: string) => console.log(`code for ${code} at ${listingId}`),
  removeCode: async (listingId: number, code: string) => console.log(`no code for ${code} at ${listingId}`),
};

const stays = createStays({
  want: ({ checkIn, checkOut }, { at }) => [
    hold("door-code", { from: at(checkIn, "15:00"), until: at(checkOut, "11:00") }),
  ],
  apply: {
    "door-code": {
      begin: ({ stay }) => lock.setCode(stay.listingId, stay.bookingCode),
      end: ({ stay }) => lock.removeCode(stay.listingId, stay.bookingCode),
    },
  },
});

const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  // Without the zone of a house, its code waits, and the log names the house. Replay the event after you set the zone.
  timeZone: ({ listingId }) => zones[String(listingId)],
  stays,
  on: {},
});

// Finds the changes that no notification told, before their time comes.
const reconciler = createReconciler(webhooks, { every: "1h" });
reconciler.start();

const server = createServer(toNodeHandler(webhooks));
webhooks.start(); // so that codes begin and end after a restart, before the first notification
server.listen(Number(PORT), HOST, () => console.log(`listening on port ${PORT} of ${HOST}`));

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  server.close();
  await reconciler.close();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
  process.exit(); // a callback that ignores its signal may hold a timer
}
