// Keeps the requests that wait for your decision. The platform gives you 24 hours for each. A page lists the requests.
// Timers remind you 6 hours and 1 hour before a deadline and after it. A decision or a cancellation removes the request
// and its timers. Both survive restarts, because they are in the SQLite file of the events.
//
//   npm install stayhook
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node main.ts
//
// Tell the platform the address once:
//   await client.webhookConfig.ensure({ endpoints: { bookings: url } }); // https://you.example/hooks?key=<secret>
//
// Also taken from the environment: HOST (127.0.0.1), PORT (3000), EVENTS_DB (events.db), REMIND_HOURS ("6,1,0"), and
// DESK_SECRET, which opens the page at /requests?key=<DESK_SECRET>. If DESK_SECRET is unset, the app makes a secret,
// keeps it in the database, and prints it.
import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { DatabaseSync } from "node:sqlite";
import { type Booking, createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { createReconciler } from "stayhook/reconcile";
import { sqliteStore } from "stayhook/sqlite";
import { createTables, deadlineOf, decide, open } from "./desk.ts";
import { servePage } from "./page.ts";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET, DESK_SECRET } = process.env;
const { HOST = "127.0.0.1", PORT = "3000", EVENTS_DB = "events.db", REMIND_HOURS = "6,1,0" } = process.env;

const leads = REMIND_HOURS.split(",").map((hours) => Number(hours) * 60 * 60_000);
if (!leads.every((lead) => lead >= 0)) throw new Error(`REMIND_HOURS must be hours, like "6,1,0"`);

const store = sqliteStore(EVENTS_DB);
// A second connection, for statements outside an event's transaction.
const db = new DatabaseSync(EVENTS_DB);
db.exec("PRAGMA busy_timeout = 5000");
createTables(db);

const client = new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN });

/** A line for each event that changed the table, by event id. It is printed when the change is on disk. */
const news = new Map<string, string>();

const webhooks = createWebhookHandler({
  client,
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  on: {
    "booking.Request": (event) => {
      const { booking, timers } = event;
      const decideBy = deadlineOf(db, booking.bookingCode, event.decideBy);
      for (const [index, lead] of leads.entries())
        timers.set(`reminder-${index}`, new Date(decideBy.getTime() - lead));
      event.atomically((tx) => {
        if (open(tx, event, decideBy))
          news.set(event.eventId, `decide on ${booking.bookingCode} by ${decideBy.toISOString()}`);
      });
    },
    // Any other status ends the wait for a decision, even a status that this package does not know. Only `Initiated`
    // comes before the request.
    booking: (event) => {
      const { eventId, booking, status, timers } = event;
      if (status === "Initiated") return;
      timers.clear();
      event.atomically((tx) => {
        if (decide(tx, booking.bookingCode)) news.set(eventId, `decided ${booking.bookingCode}: ${status}`);
      });
    },
    // The timers' names depend on REMIND_HOURS.
    fallback: (event) => {
      if ("booking" in event && event.timer && event.status === "Request") remind(event.booking, event.timer);
    },
  },
  observe: (event) => {
    if (event.kind !== "done") return;
    if (news.has(event.eventId)) console.log(news.get(event.eventId));
    news.delete(event.eventId);
  },
});

/** Prints a reminder. Replace this function with one that sends you a message, such as a mail. */
function remind({ bookingCode, listingId }: Booking, { name, at }: { name: string; at: Date }): void {
  const lead = leads[Number(name.slice("reminder-".length))] ?? 0;
  const decideBy = at.getTime() + lead;
  const left = decideBy - Date.now();
  // The app was down. If several reminders are due, the most urgent one is enough.
  if (leads.some((other) => other < lead && left <= other)) return;
  const what = `${bookingCode} (listing ${listingId}) by ${new Date(decideBy).toISOString()}`;
  const minutes = Math.round(left / 60_000);
  if (left <= 0) console.log(`TOO LATE to decide on ${what}`);
  else console.log(`REMINDER: decide on ${what}, ${Math.floor(minutes / 60)} h ${minutes % 60} min are left`);
}

/** Returns the secret that the database keeps. The first start makes it. */
function keptSecret(): string {
  db.exec("CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, secret TEXT NOT NULL) STRICT");
  db.prepare("INSERT OR IGNORE INTO secrets VALUES ('desk', ?)").run(randomBytes(24).toString("base64url"));
  return db.prepare("SELECT secret FROM secrets WHERE name = 'desk'").get()?.secret as string;
}

// Finds the decisions and requests that no notification told. Also starts the timers after a restart.
const reconciler = createReconciler(webhooks, { every: "1h" });
reconciler.start();
const secret = DESK_SECRET || keptSecret();
const page = servePage({ db, secret });
const hooks = toNodeHandler(webhooks);

const server = createServer((request, response) => {
  if (/^\/requests(?=\?|$)/.test(request.url ?? "")) page(request, response);
  else hooks(request, response);
});
server.listen(Number(PORT), HOST, () => {
  console.log(`listening on port ${PORT} of ${HOST}`);
  if (!DESK_SECRET) console.log(`requests: http://localhost:${PORT}/requests?key=${secret}`);
});

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  server.close();
  await reconciler.close();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
  db.close();
  process.exit(); // a callback that ignores its signal may hold a timer
}
