// An app with a timer. The test lets wall clocks jump, and waits for what the app says.
import { createWebhookHandler, memoryStore, StayhookClient } from "../../src/index.ts";
import { openPlace } from "../stores/every/open-place.ts";

const place = JSON.parse(process.argv[2]!) as Parameters<typeof openPlace>[0];
const client = new StayhookClient({
  baseUrl: "https://platform.example",
  accessToken: "secret-token",
  fetch: async (url) => Response.json({ bookingCode: url.split("/").at(-1), status: "Confirmed" }),
});
const store = place.name === "memory" ? memoryStore() : ((await openPlace(place)).store as never);
const webhooks = createWebhookHandler({
  client,
  store,
  verify: false,
  on: { "booking.timer.door-code": ({ booking }) => process.send?.(`fired ${booking.bookingCode}`) },
});
/** Sets a timer in `ms`. */
const set = (bookingCode: string, ms: number) =>
  webhooks.timers(`booking:${bookingCode}`).set("door-code", new Date(Date.now() + ms));
process.on("message", ([bookingCode, ms]: [string, number]) => void set(bookingCode, ms));
webhooks.start();
await set("A1", 12 * 60_000);
// Only a loop that sleeps misses the jump.
setTimeout(() => process.send?.("sleeps"), 2000);
setInterval(() => {}, 1000);
