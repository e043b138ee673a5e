// Each line below an `error:` comment must not compile. The compiler's message must contain the text of the comment.
// biome-ignore-all assist/source/organizeImports: the order goes with the comments.
// biome-ignore-all lint/correctness/noUnusedImports: an import is a mistake here.
import {
  Booking,
  createWebhookHandler,
  forwardTo,
  memoryStore,
  sharedSecret,
  StayhookClient,
} from "stayhook";
import type { BookingEvent, WebhookConfig } from "stayhook";
// error: has no exported member named 'Bookings'
import { Bookings } from "stayhook";
// error: has no exported member 'Notification'
import type { Notification } from "stayhook";
import { sqliteStore } from "stayhook/sqlite";
import { z } from "zod";

declare const booking: Booking;
declare const config: WebhookConfig;
const access = { baseUrl: "https://api.example.com", accessToken: "token" };
const client = new StayhookClient(access);
const store = memoryStore();
const MyBooking = Booking.extend({ guestName: z.string() });
const mine = new StayhookClient({ ...access, models: { booking: MyBooking } });
const forwarding = createWebhookHandler({ client, store: forwardTo(() => {}), on: {} });

// error: Property 'chekIn' does not exist on type 'Booking'. Did you mean 'checkIn'?
booking.chekIn;
// error: Property 'guestName' does not exist on type 'Booking'.
booking.guestName;
// error: Property 'booking' does not exist on type 'Endpoints'. Did you mean 'bookings'?
config.endpoints.booking;

createWebhookHandler({
  client: mine,
  store,
  on: {
    // error: Property 'chekIn' does not exist on type
    "booking.Confirmed": ({ booking }) => booking.chekIn,
    // error: Property 'decideBy' does not exist on type 'BookingStatusEvent<"Cancelled"
    "booking.Cancelled": (event) => event.decideBy,
    // error: Property 'atomically' does not exist on type 'BookingRequestEvent<
    "booking.Request": (event) => event.atomically,
  },
});
// error: is not assignable to type '{ readonly "did you mean": "booking.Confirmed"; }'
createWebhookHandler({ client, store, on: { "booking.Confirmd": () => {} } });
// error: is not assignable to type '{ readonly "did you mean": "booking.Cancelled"; }'
createWebhookHandler({ client, store, on: { fallback: () => {}, "booking.cancelled": () => {} } });
// error: is not assignable to type '{ readonly "is not a type of event":
createWebhookHandler({ client, store, on: { "guest.Arrived": () => {} } });
// error: 'verfy' does not exist in type
createWebhookHandler({ client, store, on: {}, verfy: sharedSecret({ query: "key", secret: "s" }) });
// error: Property 'query' is missing in type
sharedSecret({ secret: "s" });
// error: 'bodyTimeout' does not exist in type
createWebhookHandler({ client, store, on: {}, bodyTimeout: 5 });
// error: 'recordTimeout' does not exist in type
createWebhookHandler({ client, store, on: {}, recordTimeout: 5 });
// error: Property 'store' is missing
createWebhookHandler({ client, on: {} });
createWebhookHandler({
  client,
  store: sqliteStore("events.db"),
  on: {
    // error: "remove async: the writes of this store are synchronous"
    "booking.Confirmed": ({ atomically }) => atomically(async (tx) => tx.exec("insert")),
  },
});
// error: 'commandTimeout' does not exist in type 'SqliteStoreOptions'
sqliteStore("events.db", { commandTimeout: 5 });

// error: 'acessToken' does not exist in type
new StayhookClient({ baseUrl: "https://api.example.com", acessToken: "token" });
// error: Property 'status' is missing in type '{ bookingCode: string; }'
new StayhookClient({ ...access, models: { booking: z.object({ bookingCode: z.string() }) } });
// error: 'number' is not assignable to parameter of type 'string'
client.bookings.get(7);
// error: 'booking' does not exist in type
client.webhookConfig.ensure({ endpoints: { booking: "https://you.example" } });
// error: 'signl' does not exist in type 'RequestOptions'
client.listings.list({ signl: AbortSignal.timeout(5) });

// error: Property 'start' does not exist on type 'ForwardingHandler<
forwarding.start();
// error: Property 'drain' does not exist on type 'ForwardingHandler<
forwarding.drain();
// error: Property 'health' does not exist on type 'ForwardingHandler<
forwarding.health();
