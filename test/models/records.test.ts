import { describe, expect, it } from "vitest";
import * as z from "zod";
import { Booking, Listing, WebhookConfig } from "../../src/models/records.ts";

describe("records", () => {
  // test/models/statuses.test.ts compares the known statuses with api/, which pins them.
  it("may have a status that this package does not know", () => {
    for (const [schema, record] of [
      [Booking, { bookingCode: "A", status: "Brand-new" }],
      [Listing, { listingId: 7, status: "Brand-new" }],
    ] as const)
      expect(schema.parse(record)).toEqual(record);
  });

  it("need an identity and a status", () => {
    for (const fields of [{ status: "x" }, { bookingCode: "A" }, { bookingCode: 7, status: "x" }])
      expect(Booking.safeParse(fields).success).toBe(false);
    for (const fields of [{ status: "x" }, { listingId: 7 }, { listingId: "x7", status: "x" }])
      expect(Listing.safeParse(fields).success).toBe(false);
    expect(Listing.safeParse({ listingId: 1.5, status: "x" }).success).toBe(false);
  });

  it("keep unknown fields, and values of unexpected types", () => {
    const odd = {
      bookingCode: "42",
      status: "x",
      checkIn: { y: 2026 },
      checkOut: [1],
      listingId: false,
      guest: {},
    };
    expect(Booking.parse(odd)).toEqual(odd);
    const listing = { listingId: 7, status: "Hidden", listingName: { en: "Hut" }, more: null };
    expect(Listing.parse(listing)).toEqual(listing);
  });

  it("have the types of their fields in JSON Schema", () => {
    const typesIn = (schema: z.ZodType) => {
      const { properties } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
      return Object.entries(properties ?? {}).map(([name, field]) => [name, Object(field).type]);
    };
    expect(typesIn(Booking)).toEqual([
      ["bookingCode", "string"],
      ["status", "string"],
      ["listingId", ["number", "string", "null"]],
      ["checkIn", ["string", "number", "null"]],
      ["checkOut", ["string", "number", "null"]],
    ]);
    expect(typesIn(Listing)).toEqual([
      ["listingId", ["number", "string"]],
      ["status", "string"],
      ["listingName", ["string", "null"]],
    ]);
  });

  it("have ids in digits as numbers", () => {
    expect(Listing.parse({ listingId: "0042", status: "Hidden" }).listingId).toBe(42);
    const listingIdOf = (listingId: string) =>
      Booking.parse({ bookingCode: "A", status: "x", listingId }).listingId;
    expect(listingIdOf("42")).toBe(42);
    expect(listingIdOf("L-42")).toBe("L-42");
  });
});

describe("a configuration", () => {
  const answered = {
    isActive: true,
    endpoints: {
      ...{ bookings: "https://a.example/", listings: null, messages: "" },
      ...{ reviews: "https://r.example/", surveys: "", others: null },
    },
    id: 5,
  };
  const config = {
    isActive: true,
    endpoints: { bookings: "https://a.example/" },
    otherEndpoints: { reviews: "https://r.example/" },
    id: 5,
  };

  it("leaves out topics that are null or empty, and keeps newer topics and further fields", () => {
    expect(WebhookConfig.parse(answered)).toEqual(config);
    expect(WebhookConfig.parse(config)).toEqual(config);
    const none = { isActive: false, endpoints: null };
    expect(WebhookConfig.parse(none)).toEqual({ isActive: false, endpoints: {} });
  });

  it.each([
    {},
    { isActive: true },
    { isActive: "yes", endpoints: {} },
    { isActive: true, endpoints: [] },
    null,
  ])("is not %j", (value) => {
    expect(WebhookConfig.safeParse(value).success).toBe(false);
  });

  it("can be extended, as records can", () => {
    const Mine = WebhookConfig.extend({ id: z.number() });
    expect(Mine.parse(answered)).toEqual(config);
    expect(Mine.safeParse({ isActive: true, endpoints: {} }).success).toBe(false);
    const MyBooking = Booking.extend({ guestName: z.string() });
    expect(MyBooking.safeParse({ bookingCode: "A", status: "x" }).success).toBe(false);
    const booking = { bookingCode: "A", status: "x", guestName: "N", more: 1 };
    expect(MyBooking.parse(booking)).toEqual(booking);
  });
});
