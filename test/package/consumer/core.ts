// Uses "stayhook" as a project on Workers or Deno does, with web types and without Node types. The API report has every
// signature. This file has what TypeScript infers and narrows from them.
import {
  AbortError,
  APIError,
  type Booking,
  type BookingEvent,
  type BookingStatusEvent,
  createWebhookHandler,
  type FieldChanges,
  forwardTo,
  InvalidArgumentError,
  type ListingStatusEvent,
  localTime,
  type MessageWebhookEvent,
  memoryStore,
  type Observation,
  ProcessingError,
  RateLimitError,
  StayhookClient,
  StayhookError,
  sharedSecret,
  stay,
  type Transactional,
  topics,
  WebhookConfig,
  type WebhookEvent,
  type WebhookHandler,
} from "stayhook";
import type { EventStore, NewEvent } from "stayhook/store";

declare const maybe: string | undefined;
declare const number: number | undefined;

// With exactOptionalPropertyTypes, `undefined` must be allowed by each option.
export const client = new StayhookClient({
  baseUrl: new URL("https://api.example.com/base"),
  accessToken: async ({ reason }) => (reason === "unauthorized" ? "new" : "old"),
  timeout: number,
  allowInsecureHttp: undefined,
  models: undefined,
  fetch: (url, init) => globalThis.fetch(url, init),
  headers: { "x-app": "one", "x-none": maybe },
  logger: ({ level, message, ref }) => console.log(level.toUpperCase(), message, ref),
  onResponse: (info) => (info.error === undefined ? info.status.toFixed() : info.error.message),
  nextPage: ({ query }) => (query.page === 2 ? undefined : { page: 2 }),
});
export const store: EventStore = memoryStore();

export async function useClient(): Promise<void> {
  const { action, config } = await client.webhookConfig.ensure({
    endpoints: { bookings: null, listings: maybe },
  });
  action satisfies "created" | "updated" | "unchanged";
  config.endpoints[topics[0]]?.toUpperCase();
  const { data, response } = await client.bookings.get("HX3K9").withResponse();
  const { checkIn, nights } = stay(data, { timeZone: maybe });
  const further: unknown = (data as Booking & Record<string, unknown>).guestName;
  const [first] = await client.listings.list({ signal: AbortSignal.timeout(5), headers: new Headers() });
  const schema = {
    "~standard": { version: 1 as const, vendor: "own", validate: () => ({ value: { rate: 1 } }) },
  };
  const { rate } = await client.request("GET", "/v2/rates", { schema });
  const moment: Date = localTime(checkIn, "15:00", "Europe/Lisbon", { days: -2, minutes: number });
  console.log(response.status, nights.toFixed(), further, first?.listingId, rate.toFixed(), moment);
  // @ts-expect-error it may be undefined
  await client.webhookConfig.get().then((current) => current.isActive);
}

// @ts-expect-error in one place, not two
sharedSecret({ query: "key", header: "x-key", secret: "s" });

export const webhooks: WebhookHandler = createWebhookHandler({
  client,
  store,
  verify: async ({ url, headers, topic, rawBody }) =>
    url.includes("key") && headers.get("x-key") === topic && (await rawBody()).byteLength > 0,
  processing: undefined,
  backoff: (attempt) => attempt * 1000,
  observe: (event) => observed(event),
  on: {
    "booking.Request": async ({ booking, decideBy, status, signal }) => {
      status satisfies "Request";
      booking.status satisfies "Request";
      decideBy?.toISOString();
      await client.bookings.get(booking.bookingCode, { signal });
    },
    "booking.Confirmed": (event: BookingEvent<"Confirmed">) => stay(event.booking).nights,
    "listing.Published": ({ listing, previous, changed }) =>
      changed && previous?.status.length === listing.listingId,
    "listing.Hidden": hidden,
    message: ({ topic, notification }: MessageWebhookEvent) => topic === notification?.eventId,
    fallback: (event) => name(event),
  },
});

function hidden(event: ListingStatusEvent<"Hidden">): string {
  const base: WebhookEvent = event;
  const changes: FieldChanges = event.changes;
  const { from, to } = changes.listingName ?? { from: undefined, to: null };
  return `${base.source} ${String(from)} ${String(to)} ${String(event.previous?.listingName)}`;
}

export const sell = ({ atomically }: BookingStatusEvent<"Confirmed"> & Transactional<string[]>): void =>
  atomically((sold) => sold.push("HX3K9"));

function name(event: WebhookEvent): string {
  if (event.timer) return event.timer.name;
  switch (event.type) {
    case "booking.Initiated":
    case "booking.Request":
    case "booking.Confirmed":
    case "booking.Declined":
    case "booking.Cancelled":
    case "booking.gone":
    case "booking.unknown":
      return event.booking.bookingCode;
    case "listing.InReview":
    case "listing.Published":
    case "listing.Hidden":
    case "listing.gone":
    case "listing.unknown":
      return event.listing.listingId.toFixed();
    case "message":
    case "unknown":
      return event.eventId;
    default:
      return event satisfies never;
  }
}

function observed(event: Observation): unknown {
  if (event.kind === "invalid")
    return event.issues.map(({ path, message }) => `${path.join(".")} ${message}`);
  if (event.kind === "failed") return event.retryIn?.toFixed();
  return event.kind === "missed" ? event.changes.status?.to : event.kind;
}

export async function useHandler(request: Request): Promise<Response> {
  const { method, url, body } = request;
  const headers = { "x-many": ["a", "b"], "x-none": undefined };
  const { status } = await webhooks.receive(
    { method, url, headers, body, topic: maybe },
    { waitUntil: undefined },
  );
  const { done, failed } = await webhooks.drain({ timeout: number, signal: request.signal });
  const { counts, lastReceivedAt } = await webhooks.health();
  console.log(status, done + failed, counts?.parked, lastReceivedAt?.getTime());
  return webhooks.fetch(request, { topic: "bookings", waitUntil: (promise) => void promise.then() });
}

export function explain(error: unknown): string | number | undefined {
  if (error instanceof RateLimitError) return error.retryAfter;
  if (error instanceof APIError) return `${error.status} ${error.method} ${error.path} ${error.requestId}`;
  if (error instanceof InvalidArgumentError) return error.issues[0]?.message;
  if (error instanceof AbortError) return String(error.cause);
  if (error instanceof ProcessingError) return error.retryable ? error.retryAfter : error.reason;
  return error instanceof StayhookError ? error.message : undefined;
}

/** Uses the user's own queue: one side receives notifications, the other side processes them. */
export function useEngine(
  send: (event: NewEvent) => Promise<void>,
  taken: string,
): ReturnType<WebhookHandler["process"]> {
  const engine = createWebhookHandler({
    client,
    store: forwardTo(send),
    on: { fallback: ({ attempt }) => attempt },
  });
  return engine.process(taken, { attempt: number, signal: undefined });
}

export async function useStore(event: NewEvent) {
  await store.add(event);
  const [claim] = await store.claim({ limit: 1, leaseDuration: 1000, eventId: maybe });
  const record = { snapshot: { status: "Confirmed", fields: { nights: 3 } }, changed: true };
  if (claim) await store.settle(claim, { state: "done", type: "unknown", entry: { duration: 7 }, record });
  const [parked] = await store.list({ state: "parked", limit: 10, after: maybe });
  return parked?.receivedAt.getTime();
}

export const isActive: boolean = WebhookConfig.parse({}).isActive;
