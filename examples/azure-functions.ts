// Two functions of Azure Functions, in the programming model v4.
//   npm install stayhook @azure/functions pg
//   `hooks`: https://….azurewebsites.net/api/hooks?key=<the secret>
//   `drain`: each minute, for retries and timers
import { app } from "@azure/functions";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
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

export const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  processing: "inline", // before the answer: afterwards the process may be stopped
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  on: {
    "booking.Confirmed": ({ booking, stayChange }) => calendar.set(booking.bookingCode, stayChange.to),
    "booking.Cancelled": ({ booking }) => calendar.delete(booking.bookingCode),
    "booking.Declined": ({ booking }) => calendar.delete(booking.bookingCode),
    "booking.gone": ({ booking }) => calendar.delete(booking.bookingCode),
    "listing.Published": ({ listing }) => console.log("live", listing.listingId),
  },
});

app.http("hooks", {
  methods: ["POST"],
  authLevel: "anonymous", // `verify` checks the secret
  handler: ({ method, url, headers, body }) =>
    webhooks.receive({ method, url, headers: Object.fromEntries(headers), body }),
});

app.timer("drain", {
  schedule: "0 * * * * *",
  handler: async () => void (await webhooks.drain({ timeout: 50_000 })),
});
