// Mirrors your listings in a table. The list fills the table at the start, and events update it. Once a day the list
// corrects the table, because some changes have no notification. A listing that is missing from the list is marked
// (missingSince), not deleted. An empty list counts only if it stays empty for a day. Read the table, `listings`, from the
// SQLite file of the events.
//
//   npm install stayhook
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node main.ts
//
// Tell the platform the address once:
//   await client.webhookConfig.ensure({ endpoints: { listings: url } }); // https://you.example/hooks?key=<secret>
//
// Also taken from the environment: HOST (127.0.0.1), PORT (3000), EVENTS_DB (events.db).
import { createServer } from "node:http";
import { DatabaseSync } from "node:sqlite";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { sqliteStore } from "stayhook/sqlite";
import { keepRunning, waits } from "./daily.ts";
import {
  correct,
  createTables,
  type ListingChange,
  type MirroredListing,
  mirroredListings,
  version,
  writeListing,
} from "./mirror.ts";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { HOST = "127.0.0.1", PORT = "3000", EVENTS_DB = "events.db" } = process.env;

const store = sqliteStore(EVENTS_DB);
// A second connection, for statements outside an event's transaction.
const db = new DatabaseSync(EVENTS_DB);
db.exec("PRAGMA busy_timeout = 5000");
createTables(db);

const client = new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN });

/** Since when the platform's list has been empty, although the table has listings. */
let emptySince: number | undefined;

/** Changes by event id. A change is printed when it is on disk. */
const news = new Map<string, ListingChange>();

const webhooks = createWebhookHandler({
  client,
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  on: {
    fallback: (event) => {
      // The list itself tells which listings are missing.
      if (!("listing" in event) || event.type === "listing.gone") return;
      const { eventId, listing } = event;
      // Also if the listing has not changed: each read must update the row's version.
      event.atomically((tx) => {
        const change = writeListing(tx, listing);
        if (change) news.set(eventId, change);
      });
    },
  },
  observe: (event) => {
    if (event.kind !== "done") return;
    const change = news.get(event.eventId);
    if (change) tell(change);
    news.delete(event.eventId);
  },
});

/** Reads the list and corrects the table. Resolves to whether every listing is certain. */
async function list(): Promise<boolean> {
  const since = version(db);
  const listings = await client.listings.list();
  const mayBeEmpty = isEmptyForLong(listings.length);
  // Look for running events after the list has arrived: a later event reads data that is newer than the list.
  const working = await store.list({ state: "processing", limit: 10_000 });
  const atWork = new Set(working.map(({ ref }) => Number(/^listing:(.*)/.exec(ref ?? "")?.[1])));
  const { changes, open } = correct(db, { listings, since, atWork, mayBeEmpty });
  for (const change of changes) tell(change);
  console.log(`listed ${listings.length}, corrected ${changes.length}`);
  return open.length === 0;
}

/**
 * Returns whether the list has been empty for a day.
 *
 * @throws Error if it is empty for a shorter time, although the table has listings. Then the list is read again soon
 */
function isEmptyForLong(length: number): boolean {
  const known = mirroredListings(db).filter(({ missingSince }) => missingSince === null).length;
  emptySince = length > 0 || known === 0 ? undefined : (emptySince ?? Date.now());
  if (emptySince === undefined) return false;
  if (Date.now() - emptySince >= waits.done) return true;
  throw new Error(`The list is empty, although the table has ${known} listings.`);
}

function tell({ before, after }: ListingChange): void {
  const is = (listing: MirroredListing) =>
    listing.missingSince === null ? listing.status : "MISSING in the list";
  console.log(
    `listing ${after.listingId} (${after.listingName}): ${before ? is(before) : "new"} -> ${is(after)}`,
  );
}

const hooks = toNodeHandler(webhooks);
const stopListing = keepRunning(list);

const server = createServer(hooks);
server.listen(Number(PORT), HOST, () => console.log(`listening on port ${PORT} of ${HOST}`));

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  stopListing();
  server.close();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
  db.close();
  process.exit(); // a callback that ignores its signal may hold a timer
}
