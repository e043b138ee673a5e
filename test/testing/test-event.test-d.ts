import type { DatabaseSync } from "node:sqlite";
import {
  Booking,
  type BookingEvent,
  Listing,
  type ListingEvent,
  type StayhookClient,
  type WebhookCallbacks,
  type WebhookEvent,
} from "stayhook";
import type { SqliteTransaction } from "stayhook/sqlite";
import { createTestEvent } from "stayhook/testing";
import { describe, expectTypeOf, test } from "vitest";
import * as z from "zod";
import type { TestEventType } from "../../src/testing/test-event-types.ts";

const MyBooking = Booking.extend({ guestName: z.string(), guests: z.number().optional() });
type MyBooking = z.output<typeof MyBooking>;
const MyListing = Listing.extend({ city: z.string() });
type MyListing = z.output<typeof MyListing>;

declare const onConfirmed: (event: BookingEvent<"Confirmed">) => void;
declare const onMyConfirmed: (event: BookingEvent<"Confirmed", MyBooking>) => void;
declare const onMyPublished: (event: ListingEvent<"Published", MyListing>) => void;
declare const onWriting: (event: BookingEvent<"Confirmed", Booking, DatabaseSync>) => void;
type Selling = BookingEvent<"Confirmed", Booking, SqliteTransaction>;
declare const onSelling: (event: Selling) => void;
declare const callbacks: WebhookCallbacks<MyBooking, MyListing, DatabaseSync>;
declare const client: StayhookClient;
declare const myClient: StayhookClient<MyBooking, MyListing>;
declare const db: DatabaseSync;

describe("createTestEvent", () => {
  test("makes the event of a timer", () => {
    const event = createTestEvent("booking.timer.door-code", {
      booking: { guestName: "Ada" },
      status: "Cancelled",
      timer: { at: new Date() },
      tx: db,
    });
    expectTypeOf(event.type).toEqualTypeOf<`booking.timer.${string}`>();
    expectTypeOf(event.timer.at).toEqualTypeOf<Date>();
    expectTypeOf(event.booking.guestName).toEqualTypeOf<string>();
    expectTypeOf(event.changed).toEqualTypeOf<false>();
    event.atomically((tx) => expectTypeOf(tx).toEqualTypeOf<DatabaseSync>());
    callbacks["booking.timer.door-code"]?.(event);
    const photos = createTestEvent("listing.timer.photos", { listing: { city: "Lisbon" } });
    expectTypeOf(photos.listing.city).toEqualTypeOf<string>();
    const timers = new Map<string, Date>();
    onConfirmed(createTestEvent("booking.Confirmed", { timers }));
    // @ts-expect-error only the event of a timer has a timer
    createTestEvent("booking.Confirmed", { timer: { at: new Date() } });
    // @ts-expect-error a message has no timers
    createTestEvent("message", { timers });
    // @ts-expect-error the times are dates
    createTestEvent("booking.Confirmed", { timers: new Map([["door-code", "15:00"]]) });
  });

  test("makes what a callback takes", () => {
    onConfirmed(createTestEvent("booking.Confirmed"));
    onConfirmed(
      createTestEvent("booking.Confirmed", { booking: { bookingCode: "B1", more: [1] }, attempt: 2 }),
    );
    const request = { booking: { status: "Request" }, decideBy: new Date() } as const;
    const event = createTestEvent("booking.Request", request);
    expectTypeOf(event.type).toEqualTypeOf<"booking.Request">();
    expectTypeOf(event.status).toEqualTypeOf<"Request">();
    expectTypeOf(event.decideBy).toEqualTypeOf<Date>();
    expectTypeOf(event.booking.checkIn).toEqualTypeOf<string | number | null | undefined>();
    expectTypeOf(
      createTestEvent("listing.Hidden", { listing: { listingId: 1 } }).listing.listingId,
    ).toEqualTypeOf<number>();
    expectTypeOf(createTestEvent("booking.unknown", { status: "OnHold" }).status).toEqualTypeOf<string>();
    expectTypeOf(createTestEvent("unknown", { topic: "messages" }).type).toEqualTypeOf<"unknown">();
    const either = createTestEvent("booking.Declined" as "booking.Declined" | "booking.Cancelled");
    expectTypeOf(either.status).toEqualTypeOf<"Declined" | "Cancelled">();
    expectTypeOf<TestEventType>().toEqualTypeOf<Exclude<WebhookEvent["type"], `${string}.timer.${string}`>>();
    // @ts-expect-error the callback takes only Confirmed events
    onConfirmed(createTestEvent("booking.Request"));
  });

  test("takes the fields of its type, and no other", () => {
    // @ts-expect-error misspelled
    createTestEvent("booking.Confirmd");
    // @ts-expect-error misspelled
    createTestEvent("booking.Confirmed", { atempt: 2 });
    // @ts-expect-error only a request has decideBy
    createTestEvent("booking.Confirmed", { decideBy: new Date() });
    // @ts-expect-error a booking event has no listing
    createTestEvent("booking.Confirmed", { listing: {} });
    // @ts-expect-error a listing event has no booking
    createTestEvent("listing.Hidden", { booking: {} });
    // @ts-expect-error an unknown event has no status
    createTestEvent("unknown", { status: "Confirmed" });
    // @ts-expect-error the status contradicts the type
    createTestEvent("booking.Confirmed", { status: "Declined" });
    // @ts-expect-error the status contradicts the type
    createTestEvent("booking.Confirmed", { booking: { status: "Declined" } });
    // @ts-expect-error misspelled
    createTestEvent("booking.Confirmed", { booking: { checkin: "2027-05-01" } });
    // @ts-expect-error misspelled
    createTestEvent("listing.Published", { listing: { listingname: "By the sea" } });
    // @ts-expect-error misspelled
    createTestEvent("booking.timer.door-code", { booking: { bookingcode: "A1" } });
    // @ts-expect-error bookingCode is a string
    createTestEvent("booking.Confirmed", { booking: { bookingCode: 7 } });
    // The error stands at the field, and not at the type of the event.
    createTestEvent("booking.Confirmed", {
      booking: {
        // @ts-expect-error misspelled
        checkin: "2027-05-01",
      },
    });
    createTestEvent("booking.Confirmed", {
      // @ts-expect-error misspelled
      atempt: 2,
    });
    // @ts-expect-error listingId is a number
    createTestEvent("listing.Hidden", { listing: { listingId: "7" } });
    // @ts-expect-error not a Date
    createTestEvent("booking.Confirmed", { timestamp: "2026-07-01" });
    // @ts-expect-error missing without a `tx`
    createTestEvent("booking.Confirmed").atomically;
  });

  test("has the fields of the user's own model that it was given", () => {
    onMyPublished(createTestEvent("listing.Published", { listing: { city: "Ghent" } }));
    const event = createTestEvent("booking.Confirmed", { booking: { guestName: "Ada", guests: 2 } });
    onMyConfirmed(event);
    expectTypeOf(event.booking.guestName).toEqualTypeOf<string>();
    // @ts-expect-error guestName is missing
    onMyConfirmed(createTestEvent("booking.Confirmed", { booking: {} }));
    // @ts-expect-error guestName is missing
    onMyConfirmed(createTestEvent("booking.Confirmed"));
    // @ts-expect-error guestName is a string
    onMyConfirmed(createTestEvent("booking.Confirmed", { booking: { guestName: 7 } }));
  });

  test("has atomically where it has a tx", () => {
    const event = createTestEvent("booking.Confirmed", { tx: db });
    onWriting(event);
    const both = createTestEvent("booking.Confirmed", { booking: { guestName: "Ada" }, tx: db });
    callbacks["booking.Confirmed"]?.(both);
    callbacks.fallback?.(both);
    callbacks.unknown?.(createTestEvent("unknown", { tx: db }));
    event.atomically((tx) => expectTypeOf(tx).toEqualTypeOf<DatabaseSync>());
    expectTypeOf(event.commit).toEqualTypeOf<() => Promise<void>>();
    // A DatabaseSync of the test is accepted as the transaction of sqliteStore.
    onSelling(event);
    // @ts-expect-error the `tx` is missing
    onWriting(createTestEvent("booking.Confirmed"));
  });
});
