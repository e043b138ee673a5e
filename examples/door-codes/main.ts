// Gives each confirmed booking a code for the door. The code works from 15:00 on the day of arrival to 11:00 on the day
// of departure, in the property's time zone. It moves with the booking, and ends when the booking is cancelled.
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
import { createWebhookHandler, listingIdOf, StayhookClient, sharedSecret, stay } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { sqliteStore } from "stayhook/sqlite";
import { instantAt } from "./local-time.ts";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { PORT = "3000", EVENTS_DB = "events.db", LISTING_ZONES = "{}" } = process.env;

const zones: Readonly<Record<string, string>> = JSON.parse(LISTING_ZONES);
const store = sqliteStore(EVENTS_DB);

/** Stands for the API of your lock. Each call sets the full state, so a repeated call does no harm. */
const lock = {
  async setCode(listingId: number, bookingCode: string, from: Date, until: Date): Promise<void> {
    console.log(`code for ${bookingCode} at ${listingId}: ${from.toISOString()} to ${until.toISOString()}`);
  },
  async removeCode(listingId: number, bookingCode: string): Promise<void> {
    console.log(`no code for ${bookingCode} at ${listingId}`);
  },
};

const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  on: {
    "booking.Confirmed": async ({ booking, changes }) => {
      const listingId = listingIdOf(booking);
      const timeZone = zones[listingId];
      // The attempt fails, and the log says why. Replay the event after you set the zone.
      if (timeZone === undefined) throw new Error(`LISTING_ZONES has no time zone for listing ${listingId}`);
      const { checkIn, checkOut } = stay(booking, { timeZone });
      const before = changes.listingId?.from;
      if (before !== undefined && before !== null && Number(before) !== listingId)
        await lock.removeCode(Number(before), booking.bookingCode);
      await lock.setCode(
        listingId,
        booking.bookingCode,
        instantAt(checkIn, "15:00", timeZone),
        instantAt(checkOut, "11:00", timeZone),
      );
    },
    "booking.Cancelled": ({ booking }) => lock.removeCode(listingIdOf(booking), booking.bookingCode),
  },
});

const server = createServer(toNodeHandler(webhooks));
server.listen(Number(PORT), "127.0.0.1", () => console.log(`listening on port ${PORT}`));

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  server.close();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
}
