// A subscriber that keeps a calendar, doors and sent messages right, as docs/guides/at-a-time.md has it. A day of its
// stays lasts `dayMs`, so that its timers fire within the test. The test kills it and starts it again.
import { createServer } from "node:http";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { toNodeHandler } from "../../../src/adapters/node.ts";
import {
  type BookingEvent,
  type BookingStay,
  type BookingTimerEvent,
  createWebhookHandler,
  StayhookClient,
} from "../../../src/index.ts";
import { createReconciler } from "../../../src/reconcile/reconciler.ts";
import type { EventStore } from "../../../src/stores/event-store.ts";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { timesOf } from "./times.ts";

/** What the test passes to the app. */
export interface Settings {
  readonly port: number;
  readonly baseUrl: string;
  readonly accessToken: string;
  /** The SQLite file, if the app has one. */
  readonly path?: string;
  readonly postgres?: string;
  readonly schema?: string;
  /** When the first day began, epoch ms, and how long a day lasts. */
  readonly epoch: number;
  readonly dayMs: number;
  /** The zone of dates that come as instants. */
  readonly timeZone?: string;
}

const settings: Settings = JSON.parse(process.argv[2] ?? "{}");
const { path, postgres, schema, port, baseUrl, accessToken, timeZone } = settings;

const tables = `
  CREATE TABLE IF NOT EXISTS stays (code TEXT PRIMARY KEY, listing INTEGER, check_in TEXT, check_out TEXT);
  CREATE TABLE IF NOT EXISTS doors (code TEXT, listing INTEGER, PRIMARY KEY (code, listing));
  CREATE TABLE IF NOT EXISTS messages (id TEXT PRIMARY KEY, code TEXT, check_in TEXT);`;

type Tx = { prepare?: DatabaseSync["prepare"]; query?: pg.PoolClient["query"] };
type Value = string | number;

/** Writes with the end of the event. */
function write(event: object, sql: string, ...values: Value[]): void {
  const { atomically } = event as { atomically(run: (tx: Tx) => unknown): void };
  atomically((tx) =>
    tx.query ? tx.query(sql, values) : tx.prepare!(sql.replaceAll(/\$\d/g, "?")).run(...values),
  );
}

async function openStore(): Promise<EventStore<Tx>> {
  if (path !== undefined) {
    const db = new DatabaseSync(path);
    db.exec(`PRAGMA busy_timeout = 5000; ${tables}`);
    db.close();
    return sqliteStore(path) as EventStore<never> as EventStore<Tx>;
  }
  const pool = new pg.Pool({ connectionString: postgres, options: `-c search_path=${schema}`, max: 6 });
  await pool.query(`CREATE SCHEMA IF NOT EXISTS "${schema}"`);
  await pool.query(tables);
  return postgresStore({ pool, schema: schema! }) as EventStore<never> as EventStore<Tx>;
}

const openDoor = (event: object, { bookingCode, listingId }: BookingStay) =>
  write(event, "INSERT INTO doors VALUES ($1, $2) ON CONFLICT DO NOTHING", bookingCode, listingId);
const closeDoor = (event: object, { bookingCode, listingId }: BookingStay) =>
  write(event, "DELETE FROM doors WHERE code = $1 AND listing = $2", bookingCode, listingId);

function sync(event: BookingEvent): void {
  const { to } = event.stayChange;
  event.timers.clear();
  write(event, "DELETE FROM stays WHERE code = $1", event.booking.bookingCode);
  if (to) {
    const { mail, arrival, departure } = timesOf(to, settings);
    event.timers.set("message", mail, { ifPassed: "skip" });
    event.timers.set("door-opens", arrival, { ifPassed: "skip" });
    event.timers.set("door-closes", departure, { ifPassed: "skip" });
    write(
      event,
      "INSERT INTO stays VALUES ($1, $2, $3, $4)",
      to.bookingCode,
      to.listingId,
      to.checkIn,
      to.checkOut,
    );
  }
  setDoor(event);
}

function setDoor(event: BookingEvent | BookingTimerEvent): void {
  const { from, to } = event.stayChange;
  if (from && from.listingId !== to?.listingId) closeDoor(event, from);
  if (!to) return;
  const { arrival, departure } = timesOf(to, settings);
  const now = new Date(Math.max(Date.now(), event.receivedAt.getTime(), event.timer?.at.getTime() ?? 0));
  if (arrival <= now && now < departure) openDoor(event, to);
  else closeDoor(event, to);
}

const store = await openStore();
const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl, accessToken }),
  store,
  verify: false,
  leaseDuration: "1s",
  timeZone,
  backoff: (attempt) => 30 * attempt,
  logger: () => {},
  on: {
    booking: sync,
    "booking.timer.door-opens": setDoor,
    "booking.timer.door-closes": setDoor,
    // Two messages with one id would fail here.
    "booking.timer.message": (event) => {
      const { to } = event.stayChange;
      if (to)
        write(event, "INSERT INTO messages VALUES ($1, $2, $3)", event.eventId, to.bookingCode, to.checkIn);
    },
  },
});
await webhooks.ready();
const reconciler = createReconciler(webhooks, { every: "1h", rate: 10_000 });
webhooks.start();
createServer(toNodeHandler(webhooks)).listen(port, "127.0.0.1", () => process.send?.("ready"));

async function isSettled(): Promise<boolean> {
  const { counts } = await webhooks.health();
  if (counts === undefined || counts.pending + counts.processing + counts.retrying > 0) return false;
  // The first notification of a booking that had vanished by then finds nothing.
  const parked = await store.list({ state: "parked", limit: 100 });
  return parked.every(({ reason }) => reason === "not-found");
}

// Each pass tries the bookings again that were never found, so that no app settles that makes passes all the time.
let isSettling = false;

process.on("message", async (codes: string[]) => {
  isSettling = true;
  await reconciler.watch(codes); // all notifications of one may be lost
  for (let round = 0; round < 20; round++) {
    const { incomplete } = await reconciler.run();
    for (let wait = 0; wait < 100 && !(await isSettled()); wait++) await sleep(20);
    if (incomplete === undefined && (await isSettled())) break;
    await sleep(100);
  }
  isSettling = false;
  const left = ["pending", "retrying", "processing"] as const;
  const events = await Promise.all(left.map((state) => store.list({ state, limit: 5 })));
  process.send?.(
    (await isSettled()) ? "settled" : JSON.stringify([await webhooks.health(), ...events.flat()], null, 2),
  );
});

// The app makes passes all the time, so that what nobody told is found while more changes.
for (let pass = 0; pass < 1000; pass++) {
  await sleep(700);
  if (!isSettling) await reconciler.run().catch(() => {});
}
