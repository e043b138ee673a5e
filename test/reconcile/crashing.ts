// A process that runs a pass. The test kills it during the pass.
import { appendFileSync } from "node:fs";
import { createWebhookHandler, StayhookClient } from "../../src/index.ts";
import { createReconciler } from "../../src/reconcile/reconciler.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";

const { path, heard, baseUrl, accessToken, lease, again } = JSON.parse(process.argv[2] ?? "{}") as {
  path: string;
  /** The file that gets a line for each callback. Without it, the process handles no events. */
  heard?: string;
  baseUrl: string;
  accessToken: string;
  lease: number;
  again?: boolean;
};
const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl, accessToken }),
  store: sqliteStore(path),
  on: { booking: ({ booking }) => heard && appendFileSync(heard, `${booking.bookingCode}\n`) },
  autoStart: heard !== undefined,
  leaseDuration: lease / 2,
});
const reconciler = createReconciler(webhooks, { concurrency: 2, rate: 20 });
await reconciler.run({ again });
