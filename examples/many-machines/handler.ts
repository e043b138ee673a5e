// What the processes that receive and those that process have in common: the store, and the callbacks.
import { setTimeout as sleep } from "node:timers/promises";
import { createWebhookHandler, type EventStore, StayhookClient, sharedSecret, stay } from "stayhook";
import { postgresStore } from "stayhook/postgres";
import { redisStore } from "stayhook/redis";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;
const { STORE = "postgres", STORE_NAME: name = "stayhook_example", DATABASE_URL, REDIS_URL } = process.env;

// This is the one line that differs from an app on one machine. (Who knows which it is needs no choice, and has
// `event.atomically` with PostgreSQL.)
export const store: EventStore =
  STORE === "redis"
    ? redisStore({ url: REDIS_URL ?? "redis://127.0.0.1:6379", prefix: name })
    : postgresStore({ connectionString: DATABASE_URL, schema: name });

export const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  autoStart: false, // receiving is for some, processing for others
  concurrency: 3, // of each worker; few, so that there is something to see
  leaseDuration: 3000, // ms; short, so that nobody waits for 30 s when a worker is killed
  on: {
    "booking.Confirmed": async ({ eventId, booking }) => {
      await sleep(50); // whatever there is to do
      console.log(`${eventId} block ${booking.bookingCode}, ${stay(booking).nights} nights`);
    },
    "booking.Cancelled": async ({ eventId, booking }) => {
      await sleep(50);
      console.log(`${eventId} release ${booking.bookingCode}`);
    },
    fallback: async ({ eventId, type }) => {
      await sleep(50);
      console.log(`${eventId} nothing to do for ${type}`);
    },
  },
});
