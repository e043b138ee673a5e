// The exports have no annotations, so each type must have a name that a declaration file can use.
import {
  Booking,
  createWebhookHandler,
  forwardTo,
  Listing,
  memoryStore,
  StayhookClient,
  sharedSecret,
  stay,
  WebhookConfig,
  WebhookNotification,
} from "stayhook";
import { toFastifyPlugin } from "stayhook/fastify";
import { toKoaMiddleware } from "stayhook/koa";
import { toLambdaHandler, toSqsHandler } from "stayhook/lambda";
import { toNodeHandler } from "stayhook/node";
import { sqliteStore } from "stayhook/sqlite";
import { storeContract } from "stayhook/store/contract";
import { createSandbox, createTestEvent } from "stayhook/testing";
import * as z from "zod";

const access = { baseUrl: "https://api.example.com", accessToken: "token" };

export const client = new StayhookClient(access);
export const { bookings, listings, webhookConfig } = client;
export const MyBooking = Booking.extend({ guest: z.string() });
export const MyListing = Listing.extend({ city: z.string() });
export const MyNotification = WebhookNotification.extend({ sender: z.string() });
export const MyConfig = WebhookConfig.extend({ owner: z.string() });
export const mine = new StayhookClient({ ...access, models: { booking: MyBooking } });
export const store = memoryStore();
export const verify = sharedSecret({ query: "key", secret: "secret" });
export const webhooks = createWebhookHandler({ client, store, verify, on: {} });
export const handler = toNodeHandler(webhooks);
export const plugin = toFastifyPlugin(webhooks, { topic: "bookings" });
export const middleware = toKoaMiddleware(webhooks);
export const lambda = toLambdaHandler(webhooks);
export const batch = toSqsHandler(webhooks);
export const durable = createWebhookHandler({ client, store: sqliteStore("events.db"), on: {} });
export const forwarding = createWebhookHandler({ client, store: forwardTo(() => {}), on: {} });
export const confirmed = createTestEvent("booking.Confirmed", { booking: { guest: "Ada" } });
export const cancelled = createTestEvent("booking.Cancelled");
export const sandbox = createSandbox();
export const cases = storeContract(() => memoryStore());

export const drained = () => webhooks.drain();
export const requested = () => sandbox.bookings.request();
export const booking = (code: string) => mine.bookings.get(code);
export const shown = (code: string) => client.bookings.get(code).withResponse();
export const ensured = () => client.webhookConfig.ensure({ endpoints: {} });
export const nights = async (code: string) => stay(await booking(code));
export const state = () => webhooks.health();
export class Subscriber extends StayhookClient {
  confirmed = (code: string) => this.bookings.get(code).then(({ status }) => status === "Confirmed");
}
