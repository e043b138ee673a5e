// The store and the callbacks, for both kinds of processes: receivers and workers.
import { setTimeout as sleep } from "node:timers/promises";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { postgresStore } from "stayhook/postgres";
import { redisStore } from "stayhook/redis";
import type { EventStore } from "stayhook/store";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { STORE = "postgres", STORE_NAME: name = "stayhook_example", DATABASE_URL, REDIS_URL } = process.env;

// Processes on several machines need a store on a server. Your app needs only one of these two. With PostgreSQL, your
// app can use `event.atomically`.
export const store: EventStore =
  STORE === "redis"
    ? redisStore({ url: REDIS_URL ?? "redis://127.0.0.1:6379", prefix: name })
    : postgresStore({ connectionString: DATABASE_URL, schema: name });

export const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  autoStart: false, // workers call start()
  concurrency: 3, // per worker; low, so that events wait
  leaseDuration: 3000, // ms; short, so that a killed worker's events are free soon
  on: {
    "booking.Confirmed": async ({ eventId, booking, stayChange }) => {
      await sleep(50); // stands for real work
      console.log(`${eventId} block ${booking.bookingCode}, ${stayChange.to?.nights} nights`);
    },
    "booking.Cancelled": async ({ eventId, booking }) => {
      await sleep(50);
      console.log(`${eventId} release ${booking.bookingCode}`);
    },
    "booking.gone": async ({ eventId, booking }) => {
      await sleep(50);
      console.log(`${eventId} release ${booking.bookingCode}`);
    },
    fallback: async ({ eventId, type }) => {
      await sleep(50);
      console.log(`${eventId} nothing to do for ${type}`);
    },
  },
});
