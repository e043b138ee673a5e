// The README's subscriber. main.ts starts it, kills it and starts it again. Its events and its calendar are in one
// SQLite file. It reports its actions to main.ts.
import { createServer } from "node:http";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type Booking,
  createWebhookHandler,
  type Listing,
  type Observation,
  StayhookClient,
  sharedSecret,
  type WebhookEvent,
} from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { sqliteStore } from "stayhook/sqlite";
import { block, type Change, createTables, enter, release } from "./calendar.ts";
import { readContents } from "./contents.ts";
import type { Command, Told } from "./messages.ts";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET, EVENTS_DB, PORT } = process.env;

const db = new DatabaseSync(EVENTS_DB ?? "events.db");
const store = sqliteStore(db);
createTables(db);
tell({ kind: "opened", file: await readContents(store, db) });

let failsOnce = false;
let hangs = false;
/** Changes by event. Report a change only when it is on disk. */
const changes = new Map<string, Change>();

const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  recheckAfter: false, // the day ends before a recheck
  concurrency: 2, // so that some events still wait at the kill
  leaseDuration: 2000, // ms: a dead process holds its events this long
  backoff: () => 500, // ms: the default of 5 s is too long here
  observe,
  on: {
    "booking.Request": (event) =>
      handle(event, `${describe(event.booking)}: decide by ${event.decideBy?.toISOString()}`),
    "booking.Confirmed": (event) => handle(event, describe(event.booking), (tx) => block(tx, event.booking)),
    "booking.Declined": (event) => handle(event, describe(event.booking)),
    "booking.Cancelled": (event) =>
      handle(event, describe(event.booking), (tx) => release(tx, event.booking)),
    "booking.gone": (event) => handle(event, event.booking.bookingCode, (tx) => release(tx, event.booking)),
    "listing.Published": (event) =>
      handle(event, `${event.listing.listingName} (${event.listing.listingId}) is live`),
    fallback: (event) => handle(event, "nothing to do"),
  },
});

async function handle(
  event: WebhookEvent<Booking, Listing, DatabaseSync>,
  text: string,
  changeCalendar?: (tx: DatabaseSync) => Change | undefined,
): Promise<void> {
  const { eventId, type, attempt, signal } = event;
  tell({ kind: "begun", eventId, type, attempt, text });
  if (failsOnce && type === "booking.Confirmed") {
    failsOnce = false;
    throw new Error("the calendar does not answer");
  }
  event.atomically((tx) => {
    const change = changeCalendar?.(tx);
    enter(tx, eventId, change);
    if (change) changes.set(eventId, change);
  });
  // Stands for other work, such as a message to the cleaners.
  await sleep(hangs ? 60_000 : 20, undefined, { signal });
}

function observe(observed: Observation): void {
  if (observed.kind === "received" || observed.kind === "duplicate") {
    const { kind, eventId, ref } = observed;
    tell({ kind, eventId, ref });
  } else if (observed.kind === "failed") {
    const { kind, eventId, type, error, retryIn } = observed;
    tell({ kind, eventId, type, error: (error as Error).message, retryIn });
  } else if (observed.kind === "done") {
    const { kind, eventId } = observed;
    const change = changes.get(eventId);
    tell({ kind, eventId, change: change && describeChange(change) });
  }
}

const server = createServer(toNodeHandler(webhooks));
server.listen(Number(PORT), "127.0.0.1", () => tell({ kind: "listening" }));

process.on("message", async (command: Command) => {
  if (command === "fail-once") failsOnce = true;
  else if (command === "hang") hangs = true;
  else {
    server.close();
    await webhooks.close();
    tell({ kind: "closed", file: await readContents(store, db) });
    await store.close();
    db.close();
    process.disconnect();
  }
});
// End with main.ts. Ctrl-C reaches both processes, and main.ts handles it.
process.on("disconnect", () => process.exit());
process.on("SIGINT", () => {});

function tell(told: Told): void {
  process.send?.(told);
}

// A booking has every field that the platform sent, such as the guest. A model would give them types.
function describe({ bookingCode, guest, status }: Booking & { readonly guest?: unknown }): string {
  return `${bookingCode} of ${guest}, ${status}`;
}

function describeChange({ verb, nights, checkIn, checkOut }: Change): string {
  return `${verb} ${nights} ${nights === 1 ? "night" : "nights"}, ${checkIn} to ${checkOut}`;
}
