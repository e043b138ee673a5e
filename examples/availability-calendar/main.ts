// Keeps the calendars of your listings: a booking that is confirmed blocks its nights, one that is cancelled or
// declined gives them back, two that have the same night are told of, and each listing has an iCalendar feed that
// calendar apps and other platforms can subscribe to. What has happened counts once, whatever crashes: nights and
// events are in one SQLite file.
//
//   npm install stayhook
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node main.ts
//
// The platform has to know where it is, once:
//   await client.webhookConfig.ensure({ endpoints: { bookings: url, listings: url } }); // https://you.example/hooks?key=<secret>
//
// Also taken from the environment: PORT (3000), EVENTS_DB (events.db), and CALENDAR_SECRET, which opens the overview
// at /calendars?key=<it>, where the feeds' addresses are. Without it one is made, kept in the file, and printed.
import { createServer } from "node:http";
import { DatabaseSync } from "node:sqlite";
import {
  type Booking,
  type BookingEvent,
  createWebhookHandler,
  type Listing,
  StayhookClient,
  sharedSecret,
} from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { sqliteStore } from "stayhook/sqlite";
import {
  block,
  createTables,
  type DoubleBooking,
  nameListing,
  nightsOf,
  release,
  tellDoubleBookings,
} from "./calendar.ts";
import { serveCalendars, today } from "./calendars.ts";
import { keptSecret } from "./secret.ts";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET, CALENDAR_SECRET } = process.env;
const { PORT = "3000", EVENTS_DB = "events.db" } = process.env;

const store = sqliteStore(EVENTS_DB);
// A connection of its own, for all that is not written together with the end of an event.
const db = new DatabaseSync(EVENTS_DB);
db.exec("PRAGMA busy_timeout = 5000");
createTables(db);

/** What an event has changed, by its id: said when it is on disk, not before. */
const news = new Map<string, string>();
type OffEvent = BookingEvent<"Cancelled" | "Declined", Booking, Listing, DatabaseSync>;

const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  // Not dispatch: "changed". A booking that is Confirmed and comes again may have other dates, and block() finds
  // out by itself whether anything is new.
  on: {
    "booking.Confirmed": ({ eventId, booking, atomically }) => {
      const nights = nightsOf(booking);
      atomically((tx) => {
        const { bookingCode, listingId, checkIn, checkOut } = nights;
        if (block(tx, nights))
          news.set(eventId, `block ${bookingCode}: listing ${listingId}, ${checkIn} to ${checkOut}`);
      });
    },
    "booking.Cancelled": giveBack,
    "booking.Declined": giveBack,
    // A listing that goes live has a calendar, though nobody has booked it yet.
    "listing.Published": ({ eventId, listing, changed, atomically }) =>
      atomically((tx) => {
        nameListing(tx, listing);
        if (changed) news.set(eventId, `live ${listing.listingId}: ${listing.listingName}`);
      }),
  },
  observe: (event) => {
    if (event.kind !== "done") return;
    if (news.has(event.eventId)) console.log(news.get(event.eventId));
    news.delete(event.eventId);
    tellDoubleBookings(db, today(), tell);
  },
});

function giveBack({ eventId, booking, atomically }: OffEvent): void {
  atomically((tx) => {
    if (release(tx, booking.bookingCode)) news.set(eventId, `release ${booking.bookingCode}`);
  });
}

/** Whatever reaches you: a mail, a message. */
function tell({ listingId, bookings, firstNight, until }: DoubleBooking): void {
  console.error(
    `DOUBLE BOOKING of listing ${listingId}: ${bookings.join(" and ")}, ${firstNight} to ${until}`,
  );
}

tellDoubleBookings(db, today(), tell);
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
server.listen(Number(PORT), () => {
  console.log(`listening on port ${PORT}`);
  if (!CALENDAR_SECRET) console.log(`calendars: http://localhost:${PORT}/calendars?key=${secret}`);
});

process.once("SIGTERM", async () => {
  server.close();
  await webhooks.close(); // lets the callbacks that run come to their end
  await store.close();
  db.close();
});
