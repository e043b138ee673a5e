// A process that runs a pass and handles no events. The test kills it during the pass.
import { createWebhookHandler, StayhookClient } from "../../src/index.ts";
import { createReconciler } from "../../src/reconcile/reconciler.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";

const { path, baseUrl, accessToken, lease } = JSON.parse(process.argv[2] ?? "{}") as {
  path: string;
  baseUrl: string;
  accessToken: string;
  lease: number;
};
const store = sqliteStore(path);
const client = new StayhookClient({ baseUrl, accessToken });
const webhooks = createWebhookHandler({ client, store, on: {}, autoStart: false, leaseDuration: lease / 2 });
const reconciler = createReconciler(webhooks, { concurrency: 2 });
await reconciler.run();
