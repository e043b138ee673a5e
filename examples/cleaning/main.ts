// Plans one cleaning for the day of each departure. If a stay moves, its cleaning moves too. A stay that is cancelled
// before the arrival needs none. A house that a guest leaves early is cleaned on that day. The plan and the events are in
// one SQLite file, so a crash plans nothing twice.
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
import {
  type BookingStay,
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
const { HOST = "127.0.0.1", PORT = "3000", EVENTS_DB = "events.db", TIME_ZONE } = process.env;
/** The zone of the houses. */
const zone = TIME_ZONE ?? "UTC";

const store = sqliteStore(EVENTS_DB);
const db = new DatabaseSync(EVENTS_DB);
db.exec("PRAGMA busy_timeout = 5000");
createTable();

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
      const now = new Date();
      const today = dayOf(now);
      const left = from && isLeftEarly(from, to, now) ? from : undefined;
      // What was planned for a day of the past is done. So a departure of yesterday, told today, is cleaned today, unless it
      // was cleaned already, or the stay was over when this app first saw it.
      const planned = from && from.checkOut >= today ? from : undefined;
      const day = to && to.checkOut < today ? planned && today : to?.checkOut;
      event.atomically((tx) => {
        if (planned) forget(tx, planned, planned.checkOut);
        if (to && hasBegun(to, now)) forget(tx, to, today); // the guest is in this house again
        if (left) plan(tx, left, today);
        if (to && day) plan(tx, to, day);
      });
      if (!changed) return;
      const { bookingCode } = event.booking;
      if (left) console.log(`clean ${bookingCode} on ${today}: the guest leaves ${left.listingId}`);
      else if (!to) console.log(`no cleaning for ${bookingCode}`);
      if (day && planned && planned.checkOut !== day)
        console.log(`clean ${bookingCode} on ${day}, and not on ${planned.checkOut}`);
      else if (day) console.log(`clean ${bookingCode} on ${day}`);
    },
  },
});

/** Whether a guest leaves a house before the planned day: for another house, for other days, or for good. */
function isLeftEarly(from: BookingStay, to: BookingStay | undefined, now: Date): boolean {
  if (!hasBegun(from, now) || from.checkOut < dayOf(now)) return false;
  return from.listingId !== to?.listingId || !hasBegun(to, now);
}

function hasBegun({ checkIn }: BookingStay, now: Date): boolean {
  return localTime(checkIn, "15:00", zone) <= now;
}

/** Writes a cleaning into the plan. */
function plan(tx: DatabaseSync, { bookingCode, listingId }: BookingStay, day: string): void {
  tx.prepare("INSERT OR IGNORE INTO cleanings VALUES (?, ?, ?)").run(bookingCode, listingId, day);
}

/** Removes a cleaning from the plan. */
function forget(tx: DatabaseSync, { bookingCode, listingId }: BookingStay, day: string): void {
  const sql = "DELETE FROM cleanings WHERE bookingCode = ? AND listingId = ? AND day = ?";
  tx.prepare(sql).run(bookingCode, listingId, day);
}

/** Returns the day in the zone of the houses as `YYYY-MM-DD`, which is how Swedes write it. */
function dayOf(date: Date): string {
  return new Intl.DateTimeFormat("sv-SE", { timeZone: zone }).format(date);
}

/** A booking may need several cleanings: one in each house that the guest leaves. Until 1.1 it had one row. */
function createTable(): void {
  const columns =
    "(bookingCode TEXT, listingId INTEGER, day TEXT, PRIMARY KEY (bookingCode, listingId, day)) STRICT";
  db.exec(`CREATE TABLE IF NOT EXISTS cleanings ${columns}`);
  const { keys } = db.prepare("SELECT sum(pk > 0) AS keys FROM pragma_table_info('cleanings')").get() ?? {};
  if (keys !== 1) return;
  db.exec(`BEGIN IMMEDIATE; ALTER TABLE cleanings RENAME TO cleanings_1; CREATE TABLE cleanings ${columns};
    INSERT INTO cleanings SELECT * FROM cleanings_1; DROP TABLE cleanings_1; COMMIT`);
}

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
