// One of several processes that share a SQLite file. It ends when no work is left, or hangs if `hang` is set.
import { createWebhookHandler, StayhookClient } from "stayhook";
import { sqliteStore } from "stayhook/sqlite";

export interface SharingOptions {
  readonly baseUrl: string;
  readonly accessToken: string;
  readonly file: string;
  /** Ids of the events that this process records before it starts. */
  readonly eventIds: readonly string[];
  /** Number of events in the file after all processes have recorded theirs. */
  readonly total: number;
  /** The first callback never ends. */
  readonly hang: boolean;
}

const { baseUrl, accessToken, file, eventIds, total, hang }: SharingOptions = JSON.parse(process.argv[2]!);
const store = sqliteStore(file);
const calls: string[] = [];
const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl, accessToken }),
  store,
  // Long enough that a busy machine renews its lease in time.
  leaseDuration: 4000,
  concurrency: hang ? 1 : 4,
  autoStart: false,
  // A recheck would count as one more done event.
  recheckAfter: false,
  on: {
    fallback: ({ eventId }) => {
      calls.push(eventId);
      if (!hang) return;
      console.log("hanging");
      return new Promise<void>(() => setInterval(() => {}, 60_000));
    },
  },
});

const answers = await Promise.all(
  eventIds.map(async (eventId, index) => {
    const bookingCode = index % 2 === 0 ? "HX3K9" : `HX3K${index % 8}`;
    const body = JSON.stringify({ eventId, timestamp: "2026-05-01T12:00:00Z", bookingCode, listingId: null });
    const { status } = await webhooks.fetch(new Request("https://you.example", { method: "POST", body }));
    return status;
  }),
);

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const known = async () => Object.values(await store.counts()).reduce((sum, count) => sum + count, 0);
while ((await known()) < total) await sleep(20);
webhooks.start();
while ((await store.counts()).done < total) await sleep(20);
await webhooks.close();
await store.close();
console.log(`\n${JSON.stringify({ answers, calls })}`);
