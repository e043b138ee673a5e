// arktype is ESM only, so this module is ESM too.
import { type } from "arktype";
import { createWebhookHandler, memoryStore, StayhookClient } from "stayhook";

const ArkBooking = type({ bookingCode: "string", status: "string", guest: { name: "string" } });

export const client = new StayhookClient({
  baseUrl: "https://api.example.com",
  accessToken: "token",
  models: { booking: ArkBooking },
});

export const webhooks = createWebhookHandler({
  client,
  store: memoryStore(),
  on: { "booking.Confirmed": ({ booking }) => booking.guest.name.toUpperCase() },
});
