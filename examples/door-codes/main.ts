// Gives each confirmed booking a code for the door. A timer sets the code at 15:00 on the day of arrival, and another one
// removes it at 11:00 on the day of departure, in the property's time zone. Both move with the booking.
//
//   npm install stayhook
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node main.ts
//
// Tell the platform the address once:
//   await client.webhookConfig.ensure({ endpoints: { bookings: url } }); // https://you.example/hooks?key=<secret>
//
// Also taken from the environment: PORT (3000), EVENTS_DB (events.db), and LISTING_ZONES, a JSON object from listing id
// to time zone: {"5717008":"Europe/Lisbon"}.
import { createServer } from "node:http";
import {
  type Booking,
  createWebhookHandler,
  listingIdOf,
  localTime,
  StayhookClient,
  sharedSecret,
  stay,
} from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { sqliteStore } from "stayhook/sqlite";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { PORT = "3000", EVENTS_DB = "events.db", LISTING_ZONES = "{}" } = process.env;

const zones: Readonly<Record<string, string>> = JSON.parse(LISTING_ZONES);
const store = sqliteStore(EVENTS_DB);

/** Stands for the API of your lock. A repeated call does no harm. */
const lock = {
  setCode: async (listingId: number, code: string) => console.log(`code for ${code} at ${listingId}`),
  removeCode: async (listingId: number, code: string) => console.log(`no code for ${code} at ${listingId}`),
};

/** Returns when the code of a booking begins and ends. */
function timesOf(booking: Booking) {
  const timeZone = zones[listingIdOf(booking)];
  // The attempt fails, and the log says why. Replay the event after you set the zone.
  if (timeZone === undefined) throw new Error(`LISTING_ZONES has no zone for listing ${booking.listingId}`);
  const { checkIn, checkOut } = stay(booking, { timeZone });
  return { from: localTime(checkIn, "15:00", timeZone), until: localTime(checkOut, "11:00", timeZone) };
}

/** Sets or removes the code, whatever happened before. */
async function sync(booking: Booking): Promise<void> {
  const [listingId, now] = [listingIdOf(booking), new Date()];
  const { from, until } = timesOf(booking);
  const isStaying = booking.status === "Confirmed" && from <= now && now < until;
  await (isStaying ? lock.setCode : lock.removeCode)(listingId, booking.bookingCode);
}

/** Removes the code at the listing that the booking has moved away from. */
async function leave(from: unknown, { listingId, bookingCode }: Booking): Promise<void> {
  if (typeof from === "number" && from !== Number(listingId)) await lock.removeCode(from, bookingCode);
}

const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  on: {
    "booking.Confirmed": async ({ booking, previous, timers }) => {
      const { from, until } = timesOf(booking);
      timers.set("code-begins", from);
      timers.set("code-ends", until);
      await leave(previous?.listingId, booking);
      await sync(booking);
    },
    "booking.Cancelled": async ({ booking, previous, timers }) => {
      timers.clear();
      await leave(previous?.listingId, booking);
      await lock.removeCode(listingIdOf(booking), booking.bookingCode);
    },
    "booking.timer.code-begins": ({ booking }) => sync(booking),
    "booking.timer.code-ends": ({ booking }) => sync(booking),
  },
});

const server = createServer(toNodeHandler(webhooks));
webhooks.start(); // so that timers fire after a restart, before the first notification
server.listen(Number(PORT), "127.0.0.1", () => console.log(`listening on port ${PORT}`));

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  server.close();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
}
