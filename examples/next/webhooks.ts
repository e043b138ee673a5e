import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { sqliteStore } from "stayhook/sqlite";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET, EVENTS_DB } = process.env;

// Stands for your calendar. It keeps one stay for each booking code, so that a moved stay replaces the old one.
const calendar = {
  set: (bookingCode: string, stay: unknown) => console.log("block", bookingCode, JSON.stringify(stay)),
  delete: (bookingCode: string) => console.log("release", bookingCode),
};

export const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  // Without a disk, as on Vercel, use postgresStore or redisStore.
  store: sqliteStore(EVENTS_DB ?? "events.db"),
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  on: {
    "booking.Confirmed": ({ booking, stayChange }) => calendar.set(booking.bookingCode, stayChange.to),
    "booking.Cancelled": ({ booking }) => calendar.delete(booking.bookingCode),
    "booking.Declined": ({ booking }) => calendar.delete(booking.bookingCode),
    "booking.gone": ({ booking }) => calendar.delete(booking.bookingCode),
    "listing.Published": ({ listing }) => console.log("live", listing.listingId),
  },
});

// In development, Next.js loads this module again when it has changed. This ends the handler with the old callbacks.
if (process.env.NODE_ENV === "development") {
  const running = globalThis as { webhooks?: typeof webhooks };
  void running.webhooks?.close();
  running.webhooks = webhooks;
}
