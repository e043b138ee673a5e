// Keeps a table of your listings true: filled from the list of them when it starts, then kept by events, and corrected
// by the list once a day, as not everything that happens to a listing is told. One that the list has no more is
// marked (missingSince), not deleted. The table, `listings`, is in the SQLite file of the events: read it from there.
//
//   npm install stayhook
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… node main.ts
//
// The platform has to know where it is, once:
//   await client.webhookConfig.ensure({ endpoints: { listings: url } }); // https://you.example/hooks?key=<secret>
//
// Also taken from the environment: PORT (3000), EVENTS_DB (events.db).
import { createServer } from "node:http";
import { DatabaseSync } from "node:sqlite";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { sqliteStore } from "stayhook/sqlite";
import { keepRunning } from "./daily.ts";
import {
  correct,
  createTables,
  type ListingChange,
  type MirroredListing,
  version,
  writeListing,
} from "./mirror.ts";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { PORT = "3000", EVENTS_DB = "events.db" } = process.env;

const store = sqliteStore(EVENTS_DB);
// A connection of its own, for all that is not written together with the end of an event.
const db = new DatabaseSync(EVENTS_DB);
db.exec("PRAGMA busy_timeout = 5000");
createTables(db);

const client = new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN });

/** What an event has changed, by its id: said when it is on disk, not before. */
const news = new Map<string, ListingChange>();

const webhooks = createWebhookHandler({
  client,
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  // Not dispatch: "changed": with the same status it may have another name, and that it was read counts.
  on: {
    fallback: (event) => {
      if (!event.listing) return;
      const { eventId, listing } = event;
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

/** Lists all, and corrects the table. Resolves to whether that has settled every listing. */
async function list(): Promise<boolean> {
  const since = version(db);
  const listings = await client.listings.list();
  // Asked when the list has come: an event that begins after that reads what is newer than the list.
  const working = await store.list({ state: "processing", limit: 10_000 });
  const atWork = new Set(working.map(({ ref }) => Number(/^listing:(.*)/.exec(ref ?? "")?.[1])));
  const { changes, open } = correct(db, { listings, since, atWork });
  for (const change of changes) tell(change);
  console.log(`listed ${listings.length}, corrected ${changes.length}`);
  return open.length === 0;
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
server.listen(Number(PORT), "127.0.0.1", () => console.log(`listening on port ${PORT}`));

process.once("SIGTERM", async () => {
  stopListing();
  server.close();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
  db.close();
});
