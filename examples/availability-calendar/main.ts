// Keeps the calendars of your listings. A confirmed booking blocks its nights. New dates or another listing move them.
// A booking that ends frees them. Double bookings are reported. Each listing has an iCalendar feed for
// calendar apps and other platforms. Nights and events are in one SQLite file, so that a crash counts nothing twice. A
// reconciler finds changes that no notification has reported.
//
//   npm install stayhook
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node main.ts
//
// Tell the platform the address once:
//   await client.webhookConfig.ensure({ endpoints: url }); // https://you.example/hooks?key=<secret>
//
// Also taken from the environment: HOST (127.0.0.1), PORT (3000), EVENTS_DB (events.db), RECONCILE_EVERY (6h),
// TIME_ZONE, such as Europe/Paris, if the platform sends times in place of dates, and CALENDAR_SECRET. The secret opens
// the overview at /calendars?key=<CALENDAR_SECRET>, which lists the feeds. If the variable is unset, the app makes a
// secret, keeps it in the database, and prints it.
import { createServer } from "node:http";
import { DatabaseSync } from "node:sqlite";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { createReconciler } from "stayhook/reconcile";
import { sqliteStore } from "stayhook/sqlite";
import { createStays, hold } from "stayhook/stays";
import {
  block,
  createTables,
  type DoubleBooking,
  nameListing,
  release,
  tellDoubleBookings,
} from "./calendar.ts";
import { serveCalendars, today } from "./calendars.ts";
import { keptSecret } from "./secret.ts";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET, CALENDAR_SECRET } = process.env;
const { HOST = "127.0.0.1", PORT = "3000" } = process.env;
const { EVENTS_DB = "events.db", RECONCILE_EVERY = "6h", TIME_ZONE } = process.env;

const store = sqliteStore(EVENTS_DB);
// A second connection, for statements outside an event's transaction.
const db = new DatabaseSync(EVENTS_DB);
db.exec("PRAGMA busy_timeout = 5000");
createTables(db);

/** What changed in the calendar, by record. It is printed when the change is on disk. */
const news = new Map<string, string>();

const stays = createStays({
  want: () => [hold("nights")],
  apply: {
    nights: {
      begin: ({ stay, value, atomically }) => {
        const { bookingCode, listingId, checkIn, checkOut } = stay;
        const line = `${value ? "move" : "block"} ${bookingCode}: listing ${listingId}, ${checkIn} to ${checkOut}`;
        atomically((tx: DatabaseSync) => block(tx, stay) && news.set(`booking:${bookingCode}`, line));
        return true;
      },
      end: ({ stay, atomically }) =>
        atomically(
          (tx: DatabaseSync) =>
            release(tx, stay) && news.set(`booking:${stay.bookingCode}`, `release ${stay.bookingCode}`),
        ),
    },
  },
});

const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  timeZone: TIME_ZONE,
  stays,
  on: {
    // A published listing has a calendar even before its first booking.
    "listing.Published": ({ ref, listing, changed, atomically }) =>
      atomically((tx) => {
        nameListing(tx, listing);
        if (changed) news.set(ref, `live ${listing.listingId}: ${listing.listingName}`);
      }),
  },
  observe: (event) => {
    if (event.kind !== "done" || event.ref === null) return;
    const line = news.get(event.ref);
    if (line !== undefined) console.log(line);
    news.delete(event.ref);
  },
});

/** Prints a double booking. Replace this function with one that sends you a message. */
function tell({ listingId, bookings, firstNight, until }: DoubleBooking): void {
  console.error(
    `DOUBLE BOOKING of listing ${listingId}: ${bookings.join(" and ")}, ${firstNight} to ${until}`,
  );
}

/** Reports double bookings that last. A guest who books anew, and then cancels the old booking, has two for a moment. */
function tellOverlaps(): void {
  try {
    tellDoubleBookings(db, today(), tell, Date.now() - 60_000);
  } catch (error) {
    console.error(error); // the next call reports it
  }
}

// Notifications get lost, and the platform sends none for some changes.
const reconciler = createReconciler(webhooks, { every: RECONCILE_EVERY });
reconciler.start();

const telling = setInterval(tellOverlaps, 5_000);
tellOverlaps();
const secret = CALENDAR_SECRET || keptSecret(db);
const calendars = serveCalendars({ db, store, secret });
const hooks = toNodeHandler(webhooks);

const server = createServer((request, response) => {
  if (!/^\/calendars(?=[/?]|$)/.test(request.url ?? "")) hooks(request, response);
  else
    calendars(request, response).catch((error) => {
      console.error(error);
      response.writeHead(500).end();
    });
});
server.listen(Number(PORT), HOST, () => {
  console.log(`listening on port ${PORT} of ${HOST}`);
  if (!CALENDAR_SECRET) console.log(`calendars: http://localhost:${PORT}/calendars?key=${secret}`);
});

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  clearInterval(telling);
  server.close();
  await reconciler.close();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
  db.close();
  process.exit(); // a callback that ignores its signal may hold a timer
}
