import { describe, expect, it } from "vitest";
import * as z from "zod";
import {
  Booking,
  bookingStatuses,
  Listing,
  listingStatuses,
  WebhookConfig,
} from "../../src/models/records.ts";

describe("records", () => {
  it("list the platform's statuses", () => {
    expect(bookingStatuses).toEqual(["Initiated", "Request", "Confirmed", "Declined", "Cancelled"]);
    expect(listingStatuses).toEqual(["InReview", "Published", "Hidden"]);
  });

  it("need identity and status, and nothing else", () => {
    expect(Booking.parse({ bookingCode: "A", status: "Brand-new" })).toEqual({
      bookingCode: "A",
      status: "Brand-new",
    });
    expect(Listing.parse({ listingId: 7, status: "Brand-new" })).toEqual({
      listingId: 7,
      status: "Brand-new",
    });
    for (const lacking of [
      { status: "Request" },
      { bookingCode: "A" },
      { bookingCode: 7, status: "Request" },
    ])
      expect(Booking.safeParse(lacking).success).toBe(false);
    for (const lacking of [
      { status: "Hidden" },
      { listingId: 7 },
      { listingId: "x7", status: "Hidden" },
      { listingId: 1.5, status: "Hidden" },
    ])
      expect(Listing.safeParse(lacking).success).toBe(false);
  });

  it("keep what they do not know, and pass on what is of another kind", () => {
    const odd = {
      bookingCode: "A",
      status: "Request",
      checkIn: { y: 2026 },
      checkOut: [1],
      listingId: false,
      guest: { name: "N" },
    };
    expect(Booking.parse(odd)).toEqual(odd);
    const listing = { listingId: 7, status: "Hidden", listingName: { en: "Hut" }, more: null };
    expect(Listing.parse(listing)).toEqual(listing);
  });

  it("make numbers of ids in digits, and leave other text alone", () => {
    expect(Listing.parse({ listingId: "0042", status: "Hidden" }).listingId).toBe(42);
    expect(Booking.parse({ bookingCode: "A", status: "Request", listingId: "42" }).listingId).toBe(42);
    expect(Booking.parse({ bookingCode: "A", status: "Request", listingId: "L-42" }).listingId).toBe("L-42");
    expect(Booking.parse({ bookingCode: "42", status: "Request" }).bookingCode).toBe("42");
  });

  it("can be extended", () => {
    const Mine = Booking.extend({ guestName: z.string() });
    expect(Mine.safeParse({ bookingCode: "A", status: "Request" }).success).toBe(false);
    expect(Mine.parse({ bookingCode: "A", status: "Request", guestName: "N", more: 1 })).toMatchObject({
      guestName: "N",
      more: 1,
    });
  });
});

describe("a configuration", () => {
  it("leaves out topics that are null or empty, and keeps newer topics and further fields", () => {
    const answered = {
      isActive: true,
      endpoints: {
        bookings: "https://a.example/",
        listings: null,
        messages: "",
        reviews: "https://r.example/",
        surveys: "",
        others: null,
      },
      id: 5,
    };
    const config = {
      isActive: true,
      endpoints: { bookings: "https://a.example/" },
      otherEndpoints: { reviews: "https://r.example/" },
      id: 5,
    };
    expect(WebhookConfig.parse(answered)).toEqual(config);
    expect(WebhookConfig.parse(config)).toEqual(config);
    expect(WebhookConfig.parse({ isActive: false, endpoints: null })).toEqual({
      isActive: false,
      endpoints: {},
    });
  });

  it("can be extended", () => {
    const Mine = WebhookConfig.extend({ id: z.number() });
    expect(Mine.parse({ isActive: true, endpoints: { bookings: "", x: "u" }, id: 5 })).toEqual({
      isActive: true,
      endpoints: {},
      otherEndpoints: { x: "u" },
      id: 5,
    });
    expect(Mine.safeParse({ isActive: true, endpoints: {} }).success).toBe(false);
  });

  it.each([
    {},
    { isActive: true },
    { endpoints: {} },
    { isActive: "yes", endpoints: {} },
    { isActive: true, endpoints: [] },
    null,
    "x",
  ])("is not %j", (value) => {
    expect(WebhookConfig.safeParse(value).success).toBe(false);
  });
});
