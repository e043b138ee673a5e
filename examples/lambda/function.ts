// A subscriber in two AWS Lambda functions.
//   npm install stayhook pg
//   `handler`: behind a function URL or API Gateway, as https://…/hooks?key=<the secret>
//   `drain`: on a schedule of EventBridge, each minute, for retries
// Try it on your machine: STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… npm start
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { toLambdaHandler } from "stayhook/lambda";
import { postgresStore } from "stayhook/postgres";
import { sqliteStore } from "stayhook/sqlite";
import type { EventStore } from "stayhook/store";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET, DATABASE_URL } = process.env;

// A function loses its own disk when it ends, so use SQLite only for trials on your machine.
const store: EventStore = DATABASE_URL
  ? postgresStore({ connectionString: DATABASE_URL })
  : sqliteStore(process.env.EVENTS_DB ?? "events.db");

// Stands for your calendar. It keeps one stay for each booking code, so that a moved stay replaces the old one.
const calendar = {
  set: (bookingCode: string, stay: unknown) => console.log("block", bookingCode, JSON.stringify(stay)),
  delete: (bookingCode: string) => console.log("release", bookingCode),
};

const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  processing: "inline", // before the answer: afterwards the function is frozen
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  on: {
    "booking.Confirmed": ({ booking, stayChange }) => calendar.set(booking.bookingCode, stayChange.to),
    "booking.Cancelled": ({ booking }) => calendar.delete(booking.bookingCode),
    "booking.Declined": ({ booking }) => calendar.delete(booking.bookingCode),
    "booking.gone": ({ booking }) => calendar.delete(booking.bookingCode),
    "listing.Published": ({ listing }) => console.log("live", listing.listingId),
  },
});

export const handler = toLambdaHandler(webhooks);

export const drain = () => webhooks.drain({ timeout: 50_000 });
