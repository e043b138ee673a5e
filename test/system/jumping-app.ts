// An app with a timer in 12 minutes. The test lets its wall clock jump, and waits for what it says.
import { createWebhookHandler, memoryStore, StayhookClient } from "../../src/index.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";

const [path] = process.argv.slice(2);
const client = new StayhookClient({
  baseUrl: "https://platform.example",
  accessToken: "secret-token",
  fetch: async (url) => Response.json({ bookingCode: url.split("/").at(-1), status: "Confirmed" }),
});
const store = path === undefined ? memoryStore() : (sqliteStore(path) as never);
const webhooks = createWebhookHandler({
  client,
  store,
  verify: false,
  on: {
    "booking.timer.door-code": ({ timer }) => process.send?.({ late: Date.now() - timer.at.getTime() }),
  },
});
webhooks.start();
await webhooks.timers("booking:A1").set("door-code", new Date(Date.now() + 12 * 60_000));
// Only a loop that sleeps misses the jump.
setTimeout(() => process.send?.("sleeps"), 2000);
setInterval(() => {}, 1000);
