import { type } from "arktype";
import * as v from "valibot";
import { expectTypeOf, test } from "vitest";
import * as z from "zod";
import { StayhookClient } from "../../src/client/client.ts";
import { Booking } from "../../src/models/booking.ts";
import type { Listing } from "../../src/models/listing.ts";
import type { WebhookConfig } from "../../src/models/webhook-config.ts";

const base = { baseUrl: "https://h.example", accessToken: "t" };

test("records are typed as they may be", async () => {
  const client = new StayhookClient(base);
  expectTypeOf(client).toEqualTypeOf<StayhookClient<Booking, Listing>>();
  const booking = await client.bookings.get("A");
  expectTypeOf(booking.bookingCode).toEqualTypeOf<string>();
  expectTypeOf(booking.status).toEqualTypeOf<string>();
  expectTypeOf(booking.checkIn).toEqualTypeOf<string | number | null | undefined>();
  expectTypeOf(booking.listingId).toEqualTypeOf<string | number | null | undefined>();
  expectTypeOf(booking.anything).toEqualTypeOf<unknown>();
  expectTypeOf(await client.listings.list()).toEqualTypeOf<Listing[]>();
  expectTypeOf((await client.listings.get(1)).listingId).toEqualTypeOf<number>();
  expectTypeOf(await client.webhookConfig.get()).toEqualTypeOf<WebhookConfig | undefined>();
  expectTypeOf((await client.bookings.get("A").withResponse()).response).toEqualTypeOf<Response>();
  // @ts-expect-error ensure makes several requests
  client.webhookConfig.ensure({ endpoints: {} }).withResponse;
  // @ts-expect-error an id is a number
  client.listings.get("1");
});

test("models flow into what is read", async () => {
  const zod = new StayhookClient({ ...base, models: { booking: Booking.extend({ guestName: z.string() }) } });
  expectTypeOf((await zod.bookings.get("A")).guestName).toEqualTypeOf<string>();
  expectTypeOf((await zod.bookings.get("A")).checkIn).toEqualTypeOf<string | number | null | undefined>();
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

test("a client with models of its own passes for any client", () => {
  const client = new StayhookClient({
    ...base,
    models: { booking: Booking.extend({ guestName: z.string() }) },
  });
  expectTypeOf(client).toExtend<StayhookClient>();
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
  });
  new StayhookClient({ ...base, accessToken: async ({ reason }) => reason });
});
