// The app of the README, with its shutdown. The test sends it SIGTERM and starts it again.
import { createServer } from "node:http";
import { toNodeHandler } from "../../src/adapters/node.ts";
import { createWebhookHandler, StayhookClient } from "../../src/index.ts";
import { postgresStore } from "../../src/stores/postgres/index.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";

const { port, path, postgres, schema } = JSON.parse(process.argv[2] ?? "{}") as {
  port: number;
  path?: string;
  postgres?: string;
  schema?: string;
};
const store =
  path === undefined
    ? postgresStore({ connectionString: postgres!, schema: schema! })
    : (sqliteStore(path) as never);
const client = new StayhookClient({
  baseUrl: "https://platform.example",
  accessToken: "secret-token",
  fetch: async (url) => Response.json({ bookingCode: url.split("/").at(-1), status: "Confirmed" }),
});
const webhooks = createWebhookHandler({ client, store, verify: false, on: {} });
await webhooks.ready();

const server = createServer(toNodeHandler(webhooks)).listen(port, "127.0.0.1", () => process.send?.("ready"));

async function shutDown() {
  server.close();
  await webhooks.close(); // lets callbacks finish, for 10 s
  await store.close();
  process.disconnect?.();
}
process.once("SIGTERM", shutDown);
