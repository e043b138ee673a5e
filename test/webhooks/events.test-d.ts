import {
  Booking,
  type BookingEvent,
  type BookingStatus,
  createWebhookHandler,
  type EventStore,
  type Listing,
  type ListingEvent,
  memoryStore,
  StayhookClient,
  type UnknownEvent,
  type WebhookCallbacks,
  type WebhookEvent,
} from "stayhook";
import { describe, expectTypeOf, test } from "vitest";
import * as z from "zod";

const client = new StayhookClient({ baseUrl: "https://platform.example", accessToken: "token" });
const store = memoryStore();
declare const database: EventStore<{ run(sql: string): number }>;

describe("on", () => {
  test("takes the events that there are, and no other", () => {
    createWebhookHandler({ client, store, on: { "booking.Request": () => {}, fallback: async () => {} } });
    createWebhookHandler({
      client,
      store,
      // @ts-expect-error misspelt
      on: { "booking.Confirmd": () => {} },
    });
    createWebhookHandler({
      client,
      store,
      // @ts-expect-error not an event of listings
      on: { "listing.Confirmed": () => {} },
    });
    // @ts-expect-error forgetting must be chosen
    createWebhookHandler({ client, on: {} });
  });

  test("narrows what each callback gets", () => {
    createWebhookHandler({
      client,
      store,
      on: {
        "booking.Request": (event) => {
          expectTypeOf(event.type).toEqualTypeOf<"booking.Request">();
          expectTypeOf(event.status).toEqualTypeOf<"Request">();
          expectTypeOf(event.booking.status).toExtend<"Request">();
          expectTypeOf(event.booking.bookingCode).toEqualTypeOf<string>();
          // @ts-expect-error a booking has no such field
          event.booking.anythingElse;
          expectTypeOf(event.decideBy).toEqualTypeOf<Date>();
          expectTypeOf(event.previousStatus).toEqualTypeOf<string | undefined>();
          expectTypeOf(event.timestamp).toEqualTypeOf<Date>();
          expectTypeOf(event.signal).toEqualTypeOf<AbortSignal>();
          expectTypeOf(event.source).toEqualTypeOf<"webhook" | "reconcile">();
          expectTypeOf(event.client).toEqualTypeOf<StayhookClient<Booking, Listing>>();
          // @ts-expect-error a booking's event has no listing
          event.listing;
        },
        "booking.Confirmed": (event) => {
          // @ts-expect-error only a request is to be decided
          event.decideBy;
          // @ts-expect-error this store has no transactions
          event.atomically;
        },
        "booking.unknown": (event) => expectTypeOf(event.status).toEqualTypeOf<string>(),
        "listing.Published": ({ listing, status }) => {
          expectTypeOf(status).toEqualTypeOf<"Published">();
          expectTypeOf(listing.status).toExtend<"Published">();
          expectTypeOf(listing.listingId).toEqualTypeOf<number>();
        },
        unknown: (event) => {
          expectTypeOf(event.type).toEqualTypeOf<"unknown">();
          // @ts-expect-error it is about no record
          event.status;
        },
      },
    });
  });

  test("a switch over fallback's event.type can be exhaustive", () => {
    const name = (event: WebhookEvent): string => {
      switch (event.type) {
        case "booking.Initiated":
        case "booking.Request":
        case "booking.Confirmed":
        case "booking.Declined":
        case "booking.Cancelled":
        case "booking.unknown":
          expectTypeOf(event.booking.bookingCode).toEqualTypeOf<string>();
          return event.booking.bookingCode;
        case "listing.InReview":
        case "listing.Published":
        case "listing.Hidden":
        case "listing.unknown":
          return String(event.listing.listingId);
        case "unknown":
          return event.eventId;
        default:
          event satisfies never;
          return "";
      }
    };
    createWebhookHandler({ client, store, on: { fallback: (event) => name(event) } });
  });
});

describe("the user's own models", () => {
  const MyBooking = Booking.extend({ guestName: z.string() });
  const mine = new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: "token",
    models: { booking: MyBooking },
  });

  test("flow into the client and the callbacks", () => {
    expectTypeOf(mine.bookings.get).returns.resolves.toHaveProperty("guestName").toEqualTypeOf<string>();
    createWebhookHandler({
      client: mine,
      store,
      on: {
        "booking.Confirmed": ({ booking, client: same }) => {
          expectTypeOf(booking.guestName).toEqualTypeOf<string>();
          expectTypeOf(booking.status).toExtend<"Confirmed">();
          expectTypeOf(same.bookings.get).returns.resolves.toHaveProperty("guestName");
        },
        fallback: (event) => {
          if (event.type === "booking.Request") expectTypeOf(event.booking.guestName).toEqualTypeOf<string>();
        },
      },
    });
  });
});

describe("atomically", () => {
  test("is there on a store with transactions, with that store's own tx", () => {
    createWebhookHandler({
      client,
      store: database,
      on: {
        "booking.Confirmed": (event) => event.atomically((tx) => tx.run("insert")),
        unknown: ({ atomically }) => atomically(async (tx) => tx.run("insert")),
        fallback: (event) => {
          expectTypeOf(event.atomically)
            .parameter(0)
            .parameter(0)
            .toEqualTypeOf<{ run(sql: string): number }>();
        },
      },
    });
  });

  test("a store with transactions serves where one without is asked for", () => {
    expectTypeOf(database).toExtend<EventStore>();
  });
});

describe("the exported event types", () => {
  test("name what a function of the user's takes", () => {
    const confirmed = ({ booking }: BookingEvent<"Confirmed">) => booking.bookingCode;
    const moved = ({ status }: BookingEvent<"Confirmed" | "Cancelled">) => status;
    const published = ({ listing }: ListingEvent<"Published">) => listing.listingId;
    const other = ({ notification }: UnknownEvent) => notification?.eventId;
    expectTypeOf(moved).returns.toEqualTypeOf<"Confirmed" | "Cancelled">();
    createWebhookHandler({
      client,
      store,
      on: {
        "booking.Confirmed": confirmed,
        "booking.Cancelled": moved,
        "listing.Published": published,
        unknown: other,
        // @ts-expect-error it is no confirmation
        "booking.Declined": confirmed,
      },
    });
    const callbacks: WebhookCallbacks = { "booking.Request": ({ decideBy }) => decideBy.getTime() };
    createWebhookHandler({ client, store, on: callbacks });
  });

  test("nothing in them is any", () => {
    expectTypeOf<WebhookEvent["eventId"]>().not.toBeAny();
    expectTypeOf<BookingEvent["booking"]["checkIn"]>().not.toBeAny();
    expectTypeOf<BookingEvent["type"]>().toEqualTypeOf<`booking.${BookingStatus | "unknown"}`>();
  });
});
