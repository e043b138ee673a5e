/**
 * A process that receives and handles notifications on a shared Redis. It writes a log to Redis for the test. It ends
 * when no work is left.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { StayhookClient } from "../../../src/client/client.ts";
import { redisStore } from "../../../src/stores/redis/index.ts";
import { createWebhookHandler } from "../../../src/webhooks/handler.ts";
import { silent } from "./event.ts";

export interface SubscriberOptions {
  readonly url: string;
  readonly prefix: string;
  /** A list in Redis with lines of `began` and `ended`, in the order of arrival. */
  readonly log: string;
  /** Event ids. The events belong to a few bookings. */
  readonly notifications: readonly string[];
  /** The callback of this event never ends. */
  readonly hangOn?: string;
}

const { url, prefix, log, notifications, hangOn }: SubscriberOptions = JSON.parse(process.argv[2]!);
const store = redisStore({ url, prefix, logger: silent });
const notes = new Redis(url);

const client = new StayhookClient({
  baseUrl: "https://platform.test",
  accessToken: "token",
  fetch: async (asked) =>
    Response.json({ bookingCode: new URL(asked).pathname.split("/").at(-1), status: "Confirmed" }),
});

const webhooks = createWebhookHandler({
  client,
  store,
  leaseDuration: 2000,
  recheckAfter: false,
  logger: silent,
  on: {
    async fallback({ eventId, notification }) {
      const { bookingCode } = notification as { readonly bookingCode: string };
      await notes.rpush(log, `began ${eventId} ${bookingCode} ${process.pid}`);
      if (eventId === hangOn) {
        process.send?.("hangs");
        await sleep(600_000);
      }
      await sleep(1);
      await notes.rpush(log, `ended ${eventId} ${bookingCode} ${process.pid}`);
    },
  },
});

webhooks.start();
await Promise.all(
  notifications.map(async (eventId, index) => {
    const body = JSON.stringify({
      eventId,
      bookingCode: `HM${index % 7}`,
      timestamp: "2026-03-01T10:00:00Z",
    });
    const { status } = await webhooks.receive({ method: "POST", url: "/", headers: {}, body });
    if (status !== 200) throw new Error(`answered ${status}`);
  }),
);
for (;;) {
  const { pending, processing, retrying } = await store.counts();
  if (pending + processing + retrying === 0) break;
  await sleep(20);
}
await webhooks.close();
await store.close();
notes.disconnect();
