// Gives each stay a code for the door. A timer sets the code at 15:00 on the day of arrival, and another one removes it
// at 11:00 on the day of departure, in the property's time zone. If the stay moves, the code and both timers move with it.
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
import {
  type BookingEvent,
  type BookingStay,
  type BookingTimerEvent,
  createWebhookHandler,
  localTime,
  StayhookClient,
  sharedSecret,
  stayChange,
} from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { createReconciler } from "stayhook/reconcile";
import { sqliteStore } from "stayhook/sqlite";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { HOST = "127.0.0.1", PORT = "3000", EVENTS_DB = "events.db", LISTING_ZONES = "{}" } = process.env;

const zones: Readonly<Record<string, string>> = JSON.parse(LISTING_ZONES);
const store = sqliteStore(EVENTS_DB);

/** Stands for the API of your lock. A call acts on the code of one booking, and a repeated call does no harm. */
const lock = {
  setCode: async (listingId: number, code: string) => console.log(`code for ${code} at ${listingId}`),
  removeCode: async (listingId: number, code: string) => console.log(`no code for ${code} at ${listingId}`),
};

/** Returns when the code of a stay begins and ends. */
function timesOf({ listingId, checkIn, checkOut }: BookingStay) {
  const zone = zones[listingId];
  // The attempt fails, and the log says why. Replay the event after you set the zone.
  if (zone === undefined) throw new Error(`LISTING_ZONES has no zone for listing ${listingId}`);
  return { begins: localTime(checkIn, "15:00", zone), ends: localTime(checkOut, "11:00", zone) };
}

/** Sets the code and the timers of a booking, whatever has happened to it. */
async function sync(event: BookingEvent): Promise<void> {
  event.timers.clear();
  await setCode(event);
  const { to } = stayChange(event);
  if (!to) return;
  const { begins, ends } = timesOf(to);
  event.timers.set("code-begins", begins, { ifPassed: "skip" });
  event.timers.set("code-ends", ends, { ifPassed: "skip" });
}

/** Removes the code at the listing that the guest has left. Sets the code of the stay, or removes it if it is not the time. */
async function setCode(event: BookingEvent | BookingTimerEvent): Promise<void> {
  const { from, to, changed } = stayChange(event);
  // This comes first, because the old code must go even if the new listing has no zone.
  if (from && from.listingId !== to?.listingId) await lock.removeCode(from.listingId, from.bookingCode);
  if (!to) return;
  const { begins, ends } = timesOf(to);
  // The clock of the store, which fires the timers, may be ahead of this machine's clock.
  const now = new Date(Math.max(Date.now(), event.receivedAt.getTime(), event.timer?.at.getTime() ?? 0));
  if (begins <= now && now < ends) await lock.setCode(to.listingId, to.bookingCode);
  // A stay that is first seen too early or too late has no code to remove.
  else if (from && (changed || event.timer)) await lock.removeCode(to.listingId, to.bookingCode);
}

const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  // The platform may send a time in place of a date. Its day is the one in the zone of the listing.
  timeZone: ({ listingId }) => zones[String(listingId)],
  on: {
    booking: sync,
    "booking.timer.code-begins": setCode,
    "booking.timer.code-ends": setCode,
  },
});

// Finds the changes that no notification told, before their time comes.
const reconciler = createReconciler(webhooks, { every: "1h" });
reconciler.start();

const server = createServer(toNodeHandler(webhooks));
webhooks.start(); // so that timers fire after a restart, before the first notification
server.listen(Number(PORT), HOST, () => console.log(`listening on port ${PORT} of ${HOST}`));

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  server.close();
  await reconciler.close();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
  process.exit(); // a callback that ignores its signal may hold a timer
}
