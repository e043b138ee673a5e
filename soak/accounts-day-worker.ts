// The subscriber of the day with 300 accounts. It keeps a calendar of all accounts in the SQLite file of its store.
import { createServer } from "node:http";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { createReconciler, type ReconcileReport } from "stayhook/reconcile";
import { sqliteStore } from "stayhook/sqlite";

export interface SubscriberOptions {
  readonly path: string;
  readonly port: number;
  readonly baseUrl: string;
  readonly accounts: readonly string[];
  /** Whether the accounts join: the subscriber tells the platform the URL of each account. */
  readonly isFirst: boolean;
}

/** The bookings of which no notification was answered 200, by account. Nothing but `watch` can find them. */
export type Untold = readonly (readonly [account: string, codes: readonly string[]])[];

/** The message at the end. */
export interface Settled {
  /** The report of each pass over all accounts. */
  readonly passes: readonly ReconcileReport[];
  /** Events that no drain could finish, such as parked ones. */
  readonly left: readonly string[];
}

const DRAIN = 75_000;
const PASSES = 3;

const { path, port, baseUrl, accounts, isFirst }: SubscriberOptions = JSON.parse(process.argv[2]!);

const db = new DatabaseSync(path);
db.exec(`PRAGMA busy_timeout = 5000;
  CREATE TABLE IF NOT EXISTS calendar (
    account TEXT, code TEXT, listing INTEGER, check_in TEXT, check_out TEXT, PRIMARY KEY (account, code));
  CREATE TABLE IF NOT EXISTS handled (event_id TEXT);`);
db.close();

const store = sqliteStore(path);
const client = new StayhookClient({ baseUrl, accessToken: ({ account }) => `sandbox-token-${account}` });
const webhooks = createWebhookHandler({
  client,
  store,
  accountFrom: { query: "account" },
  verify: sharedSecret({ query: "key", secret: "the-secret-of-the-soak-run", perAccount: true }),
  leaseDuration: "3s",
  logger: () => {},
  on: {
    booking(event) {
      const { account = "", eventId, booking } = event;
      const { to } = event.stayChange;
      event.atomically((tx) => {
        tx.prepare("INSERT INTO handled VALUES (?)").run(eventId);
        tx.prepare("DELETE FROM calendar WHERE account = ? AND code = ?").run(account, booking.bookingCode);
        if (!to) return;
        const insert = tx.prepare("INSERT INTO calendar VALUES (?, ?, ?, ?, ?)");
        insert.run(account, to.bookingCode, to.listingId, to.checkIn, to.checkOut);
      });
    },
  },
});
await webhooks.ready();
// The scheduled passes run all day, so that some are killed, and some meet the refused token.
const reconciler = createReconciler(webhooks, { every: "2m", rate: 10_000, accounts: () => accounts });
reconciler.start();

createServer(toNodeHandler(webhooks)).listen(port, "127.0.0.1", async () => {
  if (isFirst) {
    for (const account of accounts) {
      const endpoints = await webhooks.endpointUrl(`http://127.0.0.1:${port}/`, { account });
      await client.account(account).webhookConfig.ensure({ endpoints });
    }
  }
  process.send?.("ready");
});

/** Handles all events. Waits for those of a paused account, and for those whose process was killed. */
async function drain(): Promise<void> {
  for (const end = performance.now() + DRAIN; performance.now() < end; await sleep(100)) {
    await webhooks.drain();
    const { counts } = await webhooks.health();
    if (counts && counts.pending + counts.processing + counts.retrying === 0) return;
  }
}

process.on("message", async (untold: Untold) => {
  await drain();
  for (const [account, codes] of untold) await reconciler.watch(codes, { account });
  const passes: ReconcileReport[] = [];
  do {
    passes.push(await reconciler.run());
    await drain();
  } while (passes.length < PASSES && passes.at(-1)?.accounts?.checked !== accounts.length);
  const states = ["pending", "processing", "retrying", "parked"] as const;
  const left = await Promise.all(states.map((state) => store.list({ state, limit: 3 })));
  const named = left.flat().map((event) => JSON.stringify(event));
  process.send?.({ passes, left: named } satisfies Settled);
});
// Without a parent the process has no work.
process.on("disconnect", () => process.exit());
