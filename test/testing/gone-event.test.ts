import type { BookingEvent } from "stayhook";
import { createTestEvent } from "stayhook/testing";
import { expect, test } from "vitest";

test("a test event of a gone booking has the booking as your side knew it", () => {
  const known = { status: "Confirmed", listingId: 7, checkIn: "2026-12-09", checkOut: "2026-12-12" };
  const event: BookingEvent<"gone"> = createTestEvent("booking.gone", {
    booking: { bookingCode: "HX3K9" },
    previous: known,
  });
  expect(event).toMatchObject({
    type: "booking.gone",
    status: "gone",
    ref: "booking:HX3K9",
    booking: { bookingCode: "HX3K9", status: "gone", listingId: 7, checkIn: "2026-12-09" },
    changed: true,
    changes: { status: { from: "Confirmed", to: "gone" } },
  });
  expect(Object.keys(event.changes)).toEqual(["status"]);
  expect(event.stayChange).toEqual({
    from: { bookingCode: "HX3K9", listingId: 7, checkIn: "2026-12-09", checkOut: "2026-12-12", nights: 3 },
    to: undefined,
    changed: true,
  });
});

test("without `previous`, a gone booking was confirmed", () => {
  const event = createTestEvent("booking.gone");
  expect(event.previous?.status).toBe("Confirmed");
  expect(event.stayChange).toMatchObject({ from: { bookingCode: "HX3K9" }, to: undefined });
  expect(createTestEvent("listing.gone", { listing: { listingId: 8 } })).toMatchObject({
    listing: { listingId: 8, status: "gone" },
    previous: { status: "Published" },
  });
});
