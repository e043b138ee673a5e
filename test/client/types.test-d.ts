import { type } from "arktype";
import * as undici from "undici";
import * as v from "valibot";
import { expectTypeOf, test } from "vitest";
import * as z from "zod";
import type { ListPromise } from "../../src/client/paging.ts";
import {
  Booking,
  type BookingsResource,
  type Listing,
  type ListingsResource,
  listingIdOf,
  type NotFoundError,
  type RateLimitError,
  StayhookClient,
  stay,
  type WebhookConfig,
  type WebhookConfigResource,
  type WebhookNotification,
} from "../../src/index.ts";

const base = { baseUrl: "https://h.example", accessToken: "t" };

test("records are typed as they may be", async () => {
  const client = new StayhookClient(base);
  expectTypeOf(client).toEqualTypeOf<StayhookClient<Booking, Listing>>();
  const booking = await client.bookings.get("A");
  expectTypeOf(booking.bookingCode).toEqualTypeOf<string>();
  expectTypeOf(booking.status).toEqualTypeOf<string>();
  expectTypeOf(booking.checkIn).toEqualTypeOf<string | number | null | undefined>();
  expectTypeOf(booking.listingId).toEqualTypeOf<string | number | null | undefined>();
  // @ts-expect-error misspelled
  booking.chekIn;
  expectTypeOf((booking as Booking & Record<string, unknown>).guestName).toEqualTypeOf<unknown>();
  expectTypeOf(await client.listings.list()).toEqualTypeOf<Listing[]>();
  expectTypeOf((await client.listings.get(1)).listingId).toEqualTypeOf<number>();
  expectTypeOf(await client.webhookConfig.get()).toEqualTypeOf<WebhookConfig | undefined>();
  expectTypeOf((await client.bookings.get("A").withResponse()).response).toEqualTypeOf<Response>();
  // @ts-expect-error ensure makes several requests
  client.webhookConfig.ensure({ endpoints: {} }).withResponse;
  client.listings.get("1");
  // @ts-expect-error an id is a number or text
  client.listings.get(1n);
});

test("models flow into what is read", async () => {
  const zod = new StayhookClient({ ...base, models: { booking: Booking.extend({ guestName: z.string() }) } });
  expectTypeOf((await zod.bookings.get("A")).guestName).toEqualTypeOf<string>();
  expectTypeOf((await zod.bookings.get("A")).checkIn).toEqualTypeOf<string | number | null | undefined>();
  // @ts-expect-error a misspelled field is an error with a custom model, too
  (await zod.bookings.get("A")).chekIn;
  const valibot = v.looseObject({ bookingCode: v.string(), status: v.string(), guests: v.number() });
  expectTypeOf(
    (await new StayhookClient({ ...base, models: { booking: valibot } }).bookings.get("A")).guests,
  ).toEqualTypeOf<number>();
  const strict = v.object({ listingId: v.number(), status: v.string(), beds: v.number() });
  expectTypeOf(
    (await new StayhookClient({ ...base, models: { listing: strict } }).listings.list())[0]!.beds,
  ).toEqualTypeOf<number>();
  const ark = type({ bookingCode: "string", status: "string", guests: "number" });
  expectTypeOf(
    (await new StayhookClient({ ...base, models: { booking: ark } }).bookings.get("A")).guests,
  ).toEqualTypeOf<number>();
  // @ts-expect-error the output has no status
  new StayhookClient({ ...base, models: { booking: z.object({ bookingCode: z.string() }) } });
});

test("a list is an array when awaited, and its rows in a loop", async () => {
  const client = new StayhookClient();
  expectTypeOf(client.listings.list()).toEqualTypeOf<ListPromise<Listing>>();
  expectTypeOf(client.listings.list()).toExtend<Promise<Listing[]>>();
  for await (const listing of client.listings.list()) expectTypeOf(listing).toEqualTypeOf<Listing>();
});

test("withOptions keeps models, or takes others", async () => {
  const MyBooking = Booking.extend({ guestName: z.string() });
  const mine = new StayhookClient({ ...base, models: { booking: MyBooking } });
  expectTypeOf(mine.withOptions({ timeout: 5 })).toEqualTypeOf(mine);
  const other = mine.withOptions({ models: { booking: Booking.extend({ adults: z.number() }) } });
  expectTypeOf((await other.bookings.get("A")).adults).toEqualTypeOf<number>();
  // @ts-expect-error misspelled
  mine.withOptions({ timeuot: 5 });
});

test("each error has a code of its own", () => {
  const error = new Error() as NotFoundError | RateLimitError;
  expectTypeOf(error.code).toEqualTypeOf<"not_found" | "rate_limited">();
});

test("a client with models of its own passes for any client", () => {
  const client = new StayhookClient({
    ...base,
    models: { booking: Booking.extend({ guestName: z.string() }) },
  });
  expectTypeOf(client).toExtend<StayhookClient>();
});

test("a model passes for the interface of its name, and has no index signature", () => {
  const MyBooking = Booking.extend({ guestName: z.string(), status: z.enum(["Request", "Confirmed"]) });
  type MyBooking = z.output<typeof MyBooking>;
  expectTypeOf<z.output<typeof Booking>>().toEqualTypeOf<Booking>();
  expectTypeOf<z.output<typeof Listing>>().toEqualTypeOf<Listing>();
  expectTypeOf<z.output<typeof WebhookConfig>>().toEqualTypeOf<WebhookConfig>();
  expectTypeOf<z.output<typeof WebhookNotification>>().toEqualTypeOf<WebhookNotification>();
  expectTypeOf<MyBooking>().toExtend<Booking>();
  expectTypeOf<keyof MyBooking>().toEqualTypeOf<
    "bookingCode" | "status" | "listingId" | "checkIn" | "checkOut" | "guestName"
  >();
  expectTypeOf<keyof z.output<ReturnType<typeof Listing.extend<{ beds: z.ZodNumber }>>>>().toEqualTypeOf<
    "listingId" | "status" | "listingName" | "beds"
  >();
  expectTypeOf<MyBooking["status"]>().toEqualTypeOf<"Request" | "Confirmed">();
  expectTypeOf<WebhookNotification>().not.toHaveProperty("bookingcode");
});

test("endpoints are a closed type", async () => {
  const { webhookConfig } = new StayhookClient(base);
  const config = await webhookConfig.get();
  expectTypeOf(config?.endpoints.bookings).toEqualTypeOf<string | undefined>();
  expectTypeOf(config?.otherEndpoints).toEqualTypeOf<Record<string, string | null> | undefined>();
  // @ts-expect-error misspelled
  config?.endpoints.booking;
  // @ts-expect-error misspelled
  webhookConfig.ensure({ endpoints: { booking: "https://h.example" } });
  // @ts-expect-error a newer topic goes in otherEndpoints
  webhookConfig.create({ isActive: true, endpoints: { reviews: "https://h.example" } });
  webhookConfig.create({ isActive: true, endpoints: {}, otherEndpoints: { reviews: "https://h.example" } });
  webhookConfig.ensure({ endpoints: "https://h.example", otherEndpoints: { reviews: null } });
  // A configuration from a read is accepted by a write.
  if (config) webhookConfig.update(config);
  // @ts-expect-error only ensure takes one URL for all
  webhookConfig.update({ isActive: true, endpoints: "https://h.example" });
});

test("resources have types that can be named", () => {
  const client = new StayhookClient(base);
  expectTypeOf(client.bookings).toEqualTypeOf<BookingsResource>();
  expectTypeOf(client.listings).toEqualTypeOf<ListingsResource>();
  expectTypeOf(client.webhookConfig).toEqualTypeOf<WebhookConfigResource>();
});

test("request is typed by its schema", async () => {
  const client = new StayhookClient(base);
  expectTypeOf(await client.request("GET", "/x")).toEqualTypeOf<unknown>();
  expectTypeOf(await client.request("GET", "/x", { query: { a: [1, "b"] } })).toEqualTypeOf<unknown>();
  expectTypeOf(await client.request("GET", "/x", { schema: z.object({ n: z.number() }) })).toEqualTypeOf<{
    n: number;
  }>();
});

test("options may be undefined, and fetch may be the runtime's own", () => {
  new StayhookClient({
    ...base,
    models: undefined,
    timeout: undefined,
    fetch: globalThis.fetch,
    logger: console,
    headers: { a: undefined },
    nextPage: ({ body, response, query }) => (body && response.ok ? { ...query, page: 2 } : undefined),
  });
  new StayhookClient({ ...base, accessToken: async ({ reason }) => reason });
});

test("dates and ids are read from any booking", async () => {
  const booking = await new StayhookClient(base).bookings.get("A");
  expectTypeOf(stay(booking, { timeZone: "Europe/Lisbon" }).nights).toEqualTypeOf<number>();
  expectTypeOf(listingIdOf(booking)).toEqualTypeOf<number>();
  // @ts-expect-error misspelled
  stay(booking, { timezone: "Europe/Lisbon" });
});

test("fetch may be that of undici, or one like node-fetch's", () => {
  new StayhookClient({ fetch: undici.fetch });
  new StayhookClient({
    fetch: (url, init) => undici.fetch(url, { ...init, dispatcher: new undici.ProxyAgent("http://p") }),
  });
  new StayhookClient({ fetch: (url: string, init: RequestInit) => fetch(url, init) });
  new StayhookClient({ fetch });
  // @ts-expect-error: a response has headers
  new StayhookClient({ fetch: async () => ({ status: 200, text: async () => "" }) });
});

test("headers and queries may be pairs", async () => {
  const client = new StayhookClient({ headers: new undici.Headers() });
  await client.bookings.get("A", { headers: new Map([["a", "b"]]), query: new URLSearchParams("a=1") });
  await client.bookings.get("A", { headers: [["a", "b"]], query: new Map([["a", [1, "2"]]]) });
  new StayhookClient({
    nextPage: ({ body, query }) => (body === query.page ? new URLSearchParams() : { page: 2 }),
  });
});
