// The user's own models, written with each supported schema library.
import { Booking, createWebhookHandler, Listing, memoryStore, StayhookClient } from "stayhook";
import * as v from "valibot";
import * as z from "zod";

const access = { baseUrl: "https://api.example.com", accessToken: "token" };

export const ZodBooking = Booking.extend({
  guest: z.object({ name: z.string() }),
  note: z.string().optional(),
});
export const ZodListing = Listing.extend({ city: z.string() });
export const zodClient = new StayhookClient({
  ...access,
  models: { booking: ZodBooking, listing: ZodListing },
});

export const ValibotBooking = v.looseObject({
  bookingCode: v.string(),
  status: v.string(),
  guest: v.object({ name: v.string() }),
});
export const valibotClient = new StayhookClient({ ...access, models: { booking: ValibotBooking } });

export const zodWebhooks = createWebhookHandler({
  client: zodClient,
  store: memoryStore(),
  on: {
    "booking.Request": ({ booking }) => booking.guest.name.toUpperCase(),
    "listing.Published": async ({ listing }) => [
      listing.city.trim(),
      (await zodClient.bookings.get("A")).guest,
    ],
    // @ts-expect-error misspelled
    "booking.Cancelled": ({ booking }) => booking.gest.name,
  },
});

export const valibotWebhooks = createWebhookHandler({
  client: valibotClient,
  store: memoryStore(),
  on: {
    "booking.Confirmed": ({ booking, status }) => `${booking.guest.name} ${status satisfies "Confirmed"}`,
    fallback: (event) => (event.type === "booking.Declined" ? event.booking.guest.name : event.eventId),
  },
});

export const rates = zodClient.request("GET", "/v2/rates", {
  schema: z.array(z.object({ rate: z.number() })),
});
export const firstRate = async (): Promise<number | undefined> => (await rates)[0]?.rate;

// @ts-expect-error a booking has a code
new StayhookClient({ ...access, models: { booking: z.object({ status: z.string() }) } });
